"""A request read once: its words, the values it names, and the numbers that follow from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from edgewise.calls.values.numbers import Said, find_numbers, whole
from edgewise.calls.values.times import (
    SECONDS,
    find_dates,
    find_durations,
    find_times,
    month_number,
)
from edgewise.calls.values.words import spaced, stem
from edgewise.types.replies import Found, FoundKind

# A quotation longer than this is a passage, not a value; the bound keeps the search linear.
LONGEST_QUOTE = 2000
_QUOTED = re.compile(
    rf'"([^"\n]{{1,{LONGEST_QUOTE}}})"|“([^”\n]{{1,{LONGEST_QUOTE}}})”|'
    rf"«([^»\n]{{1,{LONGEST_QUOTE}}})»|`([^`\n]{{1,{LONGEST_QUOTE}}})`|"
    r"(?<!\w)['\u2018](?=\S)([^'\u2019\n]{1,200}(?:['\u2019](?=\w)[^'\u2019\n]{1,200}){0,3})(?<=\S)['\u2019](?!\w)"
)
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}(?!\w)")
_URL = re.compile(
    r"\b(?:https?://|www\.)[^\s<>\"')]{1,500}|(?<![\w@.])(?:[\w-]{1,63}\.){1,3}(?:com|org|net|io|dev)"
    r"(?:/[^\s<>\"')]{0,300})?(?![\w.-]\w)"
)
_CODE = re.compile(r"(?<![\w@#/\\.~-])[\w@#/\\.~:+*=^<>-]{2,120}")
_CODE_LETTERS = re.compile(r"[^\W\d_]")
# What looks like a code but is a quantity ("20kg", "1h30", "7pm") or a plain hyphenated word.
_QUANTITY = re.compile(
    r"\d[\d:.]*(?:[ap]m)?[-\u2013]\d[\d:.]*[ap]m|[-+]?[\d.,:/]+(?:st|nd|rd|th|k|K|M|bn|%|[ap]m|h\d*m?|[a-zA-Z]{1,4}(?:[/²³]\w{0,4})?)?\.?"
)
_CAPITAL = r"[^\W\d_a-zà-öø-ÿ]"
# A full stop belongs to a name only after one or two letters: `J.`, `Dr.`
_NAME_WORD = rf"(?:{_CAPITAL}[\w'\u2019&-]*(?:(?<=\b\w)\.|(?<=\b\w\w)\.)?)"
_INNER = r"(?:of|de|da|do|di|del|della|la|le|les|van|von|der|den|bin|al|el|y|du|the|&|upon)"
_SPAN = re.compile(
    rf"(?<!\w){_NAME_WORD}(?:\s(?:{_INNER}\s){{0,2}}(?:{_NAME_WORD}|\d{{1,4}}\b)){{0,6}}"
)
_SENTENCE_START = re.compile(r"(?:^|[.!?:;\n]\s*|[\"“(]\s*)$")
_PLACE_BEFORE = re.compile(
    r"\b(?:in|at|near|around|to|from|towards|for|of|via|into)\s+(?:the\s+)?$"
)
_PERSON_BEFORE = re.compile(
    r"\b(?:with|to|for|from|by|call|text|message|email|tell|ask|invite|remind|and|ping|contact|"
    r"phone|ring|dear|hi|hey|hello|find)\s+(?:the\s+)?$",
    re.IGNORECASE,
)
_SURELY_PLACE = re.compile(r"\b(?:in|near|around|towards|via|into)\s+(?:the\s+)?$")
_NOT_NAMES = frozenset({
    "I", "AM", "PM", "OK", "A", "Please", "The", "An", "My", "Your", "Our", "Hey", "Hi", "Hello",
    "Thanks", "What", "When", "Where", "Who", "Why", "How", "Is", "Are", "Do", "Does", "Did", "Can",
    "Could", "Would", "Will", "Should", "And", "Or", "But", "Then", "Also", "If", "It", "This",
    "That", "These", "Those", "We", "You", "They", "He", "She",
})  # fmt: skip
_LOWER_CUE = re.compile(
    r"\b(?P<cue>in|near|around|with|from)\s+(?!(?:the|a|an|my|your|it|its|me|my|this|that|all|be|do|"
    r"go|get|see|have|make|buy|them|him|her|us|you|which|what|order|case|front|total|about|spring|summer|autumn|winter|fall|general|fact|person|advance|\d)\b)"
    r"(?P<span>[a-z][\w'\u2019-]{2,30})(?=\s*(?:$|[,.!?;\ufffc]|\b(?:and|for|on|at|today|tomorrow|please|that|"
    r"saying|about|then|tonight|this|next|with|from|to|in|by)\b))"
)


def find_literal(text: str) -> Iterator[Found]:
    """What is copied as it stands: addresses and quotations. Earlier kinds win overlaps."""
    for match in _URL.finditer(text):
        yield _found("url", match.group().rstrip(".,;:!?"), match.start())
    for match in _EMAIL.finditer(text):
        yield _found("email", match.group(), match.start())
    for match in _QUOTED.finditer(text):
        group = match.lastindex or 0
        yield Said("quoted", match.group(group), match.group(), *match.span())


def find_codes(text: str) -> Iterator[Found]:
    """Identifiers, paths, versions: letters with digits, or parts joined by signs."""
    for match in _CODE.finditer(text):
        code = match.group().rstrip(".,;:!?-")
        if _is_code(code):
            yield _found("code", code, match.start())


def find_names(text: str) -> Iterator[Found]:
    """Capitalised spans, and single words after `in`, `with`, …, as names or places."""
    for match in _SPAN.finditer(text):
        start, end = _trimmed(text, *match.span())
        if start < end:
            yield _found(_kind(text[max(0, start - 24) : start]), text[start:end], start)
    for match in _LOWER_CUE.finditer(text):
        place = match["cue"] in ("in", "near", "around")
        yield _found("place" if place else "name", match["span"], match.start("span"))


def _found(kind: FoundKind, text: str, start: int) -> Said:
    return Said(kind, text, text, start, start + len(text))


def _is_code(text: str) -> bool:
    """Letters mixed with digits, a path, a handle, or parts joined by signs."""
    if len(text) < 2 or _QUANTITY.fullmatch(text):
        return False
    digits = any(letter.isdigit() for letter in text)
    if text[0] in "/~@#\\" or "_" in text or "\\" in text:
        return len(text) > 2
    if digits and _CODE_LETTERS.search(text):
        return not re.fullmatch(r"\d+-[a-z]{3,}", text)
    if digits:
        return text.count("-") >= 2 or text.count("/") > 2
    inner = text[1:-1]
    if "/" in inner:
        return text.count("/") > 1 or "." in inner or "-" in inner
    name, _, ending = text.rpartition(".")
    return len(name) > 1 and len(ending) > 1 and ending.islower() and ".." not in text


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without a capital that only opens a sentence and without trailing marks."""
    while end > start and text[end - 1] in ".'\u2019&-":
        end -= 1
    first = text[start:end].split(maxsplit=1)
    if not first:
        return start, start
    opens = bool(_SENTENCE_START.search(text, max(0, start - 3), start))
    if (
        first[0] in _NOT_NAMES
        or first[0].startswith(("I'", "I\u2019"))
        or (opens and not first[0][1:2].isupper())
    ):
        if len(first) == 1:
            return start, start
        cut = text.index(first[1], start + len(first[0]))
        return _trimmed(text, cut, end) if first[1][0].isupper() else (start, start)
    return start, end


def _kind(before: str) -> FoundKind:
    if _SURELY_PLACE.search(before):
        return "place"
    if _PERSON_BEFORE.search(before):
        return "name"
    return "place" if _PLACE_BEFORE.search(before) else "name"


# -- a whole request -------------------------------------------------------------------------------


# Text beyond this is not read: a request is a sentence or a page, not a book.
LONGEST_TEXT = 50_000
# Stands for text that is taken: no pattern matches it, so no value reaches across it.
_TAKEN = "\ufffc"
GroundKind = Literal[
    "verbatim", "folded", "derived", "enum", "default", "boolean", "told", "none"
]  # fmt: skip
_COUNTS = {"once": 1, "single": 1, "a": 1, "an": 1, "twice": 2, "both": 2, "pair": 2, "couple": 2,
           "double": 2, "thrice": 3, "triple": 3, "no": 0, "none": 0, "never": 0}  # fmt: skip
_DIGITS = re.compile(r"\d+(?:\.\d+)?")


def find_values(text: str) -> tuple[Found, ...]:
    """All typed values in the order of the text, none overlapping another.

    What is copied literally (quotations, addresses) wins over dates, those over codes, then come
    times, lengths of time, numbers, and last names.
    """
    found: list[Found] = []
    rest = text[:LONGEST_TEXT]
    rest = _take(find_literal(rest), rest, found)
    rest = _take(find_dates(rest), rest, found)
    rest = _take(find_codes(rest), rest, found)
    rest = _take(find_times(rest, text), rest, found)
    numbers = list(find_numbers(rest))
    rest = _take(find_durations(rest, numbers), rest, found)
    rest = _take([one for one in numbers if rest[one.start] != _TAKEN], rest, found)
    _take(find_names(rest), rest, found)
    return tuple(sorted(found, key=lambda value: value.start))


def find_all_numbers(text: str) -> list[Said]:
    """Every number said, also those inside dates, times, codes and quotations."""
    return list(find_numbers(text[:LONGEST_TEXT]))


def _take(values: Iterable[Found], text: str, found: list[Found]) -> str:
    """Keep the values that overlap none before; the text with their places taken."""
    letters = list(text)
    for value in values:
        if value.start < value.end and _TAKEN not in letters[value.start : value.end]:
            found.append(value)
            letters[value.start : value.end] = _TAKEN * (value.end - value.start)
    return "".join(letters)


@dataclass(frozen=True, slots=True)
class Support:
    """How well one value is supported, 0 to 1, and how it was found."""

    score: float
    kind: GroundKind


@dataclass(frozen=True, slots=True)
class RequestText:
    """A request, read once: its words, the values found, and all numbers that follow from them."""

    text: str
    found: tuple[Found, ...]
    spaced: str
    joined: str
    stems: frozenset[str]
    stemmed: str
    numbers: Mapping[float, Support]
    told: RequestText | None = None  # what was known before it: facts, earlier turns
    facts: tuple[tuple[str, RequestText], ...] = ()  # by name, those for their own kind only


def read_request(
    request: str | RequestText, told: str = "", facts: Mapping[str, str] | None = None
) -> RequestText:
    """The request read; one that was read already is returned as it is."""
    if isinstance(request, RequestText):
        return request
    read = _read(request)
    if facts:
        read = replace(read, facts=tuple((name, _read(text)) for name, text in facts.items()))
    return replace(read, told=_read(told)) if told else read


@lru_cache(maxsize=64)  # of one request and its parts, several times each
def _read(request: str) -> RequestText:
    text = request[:LONGEST_TEXT]
    found = find_values(text)
    folded = spaced(text)
    plain = folded.split()
    roots = [stem(word) for word in plain]
    return RequestText(
        text=text,
        found=found,
        spaced=folded,
        joined=folded.replace(" ", ""),
        stems=frozenset(roots),
        stemmed=f" {' '.join(roots)} ",
        numbers=_numbers(text, found, plain),
    )


def _numbers(text: str, found: Iterable[Found], plain: list[str]) -> dict[float, Support]:
    """Every number the words say or that follows from them, with the best support of each."""
    known: dict[float, Support] = {}
    sources = (
        *(_from_number(number) for number in find_all_numbers(text)),
        *(_derived(one) for one in found),
        *(_from_word(word) for word in plain),
    )
    for source in sources:
        for value, score in source:
            key = float(whole(value))
            if key not in known or known[key].score < score:
                known[key] = Support(score, "verbatim" if score == 1.0 else "derived")
    return known


def _from_number(number: Said) -> Iterable[tuple[float, float]]:
    yield number.value, 1.0
    yield number.value / 100, 0.95 if number.kind == "percent" else 0.4
    yield -number.value, 0.4
    for factor in (1000, 0.001, 60):
        yield number.value * factor, 0.4
    if number.unit == "m":
        yield number.value * 1_000_000, 0.4  # 4m may be four million.
    if 0 < number.value < 1:
        yield number.value * 100, 0.7


def _from_word(word: str) -> Iterable[tuple[float, float]]:
    if word in _COUNTS:
        yield _COUNTS[word], 0.5 if word in ("a", "an", "no") else 0.7
    elif month_number(word):
        yield month_number(word), 0.8
    elif not word.isalpha():
        for digits in _DIGITS.findall(word)[:8]:
            yield float(digits[:18]), 0.4


def _derived(one: Found) -> Iterable[tuple[float, float]]:
    """The numbers in a time, a date or a length of time."""
    if one.kind == "time":
        hour, minute = int(one.value[:2]), int(one.value[3:5])
        yield from ((hour, 0.95), (minute, 0.95), (hour % 12 or 12, 0.9), (hour * 60 + minute, 0.4))
        if not (isinstance(one, Said) and one.unit):
            yield (hour + 12) % 24, 0.8
    elif one.kind == "duration":
        for seconds in SECONDS.values():
            amount = one.value / seconds
            if amount == 0 or amount >= 0.01:
                yield amount, 0.9
    elif one.kind in ("date", "datetime") and re.match(r"\d{4}-\d\d-\d\d", str(one.value)):
        yield from ((int(part), 0.9) for part in str(one.value)[:10].split("-"))
