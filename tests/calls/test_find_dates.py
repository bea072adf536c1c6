"""Dates."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.values.read import find_values


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
