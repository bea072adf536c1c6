from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib import resources
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.confidence import (
    RISING,
    UNCALIBRATED_CALLS,
    WORDED,
    CallCalibration,
    CallScore,
    answer_confidence,
    call_features,
    parse_call_calibration,
)
from edgewise.calls.prompt import parse_answer
from edgewise.errors import SettingsError
from edgewise.types.messages import ToolCall
from edgewise.types.tokens import Token
from tests.calls.said_calls import REQUEST, TEXTS, TOOLS, features_of, tokens


def shipped() -> CallCalibration:
    name = "edgewise-caller-q8_0.calls.json"
    file = resources.files("edgewise.calibrations") / name
    return parse_call_calibration(json.loads(file.read_text("utf-8")), name)


# -- confidence ---------------------------------------------------------------------------------

CALIBRATIONS = [shipped(), UNCALIBRATED_CALLS]
logprobs = st.lists(
    st.floats(min_value=-30.0, max_value=0.0), min_size=len(TEXTS), max_size=len(TEXTS)
)


@pytest.mark.parametrize("calls", [[], [ToolCall("kettle.heat", {"degrees": 85})]])
def test_without_evidence_only_the_words_are_left(calls: list[ToolCall]) -> None:
    silent = [Token(text, has_evidence=False) for text in TEXTS[:6]]
    for answer in (silent, []):
        (found,) = call_features(answer, calls, TOOLS, REQUEST)
        assert set(found) <= WORDED | {"none"}
        for calibration in (shipped(), UNCALIBRATED_CALLS):
            assert 0.0 < calibration.confidence(found) < 1.0


@pytest.mark.parametrize("calibration", CALIBRATIONS, ids=lambda one: one.name)
@given(chances=logprobs, place=st.integers(0, len(TEXTS) - 1), less=st.floats(0.0, 20.0))
def test_less_sure_never_means_more_confident(
    calibration: CallCalibration, chances: list[float], place: int, less: float
) -> None:
    lower = [*chances[:place], chances[place] - less, *chances[place + 1 :]]
    before, after = features_of(tokens(chances)), features_of(tokens(lower))
    for one, other in zip(before, after, strict=True):
        assert calibration.confidence(other) <= calibration.confidence(one) + 1e-12
    assert answer_confidence(after, calibration) <= answer_confidence(before, calibration) + 1e-12


@pytest.mark.parametrize("calibration", CALIBRATIONS, ids=lambda one: one.name)
def test_less_sure_of_no_call_is_less_confident(calibration: CallCalibration) -> None:
    chances = [
        calibration.confidence(call_features([Token("none", chance)], [], TOOLS, REQUEST)[0])
        for chance in (-0.001, -0.1, -1.0, -5.0)
    ]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > chances[-1] + 0.2


def test_an_answer_is_as_good_as_its_worst_call() -> None:
    calibration = shipped()
    known = features_of(tokens([-0.5] * 6 + [-0.001] * 6))
    chances = [calibration.confidence(one) for one in known]
    assert chances[0] < chances[1]
    assert answer_confidence(known, calibration) == chances[0]
    assert answer_confidence([], calibration) == 0.0


def test_the_shipped_one_trusts_a_sure_grounded_answer_and_no_made_up_one() -> None:
    calibration = shipped()
    sure = tokens([-0.0005] * len(TEXTS))
    assert answer_confidence(features_of(sure), calibration) >= calibration.threshold
    calls = [
        ToolCall("kettle.heat", {"degrees": 61}), ToolCall("blinds.close", {"room": "library"})
    ]  # fmt: skip
    made_up = call_features(sure, calls, TOOLS, REQUEST)
    assert answer_confidence(made_up, calibration) < calibration.threshold - 0.2


def test_the_shipped_one_doubts_a_sure_answer_that_leaves_much_of_the_request_out() -> None:
    calibration = shipped()
    sure, calls = tokens([-0.0005] * len(TEXTS)), parse_answer("".join(TEXTS))
    told = [
        answer_confidence(call_features(sure, calls, TOOLS, f"{REQUEST}{more}"), calibration)
        for more in ("", ", then 12 filters", ", then 12 filters, ref KX-4410, at 6:49 pm")
    ]
    assert told == sorted(told, reverse=True)
    assert told[0] > told[1] > told[2]


# -- the file -----------------------------------------------------------------------------------


def test_the_shipped_file_is_what_it_says() -> None:
    calibration = shipped()
    assert calibration.name == "edgewise-caller-q8_0"
    assert calibration.fitted
    assert not UNCALIBRATED_CALLS.fitted
    assert 0.5 < calibration.threshold < 1.0
    held_out = calibration.report["held_out_tools"]
    assert "training.fit_calls" in calibration.report["command"]
    assert held_out["answer"]["auroc"] > held_out["answer_by_sum_of_logprobs"]["auroc"]
    assert held_out["answer"]["ece"] < 0.05
    assert RISING & set(calibration.call.weights)
    assert not RISING & set(calibration.worded_call.weights)


def written(**changes: Any) -> dict[str, Any]:
    score = {"weights": {"ground_min": 1.0}, "bias": 0.5}
    whole: dict[str, Any] = {
        "format": 1, "name": "mine", "threshold": 0.7, "call": score, "none": score,
        "worded_call": score, "worded_none": score,
    }  # fmt: skip
    return whole | changes


def test_a_file_is_read() -> None:
    calibration = parse_call_calibration(written(), "mine.json")
    assert calibration.call == CallScore({"ground_min": 1.0}, 0.5)
    assert (calibration.name, calibration.threshold, calibration.fitted) == ("mine", 0.7, False)


def test_a_file_of_before_still_means_the_same() -> None:
    old = parse_call_calibration(written(format=1), "mine.json")
    assert old == parse_call_calibration(written(format=2), "mine.json")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 3}, "format 3 is not 2; fit it again"),
        ({"name": None, "call": None}, "not a call calibration"),
        ({"call": {"weights": [], "bias": 0.0}}, "not a call calibration"),
        ({"call": {"weights": {}, "bias": "much"}}, "much"),
        ({"call": {"weights": {"luck": 1.0}, "bias": 0.0}}, "unknown feature 'luck'"),
        ({"call": {"weights": {"call_sum": -1.0}, "bias": 0.0}}, "'call_sum' would score"),
        ({"none": {"weights": {"entropy": 1.0}, "bias": 0.0}}, "'entropy' would score"),
        ({"worded_call": {"weights": {"call_sum": 1.0}, "bias": 0.0}}, "unknown feature"),
        ({"call": {"weights": {"fit": math.inf}, "bias": 0.0}}, "finite"),
        ({"threshold": 1.5}, "threshold must be 0 to 1"),
        ({"threshold": math.nan}, "threshold must be 0 to 1"),
    ],
)
def test_a_bad_file_is_refused_by_name(changes: Mapping[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        parse_call_calibration(written(**changes), "mine.json")
    assert "mine.json" in str(caught.value)


def test_a_file_that_lacks_a_score_is_refused() -> None:
    data = written()
    del data["none"]
    with pytest.raises(SettingsError, match="none"):
        parse_call_calibration(data, "mine.json")


def test_the_map_of_a_file_comes_after_every_score() -> None:
    half = {"final": [[0.0, 0.0], [1.0, 0.5]]}
    plain = parse_call_calibration(written(), "mine.json")
    mapped = parse_call_calibration(written(map=half, risk={"whole": [[0.9, 5, 0]]}), "mine.json")
    for features in ({"ground_min": 1.0}, {"none": 1.0, "ground_min": 0.5}, {}):
        assert mapped.confidence(features) == pytest.approx(plain.confidence(features) / 2)
    assert mapped.measured.risk_rows == 5
