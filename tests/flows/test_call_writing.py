from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from edgewise import Engine
from edgewise.local.backend import CallToWrite, TokenStream
from edgewise.testing import LoopbackCloud, ScriptedFunctionModel
from edgewise.types.messages import Tool, ToolCall
from edgewise.types.replies import CallReply, Token
from tests.flows.calling import MESSAGE, TIMER, WEATHER, calls, made, settings_for, tool

TIMER_FIVE = 'set_timer {"minutes":5}'
LONDON = 'get_weather {"location":"London"}'


class Hesitant(ScriptedFunctionModel):
    """Tells how likely `none` was beside the first token of each answer."""

    none = -9.0

    @override
    def write_call(self, call: CallToWrite) -> TokenStream:
        for number, item in enumerate(super().write_call(call)):
            if number == 0 and isinstance(item, Token):
                item = replace(item, alternatives=((item.text, item.logprob), ("none", self.none)))
            yield item


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as one:
        yield one


def ask(
    cloud: LoopbackCloud,
    device: ScriptedFunctionModel,
    prompt: str,
    tools: Sequence[Tool] = (TIMER, WEATHER, MESSAGE),
    **options: Any,
) -> CallReply:
    with Engine(settings_for(cloud), function_model=device) as engine:
        return engine.call(prompt, tools, **{"policy": "local_only", **options})


def hesitant(answer: str, each: float, none: float) -> Hesitant:
    device = Hesitant([answer], logprobs=[[each]])
    device.none = none
    return device


def test_if_none_is_more_likely_than_the_call_no_call_is_made(cloud: LoopbackCloud) -> None:
    reply = ask(cloud, hesitant(TIMER_FIVE, each=-0.4, none=-1.2), "Set a timer for 5 minutes")
    assert (reply.calls, reply.finish_reason) == ((), "stop")
    assert [(one.code, one.intent) for one in reply.complaints] == [("withheld", 0)]
    assert "set_timer was not called" in reply.complaints[0].message
    assert reply.confidence == pytest.approx(0.301, abs=0.001)
    assert reply.needs_cloud_handoff


def test_a_sure_none_says_that_nothing_is_to_be_called(cloud: LoopbackCloud) -> None:
    reply = ask(cloud, hesitant("none", each=-0.001, none=-0.001), "Who painted it?", policy=None)
    assert (reply.calls, reply.decision.code) == ((), "kept_confident")
    assert reply.decision.reason.startswith("nothing is to be called: the ")


def test_a_call_more_likely_than_none_is_made(cloud: LoopbackCloud) -> None:
    reply = ask(cloud, hesitant(TIMER_FIVE, each=-0.02, none=-1.2), "Set a timer for 5 minutes")
    assert [call.name for call in reply.calls] == ["set_timer"]


def test_a_call_with_a_value_that_nobody_said_is_withheld_sooner(cloud: LoopbackCloud) -> None:
    made_up = 'send_message {"recipient":"Ottoline","message":"see you at the station"}'
    reply = ask(cloud, hesitant(made_up, each=-0.02, none=-4.0), "Send a message", [MESSAGE])
    assert reply.calls == ()
    assert [one.code for one in reply.complaints] == ["withheld"]


def test_a_withheld_call_is_the_clouds_to_make(cloud: LoopbackCloud) -> None:
    cloud.script(calls(ToolCall("set_timer", {"minutes": 5})))
    device = hesitant(TIMER_FIVE, each=-0.4, none=-1.2)
    reply = ask(cloud, device, "Set a timer for 5 minutes", policy="prefer_local")
    assert made(reply) == [("set_timer", {"minutes": 5}, "cloud")]


def test_an_unlikely_answer_is_written_again_with_the_tools_it_calls(cloud: LoopbackCloud) -> None:
    six = 'set_timer {"minutes":50}'
    device = ScriptedFunctionModel([six, TIMER_FIVE], logprobs=[[-0.5], [-0.01]])
    reply = ask(cloud, device, "Set a timer for 50 or 5 minutes")
    assert [dict(call.arguments) for call in reply.calls] == [{"minutes": 5}]
    assert "get_weather" in device.asked[0].prompt
    assert "get_weather" not in device.asked[1].prompt


def test_what_is_less_likely_than_the_first_answer_is_not_taken(cloud: LoopbackCloud) -> None:
    device = ScriptedFunctionModel(
        ['set_timer {"minutes":50}', TIMER_FIVE], logprobs=[[-0.2], [-0.6]]
    )
    reply = ask(cloud, device, "Set a timer for 50 or 5 minutes")
    assert [dict(call.arguments) for call in reply.calls] == [{"minutes": 50}]


def test_an_answer_that_is_likely_enough_is_not_written_again(cloud: LoopbackCloud) -> None:
    device = ScriptedFunctionModel([TIMER_FIVE], logprobs=[[-0.01]])
    ask(cloud, device, "Set a timer for 5 minutes")
    assert len(device.asked) == 1


def test_intents_asked_alone_are_used_if_together_they_are_more_likely(
    cloud: LoopbackCloud,
) -> None:
    mixed = 'set_timer {"minutes":50}\nget_weather {"location":"London"}'
    device = ScriptedFunctionModel(
        [mixed, mixed, TIMER_FIVE, LONDON], logprobs=[[-0.5], [-0.5], [-0.01], [-0.01]]
    )
    reply = ask(cloud, device, "Set a timer for 5 minutes and check the weather in London")
    assert made(reply) == [
        ("set_timer", {"minutes": 5}, "local"),
        ("get_weather", {"location": "London"}, "local"),
    ]
    assert [("timer for 5" in one.prompt, "in London" in one.prompt) for one in device.asked] == [
        (True, True), (True, True), (True, False), (False, True),
    ]  # fmt: skip


def test_a_value_carried_over_from_another_part_is_left_as_it_is(cloud: LoopbackCloud) -> None:
    move = tool("move_file", "Move a file", file={"type": "string"}, folder={"type": "string"})
    both = (
        'move_file {"file":"a.txt","folder":"taxes"}\nmove_file {"file":"b.txt","folder":"taxes"}'
    )
    device = ScriptedFunctionModel(
        [both, 'move_file {"file":"b.txt","folder":"b"}'], logprobs=[[-0.001]] * 2
    )
    reply = ask(cloud, device, "Move a.txt to taxes, then move b.txt", [move])
    assert [call.arguments["folder"] for call in reply.calls] == ["taxes", "taxes"]
