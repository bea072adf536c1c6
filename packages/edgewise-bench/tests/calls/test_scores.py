"""Scores by hand-made cases: every figure can be worked out on paper."""

from __future__ import annotations

import pytest

from edgewise.calibrate.rows import Call, exact
from edgewise_bench.calls.scores import (
    Judged,
    f1,
    hackathon_score,
    hybrid_curve,
    level_score,
    matched_flags,
    right_arguments,
)

RING: Call = ("ring_bell", {"times": 3, "loud": True})
SONG: Call = ("play", {"song": "Blue in Green"})


def test_a_call_matches_whatever_its_case_order_and_further_arguments() -> None:
    predicted: list[Call] = [("play", {"song": " blue in GREEN ", "speed": 2}), RING]
    assert f1(predicted, [RING, SONG]) == 1.0
    assert not exact(predicted, [RING, SONG])
    assert exact([SONG, RING], [RING, SONG])


def test_the_same_call_twice_is_right_once() -> None:
    assert matched_flags([SONG, SONG], [SONG]) == [True, False]
    assert f1([SONG, SONG], [SONG]) == pytest.approx(2 / 3)


def test_nothing_is_right_only_where_nothing_is_expected() -> None:
    assert f1([], []) == 1.0
    assert f1(None, [SONG]) == f1([SONG], []) == 0.0


def test_arguments_are_counted_in_the_call_that_fits_best() -> None:
    expected: list[Call] = [("add", {"item": "milk", "count": 2}), ("add", {"item": "eggs"})]
    predicted: list[Call] = [
        ("add", {"item": "eggs"}),
        ("add", {"item": "milk", "count": 3}),
    ]
    assert right_arguments(predicted, expected) == (2, 3)
    assert right_arguments([], expected) == (0, 3)
    assert right_arguments([SONG], expected) == (0, 3)


def test_the_hackathon_pays_for_quality_time_and_staying_on_the_device() -> None:
    assert level_score(1.0, 250.0, 1.0) == pytest.approx(0.60 + 0.075 + 0.25)
    assert level_score(0.5, 900.0, 0.0) == pytest.approx(0.30)
    levels = {"easy": 1.0, "medium": 0.5, "hard": 0.2}
    assert hackathon_score(levels) == pytest.approx(100 * (0.2 + 0.15 + 0.1))
    assert hackathon_score({"easy": 0.4, "": 0.9}) == pytest.approx(40)
    assert hackathon_score({"": 0.9}) is None


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
