"""A call is written in time, or the cloud is asked; without a cloud it comes late and says so.

The clock of these tests runs only while the function model works.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from edgewise import Settings
from edgewise.calibrations import calibration_of
from edgewise.calls.check import CALLS
from edgewise.decide import policy as policies
from edgewise.errors import CloudClosed, CloudTimeout
from edgewise.flows.call import (
    DEADLINE_MS,
    Calling,
    CallNeeds,
    CallRules,
    answer,
)
from edgewise.flows.route import unwatched
from edgewise.local.backend import CallBackend, CallToWrite, DeviceFacts, TokenStream
from edgewise.local.llama_cpp import open_backend
from edgewise.local.store import InstalledModel
from edgewise.testing import ScriptedFunctionModel
from edgewise.testing.scripted import SCRIPTED_FUNCTION_MODEL_FACTS
from edgewise.types.messages import Handoff, Message, Original, Request, Tool, ToolCall
from edgewise.types.replies import CallReply, Token
from tests.campaigns import rounds
from tests.flows.calling import BOTH, TOOLS, TWO, made
from tests.flows.clouds import PlayedCloud

ONE = "Set a timer for 50 or 5 minutes"
FIFTY, FIVE = 'set_timer {"minutes":50}', 'set_timer {"minutes":5}'


# A model that has run before; the usual deadline spares the request that loads it.
MEASURED = replace(SCRIPTED_FUNCTION_MODEL_FACTS, output_tokens_per_second=50.0)


class SlowFunctionModel(ScriptedFunctionModel):
    """Reads for `seconds` on a clock that runs only meanwhile, then writes for `token_s` each."""

    def __init__(
        self,
        *answers: str,
        seconds: float,
        token_s: float = 0.0,
        each: Sequence[float] = (-0.5, -0.01),
        facts: DeviceFacts = MEASURED,
    ) -> None:
        logprobs = [[each[min(place, len(each) - 1)]] for place in range(len(answers))]
        super().__init__(answers, logprobs=logprobs, facts=facts)
        self.seconds, self.token_s, self.now = seconds, token_s, 0.0
        self.begun: list[float] = []  # when it began to read, and to write each further token

    @override
    def write_call(self, call: CallToWrite) -> TokenStream:
        self._work(self.seconds)  # this gives the first token, too
        for number, item in enumerate(super().write_call(call)):
            if number and isinstance(item, Token):
                self._work(self.token_s)
            yield item

    def _work(self, seconds: float) -> None:
        self.begun.append(self.now)
        self.now += seconds


class NoRecord:
    def shares(self, tools: Sequence[Tool]) -> Mapping[str, float]:
        return {}

    def note(self, outcomes: object) -> None:
        """Nothing is counted."""


NO_KEY = CloudClosed("there is no key", code="no_key")


def parts(
    device: CallBackend,
    *,
    cloud: PlayedCloud | None = None,
    policy: str = "local_only",
    clock: Callable[[], float] | None = None,
    **rules: Any,
) -> CallNeeds:
    return CallNeeds(
        function_model=lambda: device,
        cloud=cloud or PlayedCloud(shut=NO_KEY),
        policy=getattr(policies, policy),
        calibration=lambda model: calibration_of(
            Settings.load({}), None if model is None else model.facts(), CALLS
        ),
        rules=CallRules(**rules),
        patience_s=1.0,
        clock=clock or (lambda: getattr(device, "now", 0.0)),
        today=lambda: datetime.date(2026, 1, 15),
        record=NoRecord(),
    )


def asked(text: str, tools: Sequence[Tool] = TOOLS, **options: Any) -> Request:
    options = {"policy": "local_only", **options}
    return Request(messages=(Message("user", text),), tools=tuple(tools), **options)


def ask(
    device: CallBackend, text: str = ONE, *, cloud: PlayedCloud | None = None, **options: Any
) -> CallReply:
    rules: Mapping[str, Any] = options.pop("rules", {})
    request = asked(text, **options)
    given = parts(device, cloud=cloud, policy=request.policy, **rules)
    return unwatched(answer(request, given, []))


def minutes(reply: CallReply) -> list[object]:
    return [call.arguments.get("minutes") for call in reply.calls]


def test_an_unlikely_answer_is_written_again_while_there_is_time() -> None:
    device = SlowFunctionModel(FIFTY, FIVE, seconds=DEADLINE_MS / 2000)
    reply = ask(device)
    assert (len(device.asked), minutes(reply)) == (2, [5])
    assert "not_retried" not in reply.steps_ms


def test_no_retry_is_begun_that_would_end_after_the_deadline() -> None:
    device = SlowFunctionModel(FIFTY, FIVE, seconds=DEADLINE_MS / 2000 + 0.01)
    reply = ask(device)
    assert (len(device.asked), minutes(reply)) == (1, [50])  # the first answer stands
    assert reply.steps_ms["not_retried"] == pytest.approx(1260)


LIKELY_ENOUGH = (-0.05, -0.001)  # to be kept at 0.4, though it is written again where there is time


@pytest.mark.parametrize(("seconds", "minute"), [(0.1, 5), (1.0, 5), (2.0, 50), (9.0, 50)])
def test_how_fast_a_machine_is_never_makes_it_sure_of_another_answer(
    seconds: float, minute: int
) -> None:
    device = SlowFunctionModel(FIFTY, FIVE, seconds=seconds, each=LIKELY_ENOUGH)
    reply = ask(device, threshold=0.4)
    assert minutes(reply) == [minute]
    assert reply.needs_cloud_handoff is bool(reply.calls[0].doubt) is (minute == 50)


def test_an_answer_that_could_not_be_checked_in_time_goes_to_the_cloud() -> None:
    cloud = PlayedCloud([ToolCall("set_timer", {"minutes": 5})])
    device = SlowFunctionModel(FIFTY, FIVE, seconds=2.0, each=LIKELY_ENOUGH)
    reply = ask(device, cloud=cloud, policy="prefer_local", threshold=0.4)
    assert (reply.source, minutes(reply)) == ("cloud", [5])
    assert "the first answer was to be checked; another try" in reply.decision.reason


@pytest.mark.parametrize(("deadline_ms", "runs"), [(3_000, 1), (4_000, 2)])
def test_a_request_brings_its_own_deadline(deadline_ms: float, runs: int) -> None:
    device = SlowFunctionModel(FIFTY, FIVE, seconds=2.0)
    ask(device, deadline_ms=deadline_ms)
    assert len(device.asked) == runs


def test_the_deadline_of_other_requests_is_a_rule() -> None:
    device = SlowFunctionModel(FIFTY, FIVE, seconds=2.0)
    ask(device, rules={"deadline_ms": 4_000})
    assert len(device.asked) == 2


@pytest.mark.parametrize(("seconds", "runs"), [(0.6, 4), (0.7, 2)])
def test_intents_are_asked_alone_only_if_there_is_time_for_all_of_them(
    seconds: float, runs: int
) -> None:
    """After the whole, and the whole with the two called tools alone."""
    answers = (BOTH, BOTH, FIVE, 'get_weather {"location":"London"}')
    device = SlowFunctionModel(*answers, seconds=seconds, each=(-0.5, -0.5, -0.01))
    ask(device, TWO)
    assert len(device.asked) == runs


@pytest.mark.parametrize(("speed", "runs"), [(1_000.0, 2), (5.0, 1)])
def test_a_models_measured_speed_tells_how_long_a_retry_takes(speed: float, runs: int) -> None:
    facts = replace(
        SCRIPTED_FUNCTION_MODEL_FACTS,
        prompt_tokens_per_second=speed,
        output_tokens_per_second=speed,
    )
    device = SlowFunctionModel(FIFTY, FIVE, seconds=0.1, facts=facts)
    ask(device)
    assert len(device.asked) == runs


def test_the_reason_for_a_doubt_says_that_there_was_no_time() -> None:
    device = SlowFunctionModel(FIFTY, FIVE, seconds=2.0)
    flow = Calling(asked(ONE), parts(device), [])
    flow.misfit = flow.open_device()
    flow.draft.threshold = 0.999
    flow._write_and_judge()
    assert flow.doubt().endswith("another try of about 2,000 ms would end after 2,500 ms")


def test_each_text_is_drafted_before_it_is_written() -> None:
    mixed = BOTH.replace("5", "50")
    device = SlowFunctionModel(
        mixed, mixed, FIVE, 'get_weather {"location":"London"}', seconds=0.1, each=(-0.5,)
    )
    reply = ask(device, TWO)
    london = 'get_weather {"location":"London"}'
    assert [one.drafts[0] for one in device.asked] == [BOTH, BOTH, FIVE, london]
    assert "draft" in reply.steps_ms


# -- a first answer that takes too long -----------------------------------------------------------

FROM_CLOUD = [("set_timer", {"minutes": 5}, "cloud")]


def a_cloud(**options: Any) -> PlayedCloud:
    return PlayedCloud([ToolCall("set_timer", {"minutes": 5})], **options)


def a_slow_writer(facts: DeviceFacts = MEASURED) -> SlowFunctionModel:
    """Needs more than four seconds for its ten tokens."""
    return SlowFunctionModel(FIFTY, seconds=1.0, token_s=0.4, each=(-0.001,), facts=facts)


def test_the_device_is_cut_in_mid_answer_and_the_cloud_is_asked() -> None:
    device, cloud = a_slow_writer(), a_cloud()
    reply = ask(device, cloud=cloud, policy="prefer_local")
    assert (made(reply), reply.decision.code) == (FROM_CLOUD, "handoff_deadline")
    assert reply.decision.reason == "the device had no answer after 2,500 ms"
    assert not reply.degraded
    assert device.closed_early == 1 and device.now == pytest.approx(2.6), "at the next token"
    cut, asked_then = reply.attempts
    assert (cut.place, cut.outcome) == ("local", "deadline") and cut.total_ms > DEADLINE_MS
    assert cut.output_tokens == 5 and asked_then.outcome == "answered"


def test_the_first_request_loads_the_weights_and_is_cut_only_by_a_deadline_of_its_own() -> None:
    def cold() -> SlowFunctionModel:
        return a_slow_writer(SCRIPTED_FUNCTION_MODEL_FACTS)

    reply = ask(cold(), cloud=a_cloud(), policy="prefer_local")
    assert (minutes(reply), reply.source, reply.degraded) == ([50], "local", False)
    hurried = ask(cold(), cloud=a_cloud(), policy="prefer_local", deadline_ms=2_500)
    assert hurried.decision.code == "handoff_deadline"


def test_an_agents_first_request_does_not_wait_for_longer_than_its_next() -> None:
    """It sends thousands of tokens, and its cloud can answer."""
    cold = a_slow_writer(SCRIPTED_FUNCTION_MODEL_FACTS)
    theirs = Original(wire="chat", body={"messages": [{"role": "user", "content": ONE}]})
    reply = ask(cold, cloud=a_cloud(), policy="prefer_local", original=theirs)
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_deadline")
    assert cold.now == pytest.approx(2.6)
    alone = ask(a_slow_writer(SCRIPTED_FUNCTION_MODEL_FACTS), original=theirs)
    assert alone.source == "local", "where nobody else may answer, it goes on"


def test_an_application_that_routes_is_told_when_the_time_is_up() -> None:
    reply = ask(a_slow_writer(), cloud=a_cloud(), policy="prefer_local", handoff="signal")
    assert (reply.signalled, reply.decision.code) == (True, "signalled_deadline")


@pytest.mark.parametrize(
    ("policy", "code"), [("local_only", "policy_local_only"), ("prefer_local", "kept_confident")]
)
def test_without_a_cloud_the_device_goes_on_and_says_that_it_is_late(
    policy: str, code: str
) -> None:
    reply = ask(a_slow_writer(), policy=policy, deadline_ms=2_500)
    assert (minutes(reply), reply.source, reply.decision.code) == ([50], "local", code)
    assert reply.degraded and reply.decision.degraded_code == "deadline"
    assert reply.decision.reason.endswith("; it took 4,600 ms, the deadline is 2,500 ms")
    in_time = ask(a_slow_writer(), policy=policy, deadline_ms=5_000)
    assert not in_time.degraded
    unasked = ask(a_slow_writer(), policy=policy)
    assert not unasked.degraded and "it took 4,600 ms" in unasked.decision.reason


def test_if_the_cloud_fails_too_the_device_answers_late() -> None:
    device = a_slow_writer()
    reply = ask(device, cloud=a_cloud(error=CloudTimeout("x")), policy="prefer_local")
    assert (minutes(reply), reply.decision.code) == ([50], "fallback_local")
    assert reply.decision.degraded_code == "cloud_timeout"
    assert [each.outcome for each in reply.attempts] == ["deadline", "cloud_timeout", "answered"]


def test_a_policy_of_your_own_may_let_a_late_device_go_on() -> None:
    def patient(question: policies.Question) -> policies.Plan:
        return policies.Plan(first="local", code="patient", reason="no hurry", may_hand_off=True)

    device = a_slow_writer()
    given = replace(parts(device, cloud=a_cloud()), policy=patient)
    reply = unwatched(answer(asked(ONE, policy="prefer_local"), given, []))
    assert (minutes(reply), reply.source) == ([50], "local")
    assert "the deadline is 2,500 ms" in reply.decision.reason


def test_a_retry_is_cut_too_and_the_reason_says_so() -> None:
    """The first answer is quick, so a second one is begun; it takes longer than expected."""

    class Slower(SlowFunctionModel):
        @override
        def write_call(self, call: CallToWrite) -> TokenStream:
            if self.asked:
                self.seconds, self.token_s = 2.0, 0.4
            yield from super().write_call(call)

    device, cloud = Slower(FIFTY, FIVE, seconds=0.1, each=(-2.5,)), a_cloud()
    reply = ask(device, cloud=cloud, policy="prefer_local")
    assert (made(reply), reply.decision.code) == (FROM_CLOUD, "handoff_low_confidence")
    assert reply.decision.reason.endswith("; another try was cut after 2,500 ms")
    assert [each.outcome for each in reply.attempts] == ["answered", "deadline", "answered"]


@settings(max_examples=rounds(400), deadline=None)
@given(
    seconds=st.floats(0, 4),
    token_s=st.floats(0, 1),
    each=st.lists(st.floats(-3, 0), min_size=1, max_size=3),
    text=st.sampled_from([ONE, TWO]),
    deadline_ms=st.none() | st.floats(1, 6_000),
    policy=st.sampled_from(["local_only", "prefer_local", "prefer_cloud"]),
    handoff=st.sampled_from(["automatic", "signal"]),
    shut=st.booleans(),
    private=st.booleans(),
)
def test_the_device_begins_nothing_after_the_deadline_while_the_cloud_may_be_asked(
    seconds: float,
    token_s: float,
    each: list[float],
    text: str,
    deadline_ms: float | None,
    policy: str,
    handoff: Handoff,
    shut: bool,
    private: bool,
) -> None:
    device = SlowFunctionModel(BOTH, FIFTY, FIVE, seconds=seconds, token_s=token_s, each=each)
    cloud = a_cloud(shut=NO_KEY if shut else None)
    options: dict[str, Any] = {"deadline_ms": deadline_ms, "private": private, "handoff": handoff}
    reply = ask(device, text, cloud=cloud, policy=policy, **options)
    late = max(device.begun, default=0.0) * 1000 > (deadline_ms or DEADLINE_MS)
    may_leave = policy != "local_only" and not private and (not shut or handoff == "signal")
    assert not (late and may_leave)
    if late:  # nobody else could answer
        assert "the deadline is" in reply.decision.reason
        assert reply.degraded or not deadline_ms
    assert reply.signalled or reply.attempts[-1].outcome == "answered", "never stuck"


# -- the real function model ----------------------------------------------------------------------


def nested(depth: int) -> dict[str, Any]:
    """An order within an order: every level has texts, numbers, choices and a list."""
    properties: dict[str, Any] = {
        "reference": {"type": "string", "description": "The reference number of this order"},
        "amount": {"type": "number", "description": "What all of its articles cost together"},
        "urgency": {"type": "string", "enum": ["low", "usual", "high", "at once"]},
        "articles": {"type": "array", "items": {"type": "string"}, "maxItems": 5},
    }
    if depth:
        properties["parts"] = {"type": "array", "items": nested(depth - 1), "maxItems": 4}
        properties["before"] = nested(depth - 1)
    return {"type": "object", "properties": properties, "required": list(properties)}


HARD = tuple(
    Tool(name, f"{name.replace('_', ' ')} with all that belongs to it", nested(2))
    for name in ("place_order", "change_order", "return_order")
)
ORDER = "Order 12 red apples and 3 pears at once, reference A-17, and in it order B-4 with tea"


@pytest.fixture
def own_function_model(
    default_function_model: InstalledModel, tmp_path: Path
) -> Iterator[CallBackend]:
    """In a folder of its own: nobody has read any tools there."""
    path = tmp_path / default_function_model.path.name
    path.symlink_to(default_function_model.path)
    model = open_backend(replace(default_function_model, path=path), threads=1, context_tokens=4096)
    yield model
    model.close()


def test_a_hard_schema_is_cut_while_the_model_still_reads_it(
    own_function_model: CallBackend,
) -> None:
    """The flow's clock stands still, so that only the model's own work counts."""
    cloud = PlayedCloud([ToolCall("place_order", {"reference": "A-17"})])
    options: dict[str, Any] = {"tools": HARD, "policy": "prefer_local", "deadline_ms": 50}
    reply = ask(own_function_model, ORDER, cloud=cloud, **options)
    assert reply.decision.code == "handoff_deadline"
    cut, asked_then = reply.attempts
    assert (cut.outcome, cut.output_tokens, asked_then.outcome) == ("deadline", 0, "answered")
    # The model is free at once, and works as before.
    again = ask(own_function_model, ONE)
    assert (again.source, [call.name for call in again.calls]) == ("local", ["set_timer"])
