"""The day that `tomorrow`, `next Friday` or `March 16` means, seen from a given day."""

from __future__ import annotations

import datetime
import re

from edgewise.functions.find_dates import find_dates, month_number

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAYS_AWAY = {
    "the day before yesterday": -2, "yesterday": -1, "today": 0, "tonight": 0,
    "this morning": 0, "this afternoon": 0, "this evening": 0, "tomorrow": 1,
    "tomorrow morning": 1, "tomorrow afternoon": 1, "tomorrow evening": 1,
    "the day after tomorrow": 2,
}  # fmt: skip
_WEEKDAY = re.compile(rf"(?:(this|next|coming)\s+)?({'|'.join(_WEEKDAYS)})", re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,2}")
_MONTH = re.compile(r"[a-z]{3,}", re.IGNORECASE)
# A leap day comes round within this many years, also over 2100.
_YEARS_AHEAD = 9


def month_and_day(words: str) -> tuple[int, int] | None:
    """(3, 16) for `March 16`; None for anything with a year, or without a day."""
    found = next(find_dates(words), None)
    if found is None or found.text.strip() != words.strip() or found.value != found.text:
        return None
    day = _NUMBER.findall(words)
    months = [month_number(word) for word in _MONTH.findall(words) if month_number(word)]
    return (months[0], int(day[0])) if len(day) == 1 and len(months) == 1 else None


def next_such_day(month: int, day: int, today: datetime.date) -> datetime.date | None:
    """The first day with this month and day of month, today or later."""
    for year in range(today.year, min(today.year + _YEARS_AHEAD, datetime.MAXYEAR) + 1):
        try:
            found = datetime.date(year, month, day)
        except ValueError:
            continue  # February 29, or no day at all.
        if found >= today:
            return found
    return None


def day_meant(words: str, today: datetime.date) -> datetime.date | None:
    """The day, where the words leave one. A bare weekday that today is leaves two.

    `next Friday` is the Friday of the next week, which begins on Monday.
    """
    plain = " ".join(words.lower().split())
    try:
        if plain in _DAYS_AWAY:
            return today + datetime.timedelta(days=_DAYS_AWAY[plain])
        weekday = _WEEKDAY.fullmatch(plain)
        if weekday:
            return _weekday(weekday[1] or "", _WEEKDAYS.index(weekday[2]), today)
        named = month_and_day(words)
        return next_such_day(*named, today) if named else None
    except OverflowError:
        return None  # The calendar ends.


def _weekday(which: str, wanted: int, today: datetime.date) -> datetime.date | None:
    ahead = (wanted - today.weekday()) % 7
    if which == "next":
        return today + datetime.timedelta(days=7 - today.weekday() + wanted)
    return today + datetime.timedelta(days=ahead) if ahead else None
