"""Words as they are compared: without case, accents and endings; and names by their spelling."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_ALPHANUMERIC = re.compile(r"[\W_]+")
_ENDINGS = (
    ("ies", "y"), ("sses", "ss"), ("ings", ""), ("ing", ""), ("edly", ""), ("ed", ""), ("ly", ""),
    ("xes", "x"), ("ches", "ch"), ("shes", "sh"), ("s", ""), ("e", ""),
)  # fmt: skip
_NAME_WORD = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z])|\d+|[^\W\d_]+")
_LONGEST_NAME = 120


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def fold(text: str) -> str:
    """Lower case without accents: `Älvsjö` becomes `alvsjo`."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in apart if not unicodedata.combining(letter)).casefold()


def spaced(text: str) -> str:
    """The folded words with single spaces between and around: ` new york `, to search in."""
    inner = _NOT_ALPHANUMERIC.sub(" ", fold(text.replace("'", "").replace("\u2019", ""))).strip()
    return f" {inner} " if inner else " "


def words(text: str) -> list[str]:
    return spaced(text).split()


def name_words(name: str) -> list[str]:
    """The words in an identifier: `maxPrice_eur` has three."""
    return words(_CAMEL.sub(" ", name))


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """A word without its ending. Crude on purpose: it only has to bring inflections together.

    Values are compared by it, so it cuts less than `rank_tools.stem`, for which `add` is `create`.
    """
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            root = word[: len(word) - len(ending)] + instead
            if ending in ("ing", "ed", "ings") and len(root) > 3 and root[-1] == root[-2]:
                root = root[:-1]
            return root.removesuffix("e") if len(root) > 3 else root
    return word


def tokens(text: str) -> list[tuple[str, int, int]]:
    """Each word's stem with where it stands."""
    return [(stem("".join(words(match.group()))), *match.span()) for match in WORD.finditer(text)]


def locate(phrase: str, among: Sequence[tuple[str, int, int]]) -> tuple[int, int] | None:
    """Where the words of a phrase stand side by side in a tokenised text, inflected or not."""
    wanted = [root for root, _, _ in tokens(phrase)]
    if not wanted:
        return None
    for index in range(len(among) - len(wanted) + 1):
        if among[index][0] == wanted[0]:
            here = among[index : index + len(wanted)]
            if [root for root, _, _ in here] == wanted:
                return here[0][1], here[-1][2]
    return None


def edits(one: str, other: str, limit: int) -> int:
    """How many letters differ (neighbours that are swapped count once); `limit + 1` if more."""
    from rapidfuzz.distance import OSA  # noqa: PLC0415 - only where something is misspelt

    return int(OSA.distance(one, other, score_cutoff=limit))


def nearest(word: str, names: Iterable[str], limit: int) -> str | None:
    """The name that `word` means, or None where none or more than one could be meant.

    Case, underscores, dots and spaces do not count. Beyond that at most `limit` letters may
    differ, and of each word at most a third: "turn_on" does not mean "turn_off", nor "unlock"
    "lock", though few letters differ.
    """
    candidates = list(dict.fromkeys(names))
    if word in candidates:
        return word
    folded = squashed(word)
    if folded:
        same = [name for name in candidates if squashed(name) == folded]
        if same:
            return same[0] if len(same) == 1 else None
    if len(word) > _LONGEST_NAME:
        return None
    found = [(cost, name) for name in candidates if (cost := _slips(word, name, limit)) is not None]
    found.sort()
    if not found or (len(found) > 1 and found[0][0] == found[1][0]):
        return None
    return found[0][1]


def squashed(text: str) -> str:
    """Letters and digits only, in one case."""
    return "".join(letter for letter in text.casefold() if letter.isalnum())


def _slips(word: str, name: str, limit: int) -> int | None:
    """How many letters differ, None if more than slips of spelling would."""
    from rapidfuzz.distance import Levenshtein  # noqa: PLC0415 - only where a name is misspelt

    if abs(len(word) - len(name)) > limit + 4 or len(name) > _LONGEST_NAME:
        return None
    ours, theirs = _name_parts(word), _name_parts(name)
    if len(ours) != len(theirs):
        # Words run together or torn apart: one letter may differ, no more.
        ours, theirs, limit = ["".join(ours)], ["".join(theirs)], min(limit, 1)
    total = 0
    for one, other in zip(ours, theirs, strict=True):
        allowed = min(limit - total, max(len(one), len(other)) // 3)
        if one[:1] != other[:1] or (one != other and (one + other).isdigit()):
            return None
        cost = Levenshtein.distance(one, other, score_cutoff=allowed)
        if cost > allowed:
            return None
        total += cost
    return total


def _name_parts(text: str) -> list[str]:
    return [found.group().casefold() for found in _NAME_WORD.finditer(text)]


# -- words that switch -----------------------------------------------------------------------------


_VERBS = (
    (True, r"(?:turn|switch|put|flip)(?:ing)? on\b|enabl(?:e|ing)\b|(?:re)?activat(?:e|ing)\b"),
    (False, r"(?:turn|switch|shut|flip)(?:ing)? off\b|disabl(?:e|ing)\b|deactivat(?:e|ing)\b"),
)  # fmt: skip
_ADJACENT = tuple((state, re.compile(rf"\b(?:{verbs})", re.IGNORECASE)) for state, verbs in _VERBS)
_APART = re.compile(
    r"\b(?:turn|switch|put|flip|shut)\s+(?:[\w'\u2019-]+\s+){1,6}?(?P<way>on|off)\b"
    r"(?=\s*(?:$|[.,;!?]|(?:please|now|and|then|again|for|in|at|until|till|thanks)\b))",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"^\W*(?:(?:please|now|then|also|and|can you|could you|would you|hey)\W+)*"
    r"(?P<verb>start|stop)\s",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:don['\u2019]?t|do not|not|never|without|no need to|instead of|rather than|stop)\b"
    r"(?:\s+[\w'\u2019]+){0,2}\s*$",
    re.IGNORECASE,
)
_BEFORE = 40


def switch_said(text: str) -> bool | None:
    """True for on, False for off; None if nothing is ordered, if negated, or if both are said."""
    orders = list(_orders(text))
    ways = {state for state, _ in orders}
    if len(ways) != 1 or any(negated for _, negated in orders):
        return None
    return ways.pop()


def _orders(text: str) -> Iterator[tuple[bool, bool]]:
    """Each order to switch: which way, and whether it is negated."""
    for state, pattern in _ADJACENT:
        for match in pattern.finditer(text):
            yield state, _negated(text, match.start())
    for match in _APART.finditer(text):
        yield match["way"].lower() == "on", _negated(text, match.start())
    opening = _OPENING.search(text)
    if opening:
        yield opening["verb"].lower() == "start", False


def _negated(text: str, place: int) -> bool:
    return bool(_NEGATED.search(text[max(0, place - _BEFORE) : place]))
