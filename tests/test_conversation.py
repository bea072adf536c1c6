"""A conversation's history: what may leave the device with it, and what a turn can carry."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from pydantic import BaseModel, field_validator

from edgewise import (
    CallReply,
    CloudError,
    Conversation,
    Engine,
    Finished,
    Image,
    Message,
    Settings,
    TextDelta,
    ToolCall,
    ToolResult,
)
from edgewise.conversation import (
    answer_all,
    as_message,
    open_calls,
)
from edgewise.errors import InvalidRequest
from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend, ScriptedFunctionModel, Status
from tests.pictures import one_pixel


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        server.always(Answer(text="The cloud knows."))
        yield server


@pytest.fixture
def engine(cloud: LoopbackCloud) -> Iterator[Engine]:
    environment = {**os.environ, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url}
    backend = ScriptedBackend.confident("Noted.")
    with Engine(Settings.load(environment), backend=backend) as made:
        yield made


def test_a_private_turn_keeps_every_later_turn_on_the_device(
    engine: Engine, cloud: LoopbackCloud
) -> None:
    talk = Conversation(engine, policy="prefer_cloud")
    assert talk.ask("Hello.").source == "cloud"
    assert not talk.private
    talk.ask("My PIN is 1234.", private=True)
    assert talk.private
    later = talk.ask("What is the weather?", private=False)
    assert (later.source, later.decision.degraded_code) == ("local", "private")
    with pytest.raises(CloudError) as refused:
        talk.ask("And now?", policy="cloud_only")
    assert refused.value.code == "private"
    assert len(cloud.requests) == 1
    assert not any("1234" in str(seen.body) for seen in cloud.requests)


def test_a_history_without_its_private_turns_may_leave_again(
    engine: Engine, cloud: LoopbackCloud
) -> None:
    talk = Conversation(engine, system="Be brief.", policy="prefer_cloud")
    list(talk.stream("My PIN is 1234.", private=True))
    answer = talk.messages[-1]
    talk.messages[:] = [talk.messages[0], answer]
    assert talk.private, "the answer to a private turn may repeat it"
    talk.messages[:] = talk.messages[:1]
    assert talk.ask("Hello.").source == "cloud"


def test_what_one_turn_redacts_stays_redacted_in_every_later_turn(cloud: LoopbackCloud) -> None:
    cloud.always(Answer(text="Noted."))
    variables = {**os.environ, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url}
    backend = ScriptedBackend.doubtful("Perhaps it is over there somewhere.")
    with Engine(Settings.load(variables), backend=backend) as engine:
        talk = Conversation(engine)
        talk.ask("I am ann@example.org.", redact=["EMAIL"])
        talk.ask("And 10.1.2.3 is my machine.")
        said = [message["content"] for message in cloud.requests[-1].body["messages"]]
        assert said == ["I am [EMAIL_1].", "Noted.", "And 10.1.2.3 is my machine."]
        assert talk.messages[0].content == "I am ann@example.org."
        kept = talk.ask("Card?", private_kinds=["EMAIL"])
        assert kept.decision.degraded_code == "private_kind"
        assert talk.ask("Why?").decision.degraded_code == "private_kind"
        assert len(cloud.requests) == 2
        with pytest.raises(InvalidRequest, match="redact"):
            talk.ask("Hi", redact=["e-mail"])


def test_pictures_travel_in_the_turn_they_were_asked_with(
    engine: Engine, cloud: LoopbackCloud
) -> None:
    talk = Conversation(engine, policy="prefer_cloud")
    talk.ask("What is this?", images=[Image(one_pixel())])
    talk.ask("Is it blue?")
    told: Any = cloud.requests[-1].body["messages"]
    assert "image_url" in str(told[0])
    assert "image_url" not in str(told[2])


# -- tools ------------------------------------------------------------------------------------


def get_weather(city: str) -> dict[str, Any]:
    """Current weather of a city."""
    if city == "Atlantis":
        raise LookupError("no such city")
    return {"city": city, "sky": "light rain"}


LAMP = {
    "name": "set_lamp",
    "description": "Switch a lamp",
    "parameters": {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]},
}


def made_engine(*written: str, said: str = "It rains lightly.") -> tuple[Engine, ScriptedBackend]:
    backend = ScriptedBackend.confident(said)
    settings = Settings.load(dict(os.environ), policy="local_only")
    return Engine(settings, backend=backend, function_model=ScriptedFunctionModel(written)), backend


def test_a_python_function_is_called_and_the_answer_is_made_from_what_it_returned() -> None:
    engine, backend = made_engine('get_weather {"city":"Oslo"}')
    with engine:
        talk = Conversation(engine, tools=[get_weather], max_steps=4)
        reply = talk.ask("What's the weather in Oslo?")
    assert (reply.text, reply.tool_calls, reply.source) == ("It rains lightly.", (), "local")
    user, called, result, answer = talk.messages
    assert [message.role for message in talk.messages] == ["user", "assistant", "tool", "assistant"]
    (call,) = called.tool_calls
    assert (call.name, dict(call.arguments)) == ("get_weather", {"city": "Oslo"})
    assert result.tool_call_id == call.id != ""
    assert result.content == '{"city": "Oslo", "sky": "light rain"}'
    assert (user.content, answer.content) == ("What's the weather in Oslo?", "It rains lightly.")
    (request,) = backend.requests
    assert [message.role for message in request.messages] == ["user", "assistant", "tool"]
    first = talk.steps[0]
    assert isinstance(first, CallReply)
    assert [ran.value for ran in first.results] == [{"city": "Oslo", "sky": "light rain"}]
    assert talk.steps[1] == reply


def test_a_tool_that_fails_is_a_result_too() -> None:
    engine, _ = made_engine('get_weather {"city":"Atlantis"}')
    with engine:
        talk = Conversation(engine, tools=[get_weather])
        talk.ask("What's the weather in Atlantis?")
    assert talk.messages[2].content == "failed: LookupError: no such city"
    assert talk.messages[-1].role == "assistant"


def test_a_call_of_a_described_tool_is_the_applications_and_resume_takes_its_result() -> None:
    engine, _ = made_engine('get_weather {"city":"Oslo"}\nset_lamp {"on":true}')
    with engine:
        talk = Conversation(engine, tools=[get_weather, LAMP])
        reply = talk.ask("What's the weather in Oslo and switch the lamp on")
        (call,) = reply.tool_calls
        assert (call.name, reply.text) == ("set_lamp", "")
        assert [message.role for message in talk.messages] == ["user", "assistant", "tool"]
        with pytest.raises(InvalidRequest, match="no call waits"):
            talk.resume([ToolResult(replace(call, id="another"))])
        last = talk.resume([ToolResult(call)])
        assert (last.text, last.tool_calls) == ("It rains lightly.", ())
        assert talk.messages[3] == Message("tool", "done", tool_call_id=call.id, source="local")
        with pytest.raises(InvalidRequest, match="no call waits"):
            talk.resume([])


def test_calls_left_open_are_closed_by_the_next_turn() -> None:
    engine, backend = made_engine('set_lamp {"on":true}', "none")
    with engine:
        talk = Conversation(engine, tools=[LAMP])
        talk.ask("Switch the lamp on")
        talk.ask("Hello!")
    roles = [message.role for message in talk.messages]
    assert roles == ["user", "assistant", "tool", "user", "assistant"]
    assert talk.messages[2].content == "failed: no result was given"
    assert backend.requests[-1].messages[-1].content == "Hello!"


def test_a_request_that_no_tool_fits_is_answered_in_words() -> None:
    engine, _ = made_engine("none", said="Goethe.")
    with engine:
        talk = Conversation(engine, tools=[get_weather])
        assert talk.ask("Who wrote Faust?").text == "Goethe."
    assert len(talk.messages) == 2


class Lamp(BaseModel):
    room: str
    watts: int

    @field_validator("watts")
    @classmethod
    def is_sold(cls, watts: int) -> int:
        if watts > 60:
            raise ValueError("nobody sells that")
        return watts


def test_a_tool_gets_instances_of_the_classes_it_asks_for() -> None:
    lit: list[Lamp] = []

    def light(lamp: Lamp) -> None:
        """Switch a lamp on."""
        lit.append(lamp)

    for watts in (40, 90):
        engine, _ = made_engine(f'light {{"lamp":{{"room":"hall","watts":{watts}}}}}')
        with engine:
            reply = engine.call(f"light the {watts} watt lamp in the hall", [light], execute=True)
    assert lit == [Lamp(room="hall", watts=40)]
    (refused,) = reply.results
    assert refused.error == "not run: light: lamp.watts: Value error, nobody sells that, got 90"


def test_a_stream_with_tools_ends_once_with_the_answer() -> None:
    engine, _ = made_engine('get_weather {"city":"Oslo"}')
    with engine:
        talk = Conversation(engine, tools=[get_weather])
        events = list(talk.stream("What's the weather in Oslo?"))
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "It rains lightly."
    (end,) = [event for event in events if isinstance(event, Finished)]
    assert end is events[-1]
    assert end.reply.text == "It rains lightly."


def test_the_cloud_gets_calls_and_results_and_the_last_step_has_to_answer(
    engine: Engine, cloud: LoopbackCloud
) -> None:
    asks = Answer(tool_calls=(ToolCall("get_weather", {"city": "Oslo"}, id="c1"),))
    cloud.always(asks)
    talk = Conversation(engine, tools=[get_weather], max_steps=3, policy="cloud_only")
    reply = talk.ask("What's the weather in Oslo?", request_id="mine")
    assert talk.steps[0].id == "mine"
    assert len(cloud.requests) == 3
    assert all("tools" in seen.body for seen in cloud.requests), "results need their tools"
    assert [seen.body.get("tool_choice") for seen in cloud.requests] == [None, None, "none"]
    told: Any = cloud.requests[1].body["messages"]
    assert [turn["role"] for turn in told] == ["user", "assistant", "tool"]
    assert told[2]["tool_call_id"] == told[1]["tool_calls"][0]["id"]
    assert "light rain" in told[2]["content"]
    assert reply.tool_calls, "a model that calls against the ban gets no further step"


def test_a_tool_that_the_function_model_saw_no_use_for_is_run_if_the_cloud_calls_it(
    cloud: LoopbackCloud,
) -> None:
    environment = {**os.environ, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url}
    asks = Answer(text="I look.", tool_calls=(ToolCall("get_weather", {"city": " Oslo"}, "c1"),))
    cloud.script(asks, "It rains.")
    none = ScriptedFunctionModel(["none"], logprobs=[[-0.001]])
    backend = ScriptedBackend.doubtful("Who knows?")
    with Engine(Settings.load(environment), backend=backend, function_model=none) as made:
        talk = Conversation(made, tools=[get_weather])
        reply = talk.ask("What should I wear in Oslo?")
    assert (reply.text, reply.source) == ("It rains.", "cloud")
    assert [len(seen.body["tools"]) for seen in cloud.requests] == [1, 1]
    asked, called, result, _ = talk.messages
    assert (called.content, called.tool_calls[0].arguments) == ("I look.", {"city": " Oslo"})
    assert (asked.role, result.role, result.tool_call_id) == ("user", "tool", "c1")


def test_what_a_private_turn_looked_up_stays_on_the_device() -> None:
    engine, _ = made_engine('get_weather {"city":"Oslo"}')
    with engine:
        talk = Conversation(engine, tools=[get_weather])
        talk.ask("What's the weather in Oslo?", private=True)
        talk.messages[:] = [message for message in talk.messages if message.role == "tool"]
        assert talk.private


def test_a_conversation_needs_a_step_to_call_and_one_to_answer(engine: Engine) -> None:
    with pytest.raises(InvalidRequest, match="max_steps = 1: at least 2"):
        Conversation(engine, max_steps=1)


# -- consent ----------------------------------------------------------------------------------

CANCEL = 'cancel_order {"number":1043}'
ASKED = "Cancel order number 1043"
NO_CONSENT: list[Any] = [None, False, "no", "yes", 1, Mock(), [True], object()]


class Shop:
    """Orders that were cancelled."""

    def __init__(self) -> None:
        self.cancelled: list[int] = []

    @property
    def tools(self) -> list[Any]:
        def cancel_order(number: int) -> str:
            """Cancel an order by its number."""
            self.cancelled.append(number)
            return "cancelled"

        return [cancel_order]


def shop_engine(*, doubtful: bool = False, **changes: Any) -> tuple[Engine, ScriptedBackend]:
    backend = ScriptedBackend.confident("It is done.")
    model = ScriptedFunctionModel([CANCEL, "none"], logprobs=[[-2.5 if doubtful else -0.001]] * 2)
    settings = Settings.load(dict(os.environ), **{"policy": "local_only", **changes})
    return Engine(settings, backend=backend, function_model=model), backend


def said_of(talk: Conversation) -> list[str]:
    return [message.content for message in talk.messages if message.role == "tool"]


@pytest.mark.parametrize("answer", NO_CONSENT)
def test_only_true_runs_a_tool(answer: Any) -> None:
    async def later(_: ToolCall) -> Any:
        return answer

    for approve in (lambda _: answer, later):
        shop, (engine, _) = Shop(), shop_engine()
        with engine:
            talk = Conversation(engine, tools=shop.tools, approve=approve)
            talk.ask(ASKED)
        assert shop.cancelled == []
        assert said_of(talk) == ["failed: not run: the user did not allow it"]


@pytest.mark.parametrize("live", [False, True])
def test_a_coroutine_may_approve(live: bool) -> None:
    async def approve(call: ToolCall) -> bool:
        return call.name == "cancel_order"

    shop, (engine, _) = Shop(), shop_engine()
    with engine:
        talk = Conversation(engine, tools=shop.tools, approve=approve)
        if live:
            list(talk.stream(ASKED))
        else:
            talk.ask(ASKED)
    assert (shop.cancelled, said_of(talk)) == ([1043], ["cancelled"])


def test_calls_after_a_result_of_the_application_are_asked_about_too(cloud: LoopbackCloud) -> None:
    """`resume` goes the same way as a turn."""
    shop = Shop()
    lamp = ToolCall("set_lamp", {"on": True}, id="c1")
    cancel = ToolCall("cancel_order", {"number": 1043}, id="c2")
    cloud.script(Answer(tool_calls=(lamp,)), Answer(tool_calls=(cancel,)), Answer(text="Well."))
    variables = {**os.environ, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url}

    async def approve(_: ToolCall) -> bool:
        return False

    with Engine(Settings.load(variables, policy="cloud_only")) as engine:
        talk = Conversation(engine, tools=[*shop.tools, LAMP], approve=approve)
        (call,) = talk.ask("Switch the lamp on, then cancel my order").tool_calls
        assert talk.resume([ToolResult(call)]).text == "Well."
    assert shop.cancelled == []
    assert said_of(talk)[-1] == "failed: not run: the user did not allow it"


@pytest.mark.parametrize("live", [False, True])
def test_an_approval_that_fails_runs_nothing_and_its_error_is_the_callers(live: bool) -> None:
    ran: list[str] = []

    def first() -> None:
        """Do the first thing."""
        ran.append("first")

    def second() -> None:
        """Do the second thing."""
        ran.append("second")

    async def approve(call: ToolCall) -> bool:
        if call.name == "second":
            raise LookupError("nobody is there")
        return True

    engine, _ = made_engine("first {}\nsecond {}")
    with engine:
        talk = Conversation(engine, tools=[first, second], approve=approve)
        with pytest.raises(LookupError, match="nobody is there"):
            if live:
                list(talk.stream("Do the first thing and do the second thing"))
            else:
                talk.ask("Do the first thing and do the second thing")
    assert ran == []


def test_a_call_in_doubt_is_not_run_and_the_last_reply_says_so() -> None:
    shop, (engine, backend) = Shop(), shop_engine(doubtful=True)
    with engine:
        talk = Conversation(engine, tools=shop.tools)
        reply = talk.ask(ASKED)
    assert shop.cancelled == []
    (told,) = said_of(talk)
    assert told.startswith("failed: not run: in doubt (cancel_order: unverified confidence 0.")
    assert backend.requests[-1].messages[-1].content == told, "the model knows it"
    assert (reply.text, reply.needs_cloud_handoff) == ("It is done.", True)
    assert "cancel_order was not run: in doubt (" in reply.decision.reason
    assert reply.degraded == talk.steps[0].degraded
    assert reply.decision.degraded_code == talk.steps[0].decision.degraded_code
    assert not talk.steps[-1].needs_cloud_handoff, "the answer in words was sure by itself"


def test_doubt_after_a_failed_cloud_is_degraded_to_the_end(cloud: LoopbackCloud) -> None:
    cloud.always(Status(500))
    variables = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url}
    shop = Shop()
    engine, _ = shop_engine(doubtful=True)
    settings = Settings.load({**os.environ, **variables}, policy="prefer_local")
    parts = {"backend": engine.parts._backend, "function_model": engine.parts._function_model}
    engine.close()
    with Engine(settings, **parts) as engine:  # type: ignore[arg-type]
        talk = Conversation(engine, tools=shop.tools)
        reply = talk.ask(ASKED)
    assert talk.steps[0].decision.code == "fallback_local"
    assert shop.cancelled == []
    assert (reply.source, reply.degraded, reply.needs_cloud_handoff) == ("local", True, True)
    assert reply.decision.degraded_code == talk.steps[0].decision.degraded_code != ""


def test_a_call_in_doubt_runs_if_it_is_told_to_or_the_user_allows_it() -> None:
    shop, (engine, _) = Shop(), shop_engine(doubtful=True)
    with engine:
        talk = Conversation(engine, tools=shop.tools, execute="always")
        reply = talk.ask(ASKED)
    assert shop.cancelled == [1043]
    assert reply.needs_cloud_handoff, "nobody has looked at it"
    assert "cancel_order was run in doubt (" in reply.decision.reason

    asked: list[ToolCall] = []

    def approve(call: ToolCall) -> bool:
        asked.append(call)
        return True

    engine, _ = shop_engine(doubtful=True)
    with engine:
        talk = Conversation(engine, tools=shop.tools, approve=approve)
        reply = talk.ask(ASKED)
    assert shop.cancelled == [1043, 1043]
    assert [bool(call.doubt) for call in asked] == [True]
    assert not reply.needs_cloud_handoff, "the user knew of it and allowed it"


def test_the_clouds_calls_are_not_in_doubt(cloud: LoopbackCloud) -> None:
    call = ToolCall("cancel_order", {"number": 1043}, id="c1")
    cloud.script(Answer(tool_calls=(call,)))
    cloud.always(Answer(text="It is cancelled."))
    variables = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url}
    shop, (engine, _) = Shop(), shop_engine(doubtful=True)
    settings = Settings.load({**os.environ, **variables}, policy="prefer_local")
    with Engine(
        settings, function_model=engine.parts._function_model, backend=engine.parts._backend
    ) as own:
        talk = Conversation(own, tools=shop.tools)
        reply = talk.ask(ASKED)
    engine.close()
    assert talk.steps[0].decision.code == "handoff_low_confidence"
    assert (shop.cancelled, reply.degraded) == ([1043], False)


def test_without_execute_every_call_is_the_applications() -> None:
    shop, (engine, _) = Shop(), shop_engine()
    with engine:
        talk = Conversation(engine, tools=shop.tools, execute=False)
        (call,) = talk.ask(ASKED).tool_calls
        assert (call.name, shop.cancelled) == ("cancel_order", [])
        assert talk.resume([ToolResult(call, "cancelled")]).text == "It is done."


@pytest.mark.parametrize(
    "wrong", [{"approve": True}, {"execute": "yes"}, {"execute": 1}, {"execute": None}]
)
def test_what_is_no_consent_is_refused_at_once(engine: Engine, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(wrong))):
        Conversation(engine, **wrong)
    with pytest.raises(InvalidRequest, match=next(iter(wrong))):
        engine.call(ASKED, Shop().tools, **wrong)


CALL = ToolCall("get_weather", {"city": "Oslo"}, id="a")
KNOT: list[object] = []
KNOT.append(KNOT)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (ToolResult(CALL), "done"),
        (ToolResult(CALL, "Rain."), "Rain."),
        (ToolResult(CALL, 0), "0"),
        (ToolResult(CALL, {"sky": "bewölkt"}), '{"sky": "bewölkt"}'),
        (ToolResult(CALL, [datetime.date(2026, 3, 1)]), '["2026-03-01"]'),
        (ToolResult(CALL, {(1, 2): 3}), "{(1, 2): 3}"),
        (ToolResult(CALL, KNOT), "[[...]]"),
        (ToolResult(CALL, error="KeyError: 'Oslo'"), "failed: KeyError: 'Oslo'"),
    ],
)
def test_a_result_is_told_in_words(result: ToolResult, words: str) -> None:
    message = as_message(result)
    assert (message.role, message.content, message.tool_call_id) == ("tool", words, "a")


def test_only_calls_without_a_result_wait() -> None:
    other = ToolCall("set_timer", {"minutes": 5}, id="b")
    said = [
        Message("assistant", tool_calls=(CALL, other)),
        Message("tool", "Rain.", tool_call_id="a"),
    ]
    assert open_calls(said) == (other,)
    (closed,) = answer_all(said, ())
    assert (closed.tool_call_id, closed.content) == ("b", "failed: no result was given")
    assert open_calls([*said, closed]) == ()
