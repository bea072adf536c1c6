"""From what a caller aims at to a threshold and words for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.decide.calibration import UNCALIBRATED
from edgewise.decide.objective import (
    ALL_LEAVE,
    find_objective,
    promises,
)
from edgewise.types.measured import (
    QUANTILES,
    Measured,
    RiskRow,
)
from edgewise.types.messages import Message, Request

# Proves 10 % at 0.8 for whole answers, more strictly for streams, and 1 % for neither.
MEASURED = Measured(
    risk={
        "whole": (RiskRow(0.9, 200, 4), RiskRow(0.8, 400, 20), RiskRow(0.5, 800, 300)),
        "stream": (RiskRow(0.9, 200, 4), RiskRow(0.8, 400, 60), RiskRow(0.5, 800, 300)),
    },
    risk_rows=1000,
    quantiles=tuple(number / (QUANTILES - 1) / 2 for number in range(QUANTILES)),
)
FITTED = replace(UNCALIBRATED, name="mine", threshold=0.6, measured=MEASURED)


def asks(**objectives: Any) -> Request:
    return Request(messages=(Message("user", "hi"),), **objectives)


def test_without_an_aim_the_threshold_is_the_requests_or_the_calibrations() -> None:
    assert find_objective(asks(), FITTED) == find_objective(asks(threshold=0.6), FITTED)
    assert find_objective(asks(threshold=0.0), FITTED).threshold == 0.0
    assert find_objective(asks(), FITTED).words == ""


def test_a_share_of_errors_becomes_the_proven_threshold_and_is_said() -> None:
    found = find_objective(asks(max_error=0.1), FITTED)
    assert (found.threshold, found.misfit) == (0.8, None)
    assert found.words == "an error of at most 10 % with probability 90 %"
    assert find_objective(asks(max_error=0.1), FITTED, "stream").threshold == 0.9


def test_who_wants_to_be_surer_gets_a_stricter_threshold() -> None:
    found = find_objective(asks(max_error=0.1, error_probability=0.001), FITTED)
    assert found.threshold == 0.9
    assert found.words == "an error of at most 10 % with probability 99.9 %"


def test_where_nothing_is_proven_everything_is_to_leave_and_it_says_why() -> None:
    found = find_objective(asks(max_error=0.01), FITTED)
    assert found.threshold == ALL_LEAVE
    assert found.misfit is not None
    assert (found.misfit.code, found.misfit.soft) == ("risk_unreachable", True)
    assert found.words == found.misfit.reason
    assert "at most 1 %" in found.words
    assert "1,000 rows of mine prove no threshold" in found.words


def test_a_calibration_without_a_table_for_it_promises_nothing() -> None:
    found = find_objective(asks(max_error=0.2), UNCALIBRATED)
    assert found.misfit is not None
    assert "uncalibrated has no risk table" in found.misfit.reason
    whole = replace(MEASURED, risk={"whole": MEASURED.risk["whole"]})
    only_whole = replace(FITTED, measured=whole)
    assert find_objective(asks(max_error=0.1), only_whole).misfit is None
    assert find_objective(asks(max_error=0.1), only_whole, "stream").misfit is not None


@pytest.mark.parametrize(
    ("share", "threshold"), [(0.0, 0.0), (0.2, 0.1), (0.22, 0.11), (0.99, 0.495), (1.0, ALL_LEAVE)]
)
def test_a_share_of_the_cloud_is_a_quantile_of_the_confidences(
    share: float, threshold: float
) -> None:
    found = find_objective(asks(cloud_share=share), FITTED)
    assert found.threshold == pytest.approx(threshold)
    assert found.misfit is None
    assert found.words == f"a cloud share of about {100 * share:g} %"


def test_a_share_that_nobody_can_plan_leaves_the_calibrations_threshold_and_says_so() -> None:
    found = find_objective(asks(cloud_share=0.2), UNCALIBRATED)
    assert found.threshold == UNCALIBRATED.threshold
    assert "no quantiles, so its own threshold applies" in found.words


@settings(deadline=None)
@given(st.floats(0.001, 0.5), st.floats(0.0, 0.4))
def test_who_allows_more_errors_is_never_told_a_higher_threshold(error: float, more: float) -> None:
    strict = find_objective(asks(max_error=error), FITTED).threshold
    assert find_objective(asks(max_error=error + more), FITTED).threshold <= strict


def test_what_a_calibration_can_promise_in_words() -> None:
    assert promises(FITTED, 0.1) == (
        "max_error 1 %: nothing, 5 %: nothing, 10 %: keeps 40 %, 20 %: keeps 40 %"
    )
    assert "10 %: keeps 20 %" in promises(FITTED, 0.1, "stream")
    assert promises(UNCALIBRATED, 0.1).startswith("no risk table")
