"""Times of day."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.values.read import find_values


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
