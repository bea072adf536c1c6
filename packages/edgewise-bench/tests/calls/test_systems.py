"""Who answered is seen from outside; what a reply says of itself counts only where both ran."""

from __future__ import annotations

import json

import pytest

from edgewise.testing import ScriptedFunctionModel
from edgewise.types.messages import Source, Tool, ToolCall
from edgewise.types.replies import CallReply, Decision
from edgewise_bench.calls.cases import CallCase
from edgewise_bench.calls.systems import (
    Answered,
    RawSystem,
    WatchedFunctionModel,
    read_reply,
    seen_source,
)

CASE = CallCase("mine", "1", "boil two cups", (Tool("boil"),), (("boil", {"cups": 2}),))


@pytest.mark.parametrize(
    ("told", "device", "cloud", "seen"),
    [
        ("cloud", True, False, "local"),  # nobody asked a cloud
        ("local", False, True, "cloud"),  # the model was silent
        ("local", True, True, "local"),
        ("mixed", True, True, "mixed"),
    ],
)
def test_a_source_is_what_was_seen_to_run(told: str, device: bool, cloud: bool, seen: str) -> None:
    assert seen_source(told, device=device, cloud=cloud) == seen


def reply(source: Source, *calls: ToolCall) -> CallReply:
    decision = Decision(policy="local_only", handoff="automatic", code="x", reason="y")
    return CallReply(
        id="1", text="", source=source, decision=decision, confidence=0.7, tool_calls=calls
    )


def test_a_claim_that_cannot_be_true_is_counted() -> None:
    calls = ToolCall("boil", {}, source="local", confidence=0.4), ToolCall("boil", {"cups": 1})
    answered = read_reply(reply("mixed", *calls), 12.0, device=True, cloud=False)
    assert answered.impossible == 1
    assert answered.sources == ("local", "local")
    assert answered.confidences == (0.4, 0.7), "one without its own has the reply's"
    assert read_reply(reply("local"), 1.0, device=True, cloud=False).confidences == (0.7,)


@pytest.mark.parametrize(
    ("text", "calls", "error"),
    [
        ('boil {"cups":2}', (("boil", {"cups": 2}),), ""),
        ("none", (), ""),
        ('boil {"cups":', (), "malformed"),
    ],
)
def test_the_raw_model_is_parsed_and_not_repaired(text: str, calls: object, error: str) -> None:
    watched = WatchedFunctionModel(function_model := ScriptedFunctionModel([text]))
    answered = RawSystem(watched).answer(CASE)
    assert (answered.calls, answered.error) == (calls, error)
    assert function_model.asked[0].grammar == ""
    assert watched.asked == 1
    assert 0 < watched.ms <= answered.ms


def test_a_model_that_fails_is_an_error_and_no_crash() -> None:
    assert (
        RawSystem(ScriptedFunctionModel(["none"], fails=True)).answer(CASE).error
        == "generation_failed"
    )


def test_answers_survive_a_file() -> None:
    answered = Answered(
        calls=(("boil", {"cups": 2.0, "note": "ünder\u2028line"}),),
        sources=("local",),
        confidences=(0.5,),
        confidence=0.5,
        ms=3.25,
        steps_ms={"split": 0.5},
    )
    assert Answered.from_dict(json.loads(json.dumps(answered.to_dict()))) == answered
