"""A map makes chances of scores and keeps their order."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as some

from edgewise.bench.isotonic import fit_map
from edgewise.bench.metrics import auroc, expected_calibration_error

ROWS = some.lists(some.tuples(some.floats(0.0, 1.0), some.booleans()), min_size=1, max_size=200)


@given(ROWS)
def test_a_map_always_rises_from_nothing_to_certainty(rows: list[tuple[float, bool]]) -> None:
    scores, right = [row[0] for row in rows], [row[1] for row in rows]
    points = fit_map(scores, right).points
    assert (points[0], points[-1]) == ((0.0, 0.0), (1.0, 1.0))
    for left, after in pairwise(points):
        assert left[0] < after[0]
        assert left[1] < after[1]


def test_a_score_that_is_too_sure_is_put_right_and_keeps_its_order() -> None:
    random = Random(0)
    chances = [random.random() for _ in range(8000)]
    right = [random.random() < chance for chance in chances]
    scores = [chance**0.5 for chance in chances]
    fitted = fit_map(scores[:4000], right[:4000])
    mapped = [fitted.of(score) for score in scores[4000:]]
    assert expected_calibration_error(scores[4000:], right[4000:]) > 0.12
    assert expected_calibration_error(mapped, right[4000:]) < 0.035
    assert auroc(mapped, right[4000:]) == auroc(scores[4000:], right[4000:])


def test_neighbours_that_fall_are_pooled() -> None:
    scores = [0.1, 0.1, 0.4, 0.4, 0.6, 0.6, 0.9, 0.9]
    right = [False, False, True, True, False, True, True, True]
    points = fit_map(scores, right, bins=4).points
    assert points == ((0.0, 0.0), (0.5, 0.75), (1.0, 1.0))
