"""Metrics against values worked out by hand."""

from __future__ import annotations

import pytest

from edgewise.calibrate.metrics import auroc, expected_calibration_error, reliability, share


def test_auroc_counts_pairs_in_the_right_order() -> None:
    scores = [0.9, 0.8, 0.7, 0.6]
    assert auroc(scores, [True, True, False, False]) == 1.0
    assert auroc(scores, [False, False, True, True]) == 0.0
    # right: 0.9 and 0.6, wrong: 0.8 and 0.7; two of the four pairs are in order
    assert auroc(scores, [True, False, False, True]) == 0.5
    assert auroc(scores, [True, False, True, False]) == 0.75


def test_auroc_counts_ties_half_and_says_nothing_of_one_class() -> None:
    assert auroc([0.5, 0.5, 0.2], [True, False, False]) == 0.75
    assert auroc([0.1, 0.9], [True, True]) == 0.5


def test_calibration_error_is_the_distance_of_promise_and_outcome() -> None:
    chances = [0.1, 0.3, 0.8, 0.8]
    right = [False, True, True, True]
    # two bins: (0.2 promised, 0.5 came) and (0.8 promised, 1.0 came)
    assert expected_calibration_error(chances, right, bins=2) == pytest.approx(0.25)
    low, high = reliability(chances, right, bins=2)
    assert (low.count, low.accuracy, high.accuracy) == (2, 0.5, 1.0)
    assert low.confidence == pytest.approx(0.2)


def test_bins_have_equal_mass_and_empty_ones_are_left_out() -> None:
    counts = [each.count for each in reliability([0.5] * 31, [True] * 31)]
    assert len(counts) == 15
    assert sum(counts) == 31
    assert set(counts) == {2, 3}
    assert len(reliability([0.5] * 3, [True] * 3)) == 3


def test_share_of_nothing_is_zero() -> None:
    assert share([]) == 0.0
    assert share([True, False, True, True]) == 0.75
