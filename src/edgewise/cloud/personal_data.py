"""Finds personal data in a text: by patterns with check digits, and by finders from outside.

Every search is linear in the length of the text, whatever the text is: no pattern can go back and
forth over a long run. A text is first made flat, so that full-width digits, odd dashes, invisible
characters and the escapes of JSON and URLs do not hide a value.
"""

from __future__ import annotations

import functools
import html
import ipaddress
import re
import threading
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from edgewise.errors import ExtraMissing, ModelNotFound
from edgewise.types.messages import KINDS


class Found(NamedTuple):
    """Where a text holds personal data of a kind."""

    start: int
    end: int
    kind: str


class Finder(Protocol):
    """Finds what patterns cannot, as names. Whatever it raises keeps the request on the device."""

    @property
    def kinds(self) -> Sequence[str]:
        """In capitals, as NAME."""
        ...

    def find(self, text: str) -> Iterable[Found]: ...


def find(text: str, kinds: Iterable[str], finders: Sequence[Finder] = ()) -> list[Found]:
    """In order, none overlapping another. Raises whatever a finder raises."""
    wanted = set(kinds)
    found = [
        Found(*flat.places(start, end), kind)
        for flat in flattened(text)
        for kind in KINDS
        if kind in wanted
        for start, end in _SEARCHES[kind](flat.text)
    ]
    for finder in finders:
        if wanted.intersection(finder.kinds):
            found += (each for each in finder.find(text) if each.kind in wanted)
    return joined(found)


def joined(found: Iterable[Found]) -> list[Found]:
    """Of those that overlap, all their text as one; the longest says of what kind it is."""
    whole: list[Found] = []
    longest = 0
    for each in sorted(found, key=lambda one: (one.start, -one.end)):
        length = each.end - each.start
        if length <= 0:
            continue
        if whole and each.start < whole[-1].end:
            kind = each.kind if length > longest else whole[-1].kind
            end = max(whole[-1].end, each.end)
            whole[-1] = Found(whole[-1].start, end, kind)
            longest = max(longest, length)
        else:
            whole.append(each)
            longest = length
    return whole


# -- flat text -------------------------------------------------------------------------------------

_INVISIBLE = "\u200b"
# Unicode's Default_Ignorable_Code_Point, as far as the category does not say it.
_SHOWS_NOTHING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


class _Flat(dict[int, str]):
    """One character for each: what it looks like in ASCII, if it looks like something there."""

    def __missing__(self, code: int) -> str:
        self[code] = plain = _plain(chr(code))
        return plain


def _plain(character: str) -> str:
    if character.isascii():
        return character
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    # Joiners, marks of direction, soft hyphens; and what shows nothing although it is called a
    # letter or a mark: fillers, selectors of a variant.
    if category == "Cf" or _SHOWS_NOTHING.fullmatch(character):
        return _INVISIBLE
    if category == "Pd" or character == "\u2212":
        return "-"
    if category.startswith("Z") or character == "\u2800":  # Braille without a dot
        return " "
    if character in "\u3002\uff61\u00b7\u2219\u2022":
        return "."
    narrow = unicodedata.normalize("NFKC", character)
    return narrow if len(narrow) == 1 and narrow.isascii() else character


_FLAT = _Flat()
# In results of tools, a value may follow the letter of an escape, "\\n4111…", or the colours of a
# terminal. JSON in JSON has more backslashes, and an address in an address more of "%25".
_COLOUR = r"(?:\x1b|\\{1,32}(?:u001[bB]|x1[bB]|033|e))\[[0-9;?]{0,32}[A-Za-z]"
_ODD = re.compile(
    rf"{_INVISIBLE}+|{_COLOUR}"
    r"|\\{1,32}u[dD][89abAB][0-9A-Fa-f]{2}\\{1,32}u[dD][c-fC-F][0-9A-Fa-f]{2}"
    r"|\\{1,32}(?:[nrtbf\"/]|u[0-9A-Fa-f]{4})|\\\\"
    r"|%(?:25){0,8}[0-9A-Fa-f]{2}"
    r"|&(?:amp;){0,8}(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}"
    r"|nbsp|ensp|emsp|thinsp|shy|zwj|zwnj|amp|quot|apos|commat|period|plus|hyphen|ndash);"
)


@dataclass(slots=True)
class _Looks:
    """A text as it looks to somebody who reads it, and where its characters stand in the text."""

    text: str
    # From each character in `moves` on, `by` more stand before it in the text. Where escapes end.
    moves: list[int] = field(default_factory=list)
    by: list[int] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)

    def places(self, start: int, end: int) -> tuple[int, int]:
        if not self.moves:
            return start, end
        return self._place(start), self.ends.get(end) or self._place(end - 1) + 1

    def _place(self, place: int) -> int:
        found = bisect_right(self.moves, place)
        return place + (self.by[found - 1] if found else 0)


def flattened(text: str) -> list[_Looks]:
    """Without what cannot be seen. Where there is such, it may also stand between two words."""
    plain = text if text.isascii() else text.translate(_FLAT)
    if not any(mark in plain for mark in ("\\", "%", "&", "\x1b", _INVISIBLE)):
        return [_Looks(plain)]
    looks = [_without_odd(plain, "")]
    if len(looks[0].ends) < len(looks[0].moves):
        looks.append(_without_odd(plain, " "))
    return looks


def _without_odd(plain: str, unseen: str) -> _Looks:
    """Escapes as what they mean; `unseen` in place of what cannot be seen."""
    pieces: list[str] = []
    looks = _Looks("")
    done = length = 0
    for odd in _ODD.finditer(plain):
        meant = _meant(odd[0])
        meant = unseen if meant == _INVISIBLE else meant
        pieces += (plain[done : odd.start()], meant)
        length += odd.start() - done + len(meant)
        done = odd.end()
        looks.moves.append(length)
        looks.by.append(done - length)
        if meant:
            looks.ends[length] = done
    looks.text = "".join((*pieces, plain[done:]))
    return looks


@functools.lru_cache(maxsize=1024)
def _meant(odd: str) -> str:
    """What somebody reads there: one character, or none that can be seen."""
    first, escaped = odd[0], odd.lstrip("\\")
    if first == _INVISIBLE or "[" in odd:
        return _INVISIBLE
    if first == "%":
        return _FLAT[int(odd[-2:], 16)]
    if first == "&":
        name = odd[1:].replace("amp;", "") or "amp;"
        return _FLAT[ord(html.unescape(f"&{name}")[0])]
    if escaped.startswith("u"):
        halves = b"".join(bytes.fromhex(each.strip("\\")) for each in escaped[1:].split("u"))
        return _FLAT[ord(halves.decode("utf-16-be", "surrogatepass"))]
    return escaped if escaped in ('"', "/") else " " if escaped else "\\"


# Between two groups of digits: a few spaces, dots or dashes; a plus is a space of a URL.
_GAP = r"[ \t\r\n.\-_/+]{0,4}"
# As in "card4111…": a word that has no digits. A letter or two are rather part of a hash.
_WORD = "(?<![A-Za-z0-9])(?:[A-Za-z]{3,16}%s)?"
Spans = Iterator[tuple[int, int]]

# -- e-mail ----------------------------------------------------------------------------------------

_LETTER = r"[\w\u0300-\u036f]"
_DOMAIN = re.compile(
    rf"@(?:(?:{_LETTER}(?:[\w\u0300-\u036f-]{{0,70}})\.){{1,10}}"
    rf"(?=[\w-]*[^\W\d_])[\w\u0300-\u036f-]{{1,62}}{_LETTER}|\[[^\]\s]{{2,64}}\])"
)
_LOCAL = set(".+%'\u2019-_!#$&^~\\")


def _emails(text: str) -> Spans:
    """From each @ outwards, so that a long local part is found whole."""
    done = 0
    for domain in _DOMAIN.finditer(text):
        at = domain.start()
        start = at
        if start - 1 > done and text[start - 1] == '"':  # "john doe"@example.org
            quote = text.rfind('"', max(done, start - 66), start - 1)
            start = quote if quote >= 0 else start
        else:
            while start > done and _in_local(text[start - 1]):
                start -= 1
            while start < at and not text[start].isalnum():
                start += 1
        if start < at:
            done = domain.end()
            yield start, done


def _in_local(character: str) -> bool:
    return (
        character in _LOCAL
        or character.isalnum()
        or unicodedata.category(character).startswith("M")
    )


# -- cards and accounts ----------------------------------------------------------------------------

_DIGITS = re.compile(rf"{_WORD % '+'}([0-9]{{3,}}+(?:{_GAP}[0-9]++)*+)")
_GROUP = re.compile("[0-9]+")
_CARDS = re.compile(
    # By the issuers' first digits and the lengths they use.
    r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})"
    r"|(?:5[1-5]|2[2-7])[0-9]{14}"
    r"|3[47][0-9]{13}"
    r"|3(?:0[0-5]|095|[689])[0-9]{11,16}"
    r"|35[0-9]{14,17}"
    r"|(?:50|5[6-9]|6[0-9])[0-9]{10,17}"
    r"|(?:81|220[0-4]|9792)[0-9]{12,17}"
)
_MOST_CARD_DIGITS = 19


def _cards(text: str) -> Spans:
    for run in _DIGITS.finditer(text):
        groups = [each.span() for each in _GROUP.finditer(text, *run.span(1))]
        if _glued(text, run.end()):  # its last group is part of a word
            del groups[-1]
        first = 0
        while first < len(groups):
            last = _card_from(text, groups, first)
            if last is not None:
                yield groups[first][0], groups[last][1]
                first = last
            first += 1


def _card_from(text: str, groups: list[tuple[int, int]], first: int) -> int | None:
    """The last group of the longest card that begins with a group; None if none does."""
    digits, found = "", None
    for place in range(first, len(groups)):
        start, end = groups[place]
        if len(digits) + end - start > _MOST_CARD_DIGITS:
            break
        digits += text[start:end]
        if _CARDS.fullmatch(digits) and len(digits) <= _MOST_CARD_DIGITS and _luhn(digits):
            found = place
        if end - start < 3:  # only the last group of a card is this short
            break
    return found


def _glued(text: str, end: int) -> bool:
    """Whether a letter or a digit follows at once."""
    return text[end : end + 1].isascii() and text[end : end + 1].isalnum()


def _luhn(digits: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


# Countries by length, from the registry of IBANs.
_IBANS = {
    15: "NO",
    16: "BE",
    18: "DK FI FK FO GL NL SD",
    19: "MK SI",
    20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA",
    23: "AE GI IL IQ OM SO TL",
    24: "AD CZ DZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST",
    26: "IS TR",
    27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HU LB NI PL SV",
    29: "BR EG PS QA UA",
    30: "JO KW MU YE",
    31: "MT SC",
    32: "LC",
    33: "RU",
}
_IBAN_LENGTHS = {
    country: length for length, countries in _IBANS.items() for country in countries.split()
}
_IBAN_START = re.compile(rf"{_WORD % '?'}([A-Za-z]{{2}}{_GAP}[0-9]{{2}})")
_IBAN_NEXT = re.compile(rf"{_GAP}([A-Za-z0-9])")


def _ibans(text: str) -> Spans:
    done = 0
    for start in _IBAN_START.finditer(text):
        length = _IBAN_LENGTHS.get(start[1][:2].upper(), 0)
        if start.start(1) < done or not length:
            continue
        written, end = [start[1][:2], start[1][-2:]], start.end()
        for _ in range(length - 4):
            following = _IBAN_NEXT.match(text, end)
            if following is None:
                break
            written.append(following[1])
            end = following.end()
        iban = "".join(written).upper()
        if len(iban) == length and not _glued(text, end) and _mod_97(iban):
            done = end
            yield start.start(1), end


def _mod_97(iban: str) -> bool:
    return int("".join(str(int(one, 36)) for one in iban[4:] + iban[:4])) % 97 == 1


# -- phones ----------------------------------------------------------------------------------------

_TELEPHONE = re.compile(
    r"(?<![\w+])(?:"
    # +49 171 2345678, and with a space as URLs write it
    r"\+[1-9][0-9]{0,3}(?:[ ./()\-]{0,4}[0-9]){6,14}"
    r"|\+[1-9][0-9]{0,2}(?:\+[0-9]{2,9}){1,4}+"
    # (0044) 20 7946 0958, 00442079460958
    r"|00[1-9][0-9]{0,2}[ ./()\-+]{1,4}[0-9](?:[ ./()\-+]{0,4}[0-9]){5,13}"
    r"|00[1-9][0-9]{9,12}"
    # (212) 555-0123, 212-555-0123, 1-212-555-0123; with spaces alone it is no part of a longer row
    r"|(?:1[ .\-])?(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[.\-])[0-9]{3}[ .\-][0-9]{4}"
    r"|(?<![0-9] )(?:1[ +])?[2-9][0-9]{2}[ +][2-9][0-9]{2}[ +\-][0-9]{4}(?! [0-9])"
    # 0171 2345678, 020 7946 0958, 030/1234567
    r"|\(?0[1-9][0-9]{1,4}\)?[ /\-+](?:[0-9]{2,9}+[ \-+]?+){1,4}+"
    # 06 12 34 56 78
    r"|0[1-9](?:[ .\-+][0-9]{2}){4}"
    r")(?![0-9A-Za-z])"
)
# With a word before it that says so, any number of seven digits or more.
_CALLED = re.compile(
    r"(?i)(?<![a-z])(?:tel|telefon|telephone|phone|mobile|mobil|cell|fax|handy|whatsapp|t\u00e9l"
    r"|tel\u00e9fono|telefono|m\u00f3vil|celular|call me (?:at|on))"
    r"(?:[ .]?(?:no|nr|number|nummer|#))?[ .:=\"']{0,4}"
    r"(\(?\+?[0-9](?:[ ./()\-+]{0,4}[0-9]){6,14})(?![0-9A-Za-z])"
)
_FEWEST_PHONE_DIGITS, _MOST_PHONE_DIGITS = 7, 15
_DATE = re.compile(r"[0-9]{4}[-./][0-9]{2}[-./][0-9]{2}")


def _phones(text: str) -> Spans:
    for called in _CALLED.finditer(text):
        yield called.span(1)
    for number in _TELEPHONE.finditer(text):
        digits = sum(map(str.isdigit, number[0]))
        least = 9 if number[0].lstrip("(").startswith("0") else _FEWEST_PHONE_DIGITS
        if least <= digits <= _MOST_PHONE_DIGITS and not _DATE.search(number[0]):
            yield number.start(), number.start() + len(number[0].rstrip(" -+"))


# -- addresses of machines -------------------------------------------------------------------------

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_IPV4 = re.compile(rf"(?<![\w.])(?:{_OCTET}\.){{3}}{_OCTET}(?![\w]|\.[0-9])")
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:.]{2,45}(?![\w:])")


def _addresses(text: str) -> Spans:
    for four in _IPV4.finditer(text):
        if not four[0].startswith(("127.", "0.")):  # this very machine is nobody's
            yield four.span()
    for six in _IPV6.finditer(text):
        written = six[0].rstrip(".")
        # Without a digit it may as well be code, as Bad::Face.
        if written not in ("::", "::1") and any(map(str.isdigit, written)):
            try:
                ipaddress.IPv6Address(written)
            except ValueError:
                continue
            yield six.start(), six.start() + len(written)


# -- keys and tokens -------------------------------------------------------------------------------

_PREFIXED = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:sk-|sess-|xai-|nvapi-|pplx-|csk-|glpat-|xox[abeoprs]-|xapp-|github_pat_|tgp_v1_|dop_v1_"
    r"|pypi-AgE|ya29\.|SG\.|AQ\.)[A-Za-z0-9_\-.]{16,}+"
    r"|(?:sk_live_|sk_test_|pk_live_|pk_test_|rk_live_|rk_test_|whsec_|gh[opsur]_|gsk_|hf_|r8_|fw_"
    r"|npm_|shpat_|lin_api_)[A-Za-z0-9]{16,}+"
    r"|(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|AIza[A-Za-z0-9_\-]{30,}+"
    r")"
)
_SEGMENTS = re.compile(r"[A-Za-z0-9_\-.]{20,}+")
_JSON_START = re.compile(r"(?<![A-Za-z0-9])eyJ")  # {" in base64
_PEM_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")


def _keys(text: str) -> Spans:
    for key in _PREFIXED.finditer(text):
        yield key.start(), key.start() + len(key[0].rstrip("."))
    for run in _SEGMENTS.finditer(text):
        yield from _web_tokens(run[0], run.start())
    place = 0
    while (begin := _PEM_BEGIN.search(text, place)) is not None:
        end = _PEM_END.search(text, begin.end())
        place = len(text) if end is None else end.end()  # a key that is cut off is one, too
        yield begin.start(), place


def _web_tokens(run: str, offset: int) -> Spans:
    """A JSON web token: its head begins with eyJ, its body and maybe a signature follow."""
    segments = run.split(".")
    starts = [0]
    for segment in segments:
        starts.append(starts[-1] + len(segment) + 1)
    place = 0
    while place + 1 < len(segments):
        head = _JSON_START.search(segments[place])
        body = segments[place + 1]
        if head is None or len(segments[place]) - head.start() < 10 or len(body) < 8:
            place += 1
            continue
        last = min(place + 2, len(segments) - 1)
        yield offset + starts[place] + head.start(), offset + starts[last] + len(segments[last])
        place = last + 1


_SEARCHES: dict[str, Callable[[str], Spans]] = {
    "EMAIL": _emails,
    "PHONE": _phones,
    "CARD": _cards,
    "IBAN": _ibans,
    "IP": _addresses,
    "KEY": _keys,
}


# -- names of people, by presidio-analyzer ---------------------------------------------------------


_LANGUAGE = "en"  # only a name for the one model that there is


class PresidioFinder:
    """`model` is the name of an installed spaCy model, or its folder. Loaded when first used."""

    kinds = ("NAME",)

    def __init__(self, model: str) -> None:
        self._model = model
        self._lock = threading.Lock()
        self._analyzer: Any = None

    def find(self, text: str) -> Iterator[Found]:
        with self._lock:
            self._analyzer = self._analyzer or self._open()
        for each in self._analyzer.analyze(text=text, language=_LANGUAGE, entities=["PERSON"]):
            yield Found(each.start, each.end, "NAME")

    def _open(self) -> Any:
        try:
            spacy = import_module("spacy")
            presidio = import_module("presidio_analyzer")
            engines = import_module("presidio_analyzer.nlp_engine")
            recognizers = import_module("presidio_analyzer.predefined_recognizers")
        except ImportError as error:
            raise ExtraMissing("redact", "presidio-analyzer") from error
        if not (spacy.util.is_package(self._model) or Path(self._model).is_dir()):
            # presidio would fetch it by itself, in the middle of a request.
            raise ModelNotFound(
                f"presidio needs the spaCy model {self._model!r}: "
                f"python -m spacy download {self._model}, or set finder_model to a folder"
            )
        engine = engines.SpacyNlpEngine(
            models=[{"lang_code": _LANGUAGE, "model_name": self._model}]
        )
        engine.load()
        # Only names: our own patterns find the rest, and some of presidio's look things up online.
        names = recognizers.SpacyRecognizer(
            supported_language=_LANGUAGE, supported_entities=["PERSON"]
        )
        registry = presidio.RecognizerRegistry(recognizers=[names], supported_languages=[_LANGUAGE])
        return presidio.AnalyzerEngine(
            nlp_engine=engine, registry=registry, supported_languages=[_LANGUAGE]
        )
