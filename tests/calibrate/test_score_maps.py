"""A map turns scores into chances, keeps their order, and is used only if it helps."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.calibrate.fit import choose_map, compose, isotonic_map, log_loss, logistic_map
from edgewise.decide.calibration import UNMAPPED, ScoreMap, read_measured

rows = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=10, max_size=80)


def drawn(count: int, chance: object, seed: int = 1) -> tuple[list[float], list[bool]]:
    random = Random(seed)
    scores = [random.random() for _ in range(count)]
    return scores, [random.random() < chance(score) for score in scores]  # type: ignore[operator]


@given(rows)
@settings(max_examples=60, deadline=None)
def test_maps_never_fall_and_can_be_read_from_a_file(pairs: list[tuple[float, bool]]) -> None:
    scores, right = [score for score, _ in pairs], [flag for _, flag in pairs]
    for fitted in (logistic_map(scores, right), isotonic_map(scores, right)):
        assert read_measured({"map": {"final": fitted.points}}).map_of("final") == fitted
        values = [fitted.of(at / 50) for at in range(51)]
        assert all(low <= high for low, high in pairwise(values))
        assert 0 < values[0] <= values[-1] < 1


def test_a_score_that_is_right_needs_no_map() -> None:
    scores, right = drawn(600, lambda score: score)
    assert choose_map(scores, right) == (UNMAPPED, "none")


def test_a_score_that_promises_too_much_gets_a_map_that_does_not() -> None:
    scores, right = drawn(600, lambda score: 0.2 + 0.3 * score)
    found, form = choose_map(scores, right)
    assert form in ("logistic", "isotonic")
    assert found.of(0.9) == pytest.approx(0.47, abs=0.08)
    before = log_loss(scores, right)
    assert log_loss([found.of(score) for score in scores], right) < before - 0.1


def test_a_step_is_better_told_by_an_isotonic_map() -> None:
    scores, right = drawn(900, lambda score: 0.95 if score > 0.3 else 0.05)
    found, form = choose_map(scores, right)
    assert form == "isotonic"
    assert found.of(0.1) < 0.2 < 0.8 < found.of(0.5)


def test_rows_of_one_outcome_fit_no_map() -> None:
    assert choose_map([0.1 * at for at in range(10)], [True] * 10) == (UNMAPPED, "none")


def test_a_score_that_says_the_opposite_becomes_one_chance() -> None:
    scores, right = drawn(300, lambda score: 1 - score)
    found = logistic_map(scores, right)
    assert found.of(0.0) == found.of(1.0) == pytest.approx(0.5, abs=0.1)


def test_two_maps_become_one() -> None:
    first = ScoreMap(((0.0, 0.1), (0.5, 0.3), (1.0, 0.9)))
    second = ScoreMap(((0.0, 0.0), (0.4, 0.2), (1.0, 1.0)))
    both = compose(first, second)
    for at in (0.0, 0.13, 0.5, 0.77, 1.0):
        assert both.of(at) == pytest.approx(second.of(first.of(at)), abs=0.01)
    assert compose(UNMAPPED, second) == second
    assert compose(first, UNMAPPED) == first
