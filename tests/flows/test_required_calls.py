"""`tool_choice`: a required call is made, whoever makes it, and is in doubt where that is due."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from edgewise import Conversation, Engine, Message, Settings, Tool, ToolCall
from edgewise.errors import CloudMalformed, GenerationFailed, InvalidRequest
from edgewise.local.store import InstalledModel
from edgewise.testing import ScriptedBackend, ScriptedFunctionModel
from edgewise.testing.scripted import SCRIPTED_FUNCTION_MODEL_FACTS
from tests.flows.calling import BOTH, FIVE, TIMER, TOOLS, TWO, WEATHER, made
from tests.flows.calling import function_model as written
from tests.flows.clouds import PlayedCloud
from tests.grammar.gbnf_walker import Grammar

FIVE_MINUTES = 'set_timer {"minutes":5}'
ASKS = replace(SCRIPTED_FUNCTION_MODEL_FACTS, call_format="conversation")


def engine(model: ScriptedFunctionModel, cloud: PlayedCloud | None = None, **given: Any) -> Engine:
    settings = Settings.load(dict(os.environ), **given)
    backend = ScriptedBackend.confident("I would rather talk.")
    cloud = cloud or PlayedCloud()
    return Engine(settings, backend=backend, function_model=model, cloud=cloud)


def test_the_grammar_of_a_required_call_has_neither_none_nor_a_question() -> None:
    model = ScriptedFunctionModel([FIVE_MINUTES], facts=ASKS)
    with engine(model, policy="local_only") as device:
        device.call("Set a timer for 5 minutes", TOOLS)
        device.call("Set a timer for 5 minutes", TOOLS, tool_choice="required")
        device.call("Set a timer for 5 minutes", TOOLS, tool_choice="set_timer")
    free, required, named = (Grammar(asked.grammar) for asked in model.asked)
    for answer in ("none", "ask set_timer: minutes"):
        assert free.accepts(answer)
        assert not required.accepts(answer) and not named.accepts(answer)
    assert required.accepts(FIVE_MINUTES) and required.accepts(BOTH)
    assert named.accepts(FIVE_MINUTES) and not named.accepts(BOTH), "one call of one tool"
    assert not named.accepts('get_weather {"location":"London"}')
    assert "get_weather" not in model.asked[-1].prompt, "only the named tool is offered"


@pytest.mark.parametrize(
    "choice",
    [
        "set_timer",
        {"name": "set_timer"},
        {"type": "tool", "name": "set_timer"},
        {"type": "function", "function": {"name": "set_timer"}},
    ],
)
def test_a_tool_is_named_as_every_api_does(choice: Any) -> None:
    with engine(ScriptedFunctionModel([FIVE_MINUTES]), policy="local_only") as device:
        request = device.parts.request("Five minutes", tools=TOOLS, tool_choice=choice)
    assert (request.tools, request.offered) == (TOOLS, (TIMER,))
    assert (request.tool_choice, request.single_call) == ("required", True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tool_choice": "required"}, "tool_choice = 'required': there are no tools"),
        ({"tool_choice": "lamp", "tools": TOOLS}, "tool_choice: there is no tool 'lamp'"),
        ({"tool_choice": {"name": "lamp"}, "tools": TOOLS}, "there is no tool 'lamp'"),
        ({"tool_choice": {"type": "any"}, "tools": TOOLS}, "tool_choice: expected one of auto"),
        ({"tool_choice": 5, "tools": TOOLS}, "tool_choice: expected one of auto, none, required"),
    ],
)
def test_a_choice_that_means_nothing_is_refused_by_name(options: Any, words: str) -> None:
    with engine(written("none")) as device, pytest.raises(InvalidRequest, match=words):
        device.complete("Set a timer", **options)


def test_calls_alone_cannot_be_asked_for_without_calls() -> None:
    with engine(written("none")) as device, pytest.raises(InvalidRequest, match="'none'"):
        device.call("Set a timer", TOOLS, tool_choice="none")


def test_an_unsure_model_makes_the_call_and_is_in_doubt() -> None:
    model = ScriptedFunctionModel.doubtful(FIVE_MINUTES)
    with engine(model, policy="local_only") as device:
        reply = device.complete("Five minutes, maybe", tools=TOOLS, tool_choice="required")
    (call,) = reply.tool_calls
    assert (call.name, dict(call.arguments), call.source) == ("set_timer", {"minutes": 5}, "local")
    assert call.confidence is not None and call.confidence < 0.5
    assert reply.needs_cloud_handoff and reply.finish_reason == "tool_calls" and not reply.text


def test_a_doubtful_call_is_handed_off_and_the_cloud_must_call_too() -> None:
    cloud = PlayedCloud([FIVE])
    model = ScriptedFunctionModel.doubtful('set_timer {"minutes":4}')
    with engine(model, cloud) as device:
        reply = device.complete("Set a timer", tools=TOOLS, tool_choice="required")
    assert [(call.name, dict(call.arguments)) for call in reply.tool_calls] == [
        ("set_timer", {"minutes": 5})
    ]
    assert reply.source == "cloud"
    assert [asked.tool_choice for asked in cloud.asked] == ["required"]


def test_a_cloud_that_answers_in_words_is_not_believed() -> None:
    cloud = PlayedCloud(["How long shall it be?"])
    model = ScriptedFunctionModel.doubtful(FIVE_MINUTES)
    with engine(model, cloud) as device:
        reply = device.complete("Set a timer", tools=TOOLS, tool_choice="required")
        assert [call.source for call in reply.tool_calls] == ["local"] and not reply.text
        assert (reply.decision.code, reply.degraded) == ("fallback_local", True)
        assert reply.decision.degraded_code == "cloud_malformed" and reply.needs_cloud_handoff
        with pytest.raises(CloudMalformed, match="no call, though one is required"):
            device.complete("Hi", tools=TOOLS, tool_choice="required", policy="cloud_only")


def test_the_cloud_is_not_made_to_call_for_a_part_that_may_need_none() -> None:
    cloud = PlayedCloud([ToolCall("get_weather", {"location": "London"})])
    model = written(BOTH, doubt=["get_weather"])
    with engine(model, cloud) as device:
        reply = device.call(TWO, TOOLS, tool_choice="required")
    assert made(reply) == [
        ("set_timer", {"minutes": 5}, "local"),
        ("get_weather", {"location": "London"}, "cloud"),
    ]
    assert [asked.tool_choice for asked in cloud.asked] == ["auto"]


def test_what_nobody_said_is_not_asked_for_but_put_in_doubt() -> None:
    sure = 'get_weather {"location":"Atlantis"}'
    with engine(ScriptedFunctionModel([sure], facts=ASKS), policy="local_only") as device:
        asked = device.call("What's the weather like?", [WEATHER])
        assert (asked.needs, asked.calls) == (("location",), ())
        reply = device.call("What's the weather like?", [WEATHER], tool_choice="required")
    (call,) = reply.calls
    assert "ungrounded" in call.complaints and not reply.needs and not reply.text
    assert reply.needs_cloud_handoff
    assert [one.message for one in reply.complaints] == ["get_weather: nobody said location"]


def test_a_model_that_writes_no_call_all_the_same_has_failed() -> None:
    cloud = PlayedCloud([FIVE])
    with engine(written("none"), cloud) as device:
        reply = device.complete("Set a timer", tools=TOOLS, tool_choice="required")
        assert (reply.source, reply.decision.code) == ("cloud", "handoff_local_failed")
        with pytest.raises(GenerationFailed, match="no call, though one is required"):
            device.complete("Hi", tools=TOOLS, tool_choice="required", policy="local_only")


def test_one_call_is_one_call_whoever_makes_it() -> None:
    cloud = PlayedCloud([FIVE, ToolCall("set_timer", {"minutes": 6})])
    with engine(written(FIVE_MINUTES), cloud) as device:
        reply = device.call(
            "Timers for 5 and for 6 minutes",
            [TIMER],
            tool_choice="set_timer",
            policy="prefer_cloud",
        )
    assert made(reply) == [("set_timer", {"minutes": 5}, "cloud")]
    assert len(reply.intents) == 1


def history(*calls: ToolCall) -> list[Message]:
    results = [Message("tool", "done", tool_call_id=call.id) for call in calls]
    asked = Message("user", "Set a timer for 5 minutes")
    return [asked, Message("assistant", tool_calls=calls), *results]


DONE = ToolCall("set_timer", {"minutes": 5}, id="c1")
FINAL = Tool(
    "final_result",
    "The answer",
    {"type": "object", "properties": {"minutes": {"type": "integer"}}, "required": ["minutes"]},
)


def test_after_a_result_another_tool_is_called() -> None:
    """As agents do that want their answer as a call: the first tool, then the last."""
    model = ScriptedFunctionModel([FIVE_MINUTES, 'final_result {"minutes":5}'], facts=ASKS)
    with engine(model, policy="local_only") as device:
        reply = device.complete(history(DONE), tools=[TIMER, FINAL], tool_choice="required")
    assert [call.name for call in reply.tool_calls] == ["final_result"]
    again = Grammar(model.asked[1].grammar)
    assert again.accepts('final_result {"minutes":5}') and not again.accepts(FIVE_MINUTES)


def test_if_there_is_no_other_tool_the_same_call_is_in_doubt() -> None:
    model = ScriptedFunctionModel([FIVE_MINUTES], facts=ASKS)
    with engine(model, policy="local_only") as device:
        reply = device.complete(history(DONE), tools=[TIMER], tool_choice="required")
    (call,) = reply.tool_calls
    assert "duplicate_call" in call.complaints and reply.needs_cloud_handoff


def test_in_a_conversation_one_required_call_is_enough() -> None:
    def set_timer(minutes: int) -> str:
        """Set a countdown timer."""
        return f"{minutes} minutes are running"

    with engine(ScriptedFunctionModel([FIVE_MINUTES]), policy="local_only") as device:
        talk = Conversation(device, tools=[set_timer], tool_choice="required")
        reply = talk.ask("Set a timer for 5 minutes")
    assert (reply.text, len(talk.steps)) == ("I would rather talk.", 2)
    assert [message.role for message in talk.messages] == ["user", "assistant", "tool", "assistant"]


# -- the real function model ----------------------------------------------------------------------


@pytest.fixture
def real(default_function_model: InstalledModel) -> Iterator[Engine]:
    settings = Settings.load(
        {**os.environ, "EDGEWISE_CACHE_DIR": str(default_function_model.path.parents[2])},
        policy="local_only",
    )
    with Engine(settings) as device:
        yield device


@pytest.mark.real_model
def test_the_real_function_model_is_made_to_call(real: Engine) -> None:
    hello = "Hello there!"
    assert not real.call(hello, TOOLS).calls
    forced = real.call(hello, TOOLS, tool_choice="required")
    assert forced.calls and forced.needs_cloud_handoff, "and says that it is in doubt"
    named = real.call("Set a timer for 5 minutes", TOOLS, tool_choice="get_weather")
    assert [call.name for call in named.calls] == ["get_weather"] and named.needs_cloud_handoff
    sure = real.call("Set a timer for 5 minutes", TOOLS, tool_choice="required")
    assert made(sure) == [("set_timer", {"minutes": 5}, "local")]
    assert not sure.needs_cloud_handoff


PARCEL = Tool(
    "send_parcel",
    "Send a parcel to a postcode",
    {
        "type": "object",
        "properties": {"postcode": {"type": "string", "pattern": r"^\d{5}$"}},
        "required": ["postcode"],
    },
)


def test_a_sure_call_that_breaks_its_schema_is_handed_off_or_in_doubt() -> None:
    letters, digits = (
        'send_parcel {"postcode":"ABCDE"}',
        ToolCall("send_parcel", {"postcode": "12345"}),
    )
    said = "Send a parcel to the postcode ABCDE"
    with engine(ScriptedFunctionModel([letters]), PlayedCloud([digits])) as device:
        reply = device.call(said, [PARCEL])
    assert made(reply) == [("send_parcel", {"postcode": "12345"}, "cloud")]
    with engine(ScriptedFunctionModel([letters]), policy="local_only") as device:
        reply = device.call(said, [PARCEL], tool_choice="required")
    (call,) = reply.calls
    assert "out_of_range" in call.complaints and reply.needs_cloud_handoff
