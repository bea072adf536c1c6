"""Boundaries: each side of a threshold is read from the nearest table that may speak."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edgewise.types.measured import (
    NO_BOUNDARIES,
    NOTHING_CLEAR,
    read_boundaries,
    write_boundaries,
)

ROWS: list[dict[str, Any]] = [
    {"threshold": 0.4, "stops": [[1, 0.1, 0.9], [4, 0.2, 0.8]]},
    {"threshold": 0.6, "stops": [[1, 0.15, 0.95], [4, 0.3, 0.85]]},
]


def test_a_threshold_with_a_table_uses_both_of_its_sides() -> None:
    boundaries = read_boundaries(ROWS)
    assert boundaries.at(0.4, 1) == (0.1, 0.9)
    assert boundaries.at(0.6, 4) == (0.3, 0.85)


@pytest.mark.parametrize(
    ("threshold", "clear"),
    [(0.2, (0.0, 0.8)), (0.5, (0.2, 0.85)), (0.9, (0.3, 1.0))],
)
def test_a_threshold_between_drops_as_a_lower_one_and_keeps_as_a_higher_one(
    threshold: float, clear: tuple[float, float]
) -> None:
    assert read_boundaries(ROWS).at(threshold, 4) == clear


def test_between_two_stops_and_without_tables_nothing_is_clear() -> None:
    assert read_boundaries(ROWS).at(0.4, 3) == NOTHING_CLEAR
    assert NO_BOUNDARIES.at(0.4, 1) == NOTHING_CLEAR
    assert not NO_BOUNDARIES
    assert read_boundaries(ROWS)


def test_what_is_written_is_read_again() -> None:
    boundaries = read_boundaries(ROWS)
    assert read_boundaries(json.loads(json.dumps(write_boundaries(boundaries)))) == boundaries


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (ROWS[::-1], "lowest"),
        ([{"threshold": 0.5, "stops": [[1, 0.6, 0.9]]}], "below its threshold"),
        ([{"threshold": 0.5, "stops": [[1, 0.1, 0.4]]}], "keep above"),
        ([{"threshold": 0.5, "stops": [[1, 0.1, 1.4]]}], "keep above"),
    ],
)
def test_boundaries_that_contradict_themselves_are_refused(
    rows: list[dict[str, Any]], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_boundaries(rows)
