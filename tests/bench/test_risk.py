from __future__ import annotations

import pytest

from edgewise.bench.risk import Judged, aurc, coverage_at, hybrid_curve, risk_coverage


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


def test_a_perfect_cloud_repairs_what_is_sent_and_nothing_else() -> None:
    cases = [
        Judged((0.9,), (True,), predicted=1, expected=1),
        Judged((0.2,), (False,), predicted=1, expected=1),
        Judged((0.8, 0.4), (True, False), predicted=2, expected=2),
    ]
    curve = hybrid_curve(cases)
    assert curve[0][1:] == pytest.approx((0.0, (1 + 0 + 0.5) / 3))
    by_share = {share: score for _, share, score in curve}
    assert by_share[0.25] == pytest.approx((1 + 1 + 0.5) / 3)
    assert by_share[0.5] == 1.0
    assert curve[-1][1:] == (1.0, 1.0)


def test_a_call_too_many_goes_away_and_a_missing_one_comes_when_all_is_sent() -> None:
    extra = Judged((0.9, 0.1), (True, False), predicted=2, expected=1)
    assert [score for _, _, score in hybrid_curve([extra])] == [pytest.approx(2 / 3), 1.0, 1.0]
    silent = Judged((0.6,), (False,), predicted=0, expected=2)
    assert [score for _, _, score in hybrid_curve([silent])] == [0.0, 1.0]
