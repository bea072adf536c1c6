"""Dates, times and lengths of time that a text says."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.values.text import find_values
from edgewise.calls.values.times import SECONDS, day_meant, month_and_day, next_such_day


def dates(text: str) -> list[str]:
    return [found.value for found in find_values(text) if found.kind in ("date", "datetime")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("March 3rd 2024", ["2024-03-03"]),
        ("the 17th of June, 2025", ["2025-06-17"]),
        ("3/4/2025", ["2025-03-04"]),
        ("25/4/2025", ["2025-04-25"]),
        ("31.12.2024", ["2024-12-31"]),
        ("2024-05-01 and 2024/07/02", ["2024-05-01", "2024-07-02"]),
        ("24-Mar-2024", ["2024-03-24"]),
        ("2024-05-01T10:00Z", ["2024-05-01T10:00Z"]),
        ("2024-05-01T10:00-05:00", ["2024-05-01T10:00-05:00"]),
        ("2024-05-01 10:00:30+02:00", ["2024-05-01T10:00:30+02:00"]),
        ("2024-05-01 10:30-11:15", ["2024-05-01T10:30"]),
        ("tomorrow, next Friday", ["tomorrow", "next Friday"]),
        ("on March 3", ["March 3"]),
        ("the day after tomorrow", ["the day after tomorrow"]),
        ("June 2024", ["June 2024"]),
        ("in May", ["May"]),
        ("I may go", []),
        ("version 1.2.3", []),
        ("13/13/2024", []),
    ],
)
def test_a_date_is_canonical_only_where_the_words_name_it_fully(
    text: str, expected: list[str]
) -> None:
    assert dates(text) == expected


@given(st.dates(datetime.date(1600, 1, 1), datetime.date(2199, 12, 31)))
def test_a_date_written_out_is_read_back(day: datetime.date) -> None:
    month = day.strftime("%B")
    for text in (f"{month} {day.day}, {day.year}", f"{day.day} {month} {day.year}", str(day)):
        assert dates(f"due {text}, please") == [day.isoformat()]


def times(text: str) -> list[str]:
    return [found.value for found in find_values(text) if found.kind == "time"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7 AM", ["07:00"]),
        ("7:30pm or 7.30 p.m.", ["19:30", "19:30"]),
        ("19:30", ["19:30"]),
        ("730pm", ["19:30"]),
        ("12 am and 12 pm", ["00:00", "12:00"]),
        ("12:55 am", ["00:55"]),
        ("half past six", ["06:30"]),
        ("quarter to nine in the evening", ["20:45"]),
        ("a quarter past ten", ["10:15"]),
        ("quarter to one", ["12:45"]),
        ("twenty-five past ten", ["10:25"]),
        ("be there at five to nine", ["08:55"]),
        ("noon, then midnight", ["12:00", "00:00"]),
        ("at six thirty", ["06:30"]),
        ("at six oh five pm", ["18:05"]),
        ("wake me at 7", ["07:00"]),
        ("at seven, please", ["07:00"]),
        ("3 o'clock", ["03:00"]),
        ("eight o'clock tonight", ["20:00"]),
        ("this evening at 7", ["19:00"]),
        ("7 in the morning", ["07:00"]),
        ("the train leaves at 19h30", ["19:30"]),
        ("five to nine people", []),
        ("set it to 7.30", []),
        ("at 5 degrees", []),
        ("live at 7 Elm Street", []),
        ("25:00", []),
    ],
)
def test_a_time_is_read_in_every_common_form(text: str, expected: list[str]) -> None:
    assert times(text) == expected


@given(st.integers(0, 23), st.integers(0, 59))
def test_a_24_hour_time_is_read_back(hour: int, minute: int) -> None:
    assert times(f"start at {hour:02}:{minute:02} sharp") == [f"{hour:02}:{minute:02}"]


@given(st.integers(1, 12), st.integers(0, 59), st.sampled_from(["am", "PM", "a.m.", "p.m."]))
def test_a_12_hour_time_is_turned_into_24_hours(hour: int, minute: int, half: str) -> None:
    expected = hour % 12 + (12 if half.lower().startswith("p") else 0)
    assert times(f"start at {hour}:{minute:02} {half}") == [f"{expected:02}:{minute:02}"]


def lengths(text: str) -> list[float]:
    return [found.value for found in find_values(text) if found.kind == "duration"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20 minutes", [1200]),
        ("an hour and a half", [5400]),
        ("one and a half hours", [5400]),
        ("half an hour", [1800]),
        ("three quarters of an hour", [2700]),
        ("90s", [90]),
        ("1h30", [5400]),
        ("1h 30m", [5400]),
        ("two days", [172_800]),
        ("a week", [604_800]),
        ("1 hour, 5 minutes and 10 seconds", [3910]),
        ("an hour and 15 minutes", [4500]),
        ("20 minutes and then 2 hours", [1200, 7200]),
        ("a 45-minute nap", [2700]),
        ("5 m of rope", []),
        ("in seconds", []),
    ],
)
def test_a_length_is_read_in_every_common_form(text: str, expected: list[float]) -> None:
    assert lengths(text) == expected


@given(st.integers(1, 500), st.sampled_from(["second", "minute", "hour", "day", "week"]))
def test_a_number_and_a_unit_make_seconds(amount: int, unit: str) -> None:
    assert lengths(f"wait {amount} {unit}s") == [amount * SECONDS[unit]]


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
