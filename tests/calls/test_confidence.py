"""How likely a call is right: features, unused words, and the chance made from them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.check import (
    CALLS,
    RISING,
    WORDED,
    answer_confidence,
    call_confidence,
    call_features,
    plain_values,
    surety,
    unused_words,
    use_of_words,
)
from edgewise.calls.prompt import parse_answer
from edgewise.calls.values.text import read_request
from edgewise.decide.calibration import Calibration, Score, parse_calibration
from edgewise.errors import SettingsError
from edgewise.types.messages import Tool, ToolCall
from edgewise.types.replies import Token
from tests.calls.said_calls import REQUEST, SURE, TEXTS, TOOLS, features_of, tokens


def shipped() -> Calibration:
    name = "edgewise-caller-q8_0.calls.json"
    file = resources.files("edgewise.calibrations") / name
    return parse_calibration(json.loads(file.read_text("utf-8")), name, CALLS)


# -- confidence ---------------------------------------------------------------------------------

CALIBRATIONS = [shipped(), CALLS.uncalibrated]
logprobs = st.lists(
    st.floats(min_value=-30.0, max_value=0.0), min_size=len(TEXTS), max_size=len(TEXTS)
)


@pytest.mark.parametrize("calls", [[], [ToolCall("kettle.heat", {"degrees": 85})]])
def test_without_evidence_only_the_words_are_left(calls: list[ToolCall]) -> None:
    silent = [Token(text, has_evidence=False) for text in TEXTS[:6]]
    for answer in (silent, []):
        (found,) = call_features(answer, calls, TOOLS, REQUEST)
        assert set(found) <= WORDED | {"none"}
        for calibration in (shipped(), CALLS.uncalibrated):
            assert 0.0 < call_confidence(calibration, found) < 1.0


@pytest.mark.parametrize("calibration", CALIBRATIONS, ids=lambda one: one.name)
@given(chances=logprobs, place=st.integers(0, len(TEXTS) - 1), less=st.floats(0.0, 20.0))
def test_less_sure_never_means_more_confident(
    calibration: Calibration, chances: list[float], place: int, less: float
) -> None:
    lower = [*chances[:place], chances[place] - less, *chances[place + 1 :]]
    before, after = features_of(tokens(chances)), features_of(tokens(lower))
    for one, other in zip(before, after, strict=True):
        assert call_confidence(calibration, other) <= call_confidence(calibration, one) + 1e-12
    assert answer_confidence(calibration, after) <= answer_confidence(calibration, before) + 1e-12


@pytest.mark.parametrize("calibration", CALIBRATIONS, ids=lambda one: one.name)
def test_less_sure_of_no_call_is_less_confident(calibration: Calibration) -> None:
    chances = [
        call_confidence(calibration, call_features([Token("none", chance)], [], TOOLS, REQUEST)[0])
        for chance in (-0.001, -0.1, -1.0, -5.0)
    ]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > chances[-1] + 0.2


def test_an_answer_is_as_good_as_its_worst_call() -> None:
    calibration = shipped()
    known = features_of(tokens([-0.5] * 6 + [-0.001] * 6))
    chances = [call_confidence(calibration, one) for one in known]
    assert chances[0] < chances[1]
    assert answer_confidence(calibration, known) == chances[0]
    assert answer_confidence(calibration, []) == 0.0


def test_the_shipped_one_trusts_a_sure_grounded_answer_and_no_made_up_one() -> None:
    calibration = shipped()
    sure = tokens([-0.0005] * len(TEXTS))
    assert answer_confidence(calibration, features_of(sure)) >= calibration.threshold
    calls = [
        ToolCall("kettle.heat", {"degrees": 61}), ToolCall("blinds.close", {"room": "library"})
    ]  # fmt: skip
    made_up = call_features(sure, calls, TOOLS, REQUEST)
    assert answer_confidence(calibration, made_up) < calibration.threshold - 0.2


def test_the_shipped_one_never_trusts_an_answer_more_for_leaving_words_out() -> None:
    calibration = shipped()
    sure, calls = tokens([-0.0005] * len(TEXTS)), parse_answer("".join(TEXTS))
    told = [
        answer_confidence(calibration, call_features(sure, calls, TOOLS, f"{REQUEST}{more}"))
        for more in ("", ", then 12 filters", ", then 12 filters, ref KX-4410, at 6:49 pm")
    ]
    assert told == sorted(told, reverse=True)


# -- the file -----------------------------------------------------------------------------------


def test_the_shipped_file_is_what_it_says() -> None:
    calibration = shipped()
    assert calibration.name == "edgewise-caller-q8_0"
    assert calibration.fitted
    assert not CALLS.uncalibrated.fitted
    assert 0.5 < calibration.threshold < 1.0
    held_out = calibration.report["held_out_tools"]
    assert "training.fit_calls" in calibration.report["command"]
    assert held_out["answer"]["auroc"] > held_out["answer_by_sum_of_logprobs"]["auroc"]
    assert held_out["answer"]["ece"] < 0.05
    assert RISING & set(calibration.scores["call"].weights)
    assert not RISING & set(calibration.scores["worded_call"].weights)


def written(**changes: Any) -> dict[str, Any]:
    score = {"weights": {"ground_min": 1.0}, "bias": 0.5}
    whole: dict[str, Any] = {
        "format": 1, "name": "mine", "threshold": 0.7, "call": score, "none": score,
        "worded_call": score, "worded_none": score,
    }  # fmt: skip
    return whole | changes


def test_a_file_is_read() -> None:
    calibration = parse_calibration(written(), "mine.json", CALLS)
    assert calibration.scores["call"] == Score({"ground_min": 1.0}, 0.5)
    assert (calibration.name, calibration.threshold, calibration.fitted) == ("mine", 0.7, False)


def test_a_file_of_before_still_means_the_same() -> None:
    old = parse_calibration(written(format=1), "mine.json", CALLS)
    assert old == parse_calibration(written(format=2), "mine.json", CALLS)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 3}, "format 3 is not 2; fit it again"),
        ({"name": None, "call": None}, "not a calibration of calls"),
        ({"call": {"weights": [], "bias": 0.0}}, "not a calibration of calls"),
        ({"call": {"weights": {}, "bias": "much"}}, "much"),
        ({"call": {"weights": {"luck": 1.0}, "bias": 0.0}}, r"unknown features \['luck'\]"),
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
        parse_calibration(written(**changes), "mine.json", CALLS)
    assert "mine.json" in str(caught.value)


def test_a_file_that_lacks_a_score_is_refused() -> None:
    data = written()
    del data["none"]
    with pytest.raises(SettingsError, match="none"):
        parse_calibration(data, "mine.json", CALLS)


def test_the_map_of_a_file_comes_after_every_score() -> None:
    half = {"final": [[0.0, 0.0], [1.0, 0.5]]}
    plain = parse_calibration(written(), "mine.json", CALLS)
    mapped = parse_calibration(written(map=half, risk={"whole": [[0.9, 5, 0]]}), "mine.json", CALLS)
    for features in ({"ground_min": 1.0}, {"none": 1.0, "ground_min": 0.5}, {}):
        assert call_confidence(mapped, features) == pytest.approx(
            call_confidence(plain, features) / 2
        )
    assert mapped.measured.risk_rows == 5


def test_surety_runs_from_no_chance_to_certain() -> None:
    assert surety(-50.0) == pytest.approx(0.0, abs=1e-3)
    assert surety(math.log(0.5)) == pytest.approx(math.log(2), abs=1e-3)
    assert surety(0.0) == surety(0.1) == pytest.approx(-math.log(1e-4))


def test_each_call_has_the_tokens_from_its_name_to_the_next() -> None:
    first, second = features_of(tokens([-0.1, -0.2, -0.3, -0.4, -0.5, -0.6, *[-0.01] * 6]))
    assert first["call_sum"] == pytest.approx(-2.1)
    assert first["call_min"] == -0.6
    assert first["call_mean"] == pytest.approx(-0.35)
    assert second["call_sum"] == pytest.approx(-0.06)
    assert first["answer_surety"] == second["answer_surety"] == pytest.approx(surety(-2.16))


def test_names_values_and_what_follows_them_are_told_apart() -> None:
    first, second = features_of(tokens([-0.1, -0.2, -0.3, -0.4, -0.5, -0.6, *[-0.01] * 5, -0.7]))
    assert first["name_surety"] == pytest.approx(surety(-0.3))
    assert first["value_surety"] == pytest.approx(surety(-0.9))
    assert first["end_surety"] == pytest.approx(surety(-0.6)), "the line break"
    assert second["end_surety"] == pytest.approx(surety(-0.71)), "the end token: was that all?"


def test_which_arguments_are_named_is_a_decision_of_its_own() -> None:
    first, second = features_of(tokens([-0.1, -0.2, -0.3, -0.4, -0.5, -0.6, *[-0.01] * 6]))
    assert first["shape_surety"] == pytest.approx(surety(-0.3)), "not the line break after it"
    assert second["shape_surety"] == pytest.approx(surety(-0.01))


def test_what_no_call_uses_is_told_of_all_of_them() -> None:
    first, second = call_features(
        SURE, parse_answer("".join(TEXTS)), TOOLS, f"{REQUEST}, then order 12 filters"
    )
    assert first["left"] == second["left"] == 1.0
    assert features_of(SURE)[0]["left"] == 0.0


def test_an_argument_that_the_words_hardly_support_is_counted() -> None:
    call = ToolCall("blinds.close", {"room": "study blinds"})
    (found,) = call_features((), [call], TOOLS, "close the blinds, all of the study")
    assert (found["weak"], found["ungrounded"]) == (1.0, 0.0)


def test_the_lead_of_a_name_is_that_of_its_closest_token() -> None:
    answer = [replace(token, margin=5.0) for token in SURE]
    answer[1] = replace(answer[1], margin=0.5)
    answer[4] = replace(answer[4], margin=0.1)  # a value
    first, second = features_of(answer)
    assert (first["name_margin"], second["name_margin"]) == (0.5, 5.0)


def test_a_name_that_the_grammar_chose_has_no_lead() -> None:
    answer = [replace(token, margin=5.0) for token in SURE]
    answer[0] = replace(answer[0], logprob=math.log(0.02), margin=3.0)  # of what it would have said
    first, _ = features_of(answer)
    assert first["name_margin"] == pytest.approx(math.log(0.02 / 0.98))


@given(st.floats(-30.0, 0.0), st.floats(-30.0, 0.0), st.floats(0.0, 20.0), st.floats(0.0, 20.0))
def test_a_surer_name_never_has_less_of_a_lead(
    one: float, two: float, margin: float, more: float
) -> None:
    low, high = sorted((one, two))
    leads = []
    for logprob, ahead in ((low, margin), (high, margin), (high, margin + more)):
        answer = [replace(SURE[0], logprob=logprob, margin=ahead), *SURE[1:2], *SURE[2:]]
        answer[1] = replace(answer[1], margin=20.0)
        leads.append(features_of(answer)[0]["name_margin"])
    assert leads == sorted(leads)


def test_margin_and_entropy_are_those_of_names_and_values() -> None:
    answer = [replace(token, margin=5.0, entropy=0.1) for token in SURE]
    answer[2] = replace(answer[2], margin=0.1, entropy=2.0)  # punctuation
    answer[4] = replace(answer[4], margin=0.5, entropy=1.0)
    first, second = features_of(answer)
    assert (first["margin"], first["entropy"]) == (0.5, 1.0)
    assert (second["margin"], second["entropy"]) == (5.0, 0.1)


def test_the_words_say_what_is_grounded_fitting_and_asked_for() -> None:
    first, second = features_of(SURE)
    assert first["ungrounded"] == second["ungrounded"] == 0.0
    assert first["ground_min"] == 1.0
    assert first["calls"] == 2.0
    assert first["missing"] == first["extra"] == 0.0
    assert first["tools"] == pytest.approx(math.log(2))
    assert first["parameters"] == pytest.approx(math.log(3))
    assert 0.0 < first["fit"] <= 1.0


def test_a_made_up_value_an_absent_one_and_one_not_needed_are_counted() -> None:
    call = ToolCall("kettle.heat", {"label": "Lapsang Souchong"})
    (found,) = call_features((), [call], TOOLS, REQUEST)
    assert (found["ungrounded"], found["absent"], found["optional"]) == (1.0, 1.0, 1.0)
    assert found["ground_min"] < 0.3
    assert found["missing"] == 1.0


def test_a_call_of_a_tool_that_was_not_offered_fits_nothing() -> None:
    (found,) = call_features((), [ToolCall("toaster", {})], TOOLS, REQUEST)
    assert found["fit"] == 0.0
    assert found["fit_margin"] < 0.0


def test_no_call_is_one_entry_for_the_whole() -> None:
    (found,) = call_features([Token("none", -0.5), Token("", -0.1)], [], TOOLS, "tell me a joke")
    assert found["none"] == 1.0
    assert found["name_surety"] == pytest.approx(surety(-0.5))
    assert found["call_sum"] == pytest.approx(-0.6)
    assert found["calls"] == 0.0


def test_a_request_that_was_heard_already_gives_the_same() -> None:
    calls = parse_answer("".join(TEXTS))
    assert call_features(SURE, calls, TOOLS, read_request(REQUEST)) == features_of(SURE)


def test_calls_that_repair_added_or_dropped_keep_the_tokens_of_their_name() -> None:
    answer = tokens([-1.0] * 6 + [-0.01] * 6)
    blinds = ToolCall("blinds.close", {"room": "study"})
    (kept,) = call_features(answer, [blinds], TOOLS, REQUEST)
    assert kept["call_sum"] == pytest.approx(-0.06)
    added = [blinds, ToolCall("blinds.close", {"room": "attic"}), *parse_answer("".join(TEXTS))[:1]]
    own, other, kettle = call_features(answer, added, TOOLS, REQUEST)
    assert own["call_sum"] == pytest.approx(-0.06)
    assert "call_sum" not in other
    assert kettle["call_sum"] == pytest.approx(-6.0)


def test_no_tools_and_no_words_are_survived() -> None:
    (found,) = call_features([], [], [], "")
    assert found["fit"] == 0.0
    assert call_features(SURE, parse_answer("".join(TEXTS)), [], "")


TRIP = Tool(
    "plan_trip",
    "Plan a journey between two towns",
    {
        "type": "object",
        "required": ["start", "goal"],
        "properties": {
            "start": {"type": "string"},
            "goal": {"type": "string"},
            "distance": {"type": "number"},
            "travellers": {"type": "integer"},
            "when": {"type": "string"},
            "mode": {"enum": ["night_train", "ferry", "coach"]},
        },
    },
)


def left(request: str, **arguments: Any) -> dict[str, float]:
    return unused_words(
        [ToolCall("plan_trip", arguments)], {TRIP.name: TRIP}, read_request(request)
    )


def use(request: str, *calls: dict[str, Any]) -> dict[str, float]:
    made = [ToolCall("plan_trip", arguments) for arguments in calls]
    return use_of_words(made[0], made, TRIP, read_request(request))


@pytest.mark.parametrize(
    ("request_text", "arguments"),
    [
        ("from Bergen to Oslo, 463 km", {"start": "Bergen", "goal": "Oslo", "distance": 463.0}),
        ("463 km", {"distance": 463_000}),  # in metres
        ("a share of 15 %", {"distance": 0.15}),
        ("in 2 hours", {"distance": 120}),
        ("on December 18th, 2024", {"when": "2024-12-18"}),
        ("at 6:49 pm", {"when": "18:49"}),
        ("at quarter past ten", {"when": "10:15"}),
        ("the parcel KX-4410", {"start": "kx 4410"}),
        ("for twelve people", {"travellers": 12}),
        ("two of 40 and 60", {"distance": [40, {"to": 60}], "travellers": 2}),
        ('say "all aboard"', {"start": "All aboard"}),
    ],
)
def test_what_is_used_in_any_form_is_not_left_over(
    request_text: str, arguments: dict[str, Any]
) -> None:
    assert left(request_text, **arguments) == {"left": 0.0, "left_names": 0.0, "left_counts": 0.0}


def test_numbers_codes_addresses_and_moments_are_left_over() -> None:
    assert left("from Bergen, 463 km", start="Bergen")["left"] == 1.0
    assert left("from Bergen with code KX-4410", start="Bergen")["left"] == 1.0
    assert left("from Bergen, tell ada@example.org", start="Bergen")["left"] == 1.0
    assert left("from Bergen at 6:49 pm", start="Bergen")["left"] == 1.0
    assert left("from Bergen 463 km at 6:49 pm", start="Bergen")["left"] == 2.0


def test_names_and_numbers_in_words_are_counted_apart() -> None:
    assert left("a trip from Bergen to Oslo", start="Bergen")["left_names"] == 1.0
    found = left("seven people from Bergen", start="Bergen")
    assert (found["left"], found["left_counts"]) == (0.0, 1.0)


def test_what_another_call_uses_is_not_left_over() -> None:
    calls = [ToolCall("plan_trip", {"distance": 463}), ToolCall("plan_trip", {"distance": 12})]
    assert unused_words(calls, {TRIP.name: TRIP}, read_request("463 km, then 12 km"))["left"] == 0.0
    assert (
        unused_words(calls[:1], {TRIP.name: TRIP}, read_request("463 km, then 12 km"))["left"]
        == 1.0
    )


def test_a_value_in_two_arguments_must_have_been_said_twice() -> None:
    assert use("from Bergen", {"start": "Bergen", "goal": "Bergen"})["twice"] == 1.0
    assert use("from Bergen to Bergen", {"start": "Bergen", "goal": "Bergen"})["twice"] == 0.0
    assert use("from Bergen to Oslo", {"start": "Bergen", "goal": "Oslo"})["twice"] == 0.0
    assert use("7 km, 7 people", {"distance": 7.0, "travellers": 7})["twice"] == 0.0
    assert use("7 people", {"distance": 7.0, "travellers": 7})["twice"] == 1.0


def test_a_value_of_two_calls_that_was_said_once_is_shared() -> None:
    both = ({"start": "Bergen", "distance": 6}, {"start": "Oslo", "distance": 6})
    assert use("Bergen and Oslo, 6 km", *both)["shared"] == 1.0
    assert use("Bergen 6 km and Oslo 6 km", *both)["shared"] == 0.0
    assert use("Bergen and Oslo, 6 km", both[0])["shared"] == 0.0


def test_a_parameter_that_is_named_but_not_given_is_a_cue() -> None:
    start = {"start": "Bergen"}
    assert use("from Bergen by night train", start)["cues"] == 1.0
    assert use("from Bergen, four travellers", start)["cues"] == 1.0
    assert use("from Bergen, four travellers", {**start, "travellers": 4})["cues"] == 0.0
    assert use("from Bergen", start)["cues"] == 0.0


def test_texts_and_numbers_are_found_at_any_depth_but_no_switches() -> None:
    assert list(plain_values({"a": [1, "x", True, None], "b": {"c": 2.5}})) == [1.0, "x", 2.5]
    deep: Any = "x"
    for _ in range(50):
        deep = [deep]
    assert list(plain_values(deep)) == []


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(request=st.text(max_size=80), arguments=st.dictionaries(st.text(max_size=8), values))
def test_whatever_is_said_and_called_is_survived(request: str, arguments: dict[str, Any]) -> None:
    call = ToolCall("plan_trip", arguments)
    words = read_request(request)
    found = unused_words([call], {TRIP.name: TRIP}, words) | use_of_words(call, [call], TRIP, words)
    assert all(value >= 0.0 for value in found.values())
