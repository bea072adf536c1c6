"""Function calls as stories: who wrote each call, what left the device, what the reply says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from edgewise import DoesNotFit, Engine, Message, Settings
from edgewise.errors import CloudClosed, CloudError, GenerationFailed, InvalidRequest, ModelNotFound
from edgewise.flows.call import MOST_RETRIES
from edgewise.local.backend import CallBackend, CallToWrite, TokenStream
from edgewise.testing import (
    Answer,
    Cut,
    Empty,
    LoopbackCloud,
    Malformed,
    Scripted,
    ScriptedFunctionModel,
    Silence,
    Status,
)
from edgewise.testing.scripted import SCRIPTED_FUNCTION_MODEL_FACTS as SCRIPTED_CALLER_FACTS
from edgewise.types.messages import Image, Tool, ToolCall
from edgewise.types.replies import CallReply
from tests.flows.calling import (
    BOTH,
    FIVE,
    LONDON,
    NAMES,
    TOOLS,
    TWO,
    BrokenArguments,
    calls,
    function_model,
    made,
    said,
    settings_for,
    tool,
)
from tests.pictures import one_pixel

LOCAL_TIMER = ("set_timer", {"minutes": 5}, "local")
LOCAL_LONDON = ("get_weather", {"location": "London"}, "local")
CLOUD_LONDON = ("get_weather", {"location": "London"}, "cloud")
ONE = "What is the weather in London?"
PARIS = 'get_weather {"location":"Paris"}'


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        server.always(calls(LONDON))
        yield server


def ask(
    cloud: LoopbackCloud,
    device: CallBackend | None,
    prompt: Any = TWO,
    tools: Any = TOOLS,
    chosen: Settings | None = None,
    **options: Any,
) -> CallReply:
    with Engine(chosen or settings_for(cloud), function_model=device) as engine:
        reply = engine.call(prompt, tools, **options)
        assert reply.degraded == bool(reply.decision.degraded_code)
        entry = engine.ledger.get(reply.id)
        assert entry is not None and entry["source"] == reply.source
        assert len(entry["attempts"]) == len(reply.attempts)
        assert engine.ledger.verify() == []
        return reply


# -- the device ------------------------------------------------------------------------------------


def test_calls_the_device_is_sure_of_stay_there(cloud: LoopbackCloud) -> None:
    reply = ask(cloud, function_model(BOTH))
    assert made(reply) == [LOCAL_TIMER, LOCAL_LONDON]
    assert (reply.source, reply.decision.code) == ("local", "kept_confident")
    assert all(call.confidence is not None and call.confidence > 0.5 for call in reply.calls)
    assert reply.confidence == min(call.confidence or 0.0 for call in reply.calls)
    assert [intent.text for intent in reply.intents] == [
        "Set a timer for 5 minutes",
        "check the weather in London",
    ]
    assert not reply.needs_cloud_handoff and not reply.cloud_handoff
    assert cloud.requests == []


def test_an_intent_without_a_call_is_asked_alone_on_the_device(cloud: LoopbackCloud) -> None:
    device = function_model('set_timer {"minutes":5}', 'get_weather {"location":"London"}')
    reply = ask(cloud, device)
    assert made(reply) == [LOCAL_TIMER, LOCAL_LONDON]
    assert "user\nCheck the weather in London.<|im_end|>" in device.asked[1].prompt
    assert "timer for 5" not in device.asked[1].prompt
    assert cloud.requests == []


def test_the_same_question_is_not_put_to_the_device_twice(cloud: LoopbackCloud) -> None:
    device = function_model("none")
    reply = ask(cloud, device, "Who wrote Faust?")
    assert (reply.calls, reply.source, len(device.asked)) == ((), "local", 1)
    assert reply.finish_reason == "stop"


def test_a_sure_call_stands_where_another_tool_fits_the_words_better(cloud: LoopbackCloud) -> None:
    device = function_model('set_timer {"minutes":5}', 'get_weather {"location":"London"}')
    reply = ask(cloud, device, "Check the weather in 5 minutes", policy="local_only")
    (call,) = reply.calls
    assert (call.name, call.complaints) == ("set_timer", ("weak_fit",))
    assert len(device.asked) == 1


def test_the_same_call_is_not_made_twice(cloud: LoopbackCloud) -> None:
    reply = ask(cloud, function_model('set_timer {"minutes":5}\nset_timer {"minutes":5}'))
    assert [call.name for call in reply.calls].count("set_timer") == 1


def test_a_retry_that_breaks_off_does_not_lose_what_was_written_before_it(
    cloud: LoopbackCloud,
) -> None:
    class FailsLater(ScriptedFunctionModel):
        @override
        def write_call(self, call: CallToWrite) -> TokenStream:
            self._fails = bool(self.asked)
            return super().write_call(call)

    device = FailsLater(['set_timer {"minutes":5}'])
    reply = ask(cloud, device, policy="local_only")
    assert made(reply) == [LOCAL_TIMER]
    assert [attempt.outcome for attempt in reply.attempts] == ["answered", "generation_failed"]


def test_what_was_changed_after_the_model_wrote_it_is_told(cloud: LoopbackCloud) -> None:
    reply = ask(cloud, function_model('set_timr {"minutes":"5"}'), "Set a timer for 5 minutes",
                policy="local_only")  # fmt: skip
    assert made(reply) == [LOCAL_TIMER]
    assert {"renamed_tool", "coerced:minutes"} <= set(reply.calls[0].repairs)


# -- the rescue ------------------------------------------------------------------------------------


def test_only_the_doubtful_intent_leaves_the_device(cloud: LoopbackCloud) -> None:
    written = 'set_timer {"minutes":5}\nget_weather {"location":"Paris"}'
    reply = ask(cloud, function_model(written, doubt=["get_weather"]))
    assert made(reply) == [LOCAL_TIMER, CLOUD_LONDON]
    assert (reply.source, reply.decision.code) == ("mixed", "handoff_low_confidence")
    assert said(cloud) == ["check the weather in London"]
    assert "minutes" not in str(cloud.requests[0].body["messages"])
    assert reply.needs_cloud_handoff and reply.cloud_handoff and not reply.degraded
    assert reply.calls[0].confidence is not None and reply.calls[1].confidence is None
    assert reply.confidence is not None and reply.confidence < 0.5, "what the device had said"


def test_the_order_of_the_request_is_kept(cloud: LoopbackCloud) -> None:
    cloud.script(calls(FIVE))
    reply = ask(cloud, function_model(BOTH, doubt=["set_timer"]))
    assert made(reply) == [("set_timer", {"minutes": 5}, "cloud"), LOCAL_LONDON]
    assert said(cloud) == ["Set a timer for 5 minutes"]


def test_when_all_is_doubtful_the_request_goes_as_it_is(cloud: LoopbackCloud) -> None:
    cloud.script(calls(FIVE, LONDON))
    reply = ask(cloud, function_model(BOTH, doubt=sorted(NAMES)))
    assert made(reply) == [("set_timer", {"minutes": 5}, "cloud"), CLOUD_LONDON]
    assert (reply.source, said(cloud)) == ("cloud", [TWO])


def test_a_gap_is_filled_by_asking_for_the_missing_call_only(cloud: LoopbackCloud) -> None:
    reply = ask(cloud, function_model('set_timer {"minutes":5}', "none", doubt=["none"]))
    assert made(reply) == [LOCAL_TIMER, CLOUD_LONDON]
    assert said(cloud) == ["check the weather in London"]


def test_a_call_unfit_to_run_is_rescued_however_sure_it_is(cloud: LoopbackCloud) -> None:
    reply = ask(cloud, function_model("get_weather {}"), "What is it like outside over there?")
    assert made(reply) == [CLOUD_LONDON]
    assert "missing_argument" in reply.decision.reason


def test_what_the_cloud_fills_a_gap_with_is_normalized_like_the_devices(
    cloud: LoopbackCloud,
) -> None:
    cloud.script(calls(ToolCall("get_weather", {"location": " London ", "unit": "C"})))
    reply = ask(cloud, function_model(BOTH, doubt=["get_weather"]))
    assert made(reply) == [LOCAL_TIMER, CLOUD_LONDON]
    assert reply.calls[1].repairs == ("dropped:unit", "cleaned:location")


def test_what_the_cloud_writes_whole_is_complained_about_and_not_touched(
    cloud: LoopbackCloud,
) -> None:
    wrong = ToolCall("set_timer", {"note": "  tea\n", "minutes": "5"}, id="c1")
    cloud.script(Answer(text="At once.", tool_calls=(wrong, wrong, ToolCall("order_pizza", {}))))
    reply = ask(cloud, function_model("none", doubt=["none"]), "Set a timer for 5 minutes")
    timer, again, pizza = reply.calls
    assert list(timer.arguments.items()) == [("note", "  tea\n"), ("minutes", "5")]
    assert (timer.source, timer.repairs) == ("cloud", ())
    assert timer.complaints == ("unknown_argument", "wrong_type")
    assert again.arguments == timer.arguments, "what it wants twice, it wants twice"
    assert (pizza.name, pizza.complaints) == ("order_pizza", ("unknown_tool",))
    assert reply.text == "At once."


def test_calls_the_cloud_writes_as_text_are_read(cloud: LoopbackCloud) -> None:
    cloud.script('{"name": "get_weather", "arguments": {"location": "London"}}')
    reply = ask(cloud, function_model(PARIS, doubt=["get_weather"]), ONE)
    assert made(reply) == [CLOUD_LONDON]


SLIGHT = -0.02  # of every token: below the threshold, yet likelier right than wrong


def test_a_doubtful_call_comes_back_if_the_cloud_only_talks(cloud: LoopbackCloud) -> None:
    cloud.script("I have looked it up for you.")
    device = function_model(BOTH, doubt=["get_weather"], doubtful=SLIGHT)
    reply = ask(cloud, device, threshold=0.95)
    assert made(reply) == [LOCAL_TIMER, LOCAL_LONDON]
    timer, weather = reply.calls
    assert 0.5 < (weather.confidence or 0.0) < 0.95 < (timer.confidence or 0.0)
    assert (timer.complaints, weather.complaints) == ((), ("in_words",))
    assert reply.needs_cloud_handoff, "it is still in doubt"
    assert (reply.text, reply.source) == ("I have looked it up for you.", "mixed")
    assert reply.decision.reason.endswith("; the cloud answered in words")


@pytest.mark.parametrize(
    ("written", "doubtful"),
    [(PARIS, SLIGHT), ('get_weather {"location":"London"}', -2.5)],
    ids=["nobody said Paris", "it is likely wrong"],
)
def test_a_call_that_does_not_come_back_is_told(
    cloud: LoopbackCloud, written: str, doubtful: float
) -> None:
    cloud.script("It is raining there.")
    device = function_model(written, doubt=["get_weather"], doubtful=doubtful)
    reply = ask(cloud, device, ONE, threshold=0.95)
    assert (reply.calls, reply.text, reply.source) == ((), "It is raining there.", "cloud")
    (complaint,) = reply.complaints
    assert (complaint.code, complaint.intent) == ("in_words", 0)
    assert "get_weather" in complaint.message
    assert not reply.degraded


def test_a_call_that_does_not_fit_the_words_does_not_come_back(cloud: LoopbackCloud) -> None:
    cloud.script("Goethe wrote it.")
    device = function_model('set_timer {"minutes":5}', doubt=["set_timer"], doubtful=SLIGHT)
    reply = ask(cloud, device, "Who wrote Faust?", threshold=0.95)
    assert (reply.calls, reply.text) == ((), "Goethe wrote it.")
    assert [one.code for one in reply.complaints] == ["in_words"]


def test_words_of_the_cloud_where_nothing_was_to_be_called_are_its_answer(
    cloud: LoopbackCloud,
) -> None:
    cloud.script("Goethe wrote it.")
    reply = ask(cloud, function_model("none", doubt=["none"]), "Who wrote Faust?")
    assert (reply.calls, reply.text, reply.complaints) == ((), "Goethe wrote it.", ())


def test_what_the_device_is_sure_of_stays_if_the_whole_was_asked_ahead(
    cloud: LoopbackCloud,
) -> None:
    cloud.always("I have done both.")
    device = function_model(BOTH, doubt=["get_weather"], doubtful=SLIGHT)
    reply = ask(cloud, device, speculative=True, threshold=0.95)
    assert made(reply) == [LOCAL_TIMER, LOCAL_LONDON]
    assert [call.complaints for call in reply.calls] == [(), ("in_words",)]


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Status(429, retry_after_s=30), "cloud_rate_limited"),
        (Status(500), "cloud_server_error"),
        (Status(401), "cloud_auth_failed"),
        (Cut(after_chunks=2), "cloud_cut"),
        (Malformed(), "cloud_malformed"),
        (BrokenArguments(text="", tool_calls=(LONDON,)), "cloud_malformed"),
        (Silence(), "cloud_timeout"),
        (Empty(), "cloud_empty"),
    ],
)
def test_when_the_cloud_fails_the_devices_calls_stand(
    cloud: LoopbackCloud, fault: Scripted, code: str
) -> None:
    cloud.always(fault)
    chosen = settings_for(cloud, patience_s=0.3 if isinstance(fault, Silence) else 5.0)
    reply = ask(cloud, function_model(BOTH, doubt=["get_weather"]), chosen=chosen)
    assert made(reply) == [LOCAL_TIMER, LOCAL_LONDON]
    assert (reply.source, reply.decision.code) == ("local", "fallback_local")
    assert reply.decision.degraded_code == code
    assert reply.attempts[-1].outcome == code
    assert reply.needs_cloud_handoff and not reply.cloud_handoff


def test_without_a_key_the_devices_calls_stand(cloud: LoopbackCloud) -> None:
    device = function_model(BOTH, doubt=["get_weather"])
    reply = ask(cloud, device, chosen=Settings.load())
    assert made(reply) == [LOCAL_TIMER, LOCAL_LONDON]
    assert (reply.decision.code, reply.decision.degraded_code) == ("kept_in_doubt", "no_key")


def test_a_budget_that_is_spent_keeps_the_calls_on_the_device(cloud: LoopbackCloud) -> None:
    chosen = settings_for(cloud, budgets=("$0.000001/day",))
    reply = ask(cloud, function_model(BOTH, doubt=["get_weather"]), chosen=chosen)
    assert (reply.source, reply.decision.degraded_code) == ("local", "budget_spent")
    assert cloud.requests == []


@pytest.mark.parametrize("policy", ["prefer_local", "prefer_cloud", "local_only"])
@pytest.mark.parametrize("options", [{}, {"speculative": True}, {"handoff": "signal"}])
def test_private_requests_never_leave(
    cloud: LoopbackCloud, policy: str, options: dict[str, Any]
) -> None:
    device = function_model(BOTH, doubt=sorted(NAMES))
    reply = ask(cloud, device, private=True, policy=policy, **options)
    assert (reply.source, cloud.requests) == ("local", [])
    assert reply.decision.degraded_code == ("" if policy == "local_only" else "private")


def test_signal_mode_asks_nobody_and_makes_no_call(cloud: LoopbackCloud) -> None:
    reply = ask(
        cloud, function_model(BOTH, doubt=["get_weather"]), handoff="signal", speculative=True
    )
    assert reply.signalled and reply.calls == ()
    assert (reply.decision.code, cloud.requests) == ("signalled_low_confidence", [])
    assert reply.confidence is not None and reply.confidence < 0.5
    assert reply.to_dict()["response"] is None


# -- where it starts -------------------------------------------------------------------------------


def test_prefer_cloud_lets_the_device_rest_and_cloud_only_never_opens_it(
    cloud: LoopbackCloud,
) -> None:
    for policy in ("prefer_cloud", "cloud_only"):
        device = function_model(PARIS)
        reply = ask(cloud, device, ONE, policy=policy)
        assert (made(reply), reply.decision.code) == ([CLOUD_LONDON], f"policy_{policy}")
        assert (device.asked, reply.confidence) == ([], None)
    cloud.always(Status(500))
    with pytest.raises(CloudError):
        ask(cloud, function_model(PARIS), ONE, policy="cloud_only")
    with pytest.raises(CloudClosed, match="private"):
        ask(cloud, function_model(PARIS), ONE, policy="cloud_only", private=True)


def test_without_a_function_model_the_cloud_calls_or_an_error_is_raised(
    cloud: LoopbackCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_here(settings: Settings) -> CallBackend:
        raise ModelNotFound("no function caller: edgewise pull one")

    monkeypatch.setattr("edgewise.parts.open_function_model", none_here)
    reply = ask(cloud, None, ONE)
    assert (made(reply), reply.decision.code) == ([CLOUD_LONDON], "handoff_no_local_model")
    with pytest.raises(ModelNotFound, match="edgewise pull"):
        ask(cloud, None, ONE, policy="local_only")
    cloud.always(Status(500))
    with pytest.raises(DoesNotFit, match=r"edgewise pull.*and the cloud failed"):
        ask(cloud, None, ONE)


def test_a_function_model_that_fails_hands_off_or_says_so(cloud: LoopbackCloud) -> None:
    broken = ScriptedFunctionModel(["none"], fails=True)
    reply = ask(cloud, broken, ONE)
    assert (made(reply), reply.decision.code) == ([CLOUD_LONDON], "handoff_local_failed")
    assert [attempt.outcome for attempt in reply.attempts] == ["generation_failed", "answered"]
    for options in ({"policy": "local_only"}, {"handoff": "signal"}, {"private": True}):
        with pytest.raises(GenerationFailed, match="told to fail"):
            ask(cloud, broken, ONE, **options)


def test_if_tools_do_not_fit_the_context_fewer_are_offered(cloud: LoopbackCloud) -> None:
    extra = [tool(f"extra_{n}", "Feed the fish " * 20, fish={"type": "string"}) for n in range(8)]
    facts = replace(SCRIPTED_CALLER_FACTS, context_tokens=200)
    device = ScriptedFunctionModel(['get_weather {"location":"London"}'], facts=facts)
    reply = ask(cloud, device, ONE, (*extra, *TOOLS))
    assert (made(reply), cloud.requests) == ([LOCAL_LONDON], [])
    assert "get_weather" in device.asked[-1].prompt
    assert {attempt.outcome for attempt in reply.attempts} == {"context_exceeded", "answered"}


@pytest.mark.parametrize("speculative", [False, True])
def test_words_that_do_not_fit_the_context_go_to_the_cloud(
    cloud: LoopbackCloud, speculative: bool
) -> None:
    device = ScriptedFunctionModel(["none"], facts=replace(SCRIPTED_CALLER_FACTS, context_tokens=5))
    reply = ask(cloud, device, ONE, speculative=speculative)
    assert (made(reply), reply.decision.code) == ([CLOUD_LONDON], "handoff_context_exceeded")
    assert len(cloud.requests) == 1
    reply = ask(cloud, device, ONE, handoff="signal")
    assert reply.decision.code == "signalled_context_exceeded"
    with pytest.raises(DoesNotFit, match="context window"):
        ask(cloud, device, ONE, policy="local_only")
    with pytest.raises(DoesNotFit, match=r"context window.*private"):
        ask(cloud, device, ONE, private=True)
    cloud.always(Status(500))
    for policy in ("prefer_local", "prefer_cloud"):
        with pytest.raises(DoesNotFit, match=r"context window.*the cloud failed"):
            ask(cloud, device, ONE, policy=policy)


def test_hundreds_of_tools_are_offered_by_relevance(cloud: LoopbackCloud) -> None:
    many = [
        tool(f"tool_{n}", f"Repair the machine number {n}", part={"type": "string"})
        for n in range(400)
    ]
    device = function_model(PARIS, doubt=["get_weather"])
    reply = ask(cloud, device, ONE, [*many[:200], *TOOLS, *many[200:]])
    assert made(reply) == [CLOUD_LONDON]
    assert "get_weather" in device.asked[0].prompt
    assert device.asked[0].prompt.count("tool_") <= 24
    sent = [each["function"]["name"] for each in cloud.requests[0].body["tools"]]
    assert "get_weather" in sent and len(sent) <= 128, "OpenAI takes no more"


def test_pictures_go_to_the_cloud(cloud: LoopbackCloud) -> None:
    message = Message("user", ONE, images=(Image(one_pixel()),))
    reply = ask(cloud, function_model(PARIS), [message])
    assert (made(reply), reply.decision.code) == ([CLOUD_LONDON], "handoff_images_unsupported")


def test_a_deadline_the_device_would_miss_sends_the_request_to_the_cloud(
    cloud: LoopbackCloud,
) -> None:
    slow = replace(
        SCRIPTED_CALLER_FACTS, prompt_tokens_per_second=100.0, output_tokens_per_second=10.0
    )
    device = ScriptedFunctionModel(['get_weather {"location":"London"}'], facts=slow)
    assert ask(cloud, device, ONE).source == "local"
    assert ask(cloud, device, ONE, deadline_ms=600_000).source == "local"
    reply = ask(cloud, device, ONE, deadline_ms=1000)
    assert (made(reply), reply.decision.code) == ([CLOUD_LONDON], "handoff_deadline")
    reply = ask(cloud, device, ONE, deadline_ms=1000, private=True)
    assert (reply.source, reply.decision.code) == ("local", "deadline")
    assert reply.decision.degraded_code == "private"
    cloud.always(Status(500))
    reply = ask(cloud, device, ONE, deadline_ms=1000)
    assert (reply.source, reply.decision.degraded_code) == ("local", "cloud_server_error")


def test_tools_that_the_device_has_read_already_cost_no_time_again(cloud: LoopbackCloud) -> None:
    slow = replace(
        SCRIPTED_CALLER_FACTS, prompt_tokens_per_second=20.0, output_tokens_per_second=1000.0
    )
    device = ScriptedFunctionModel(['get_weather {"location":"London"}'], facts=slow)
    deadline: dict[str, Any] = {"deadline_ms": 2500}
    assert ask(cloud, device, ONE, **deadline).source == "cloud", "the tools are new to it"
    assert ask(cloud, device, "What is the weather in Rome?").source != "none"
    assert ask(cloud, device, ONE, **deadline).source == "local"
    assert ask(cloud, device, ONE, TOOLS[::-1], **deadline).source == "cloud", "in another order"


# -- what is in doubt however sure the model is ---------------------------------------------------

MADE_UP = 'send_message {"recipient":"Tom","message":"happy birthday"}'


@pytest.mark.parametrize(
    ("prompt", "written", "code"),
    [
        ("Send Tom a message", MADE_UP, "ungrounded"),
        (TWO, 'set_timer {"minutes":5}\nnone', "uncovered_intent"),
        (
            "Set a timer for 5 minutes and send a message about it",
            'set_timer {"minutes":5}',
            "duplicate_call",
        ),
    ],
)
def test_what_is_told_of_a_sure_answer_sends_nothing_to_the_cloud(
    cloud: LoopbackCloud, prompt: str, written: str, code: str
) -> None:
    reply = ask(cloud, function_model(*written.split("\n")), prompt, threshold=0.1)
    assert (len(cloud.requests), reply.source) == (0, "local")
    told = {one.code for one in reply.complaints}.union(*(one.complaints for one in reply.calls))
    assert code in told or reply.needs, "what a tool requires and nobody said is asked for"


def test_a_call_is_doubted_if_another_tool_fits_better(
    cloud: LoopbackCloud,
) -> None:
    device = function_model('set_timer {"minutes":5}')
    reply = ask(cloud, device, "Check the weather in 5 minutes")
    assert made(reply) == [CLOUD_LONDON]
    assert "weak_fit" in reply.decision.reason
    assert len(device.asked) == 1, "the model was sure of it: the device has nothing to add"


def test_a_device_that_refuses_in_words_is_not_believed(cloud: LoopbackCloud) -> None:
    device = function_model("I am sorry, I cannot do that.")
    reply = ask(cloud, device, ONE)
    assert (made(reply), reply.complaints) == ([CLOUD_LONDON], ())
    assert "refusal" in reply.decision.reason
    reply = ask(cloud, device, ONE, policy="local_only")
    assert [one.code for one in reply.complaints] == ["refusal"]
    assert reply.needs_cloud_handoff


MANY = "Roll a die, set a timer for 5 minutes, check the weather in London and send Tom a message"


@pytest.mark.parametrize("options", [{}, {"policy": "local_only"}])
@pytest.mark.parametrize("words", [MANY, " and then ".join([MANY] * 3)])
def test_the_model_runs_a_bounded_number_of_times(
    cloud: LoopbackCloud, options: dict[str, Any], words: str
) -> None:
    tools = (*TOOLS, Tool("roll_die", "Roll a die"))
    for written in ("none", MADE_UP, 'set_timer {"minutes":7}'):
        device = ScriptedFunctionModel.doubtful(written)
        ask(cloud, device, words, tools, **options)
        assert 1 < len(device.asked) <= 1 + MOST_RETRIES


def test_what_no_call_was_made_for_is_told_with_the_reply(cloud: LoopbackCloud) -> None:
    reply = ask(cloud, function_model('set_timer {"minutes":5}', "none"), policy="local_only")
    assert [(one.code, one.intent) for one in reply.complaints] == [("uncovered_intent", 1)]
    (told,) = reply.to_dict()["complaints"]
    assert (told["code"], told["intent"]) == ("uncovered_intent", 1)
    assert "get_weather" in told["message"]


def test_a_cloud_that_asks_back_is_told_from_one_that_finds_no_tool(cloud: LoopbackCloud) -> None:
    device = function_model(PARIS, doubt=["get_weather"])
    for text, codes in (
        ("Which London do you mean?", ["question"]),
        ("I'm sorry, I can't help with that.", ["refusal"]),
        ("It is raining there.", ["in_words"]),
        ("none", ["in_words"]),
    ):
        cloud.script(text)
        reply = ask(cloud, device, ONE)
        assert (reply.text, [one.code for one in reply.complaints]) == (text, codes)
        assert reply.source == "cloud"


# -- what is asked ---------------------------------------------------------------------------------


def test_the_words_before_the_last_go_with_it_to_the_cloud(cloud: LoopbackCloud) -> None:
    history = [
        Message("user", "I am in London."),
        Message("assistant", "Good."),
        Message("user", ONE),
    ]
    ask(cloud, function_model(PARIS, doubt=["get_weather"]), history)
    assert [turn["role"] for turn in cloud.requests[0].body["messages"]] == [
        "user", "assistant", "user",
    ]  # fmt: skip


def test_calls_are_for_the_users_words(cloud: LoopbackCloud) -> None:
    with pytest.raises(InvalidRequest, match="last message"):
        ask(cloud, function_model(PARIS), [Message("user", ONE), Message("assistant", "Sunny.")])


@pytest.mark.parametrize(("bad", "words"), [([Tool("")], "name"), ([*TOOLS, *TOOLS], "set_timer")])
def test_impossible_tools_are_refused_in_words(
    cloud: LoopbackCloud, bad: list[Tool], words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        ask(cloud, function_model(PARIS), ONE, bad)
