"""Dates that a text says: canonical where year, month and day are named, else the words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from edgewise.functions.find_numbers import Said
from edgewise.types.calls import Found

_MONTH_NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
MONTHS = {name[:length]: index for index, name in enumerate(_MONTH_NAMES, 1) for length in (3, 99)}
MONTHS["sept"] = 9
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:1[5-9]|2[01])\d\d)(?!\d)"
_WEEKDAY = (
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?"  # Short forms would find "sun" and "sat".
)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


# In "2026-03-03 10:30-11:15" the second time is no offset: that follows seconds, or a T before.
_DATETIME = _pattern(
    r"\b\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z\b|[+-]\d\d:?\d\d)?|"
    r" \d\d:\d\d(?::\d\d(?:\.\d+)?(?:[+-]\d\d:?\d\d)?|\+\d\d:?\d\d)?(?:Z\b)?)"
)
_YEAR_FIRST = _pattern(rf"(?<![\w./-]){_YEAR}([-/.])(?P<month>\d\d?)\2(?P<day>\d\d?)(?![\w/-])")
_YEAR_LAST = _pattern(
    r"(?<![\w./-])(?P<one>\d\d?)([-/.])(?P<two>\d\d?)\2(?P<year>\d{4}|\d\d)(?![\w/-])"
)
_NAMED_DAY_FIRST = _pattern(
    rf"(?<![\w.,/:-])(?:the )?{_DAY}[ -]?(?: of )?\s*{_MONTH}(?:,?\s*-?(?:of )?{_YEAR})?"
)
_NAMED_MONTH_FIRST = _pattern(
    rf"\b{_MONTH}[ -]?\s*(?:the )?{_DAY}(?!\d|:|\.\d|\s*[ap]\.?m)\b(?:,?\s*-?\s*{_YEAR})?"
)
_MONTH_AND_YEAR = _pattern(rf"\b{_MONTH},?(?: of)?\s+{_YEAR}")
_RELATIVE = _pattern(
    r"\b(?:the day after tomorrow|the day before yesterday|today|tomorrow|yesterday|"
    rf"(?:this|next|last|coming|every)\s+(?:{_WEEKDAY}|week(?:end)?|month|year|quarter|{_MONTH})|"
    rf"{_WEEKDAY}(?:\s+week|\s+next)?|the weekend|(?:this|tomorrow) (?:morning|afternoon|evening)|"
    r"tonight)\b".replace("(?P<month>", "(?:")
)
_MONTH_ALONE = _pattern(rf"\b(?:in|of|for|since|until|by|during|from) {_MONTH}(?!\w)")


def find_dates(text: str) -> Iterator[Found]:
    """Dates and moments. Where two overlap the earlier yielded is the better reading."""
    for match in _DATETIME.finditer(text):
        yield Said("datetime", match.group().replace(" ", "T", 1), match.group(), *match.span())
    for match in _YEAR_FIRST.finditer(text):
        yield from _full(match, match["year"], match["month"], match["day"])
    for match in _YEAR_LAST.finditer(text):
        yield from _numeric(match)
    for pattern in (_NAMED_DAY_FIRST, _NAMED_MONTH_FIRST):
        for match in pattern.finditer(text):
            yield from _named(match)
    for pattern in (_MONTH_AND_YEAR, _RELATIVE):
        for match in pattern.finditer(text):
            yield Said("date", match.group(), match.group(), *match.span())
    for match in _MONTH_ALONE.finditer(text):
        if match["month"][0].isupper() or len(match["month"]) > 3:
            start = match.start("month")
            word = match["month"]
            yield Said("date", word, word, start, start + len(word))


def month_number(word: str) -> int:
    """3 for `March` and `mar`; 0 where it is no month."""
    return MONTHS.get(word.lower().rstrip("."), 0)


def _full(match: re.Match[str], year: str, month: str, day: str) -> Iterator[Said]:
    number = month_number(month) or (int(month) if month.isdecimal() else 0)
    if 1 <= number <= 12 and 1 <= int(day) <= 31:
        value = f"{int(year):04}-{number:02}-{int(day):02}"
        yield Said("date", value, match.group(), *match.span())


def _numeric(match: re.Match[str]) -> Iterator[Said]:
    """3/4/2025 is read month first; day first where it must be, or where dots part it."""
    one, two, year = match["one"], match["two"], match["year"]
    if len(year) == 2:
        if match[2] == ".":
            return  # 1.2.34 is a version.
        year = f"20{year}"
    day_first = int(one) > 12 or (match[2] == "." and int(two) <= 12)
    month, day = (two, one) if day_first else (one, two)
    for found in _full(match, year, month, day):
        unsure = int(one) <= 12 and int(two) <= 12 and match[2] != "."
        yield Said("date", found.value, found.text, found.start, found.end, "?" if unsure else "")


def _named(match: re.Match[str]) -> Iterator[Said]:
    day, year = int(match["day"]), match["year"]
    if not 1 <= day <= 31:
        return
    if year:
        yield from _full(match, year, match["month"], match["day"])
    else:
        yield Said("date", match.group(), match.group(), *match.span())
