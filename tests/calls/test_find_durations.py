"""Lengths of time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.values.read import find_values
from edgewise.calls.values.times import SECONDS


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
