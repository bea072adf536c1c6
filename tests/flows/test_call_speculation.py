"""Speculation: the cloud is asked while the device works, and the loser is cancelled.

That both work at once is shown by letting each wait for the other, not by a clock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from typing_extensions import override

from edgewise import Engine, Settings
from edgewise.cloud.provider import Chunk, Stop
from edgewise.errors import CloudClosed
from edgewise.flows.call import Speculation
from edgewise.local.backend import CallToWrite, TokenStream
from edgewise.testing import (
    LoopbackCloud,
    Scripted,
    ScriptedFunctionModel,
    SeenRequest,
    Silence,
    Status,
)
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Attempt, CallReply
from tests.flows.calling import (
    BOTH,
    FIVE,
    LONDON,
    NAMES,
    TOOLS,
    TWO,
    calls,
    function_model,
    made,
    said,
    settings_for,
)  # fmt: skip

LONGEST_S = 20.0
FROM_CLOUD = [
    ("set_timer", {"minutes": 5}, "cloud"),
    ("get_weather", {"location": "London"}, "cloud"),
]
FROM_DEVICE = [(name, arguments, "local") for name, arguments, _ in FROM_CLOUD]


class Waiting(ScriptedFunctionModel):
    """Writes once something else has happened."""

    def __init__(self, inner: ScriptedFunctionModel, until: Callable[[], Any]) -> None:
        self.__dict__.update(inner.__dict__)
        self._until = until

    @override
    def write_call(self, call: CallToWrite) -> TokenStream:
        self._until()
        return super().write_call(call)


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        server.always(calls(FIVE, LONDON))
        yield server


def once_asked(cloud: LoopbackCloud) -> Callable[[], Any]:
    return lambda: cloud.wait_for(lambda seen: len(seen.requests) == 1, LONGEST_S)


def ask(settings: Settings, device: ScriptedFunctionModel, **options: Any) -> CallReply:
    with Engine(settings, function_model=device) as engine:
        reply = engine.call(TWO, TOOLS, speculative=True, **options)
        assert all(budget.reserved == 0 for budget in engine.ledger.remaining())
        assert engine.ledger.verify() == []
        entry = engine.ledger.get(reply.id)
        assert entry is not None
        assert entry["cost_microdollars"] == sum(a["cost_microdollars"] for a in entry["attempts"])
        assert {a["state"] for a in entry["attempts"]} == {"settled"}
        return reply


def outcomes(reply: CallReply) -> list[tuple[str, str]]:
    return [(attempt.place, attempt.outcome) for attempt in reply.attempts]


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
def test_a_slow_cloud_is_left_at_once_when_the_device_is_sure(
    cloud: LoopbackCloud, provider: str
) -> None:
    cloud.always(Silence())
    environment = {
        **os.environ,
        f"{provider.upper()}_API_KEY": "k",
        "OPENAI_BASE_URL": cloud.openai_url,
        "ANTHROPIC_BASE_URL": cloud.anthropic_url,
        "GOOGLE_GEMINI_BASE_URL": cloud.gemini_url,
    }
    chosen = Settings.load(environment, budgets=("$3/day",), first_token_s=600.0, patience_s=600.0)
    reply = ask(chosen, Waiting(function_model(BOTH), once_asked(cloud)))
    cloud.wait_for(lambda seen: seen.disconnects == 1)
    assert made(reply) == FROM_DEVICE
    assert (reply.source, reply.decision.code) == ("local", "kept_confident")
    assert outcomes(reply) == [("local", "answered"), ("cloud", "cancelled")]
    assert reply.usage.cost_microdollars > 0, "what was sent before it was cancelled may be charged"
    assert reply.attempts[1].estimated
    assert not reply.cloud_handoff and not reply.degraded


def test_an_answer_that_is_there_already_is_used_when_the_device_doubts(
    cloud: LoopbackCloud,
) -> None:
    device = Waiting(function_model(BOTH, doubt=["get_weather"]), once_asked(cloud))
    reply = ask(settings_for(cloud), device)
    assert made(reply) == FROM_CLOUD, "the whole answer, for it was asked for the whole request"
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_low_confidence")
    assert said(cloud) == [TWO], "asked once, before there was any doubt"
    assert outcomes(reply)[0] == ("local", "answered")
    assert outcomes(reply)[-1] == ("cloud", "answered")


def test_both_work_at_the_same_time(cloud: LoopbackCloud) -> None:
    begun = threading.Event()

    def after_the_device(seen: SeenRequest) -> Scripted:
        assert begun.wait(LONGEST_S), "the device has to work while the cloud does"
        return calls(FIVE, LONDON)

    def until_asked() -> None:
        begun.set()
        once_asked(cloud)()

    cloud.always(after_the_device)
    chosen = settings_for(cloud, patience_s=LONGEST_S, first_token_s=LONGEST_S)
    reply = ask(chosen, Waiting(function_model(BOTH, doubt=sorted(NAMES)), until_asked))
    assert made(reply) == FROM_CLOUD
    assert len(cloud.requests) == 1


def test_when_the_cloud_fails_the_devices_calls_stand(cloud: LoopbackCloud) -> None:
    cloud.always(Status(401))
    reply = ask(settings_for(cloud), function_model(BOTH, doubt=["get_weather"]))
    assert made(reply) == FROM_DEVICE
    assert (reply.source, reply.decision.degraded_code) == ("local", "cloud_auth_failed")
    assert len(cloud.requests) == 1


def test_a_failed_cloud_does_not_touch_calls_the_device_is_sure_of(cloud: LoopbackCloud) -> None:
    cloud.always(Status(401))
    device = Waiting(function_model(BOTH), once_asked(cloud))
    reply = ask(settings_for(cloud), device)
    assert (made(reply), reply.degraded) == (FROM_DEVICE, False)
    assert reply.decision.code == "kept_confident"


def test_a_device_that_breaks_off_leaves_the_answer_to_the_running_request(
    cloud: LoopbackCloud,
) -> None:
    reply = ask(settings_for(cloud), ScriptedFunctionModel(["none"], fails=True))
    assert (made(reply), reply.decision.code) == (FROM_CLOUD, "handoff_local_failed")
    assert len(cloud.requests) == 1


def test_a_budget_that_is_spent_sends_nothing(cloud: LoopbackCloud) -> None:
    chosen = settings_for(cloud, budgets=("$0.000001/day",))
    reply = ask(chosen, function_model(BOTH))
    assert (made(reply), reply.degraded) == (FROM_DEVICE, False)
    reply = ask(chosen, function_model(BOTH, doubt=["get_weather"]))
    assert (made(reply), reply.decision.degraded_code) == (FROM_DEVICE, "budget_spent")
    assert cloud.requests == []


@pytest.mark.parametrize(
    "options", [{"private": True}, {"policy": "local_only"}, {"handoff": "signal"}]
)
def test_nothing_private_is_speculated_with(cloud: LoopbackCloud, options: dict[str, Any]) -> None:
    for device in (function_model(BOTH), function_model(BOTH, doubt=sorted(NAMES))):
        reply = ask(settings_for(cloud), device, **options)
        assert {attempt.place for attempt in reply.attempts} == {"local"}
    assert cloud.connections == 0


class Unruly:
    """A `Cloud` that raises anything, or waits to be stopped."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.entered = threading.Event()
        self.may_begin = threading.Event()

    def closed(self, request: Request) -> CloudClosed | None:
        return None

    def stream(
        self,
        request: Request,
        journal: list[Attempt],
        *,
        live: bool,
        patience_s: float | None,
        stop: Stop | None = None,
    ) -> Generator[Chunk, None, None]:
        self.entered.set()
        assert stop is not None and self.may_begin.wait(LONGEST_S)
        if self.error is not None:
            raise self.error
        if stop.begin():
            journal.append(Attempt(place="cloud", backend="x", model="x", outcome="cancelled"))
        yield "late"


REQUEST = Request(messages=(Message("user", TWO),))


def test_an_error_of_another_thread_is_raised_where_the_answer_is_wanted() -> None:
    unruly = Unruly(RuntimeError("a plug-in's own"))
    unruly.may_begin.set()
    ahead = Speculation(unruly, REQUEST, 1.0)
    with pytest.raises(RuntimeError, match="plug-in"):
        ahead.answer([])
    ahead.cancel([])


def test_cancelling_does_not_wait_for_what_has_not_begun() -> None:
    unruly, journal = Unruly(), list[Attempt]()
    ahead = Speculation(unruly, REQUEST, 1.0)
    assert unruly.entered.wait(LONGEST_S)
    ahead.cancel(journal)  # returns, though the thread is still held up
    unruly.may_begin.set()
    ahead.answer(journal)
    assert journal == [], "and what comes later begins nothing"


def test_attempts_are_handed_over_once() -> None:
    unruly, journal = Unruly(), list[Attempt]()
    unruly.may_begin.set()
    ahead = Speculation(unruly, REQUEST, 1.0)
    assert ahead.answer(journal) == ["late"]
    ahead.cancel(journal)
    assert len(journal) == 1
