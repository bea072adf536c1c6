"""Days that only today's date tells."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.dates import (
    day_meant,
    month_and_day,
    next_such_day,
)

WEDNESDAY = datetime.date(2026, 3, 18)


@pytest.mark.parametrize(
    ("words", "day"),
    [
        ("today", "2026-03-18"),
        ("Tomorrow", "2026-03-19"),
        ("the day after tomorrow", "2026-03-20"),
        ("yesterday", "2026-03-17"),
        ("tonight", "2026-03-18"),
        ("Friday", "2026-03-20"),
        ("this Friday", "2026-03-20"),
        ("Monday", "2026-03-23"),
        ("next Friday", "2026-03-27"),
        ("next Monday", "2026-03-23"),
        ("next Wednesday", "2026-03-25"),
        ("Wednesday", None),
        ("March 18", "2026-03-18"),
        ("March 16", "2027-03-16"),
        ("the 2nd of April", "2026-04-02"),
        ("February 29", "2028-02-29"),
        ("April 31", None),
        ("April", None),
        ("next week", None),
        ("last Friday", None),
        ("every Friday", None),
        ("March 16 2030", None),
        ("", None),
    ],
)
def test_words_mean_a_day_where_they_leave_one(words: str, day: str | None) -> None:
    found = day_meant(words, WEDNESDAY)
    assert (found.isoformat() if found else None) == day


def test_the_calendar_may_end() -> None:
    assert day_meant("tomorrow", datetime.date.max) is None
    assert day_meant("March 3", datetime.date.max) is None


@given(st.dates(), st.integers(1, 12), st.integers(1, 31))
def test_the_next_such_day_is_never_behind_and_never_skips_one(
    today: datetime.date, month: int, day: int
) -> None:
    found = next_such_day(month, day, today)
    if found is not None:
        assert found >= today
        assert (found.month, found.day) == (month, day)
        assert (found - today).days <= (366 if (month, day) != (2, 29) else 366 * 8)


@given(st.dates(min_value=datetime.date(1600, 1, 1), max_value=datetime.date(2199, 1, 1)))
def test_month_and_day_are_read_without_a_year_only(day: datetime.date) -> None:
    written = f"{day:%B} {day.day}"
    assert month_and_day(written) == (day.month, day.day)
    assert month_and_day(f"{written}, {day.year}") is None
