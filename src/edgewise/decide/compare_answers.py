"""Whether two answers to one request say the same. Unsure if only a reader could tell."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from edgewise.types.messages import ToolCall

_UNIT_WORDS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen
"""
_TEN_WORDS = "twenty thirty forty fifty sixty seventy eighty ninety"
_UNITS = {word: value for value, word in enumerate(_UNIT_WORDS.split())}
_TENS = {word: 10 * value for value, word in enumerate(_TEN_WORDS.split(), start=2)}
Judge = Literal["exact", "calls", "word_error", "embedding", "judge"]
# Below this cosine of all-MiniLM-L6-v2, two answers are called different: of the 60 pairs that we
# wrote (scripts/measure_meaning.py), none that says the same lies below. No cosine proves two
# answers the same: exchanging left and right still gives 0.998.
DIFFERENT_BELOW = 0.40
SHORT_WORDS = 4  # an answer this short is a phrase that the other may contain
LONG_WORDS = 30  # a longer text may mention a phrase without answering with it
_FILLERS = frozenset(
    {"a", "an", "the", "it", "is", "its", "answer", "so", "of", "in", "at", "to", "sure"}
)
_YES, _NO = frozenset({"yes", "true", "yeah", "correct"}), frozenset({"no", "false", "nope"})
_DENIALS = frozenset(
    {"not", "no", "never", "neither", "nor", "cannot", "but", "rather", "instead"}
    | {"isn", "wasn", "aren", "doesn", "don", "didn"}
)


def normalise(text: str, *, keep_case: bool = False) -> str:
    """Plain words with single spaces: no accents, markup or punctuation; numbers as digits."""
    text = unicodedata.normalize("NFKD", text)
    text = "".join(character for character in text if not unicodedata.combining(character))
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)  # 1,000 is one number; 2,4,6 are three
    text = re.sub(r"['\u2019](s\b)?", r" \1", text)
    words = re.findall(r"\d+\.\d+|\w+", text.replace("_", " "))
    return _digits(words if keep_case else [word.lower() for word in words])


def _digits(words: Sequence[str]) -> str:
    """Write numbers as digits. "one" stays: it is mostly a pronoun."""
    out: list[str] = []
    open_tens = False
    for word in words:
        plain = word.lower()
        if open_tens and 1 <= _UNITS.get(plain, 0) <= 9:
            out[-1] = str(int(out[-1]) + _UNITS[plain])
        elif plain in _TENS:
            out.append(str(_TENS[plain]))
        elif plain in _UNITS and plain != "one":
            out.append(str(_UNITS[plain]))
        else:
            out.append(word)
        open_tens = plain in _TENS
    return " ".join(out)


@dataclass(frozen=True, slots=True)
class Agreement:
    """0 is different, 1 is the same."""

    agree: float
    judged_by: Judge


def agree_in_words(one: str, other: str, question: str = "") -> Agreement | None:
    """Compare two answers in words; None if only a reader could tell.

    Numbers from the question are ignored if an answer has others.
    """
    plain = [normalise(text).split() for text in (one, other)]
    if plain[0] == plain[1]:
        return _exactly(True)
    both = [_json(text) for text in (one, other)]
    if all(isinstance(value, dict | list) for value in both):
        return _exactly(same_value(*both))
    said = [_yes_or_no(words) for words in plain]
    if None not in said:
        return _exactly(said[0] == said[1])
    asked = set(normalise(question).split())
    numbers = [_the_number(words, asked) for words in plain]
    if None not in numbers:
        return _exactly(numbers[0] == numbers[1])
    return _phrases(*([word for word in words if word not in _FILLERS] for words in plain))


def agree_in_calls(calls: Sequence[ToolCall], others: Sequence[ToolCall]) -> Agreement:
    """The same calls in any order, with the same arguments. Nothing is half right."""
    left = list(others)
    for call in calls:
        named = [other for other in left if other.name == call.name]
        match = next((one for one in named if same_value(call.arguments, one.arguments)), None)
        if match is None:
            return Agreement(0.0, "calls")
        left.remove(match)
    return Agreement(float(not left), "calls")


def agree_in_sound(errors: int, words: int, other_words: int) -> Agreement:
    """From the word errors between two transcripts: the equal share of the longer one."""
    longest = max(words, other_words)
    return Agreement(max(0.0, 1 - errors / longest) if longest else 1.0, "word_error")


def agree_in_meaning(cosine: float) -> Agreement | None:
    """Only says "different": texts that contradict each other may still be close."""
    return Agreement(0.0, "embedding") if cosine < DIFFERENT_BELOW else None


def read_verdict(said: str) -> Agreement | None:
    """The verdict of a model that was asked whether two answers mean the same."""
    told = _yes_or_no(normalise(said).split())
    return None if told is None else Agreement(float(told), "judge")


def same_value(one: Any, other: Any) -> bool:
    """Compare arguments: text without case, accents and marks; numbers by value."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_value(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(same_value(a, b) for a, b in pairs)
    numbers = [_number(value) for value in (one, other)]
    if None not in numbers:
        return numbers[0] == numbers[1]
    if isinstance(one, str) and isinstance(other, str):
        plain = normalise(one), normalise(other)
        return plain[0] == plain[1] if any(plain) else one.strip() == other.strip()
    return bool(one == other)


def _exactly(same: bool) -> Agreement:
    return Agreement(float(same), "exact")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _yes_or_no(words: Sequence[str]) -> bool | None:
    """From the first word, as in "Yes, it is." and "True"."""
    first = words[0] if words else ""
    return True if first in _YES else False if first in _NO else None


def _the_number(words: Sequence[str], asked: set[str]) -> float | None:
    """The one number of a short answer that is not in the question; None for none or several."""
    if len(words) > LONG_WORDS:
        return None
    said = [word for word in words if re.fullmatch(r"\d+(\.\d+)?", word)]
    fresh = {float(word) for word in said if word not in asked} or {float(word) for word in said}
    return fresh.pop() if len(fresh) == 1 else None


def _phrases(one: Sequence[str], other: Sequence[str]) -> Agreement | None:
    """Whether the shorter answer is a phrase that the other one consists of, or contains."""
    short, long = sorted((one, other), key=len)
    if not short or len(short) > SHORT_WORDS or len(long) > LONG_WORDS:
        return _exactly(True) if one == other else None
    if _DENIALS.intersection(long) != _DENIALS.intersection(short):
        return None
    starts = range(len(long) - len(short) + 1)
    if any(list(long[start : start + len(short)]) == list(short) for start in starts):
        return _exactly(True)
    return None


def _number(value: Any) -> float | None:
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, str) and re.fullmatch(r"\s*-?\d+(\.\d+)?\s*", value):
        return float(value)
    return None
