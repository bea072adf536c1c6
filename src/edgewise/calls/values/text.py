"""A request read once: its words, the values it names, and the numbers that follow from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from edgewise.calls.values.names import (
    find_codes,
    find_literal,
    find_names,
)
from edgewise.calls.values.numbers import (
    Said,
    find_numbers,
    whole,
)
from edgewise.calls.values.times import (
    SECONDS,
    find_dates,
    find_durations,
    find_times,
    month_number,
)
from edgewise.calls.values.words import (
    spaced,
    stem,
)
from edgewise.types.calls import Found

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
    rest = _take(_still_there(numbers, rest), rest, found)
    _take(find_names(rest), rest, found)
    return tuple(sorted(found, key=lambda value: value.start))


def find_all_numbers(text: str) -> list[Said]:
    """Every number said, also those inside dates, times, codes and quotations."""
    return list(find_numbers(text[:LONGEST_TEXT]))


def _still_there(numbers: Iterable[Said], rest: str) -> Iterator[Said]:
    return (number for number in numbers if rest[number.start] != _TAKEN)


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


def read_request(request: str | RequestText, told: str = "") -> RequestText:
    """The request read; one that was read already is returned as it is."""
    if isinstance(request, RequestText):
        return request
    return replace(_read(request), told=_read(told)) if told else _read(request)


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
