from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.confidence import (
    call_features,
    surety,
)
from edgewise.calls.prompt import parse_answer
from edgewise.calls.values.read import hear
from edgewise.types.messages import ToolCall
from edgewise.types.tokens import Token
from tests.calls.said_calls import REQUEST, SURE, TEXTS, TOOLS, features_of, tokens


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
    assert call_features(SURE, calls, TOOLS, hear(REQUEST)) == features_of(SURE)


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
