"""Scores by hand-made cases: every figure can be worked out on paper."""

from __future__ import annotations

import pytest

from edgewise.bench.call_scores import (
    Call,
    OneOf,
    exact,
    f1,
    hackathon_score,
    level_score,
    matched_flags,
    right_arguments,
    value_matches,
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


def test_a_value_may_have_several_spellings() -> None:
    either = OneOf(("pizza", "the pizza"))
    assert value_matches("The Pizza", either)
    assert not value_matches("pasta", either)
    assert exact([("start", {"name": "pizza"})], [("start", {"name": either})])


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
