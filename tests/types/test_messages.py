"""Objectives: one at a time, within bounds, as a share or in percent."""

from __future__ import annotations

import re
from typing import Any

import pytest

from edgewise.types.messages import (
    Message,
    Request,
    as_share,
    find_complaint,
    high_enough,
    is_below,
    needed,
    percent,
)


def asks(**objectives: Any) -> Request:
    return Request(messages=(Message("user", "hi"),), **objectives)


@pytest.mark.parametrize(
    "objectives",
    [
        {},
        {"threshold": 0.0},
        {"threshold": 1.0},
        {"max_error": 0.05, "error_probability": 0.01},
        {"cloud_share": 0.0},
        {"cloud_share": 1.0, "deadline_ms": 800.0},
    ],
)
def test_one_objective_within_bounds_is_fine(objectives: dict[str, float]) -> None:
    assert find_complaint(asks(**objectives)) == asks(**objectives).complaint == ""


@pytest.mark.parametrize(
    ("objectives", "said"),
    [
        ({"threshold": 1.1}, "threshold = 1.1"),
        ({"threshold": float("nan")}, "threshold = nan"),
        ({"max_error": 0.0}, "max_error = 0.0"),
        ({"max_error": 1.0}, "max_error = 1.0"),
        ({"max_error": 5}, "max_error = 5: .*0.05 is 5 %"),
        ({"cloud_share": -0.1}, "cloud_share = -0.1"),
        ({"max_error": 0.1, "error_probability": 0.0}, "error_probability = 0.0"),
        ({"max_error": 0.1, "threshold": 0.5}, "threshold and max_error: state one"),
        ({"max_error": 0.1, "cloud_share": 0.0}, "max_error and cloud_share: state one"),
    ],
)
def test_an_impossible_objective_is_named(objectives: dict[str, float], said: str) -> None:
    assert re.match(said, asks(**objectives).complaint)


@pytest.mark.parametrize("text", ["5%", "5 %", " 5% ", "0.05", ".05"])
def test_a_share_may_be_said_in_percent(text: str) -> None:
    assert as_share(text) == pytest.approx(0.05)


@pytest.mark.parametrize("text", ["", "%", "five", "5%%"])
def test_a_text_that_is_not_a_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="could not convert"):
        as_share(text)


def test_words() -> None:
    assert (percent(0.05), percent(1 - 0.1), percent(0.125)) == ("5 %", "90 %", "12.5 %")
    assert high_enough("") == "high enough"
    assert high_enough("luck") == "high enough for luck"
    assert needed(0.5, "") == "0.50"
    assert needed(0.5, "luck") == "0.50, which luck needs"


@pytest.mark.parametrize(
    ("confidence", "threshold", "said"),
    [
        (0.4, 0.5, "0.40 is below 0.50"),
        (0.9961, 1.0, "0.996 is below 1.000"),
        (0.49996, 0.5, "0.49996 is below 0.50000"),
    ],
)
def test_two_numbers_that_differ_look_different(
    confidence: float, threshold: float, said: str
) -> None:
    assert is_below(confidence, threshold) == said
    assert is_below(confidence, threshold, "a risk") == f"{said}, which a risk needs"
