"""Drift may only raise a threshold, pacing may only lower it, and both say so."""

from __future__ import annotations

import pytest

from edgewise.decide.drift import stricter
from edgewise.decide.objective import find_objective, steer
from edgewise.types.measured import Measured
from edgewise.types.messages import Message, Request
from edgewise.types.objectives import (
    Money,
    Steering,
)

MEASURED = Measured(quantiles=tuple(step / 20 for step in range(21)), risk_rows=100)
POOR = Money(10_000, 100.0, 1_000.0, "a budget of $3.00 per day")  # a tenth may leave
RICH = Money(10_000_000, 100.0, 1_000.0, "a budget of $3.00 per day")


class Fitted:
    name = "mine"
    threshold = 0.5
    measured = MEASURED


def request(steering: Steering | None, threshold: float | None = None) -> Request:
    return Request(messages=(Message("user", "?"),), steering=steering, threshold=threshold)


def test_a_drifted_calibration_is_widened_to_the_surer_half() -> None:
    steering = Steering(on_drift="widen", drifted={"mine": "far away"})
    found = find_objective(request(steering), Fitted())
    assert found.threshold == stricter(0.5, MEASURED) == pytest.approx(0.75)
    assert "no longer fits" in found.words
    assert find_objective(request(steering, 0.2), Fitted()).threshold == pytest.approx(0.6)


def test_a_drifted_calibration_is_handed_to_the_cloud() -> None:
    steering = Steering(on_drift="cloud", drifted={"mine": "far away"})
    found = find_objective(request(steering), Fitted())
    assert found.misfit is not None
    assert found.misfit.code == "drifted"
    assert found.misfit.soft, "the device still answers where the cloud is closed"
    assert "far away" in found.misfit.reason


@pytest.mark.parametrize("action", ["widen", "cloud"])
def test_what_has_not_drifted_and_what_must_stay_is_left_alone(action: str) -> None:
    other = Steering(on_drift=action, drifted={"another": "x"})  # type: ignore[arg-type]
    assert find_objective(request(other), Fitted()).threshold == 0.5
    own = Steering(on_drift=action, drifted={"mine": "x"})  # type: ignore[arg-type]
    found = find_objective(request(own, 0.0), Fitted())
    assert (found.threshold, found.misfit) == (0.0, None), "0 was said to keep everything"


def test_a_poor_budget_lowers_the_threshold_and_remembers_the_usual_one() -> None:
    found = find_objective(request(Steering(money=POOR)), Fitted(), paced=True)
    assert (found.threshold, found.usual) == (0.1, 0.5)
    assert found.words == "pacing a budget of $3.00 per day"
    rich = find_objective(request(Steering(money=RICH)), Fitted(), paced=True)
    assert (rich.threshold, rich.usual, rich.words) == (0.5, None, "")


def test_a_flow_that_cannot_say_so_is_not_paced() -> None:
    assert find_objective(request(Steering(money=POOR)), Fitted()).threshold == 0.5


def test_drift_comes_before_the_pace() -> None:
    steering = Steering(money=POOR, on_drift="widen", drifted={"mine": "x"})
    found = steer(0.5, "", steering, "mine", MEASURED, "whole")
    assert found.usual == pytest.approx(0.75)
    assert found.threshold == 0.1
    gone = steer(0.5, "", Steering(POOR, "cloud", {"mine": "x"}), "mine", MEASURED, "whole")
    assert gone.misfit is not None
