"""The optional keys of a calibration: maps, risk tables and quantiles, refused when wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.decide.calibration import (
    NO_BOUNDARIES,
    NOTHING_CLEAR,
    UNMEASURED,
    ScoreMap,
    read_boundaries,
    read_measured,
    write_boundaries,
)

QUANTILES = [number / 20 for number in range(21)]
WHOLE: dict[str, Any] = {
    "map": {"early": [[0.0, 0.1], [1.0, 0.7]], "final": [[0.2, 0.1], [0.6, 0.5], [0.8, 0.9]]},
    "risk": {"whole": [[0.9, 10, 0], [0.5, 60, 12]], "stream": [[0.9, 12, 1]]},
    "risk_rows": 100,
    "quantiles": QUANTILES,
    "feature_means": {"mean_logprob": -0.4},
    "feature_deviations": {"mean_logprob": 0.2},
    "agreement": {"band": [0.3, 0.6]},
}


def test_a_file_without_the_optional_keys_is_read() -> None:
    assert read_measured({"format": 1, "name": "m"}) == UNMEASURED
    assert UNMEASURED.map_of("final").of(0.37) == 0.37


def test_every_key_is_read() -> None:
    measured = read_measured(WHOLE)
    assert measured.risk["whole"][1].threshold == 0.5
    assert (measured.risk["whole"][1].kept, measured.risk["whole"][1].wrong) == (60, 12)
    assert (measured.risk["stream"][0].wrong, measured.risk_rows) == (1, 100)
    assert measured.quantiles == tuple(QUANTILES)
    assert measured.feature_means == {"mean_logprob": -0.4}
    assert measured.feature_deviations == {"mean_logprob": 0.2}
    assert measured.agreement == {"band": [0.3, 0.6]}


@pytest.mark.parametrize(
    ("score", "chance"), [(0.0, 0.1), (0.2, 0.1), (0.4, 0.3), (0.6, 0.5), (0.7, 0.7), (1.0, 0.9)]
)
def test_a_map_is_straight_between_its_points_and_flat_beyond_them(
    score: float, chance: float
) -> None:
    assert read_measured(WHOLE).map_of("final").of(score) == pytest.approx(chance)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=8), st.data())
def test_a_map_never_puts_a_higher_score_below_a_lower_one(
    points: list[tuple[float, float]], data: st.DataObject
) -> None:
    xs = sorted({round(x, 6) for x, _ in points})
    ys = sorted(y for _, y in points)
    chance = ScoreMap(tuple(zip(xs, ys, strict=False)))
    low, high = sorted([data.draw(st.floats(0, 1)), data.draw(st.floats(0, 1))])
    assert chance.of(low) <= chance.of(high) + 1e-12
    assert 0 <= chance.of(low) <= 1


def test_uncounted_rows_are_at_least_the_kept_ones() -> None:
    assert read_measured({"risk": {"whole": [[0.9, 10, 0], [0.5, 60, 12]]}}).risk_rows == 60


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"map": {"final": [[0.5, 0.2], [0.5, 0.3]]}}, "rise"),
        ({"map": {"final": [[0.4, 0.4], [0.5, 0.3]]}}, "rise"),
        ({"map": {"final": [[0.4, 1.4]]}}, "between 0 and 1"),
        ({"map": {"final": [[0.4, float("nan")]]}}, "between 0 and 1"),
        ({"risk": {"whole": [[0.5, 10, 11]]}}, "more wrong"),
        ({"risk": {"whole": [[0.5, 10, 1], [0.9, 5, 0]]}}, "strictest"),
        ({"risk": {"whole": [[0.5, 10.5, 1]]}}, "not a count"),
        ({"risk": {"whole": [[0.5, 10, -1]]}}, "not a count"),
        ({"risk": {"sometimes": []}}, "sometimes"),
        ({"risk_rows": 12}, "risk_rows"),
        ({"quantiles": [0.1, 0.2]}, "must be 21"),
        ({"quantiles": QUANTILES[::-1]}, "fall"),
        ({"feature_means": {"a": float("inf")}}, "finite"),
    ],
)
def test_what_cannot_have_been_measured_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_measured(WHOLE | change)


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
