"""A stated risk over many halvings of the same rows."""

from __future__ import annotations

import numpy
import pytest

from edgewise.decide.calibration import RiskRow
from edgewise_bench.risk import TARGETS, aurc, coverage_at, risk_coverage, risk_table, violations


def test_coverage_is_the_longest_confident_beginning_and_no_half_tie() -> None:
    right = [True, True, False, True]
    assert coverage_at([4, 3, 2, 1], right, 0.75) == 1.0
    assert coverage_at([4, 3, 2, 1], right, 0.95) == 0.5
    assert coverage_at([4, 4, 4, 1], right, 0.95) == 0.0
    assert coverage_at([], [], 0.95) == 0.0


def test_the_curve_tells_what_is_wrong_among_the_kept() -> None:
    assert risk_coverage([0.9, 0.5, 0.1], [True, True, False]) == [
        (1 / 3, 0.0),
        (2 / 3, 0.0),
        (1.0, pytest.approx(1 / 3)),
    ]


def test_the_area_is_the_mean_risk_and_a_tie_has_no_order() -> None:
    assert aurc([0.9, 0.5, 0.1], [True, True, False]) == pytest.approx((0 + 0 + 1 / 3) / 3)
    assert aurc([0.9, 0.5, 0.1], [False, True, True]) == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert aurc([0.5, 0.5], [True, False]) == aurc([0.5, 0.5], [False, True]) == 0.5


def test_a_table_counts_what_is_kept_at_each_threshold_and_wrong() -> None:
    table = risk_table([0.9, 0.5, 0.7, 0.2], [1, 0, 0, 1], grid=(0.95, 0.7, 0.5, 0.1))
    assert table == (
        RiskRow(0.95, 0, 0),
        RiskRow(0.7, 2, 1),
        RiskRow(0.5, 3, 2),
        RiskRow(0.1, 4, 2),
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_the_stated_risk_is_kept_in_nine_of_ten_halvings(seed: int) -> None:
    generator = numpy.random.default_rng(seed)
    scores = 1 / (1 + numpy.exp(-generator.normal(2.0, 2.0, 1500)))
    right = generator.random(1500) < scores
    found = violations(scores, right, splits=100, seed=seed)
    assert list(found) == list(TARGETS)
    assert all(kept.violations <= 0.10 for kept in found.values())
    assert found[0.20].kept > found[0.10].kept > found[0.05].kept > 0.1
    assert found[0.20].error <= 0.20
    assert found[0.01].nothing > 0.5, "some hundred rows cannot prove one in a hundred"


def test_keeping_nothing_breaks_no_word() -> None:
    found = violations([0.9] * 100, [0] * 100, targets=(0.1,), splits=5)[0.1]
    assert found == (0.0, 1.0, 0.0, 0.0)


def test_the_same_seed_gives_the_same_halvings() -> None:
    generator = numpy.random.default_rng(0)
    scores = generator.random(300)
    right = generator.random(300) < scores
    assert violations(scores, right, splits=5, seed=3) == violations(
        scores, right, splits=5, seed=3
    )
