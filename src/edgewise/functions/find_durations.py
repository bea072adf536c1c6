"""Lengths of time that a text says, in seconds."""

from __future__ import annotations

import re
from collections.abc import Iterator

from edgewise.functions.find_numbers import Said
from edgewise.functions.number_words import whole


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


_Piece = tuple[int, int, float, str]  # start, end, seconds, unit
SECONDS = {
    "millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600, "day": 86400, "night": 86400,
    "week": 604800, "fortnight": 1209600, "month": 2592000, "year": 31536000,
}  # fmt: skip
_UNIT_NAMES = {
    "ms": "millisecond", "sec": "second", "secs": "second", "s": "second", "min": "minute",
    "mins": "minute", "m": "minute", "hr": "hour", "hrs": "hour", "h": "hour", "d": "day",
    "wk": "week", "wks": "week", "yr": "year", "yrs": "year",
}  # fmt: skip
_LONG_UNIT = r"(?:milliseconds?|seconds?|minutes?|hours?|days?|weeks?|fortnights?|months?|years?)"
_UNIT = _pattern(rf"\s*-?\s*({_LONG_UNIT}|ms|secs?|mins?|hrs?|wks?|yrs?|[smhd])\b")
_HALF_AN = _pattern(rf"\b(half (?:an?|of an) |a half[ -]|three[ -]quarters of an )({_LONG_UNIT})\b")
_A_UNIT = _pattern(rf"\b(an?|one|per)\s+(?:(half|quarter)\s+(?:of an\s+)?)?({_LONG_UNIT})\b")
_AND_A_HALF = _pattern(r"\s+and\s+(?:a|one)\s+(half|quarter)\b")
_SHORT = _pattern(r"(?<![\w.])(\d{1,3})\s?h\s?(\d{1,2})(?:\s?m(?:in)?)?\b(?:\s?(\d{1,2})\s?s\b)?")
_JOIN = _pattern(r"\s*(?:,|and|,\s*and)?\s*")


def unit_name(word: str) -> str:
    """`mins` → `minute`; empty where the word is no unit of time."""
    low = word.lower()
    name = _UNIT_NAMES.get(low) or low.removesuffix("s")
    return name if name in SECONDS else ""


def find_durations(text: str, numbers: list[Said]) -> Iterator[Said]:
    """Lengths of time in seconds, built on the numbers found; `unit` is the first unit said."""
    for match in _SHORT.finditer(text):
        hours, minutes, seconds = (int(group or 0) for group in match.groups())
        yield _length(text, *match.span(), hours * 3600 + minutes * 60 + seconds, "hour")
    pieces = _apart(sorted({*_pieces(text, numbers), *_articles(text)}))
    index = 0
    while index < len(pieces):
        start, end, seconds_said, unit = pieces[index]
        index += 1
        while index < len(pieces) and _JOIN.fullmatch(text, end, pieces[index][0]):
            if SECONDS[pieces[index][3]] >= SECONDS[unit]:
                break  # "20 minutes and 2 hours" are two lengths.
            seconds_said += pieces[index][2]
            end, last = pieces[index][1], pieces[index]
            index += 1
            if SECONDS[last[3]] <= 1:
                break
        yield _length(text, start, end, seconds_said, unit)


def _length(text: str, start: int, end: int, seconds: float, unit: str) -> Said:
    return Said("duration", whole(seconds), text[start:end], start, end, unit)


def _apart(pieces: list[_Piece]) -> list[_Piece]:
    """Without those inside another: the `an hour` of `half an hour`."""
    kept: list[_Piece] = []
    for piece in pieces:
        if not kept or piece[0] >= kept[-1][1]:
            kept.append(piece)
    return kept


def _pieces(text: str, numbers: list[Said]) -> Iterator[_Piece]:
    for number in numbers:
        if number.kind != "number":
            continue
        match = _UNIT.match(text, number.end)
        if match and number.value >= 0:
            unit = unit_name(match.group(1))
            # Lone letters are units of time only right behind the digits: 90s, but not "5 m".
            if len(match.group(1)) == 1 and (match.start(1) != number.end or match.group(1) == "m"):
                continue
            extra = _AND_A_HALF.match(text, match.end())
            more = {"half": 0.5, "quarter": 0.25}[extra.group(1).lower()] if extra else 0
            end = extra.end() if extra else match.end()
            yield number.start, end, (number.value + more) * SECONDS[unit], unit


def _articles(text: str) -> Iterator[_Piece]:
    for match in _HALF_AN.finditer(text):
        share = 0.75 if match.group(1).lower().startswith("three") else 0.5
        yield *match.span(), share * SECONDS[unit_name(match.group(2))], unit_name(match.group(2))
    for match in _A_UNIT.finditer(text):
        article, part, unit = match.groups()
        if article.lower() not in ("a", "an"):
            continue
        share = {"half": 0.5, "quarter": 0.25}[part.lower()] if part else 1.0
        extra = _AND_A_HALF.match(text, match.end())
        if extra:
            share += 0.5 if extra.group(1).lower() == "half" else 0.25
        end = extra.end() if extra else match.end()
        yield match.start(), end, share * SECONDS[unit_name(unit)], unit_name(unit)
