"""The door: privacy, chain, breaker, money and time-outs, over real HTTP and real SDKs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from typing_extensions import override

from edgewise.cloud.breaker import Breaker
from edgewise.cloud.door import Door, Lane
from edgewise.cloud.openai import open_provider
from edgewise.cloud.provider import Chunk, CloudProvider, ProviderConfig, Stop, TimeLimits
from edgewise.errors import (
    BudgetExceeded,
    CloudAuthFailed,
    CloudClosed,
    CloudCut,
    CloudEmpty,
    CloudError,
    CloudFailed,
    CloudTimeout,
    LedgerUnavailable,
    SettingsError,
)
from edgewise.testing import (
    Answer,
    Cut,
    Empty,
    LoopbackCloud,
    Silence,
    Status,
    black_hole,
    refused_url,
)
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Attempt
from edgewise.types.tokens import Finish

ASK = Request(messages=(Message("user", "Where is it?"),), max_tokens=50)
LIMITS = TimeLimits(connect_s=0.4, first_token_s=0.6, total_s=2.0, patience_s=0.6)


@dataclass
class NotedBudgetGuard:
    """Writes down what it was asked; refuses when told to."""

    refuse: Exception | None = None
    reserved: dict[str, int] = field(default_factory=dict)
    settled: dict[str, list[Attempt]] = field(default_factory=dict)
    broken: bool = False

    def reserve(
        self, attempt_id: str, request: Request, config: ProviderConfig, microdollars: int
    ) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.reserved[attempt_id] = microdollars

    def settle(self, attempt_id: str, attempt: Attempt) -> None:
        if self.broken:
            raise LedgerUnavailable("disk full")
        self.settled.setdefault(attempt_id, []).append(attempt)


class TenPerToken:
    def cost(
        self,
        config: ProviderConfig,
        input_tokens: int,
        output_tokens: int,
        audio_seconds: float = 0.0,
        audio_tokens: int = 0,
    ) -> int:
        return 10 * (input_tokens + output_tokens)


def lane(url: str, name: str = "openai") -> Lane:
    config = ProviderConfig(
        name=name, protocol="openai", model="m", base_url=url, key="secret", limits=LIMITS
    )
    return Lane(config, open_provider, Breaker(0.3))


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        yield server


@pytest.fixture
def budget_guard() -> NotedBudgetGuard:
    return NotedBudgetGuard()


@pytest.fixture
def door(cloud: LoopbackCloud, budget_guard: NotedBudgetGuard) -> Iterator[Door]:
    made = Door([lane(cloud.openai_url)], budget_guard, TenPerToken(), LIMITS)
    yield made
    made.close()


def drain(
    door: Door, request: Request = ASK, *, live: bool = True, patience: float | None = None
) -> tuple[str, list[Attempt]]:
    journal: list[Attempt] = []
    chunks: list[Chunk] = list(door.stream(request, journal, live=live, patience_s=patience))
    assert isinstance(chunks[-1], Finish)
    return "".join(chunk for chunk in chunks if isinstance(chunk, str)), journal


def test_an_answer_is_streamed_reserved_and_settled_once(
    door: Door, cloud: LoopbackCloud, budget_guard: NotedBudgetGuard
) -> None:
    cloud.script(Answer(text="By the sea.", input_tokens=7, output_tokens=3))
    text, journal = drain(door)
    assert text == "By the sea."
    (attempt,) = journal
    assert (attempt.outcome, attempt.cost_microdollars) == ("answered", 100)
    assert list(budget_guard.settled) == list(budget_guard.reserved) == [f"{ASK.id}/0"]
    assert budget_guard.reserved[f"{ASK.id}/0"] >= attempt.cost_microdollars
    assert budget_guard.settled[f"{ASK.id}/0"] == [attempt]


@pytest.mark.parametrize("live", [True, False])
def test_a_private_request_is_turned_back_at_the_door(
    door: Door, cloud: LoopbackCloud, budget_guard: NotedBudgetGuard, live: bool
) -> None:
    private = replace(ASK, private=True)
    with pytest.raises(CloudClosed) as caught:
        drain(door, private, live=live)
    assert caught.value.code == "private"
    assert (cloud.connections, budget_guard.reserved) == (0, {})


def test_a_door_without_providers_says_what_is_missing(budget_guard: NotedBudgetGuard) -> None:
    shut = Door([], budget_guard, TenPerToken()).closed(ASK)
    assert shut is not None
    assert shut.code == "no_key" and "edgewise auth" in str(shut)


def test_the_chain_goes_on_to_the_next_provider(
    cloud: LoopbackCloud, budget_guard: NotedBudgetGuard
) -> None:
    cloud.always(Answer(text="Second."))
    door = Door(
        [lane(refused_url(), "first"), lane(cloud.openai_url, "second")],
        budget_guard,
        TenPerToken(),
        LIMITS,
    )
    text, journal = drain(door)
    assert text == "Second."
    assert [(a.backend, a.outcome) for a in journal] == [
        ("first", "cloud_refused"),
        ("second", "answered"),
    ]
    assert all(len(rows) == 1 for rows in budget_guard.settled.values())
    text, journal = drain(door, replace(ASK, id="again"))
    assert [a.backend for a in journal] == ["second"], "the first one's breaker is open"
    door.close()


def test_a_cut_stream_is_tried_elsewhere_only_while_nobody_saw_it(
    cloud: LoopbackCloud, budget_guard: NotedBudgetGuard
) -> None:
    door = Door(
        [lane(cloud.openai_url, "first"), lane(cloud.openai_url, "second")],
        budget_guard,
        TenPerToken(),
        LIMITS,
    )
    cloud.script(Cut(after_chunks=2, text="Half of it was"), Answer(text="Whole."))
    assert drain(door, live=False)[0] == "Whole."
    cloud.script(Cut(after_chunks=2, text="Half of it was"), Answer(text="Whole."))
    seen: list[Chunk] = []
    journal: list[Attempt] = []
    with pytest.raises(CloudCut):
        seen.extend(door.stream(replace(ASK, id="live"), journal, live=True, patience_s=None))
    assert [a.outcome for a in journal] == ["cloud_cut"]
    assert journal[0].estimated and journal[0].cost_microdollars > 0, "what came was paid for"
    door.close()


def test_a_server_error_is_retried_once_and_is_one_attempt(
    door: Door, cloud: LoopbackCloud, budget_guard: NotedBudgetGuard
) -> None:
    cloud.script(Status(500), Answer(text="Second try."))
    text, journal = drain(door)
    assert (text, journal[0].tries, len(journal)) == ("Second try.", 2, 1)
    cloud.script(Status(500), Status(500))
    with pytest.raises(CloudFailed):
        drain(door, replace(ASK, id="again"))


def test_refusals_cost_nothing(
    door: Door, cloud: LoopbackCloud, budget_guard: NotedBudgetGuard
) -> None:
    cloud.script(Status(401))
    with pytest.raises(CloudAuthFailed):
        drain(door)
    ((attempt,),) = budget_guard.settled.values()
    assert (attempt.outcome, attempt.cost_microdollars) == ("cloud_auth_failed", 0)
    assert "secret" not in attempt.error


def test_an_empty_answer_is_an_error(door: Door, cloud: LoopbackCloud) -> None:
    cloud.script(Empty())
    with pytest.raises(CloudEmpty):
        drain(door)


def test_silence_ends_with_patience(door: Door, cloud: LoopbackCloud) -> None:
    cloud.always(Silence())
    started = time.monotonic()
    with pytest.raises(CloudTimeout):
        drain(door, patience=0.2)
    assert time.monotonic() - started < 2.0
    cloud.wait_for(lambda seen: seen.disconnects == 1, timeout=5)


def test_patience_is_for_the_whole_chain(
    cloud: LoopbackCloud, budget_guard: NotedBudgetGuard
) -> None:
    cloud.always(Silence())
    door = Door(
        [lane(cloud.openai_url, name) for name in ("a", "b", "c", "d")],
        budget_guard,
        TenPerToken(),
        LIMITS,
    )
    journal: list[Attempt] = []
    with pytest.raises(CloudTimeout):
        list(door.stream(ASK, journal, live=True, patience_s=0.3))
    assert len(journal) == 1, "no time was left for the others"
    door.close()


def test_a_stream_that_never_ends_is_ended_by_the_total(
    door: Door, cloud: LoopbackCloud, budget_guard: NotedBudgetGuard
) -> None:
    cloud.script(Answer(text="drip " * 400, chunk_size=5, delay_between_s=0.05))
    journal: list[Attempt] = []
    with pytest.raises(CloudTimeout):
        list(door.stream(ASK, journal, live=True, patience_s=None))
    assert journal[0].outcome == "cloud_timeout"
    cloud.wait_for(lambda seen: seen.disconnects == 1, timeout=5)


def test_a_black_hole_costs_the_connect_limit_once_then_nothing(
    budget_guard: NotedBudgetGuard,
) -> None:
    with black_hole() as url:
        hole = lane(f"{url}/v1")
        hole.breaker = Breaker(60.0)
        door = Door([hole], budget_guard, TenPerToken(), LIMITS)
        with pytest.raises(CloudError) as caught:
            drain(door, patience=2.0)
        assert caught.value.code in ("cloud_connect_timeout", "cloud_timeout")
        started = time.monotonic()
        with pytest.raises(CloudClosed) as shut:
            drain(door, replace(ASK, id="again"))
        assert time.monotonic() - started < 0.05
        assert shut.value.code == "breaker_open"
        door.close()


def test_routing_resumes_by_itself_when_the_provider_is_back(
    door: Door, cloud: LoopbackCloud
) -> None:
    cloud.script(Status(401))
    with pytest.raises(CloudAuthFailed):
        drain(door)
    assert door.closed(ASK) is not None
    time.sleep(0.35)  # the cool-down of these lanes
    cloud.script(Answer(text="Back."))
    assert drain(door, replace(ASK, id="later"))[0] == "Back."
    assert door.closed(ASK) is None


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (BudgetExceeded("$3/day is spent"), "budget_spent"),
        (LedgerUnavailable("disk full"), "ledger_unavailable"),
    ],
)
def test_without_money_or_record_nothing_is_sent(
    door: Door, cloud: LoopbackCloud, budget_guard: NotedBudgetGuard, refusal: Exception, code: str
) -> None:
    budget_guard.refuse = refusal
    with pytest.raises(CloudClosed) as caught:
        drain(door)
    assert caught.value.code == code
    assert cloud.requests == []
    assert door.lanes[0].breaker.state == "closed", "not the provider's fault"


def test_an_answer_is_not_lost_when_its_settlement_cannot_be_written(
    door: Door,
    cloud: LoopbackCloud,
    budget_guard: NotedBudgetGuard,
    caplog: pytest.LogCaptureFixture,
) -> None:
    budget_guard.broken = True
    cloud.script(Answer(text="Still here."))
    assert drain(door)[0] == "Still here."
    assert "could not settle" in caplog.text


def test_leaving_half_way_breaks_the_connection_and_settles(
    door: Door, cloud: LoopbackCloud, budget_guard: NotedBudgetGuard
) -> None:
    cloud.script(Answer(text="one two three four five six", chunk_size=4, delay_between_s=0.2))
    journal: list[Attempt] = []
    stream = door.stream(ASK, journal, live=True, patience_s=None)
    next(stream)
    stream.close()
    assert [a.outcome for a in journal] == ["cancelled"]
    assert len(budget_guard.settled[f"{ASK.id}/0"]) == 1
    cloud.wait_for(lambda seen: seen.disconnects == 1, timeout=5)
    assert door.lanes[0].breaker.state == "closed"


def test_threads_do_not_pile_up(door: Door, cloud: LoopbackCloud) -> None:
    cloud.always(Answer(text="fine"))
    drain(door)
    before = threading.active_count()
    for index in range(20):
        drain(door, replace(ASK, id=f"r{index}"))
    assert threading.active_count() <= before + 2
    assert cloud.connections <= 2, "connections are reused"


def test_a_provider_that_cannot_be_opened_is_passed_over(
    cloud: LoopbackCloud, budget_guard: NotedBudgetGuard
) -> None:
    def refuse(config: ProviderConfig) -> CloudProvider:
        raise SettingsError("the key has a line break in it")

    cloud.script(Answer(text="Second."))
    broken = lane(cloud.openai_url, "broken")
    broken.open = refuse
    door = Door([broken, lane(cloud.openai_url)], budget_guard, TenPerToken(), LIMITS)
    door.prepare()
    assert drain(door)[0] == "Second."
    alone = Door([broken], budget_guard, TenPerToken(), LIMITS)
    with pytest.raises(CloudClosed, match="line break") as caught:
        drain(alone, replace(ASK, id="again"))
    assert caught.value.code == "provider_unusable"
    door.close()


def stopped(door: Door, journal: list[Attempt], stop: Stop) -> threading.Thread:
    """Reads a stream on a thread of its own, as whoever will stop it does."""
    got: list[Chunk] = []

    def read() -> None:
        got.extend(door.stream(ASK, journal, live=False, patience_s=None, stop=stop))
        assert got == [], "a stopped stream ends without a Finish"

    thread = threading.Thread(target=read)
    thread.start()
    return thread


@pytest.mark.parametrize("reply", [Silence(), Silence(after_chunks=2)], ids=["first", "later"])
def test_a_stream_can_be_stopped_from_another_thread(
    cloud: LoopbackCloud, budget_guard: NotedBudgetGuard, reply: Silence
) -> None:
    cloud.always(reply)
    limits = replace(LIMITS, first_token_s=600.0, total_s=600.0)
    door = Door([lane(cloud.openai_url)], budget_guard, TenPerToken(), limits)
    journal: list[Attempt] = []
    stop = Stop()
    thread = stopped(door, journal, stop)
    cloud.wait_for(lambda seen: len(seen.requests) == 1)
    assert stop.ask()
    thread.join(5)
    assert not thread.is_alive()
    cloud.wait_for(lambda seen: seen.disconnects == 1)
    (attempt,) = journal
    assert (attempt.outcome, attempt.estimated) == ("cancelled", True)
    assert budget_guard.settled == {f"{ASK.id}/0": [attempt]}
    assert attempt.cost_microdollars > 0
    assert door.lanes[0].breaker.would_allow(), "nothing was wrong with the provider"
    door.close()


def test_a_stop_ends_the_pause_before_a_retry(
    cloud: LoopbackCloud, budget_guard: NotedBudgetGuard
) -> None:
    cloud.always(Status(429, retry_after_s=2))
    limits = replace(LIMITS, total_s=600.0)
    door = Door([lane(cloud.openai_url)], budget_guard, TenPerToken(), limits)
    journal: list[Attempt] = []
    stop = Stop()
    thread = stopped(door, journal, stop)
    cloud.wait_for(lambda seen: len(seen.requests) == 1)
    stop.ask()
    thread.join(5)
    assert not thread.is_alive() and len(cloud.requests) == 1
    assert [attempt.outcome for attempt in journal] == ["cancelled"]
    door.close()


def test_a_stop_that_comes_first_costs_nothing(
    door: Door, cloud: LoopbackCloud, budget_guard: NotedBudgetGuard
) -> None:
    stop = Stop()
    assert not stop.ask(), "nothing had begun"
    journal: list[Attempt] = []
    assert list(door.stream(ASK, journal, live=False, patience_s=None, stop=stop)) == []
    assert (journal, budget_guard.reserved, cloud.connections) == ([], {}, 0)
    assert drain(door)[0], "the lane is free for the next"


def test_a_stop_between_the_reservation_and_the_sending_is_not_charged(
    cloud: LoopbackCloud,
) -> None:
    stop = Stop()

    class StopsOnReserve(NotedBudgetGuard):
        @override
        def reserve(
            self, attempt_id: str, request: Request, config: ProviderConfig, microdollars: int
        ) -> None:
            stop.ask()

    budget_guard = StopsOnReserve()
    door = Door([lane(cloud.openai_url)], budget_guard, TenPerToken(), LIMITS)
    journal: list[Attempt] = []
    assert list(door.stream(ASK, journal, live=False, patience_s=None, stop=stop)) == []
    assert [(each.outcome, each.cost_microdollars) for each in journal] == [("cancelled", 0)]
    assert cloud.requests == []
    door.close()
