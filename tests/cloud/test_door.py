"""The door: the chain, money, time limits, retries; what leaves of pictures; speech."""

from __future__ import annotations

import base64
import importlib
import io
import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow
from PIL import PngImagePlugin
from typing_extensions import override

from edgewise import Engine, Settings
from edgewise.cloud.conversation import TOKENS_PER_IMAGE, estimated_input_tokens
from edgewise.cloud.door import (
    PAUSE_S,
    Breaker,
    Door,
    Lane,
    count_tokens,
    pause_before_retry,
    ready_to_leave,
)
from edgewise.cloud.openai import open_provider
from edgewise.cloud.provider import (
    Arrived,
    Chunk,
    CloudProvider,
    ProviderConfig,
    Stop,
    TimeLimits,
)
from edgewise.cloud.providers import PROVIDERS, LibraryPrices
from edgewise.errors import (
    BudgetExceeded,
    CloudAuthFailed,
    CloudClosed,
    CloudCut,
    CloudEmpty,
    CloudError,
    CloudFailed,
    CloudMalformed,
    CloudRateLimited,
    CloudRejected,
    CloudTimeout,
    CloudUnreachable,
    InvalidRequest,
    LedgerUnavailable,
    SettingsError,
    TooSoon,
)
from edgewise.record.ledger import Ledger
from edgewise.record.rows import parse_budget
from edgewise.testing import (
    Answer,
    Cut,
    Empty,
    LoopbackCloud,
    Malformed,
    ScriptedBackend,
    ScriptedFunctionModel,
    Silence,
    Status,
    black_hole,
    refused_url,
)
from edgewise.testing.loopback_cloud.wires import UNTOLD
from edgewise.types.messages import (
    Audio,
    Image,
    Message,
    Request,
    Tool,
    ToolCall,
    new_request_id,
)
from edgewise.types.replies import Attempt, Finish, Finished, TextDelta, Vectors
from tests.cloud.adapter_cases import KEY, address
from tests.cloud.raw_server import RawServer, events, reply
from tests.cloud.speech_cases import HEARING, SOUND, WAVE, speech_model, spoken, written

ASK = Request(messages=(Message("user", "Where is it?"),), max_tokens=50)
LIMITS = TimeLimits(connect_s=10.0, first_token_s=30.0, total_s=60.0, patience_s=30.0)
SHORT = TimeLimits(connect_s=0.4, first_token_s=0.6, total_s=2.0, patience_s=0.6)


@dataclass
class NotedBudgetGuard:
    """Records what it was asked; refuses if told to."""

    refuse: Exception | None = None
    reserved: dict[str, int] = field(default_factory=dict)
    settled: dict[str, list[Attempt]] = field(default_factory=dict)
    broken: bool = False
    wait: float = 0.0
    budget: int | None = None

    def wait_s(self, request: Request) -> float:
        return self.wait

    def reserve(
        self, attempt_id: str, request: Request, config: ProviderConfig, microdollars: int
    ) -> None:
        if self.refuse is not None:
            raise self.refuse
        if self.budget is not None and microdollars > self.budget:
            raise BudgetExceeded(f"{microdollars} is more than {self.budget}")
        self.reserved[attempt_id] = microdollars

    def has_budget(self, request: Request) -> bool:
        return self.budget is not None

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
        cached_tokens: int = 0,
        stored_tokens: int = 0,
        stored_long_tokens: int = 0,
        spoken_tokens: int = 0,
        searches: int = 0,
        characters: int = 0,
    ) -> int:
        return 10 * (input_tokens + output_tokens)

    def known(self, config: ProviderConfig) -> bool:
        return True


def lane(url: str, name: str = "openai", limits: TimeLimits = LIMITS) -> Lane:
    config = ProviderConfig(
        name=name, protocol="openai", model="m", base_url=url, key="secret", limits=limits
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


def test_a_handoff_too_soon_is_closed_before_anything_is_asked(
    door: Door, cloud: LoopbackCloud, budget_guard: NotedBudgetGuard
) -> None:
    budget_guard.wait = 12.34
    shut = door.closed(ASK)
    assert shut is not None and (shut.code, shut.retry_after_s) == ("cooldown", 12.34)
    with pytest.raises(CloudClosed, match=r"in 12\.3 s \(cloud_every_s\)"):
        drain(door)
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


UNLIMITED = Request(messages=(Message("user", "Where is it?"),))


@pytest.mark.parametrize(
    ("budget", "limit"),
    [(None, None), (10**6, 16_384), (50_000, 4096), (20_000, 1024), (10_000, 256)],
)
def test_an_answer_without_a_limit_gets_one_that_the_budget_pays_for(
    door: Door,
    cloud: LoopbackCloud,
    budget_guard: NotedBudgetGuard,
    budget: int | None,
    limit: int | None,
) -> None:
    budget_guard.budget = budget
    list(door.stream(UNLIMITED, [], live=True, patience_s=None))
    assert cloud.requests[0].body.get("max_completion_tokens") == limit
    (reserved,) = budget_guard.reserved.values()
    assert 10 * (limit or 16_384) < reserved <= (budget or reserved), "ten for each token"


def test_a_limit_that_somebody_asked_for_is_not_made_shorter(
    door: Door, cloud: LoopbackCloud, budget_guard: NotedBudgetGuard
) -> None:
    budget_guard.budget = 5000
    with pytest.raises(CloudClosed, match="more than 5000") as caught:
        list(door.stream(replace(UNLIMITED, max_tokens=900), [], live=True, patience_s=None))
    assert caught.value.code == "budget_spent"
    assert cloud.requests == []


def test_a_budget_that_pays_for_no_answer_sends_nothing(
    door: Door, cloud: LoopbackCloud, budget_guard: NotedBudgetGuard
) -> None:
    budget_guard.budget = 2500
    with pytest.raises(CloudClosed, match="more than 2500"):
        list(door.stream(UNLIMITED, [], live=True, patience_s=None))
    assert cloud.requests == []


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
    with pytest.raises(CloudTimeout):  # the limit of the provider is much longer
        drain(door, patience=0.2)
    cloud.wait_for(lambda seen: seen.disconnects == 1, timeout=30)


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
    cloud: LoopbackCloud, budget_guard: NotedBudgetGuard
) -> None:
    limits = replace(LIMITS, total_s=2.0)
    door = Door([lane(cloud.openai_url, limits=limits)], budget_guard, TenPerToken(), limits)
    cloud.script(Answer(text="drip " * 40_000, chunk_size=5, delay_between_s=0.05))
    journal: list[Attempt] = []
    with pytest.raises(CloudTimeout):
        list(door.stream(ASK, journal, live=True, patience_s=None))
    assert journal[0].outcome == "cloud_timeout"
    cloud.wait_for(lambda seen: seen.disconnects == 1, timeout=30)
    door.close()


WORDS = "Why, let me see. " * 14


def being_made(text: str = "", thoughts: str = "", *calls: ToolCall) -> Answer:
    """Sixty pieces: together longer than any limit below, and never silent for long."""
    return Answer(
        text=text, thoughts=thoughts, tool_calls=calls, chunk_size=4, delay_between_s=0.05
    )


@pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", ["openai", "anthropic", "gemini"])
def test_a_cloud_that_thinks_is_not_silent(
    cloud: LoopbackCloud, tmp_path: Path, name: str, live: bool
) -> None:
    cloud.always(being_made("By the sea.", WORDS))
    with Engine(hurried(cloud, name, tmp_path), backend=ScriptedBackend.doubtful("No.")) as engine:
        if live:
            *events, end = engine.stream("Where is it?")
            assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "By the sea."
            assert isinstance(end, Finished)
            reply = end.reply
        else:
            reply = engine.complete("Where is it?")
        assert (reply.source, reply.text, reply.degraded) == ("cloud", "By the sea.", False)
        assert engine.complete("Where is it?").source == "cloud", "nothing was wrong with it"


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_rescue_whose_arguments_take_long_is_kept(
    cloud: LoopbackCloud, tmp_path: Path, name: str
) -> None:
    london = ToolCall("get_weather", {"location": "London", "why": WORDS})
    cloud.always(being_made("", "", london))
    weather = Tool(
        "get_weather",
        "Get current weather for a location",
        {
            "type": "object",
            "properties": {"location": {"type": "string"}, "why": {"type": "string"}},
            "required": ["location"],
        },
    )
    said = ['get_weather {"location":"Paris"}']
    device = ScriptedFunctionModel(said, logprobs=[[-2.5] * 9])
    with Engine(hurried(cloud, name, tmp_path), function_model=device) as engine:
        reply = engine.call("What is the weather in London?", [weather])
        assert [call.arguments["location"] for call in reply.calls] == ["London"]
        assert [call.source for call in reply.calls] == ["cloud"]


def hurried(cloud: LoopbackCloud, name: str, folder: Path) -> Settings:
    """Less time for silence than `being_made` takes, and as long as forty pauses of it."""
    variables = {
        f"{name.upper()}_API_KEY": "k",
        f"EDGEWISE_{name.upper()}_BASE_URL": getattr(cloud, URLS[name]),
    }
    return Settings.load(
        variables,
        chain=[name],
        first_token_s=2.0,
        patience_s=2.0,
        data_dir=folder / "data",
        config_dir=folder / "config",
    )


class Scripted:
    """A provider in this process that yields what it is told, and then raises."""

    def __init__(self, *chunks: Chunk, error: CloudError | None = None, pause_s: float = 0) -> None:
        self.config = ProviderConfig(name="scripted", protocol="openai", model="m")
        self.asked = 0
        self._chunks, self._error, self._pause_s = chunks, error, pause_s

    def lane(self) -> Lane:
        return Lane(self.config, lambda config: self, Breaker(60.0))

    def stream(self, request: Request, wire_id: str) -> Iterator[Chunk]:
        self.asked += 1
        for chunk in self._chunks:
            time.sleep(self._pause_s)
            yield chunk
        if self._error is not None:
            raise self._error

    def abort(self, wire_id: str) -> None: ...

    def close(self) -> None: ...


END = Finish("stop", input_tokens=7, output_tokens=3)


class Strange(Scripted):
    """A plug-in that raises what nobody expects: when it is asked, or in its answer."""

    def __init__(self, error: BaseException, *chunks: Chunk) -> None:
        super().__init__(*chunks)
        self.raised = error

    @override
    def stream(self, request: Request, wire_id: str) -> Iterator[Chunk]:
        if not self._chunks:
            raise self.raised
        return self._broken()

    def _broken(self) -> Iterator[Chunk]:
        yield from self._chunks
        raise self.raised


@pytest.mark.parametrize("chunks", [(), (Arrived(0),), ("The dose ",)], ids=str)
@pytest.mark.parametrize("kind", [KeyError, OSError, ZeroDivisionError])
def test_what_a_plug_in_raises_ends_the_wait_at_once_and_is_not_quoted(
    budget_guard: NotedBudgetGuard, kind: type[Exception], chunks: tuple[Chunk, ...]
) -> None:
    limits = replace(LIMITS, first_token_s=300.0, total_s=300.0)
    lane = Strange(kind("it is about Mrs Smith"), *chunks).lane()
    door = Door([lane], budget_guard, TenPerToken(), limits)
    journal: list[Attempt] = []
    with pytest.raises(CloudError, match=f"scripted broke off: {kind.__name__}") as raised:
        list(door.stream(ASK, journal, live=True, patience_s=None))
    assert "Smith" not in str(raised.value) and "Smith" not in journal[0].error
    assert [each.outcome for each in journal] == [raised.value.code]


def test_what_only_arrived_never_leaves_the_door(budget_guard: NotedBudgetGuard) -> None:
    scripted = Scripted(Arrived(0), Arrived(9), "By ", Arrived(0), Arrived(5), "the sea.", END)
    door = Door([scripted.lane()], budget_guard, TenPerToken(), LIMITS)
    chunks = list(door.stream(ASK, [], live=True, patience_s=None))
    assert chunks == ["By ", "the sea.", END]


def test_pings_alone_win_no_time(budget_guard: NotedBudgetGuard) -> None:
    pinging = Scripted(*[Arrived(0)] * 400, "Late.", END, pause_s=0.05)
    limits = replace(LIMITS, first_token_s=1.0)
    door = Door([pinging.lane()], budget_guard, TenPerToken(), limits)
    with pytest.raises(CloudTimeout):
        drain(door)
    assert door.lanes[0].breaker.state == "open"


def test_the_end_of_what_never_ends_says_nothing_about_the_provider(
    budget_guard: NotedBudgetGuard,
) -> None:
    endless = Scripted(*["drip "] * 100_000, END, pause_s=0.01)
    limits = replace(LIMITS, total_s=5.0)
    door = Door([endless.lane()], budget_guard, TenPerToken(), limits)
    with pytest.raises(CloudTimeout, match=r"had not ended after 5 s \(total_s\)"):
        drain(door)
    assert door.lanes[0].breaker.state == "closed", "it was there to the end"


@pytest.mark.parametrize("error", [CloudCut("cut"), CloudFailed("500")], ids=["cut", "500"])
def test_thoughts_that_end_in_an_error_are_paid_for_and_another_provider_may_start_over(
    budget_guard: NotedBudgetGuard, error: CloudError
) -> None:
    first, second = Scripted(Arrived(100), error=error), Scripted("Second.", END)
    door = Door([first.lane(), second.lane()], budget_guard, TenPerToken(), LIMITS)
    text, journal = drain(door)
    assert text == "Second."
    assert first.asked == 1, "a second try would have been paid for, too"
    assert [attempt.outcome for attempt in journal] == [error.code, "answered"]
    assert journal[0].estimated and journal[0].cost_microdollars > 0
    assert journal[0].first_token_ms is None, "nobody saw anything of it"


def test_thoughts_without_an_answer_are_an_empty_answer(budget_guard: NotedBudgetGuard) -> None:
    door = Door([Scripted(Arrived(9), END).lane()], budget_guard, TenPerToken(), LIMITS)
    with pytest.raises(CloudEmpty):
        drain(door)


def test_our_own_impatience_says_nothing_about_the_provider(
    door: Door, cloud: LoopbackCloud
) -> None:
    for _ in range(2):
        cloud.script(Answer(text="Slow.", delay_first_s=60.0))
        with pytest.raises(CloudTimeout):
            drain(door, replace(ASK, id=new_request_id()), patience=0.2)
        assert (door.closed(ASK), door.lanes[0].breaker.state) == (None, "closed")
    cloud.script(Answer(text="Still here."))
    assert drain(door)[0] == "Still here."


def test_a_probe_that_we_had_no_patience_for_is_given_back(
    door: Door, cloud: LoopbackCloud
) -> None:
    cloud.script(Status(401))
    with pytest.raises(CloudAuthFailed):
        drain(door)
    time.sleep(0.35)  # the cool-down of these lanes
    cloud.script(Answer(text="Slow.", delay_first_s=60.0))
    with pytest.raises(CloudTimeout):
        drain(door, replace(ASK, id="hurried"), patience=0.2)
    cloud.script(Answer(text="Back."))
    assert drain(door, replace(ASK, id="later"))[0] == "Back."


def test_a_probe_with_a_long_answer_lets_the_others_in(door: Door, cloud: LoopbackCloud) -> None:
    cloud.script(Status(401))
    with pytest.raises(CloudAuthFailed):
        drain(door)
    time.sleep(0.35)  # the cool-down of these lanes
    cloud.script(Answer(text="One two three four.", chunk_size=4, delay_between_s=0.05))
    long = door.stream(replace(ASK, id="long"), [], live=True, patience_s=None)
    next(long)
    cloud.script(Answer(text="Beside it."))
    assert drain(door, replace(ASK, id="beside"))[0] == "Beside it."
    list(long)


def test_a_black_hole_costs_the_connect_limit_once_then_nothing(
    budget_guard: NotedBudgetGuard,
) -> None:
    with black_hole() as url:
        hole = lane(f"{url}/v1", limits=SHORT)
        hole.breaker = Breaker(60.0)
        door = Door([hole], budget_guard, TenPerToken(), SHORT)
        with pytest.raises(CloudError) as caught:
            drain(door, patience=2.0)
        assert caught.value.code in ("cloud_connect_timeout", "cloud_timeout")
        with pytest.raises(CloudClosed) as shut:
            drain(door, replace(ASK, id="again"))
        assert shut.value.code == "breaker_open", "nothing was tried"
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
        (TooSoon("one handoff every 60 s"), "cooldown"),
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
    cloud.wait_for(lambda seen: seen.disconnects == 1, timeout=30)
    assert door.lanes[0].breaker.state == "closed"


WIRES = {"openai": "openai_url", "anthropic": "anthropic_url", "gemini": "gemini_url"}
# Two calls: Gemini sends each whole, and the first piece of an answer is not waited for.
CALLED = Answer(
    text="",
    tool_calls=(ToolCall("write_file", {"text": "x" * 400}),) * 2,
    delay_between_s=600.0,  # longer than any machine stops
)


def wired(cloud: LoopbackCloud, budget_guard: NotedBudgetGuard, name: str) -> Door:
    url = getattr(cloud, WIRES[name])
    config = ProviderConfig(name=name, protocol=name, model="m", base_url=url, key="k")
    module = importlib.import_module(f"edgewise.cloud.{name}")
    return Door([Lane(config, module.open_provider, Breaker(0.3))], budget_guard, TenPerToken())


def left(door: Door, cloud: LoopbackCloud) -> Attempt:
    """Stopped as soon as the provider has the request."""
    journal: list[Attempt] = []
    stop = Stop()
    thread = stopped(door, journal, stop)
    cloud.wait_for(lambda seen: len(seen.requests) == 1)
    stop.ask()
    thread.join(30)
    return journal[0]


@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize(
    "reply",
    [Silence(), Silence(after_chunks=2), CALLED],
    ids=["before_the_first", "in_the_text", "in_a_call"],
)
def test_who_leaves_pays_what_was_reserved(
    cloud: LoopbackCloud, budget_guard: NotedBudgetGuard, name: str, reply: Silence | Answer
) -> None:
    """The provider may have written all of it, and thought before."""
    cloud.always(reply)
    door = wired(cloud, budget_guard, name)
    attempt = left(door, cloud)
    assert (attempt.outcome, attempt.estimated) == ("cancelled", True)
    assert attempt.cost_microdollars == budget_guard.reserved[f"{ASK.id}/0"] > 0
    door.close()


@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize(
    "reply",
    [Cut(after_chunks=0), Cut(after_chunks=0, how="end"), Cut(after_chunks=2), Malformed()],
    ids=["before_the_first", "without_an_end", "in_the_text", "malformed"],
)
def test_a_cut_answer_costs_what_was_reserved_and_is_not_asked_for_twice(
    cloud: LoopbackCloud, budget_guard: NotedBudgetGuard, name: str, reply: Cut | Malformed
) -> None:
    cloud.always(reply)
    door = wired(cloud, budget_guard, name)
    journal: list[Attempt] = []
    with pytest.raises(CloudError):
        list(door.stream(ASK, journal, live=True, patience_s=None))
    assert [each.cost_microdollars for each in journal] == [budget_guard.reserved[f"{ASK.id}/0"]]
    assert journal[0].estimated and len(cloud.requests) == 1
    door.close()


def test_an_error_in_an_answer_that_had_begun_is_neither_free_nor_retried(
    budget_guard: NotedBudgetGuard,
) -> None:
    """Nothing was shown, but it may have been thinking."""
    thought = '{"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}}]}'
    broken = '{"error": {"message": "overloaded", "type": "server_error"}}'
    with RawServer(reply(events(thought, broken))) as server:
        door = Door([lane(f"{server.url}/v1")], budget_guard, TenPerToken(), LIMITS)
        journal: list[Attempt] = []
        with pytest.raises(CloudError):
            list(door.stream(ASK, journal, live=False, patience_s=None))
        door.close()
    assert [each.cost_microdollars for each in journal] == [budget_guard.reserved[f"{ASK.id}/0"]]
    assert (journal[0].tries, len(server.requests)) == (1, 1)


def test_what_was_never_sent_costs_nothing(budget_guard: NotedBudgetGuard) -> None:
    """Nobody takes the connection; the user leaves first."""
    with black_hole() as url:
        door = Door([lane(f"{url}/v1")], budget_guard, TenPerToken(), LIMITS)
        journal: list[Attempt] = []
        with pytest.raises(CloudTimeout):
            list(door.stream(ASK, journal, live=True, patience_s=0.3))
    assert [each.cost_microdollars for each in journal] == [0]
    door.close()


@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize("usage", [-5, None, 0, 10**25, UNTOLD], ids=str)
def test_an_answer_whose_usage_cannot_be_costs_what_was_reserved(
    cloud: LoopbackCloud, budget_guard: NotedBudgetGuard, name: str, usage: object
) -> None:
    cloud.script(Answer(text="By the sea.", usage=usage))
    door = wired(cloud, budget_guard, name)
    text, (attempt,) = drain(door)
    assert (text, attempt.outcome, attempt.estimated) == ("By the sea.", "answered", True)
    assert attempt.cost_microdollars == budget_guard.reserved[f"{ASK.id}/0"]
    assert 0 < attempt.input_tokens < 1000 and 0 < attempt.output_tokens < 10
    door.close()


def test_an_honest_usage_above_the_reservation_is_booked(
    door: Door, cloud: LoopbackCloud, budget_guard: NotedBudgetGuard
) -> None:
    cloud.script(Answer(text="By the sea.", input_tokens=90_000, output_tokens=3))
    _, (attempt,) = drain(door)
    assert (attempt.cost_microdollars, attempt.estimated) == (900_030, False)
    assert budget_guard.reserved[f"{ASK.id}/0"] < 900_030


def test_sixteen_large_schemas_at_once_stay_within_a_budget(
    cloud: LoopbackCloud, tmp_path: Path
) -> None:
    """The provider bills a token for every byte of what it gets."""
    cloud.always(lambda seen: Answer(text="{}", input_tokens=len(json.dumps(seen.body))))
    schema = {"type": "object", "description": "街" * 100_000}
    settings = Settings.load(
        {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url},
        chain=("openai",),
        budgets=("$0.2/day",),  # three fit
        data_dir=tmp_path,
        config_dir=tmp_path,
    )
    refusals: list[str] = []

    def ask(engine: Engine) -> None:
        try:
            engine.complete("Where?", response_format=schema, policy="cloud_only")
        except CloudClosed as error:
            refusals.append(error.code)

    with Engine(settings) as engine:
        threads = [threading.Thread(target=ask, args=(engine,)) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        report = engine.ledger.report()
    assert 0 < len(cloud.requests) < 16 and set(refusals) == {"budget_spent"}
    billed = sum(len(json.dumps(seen.body)) for seen in cloud.requests)
    assert billed / 10 < report.spent_microdollars + 16 <= 200_000


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


def test_a_provider_that_cannot_be_opened_takes_one_thread_and_not_one_of_each_request(
    cloud: LoopbackCloud, budget_guard: NotedBudgetGuard
) -> None:
    tried = threading.Semaphore(0)

    def refuse(config: ProviderConfig) -> CloudProvider:
        tried.release()
        raise SettingsError("the key has a line break in it")

    broken = lane(cloud.openai_url, "broken")
    broken.open = refuse
    door = Door([broken], budget_guard, TenPerToken(), LIMITS)
    for _ in range(50):
        door.prepare()
    assert tried.acquire(timeout=30)
    door.close()
    door.prepare()  # closed and used again: somebody may have mended it
    assert tried.acquire(timeout=30) and not tried.acquire(blocking=False)


def test_prices_are_looked_up_before_anything_has_to_leave(
    cloud: LoopbackCloud, budget_guard: NotedBudgetGuard
) -> None:
    """Reading the list takes longer than a short answer: a handoff would wait for it."""
    looked_up = threading.Event()

    class Listed(TenPerToken):
        @override
        def known(self, config: ProviderConfig) -> bool:
            looked_up.set()
            return True

    door = Door([lane(cloud.openai_url)], budget_guard, Listed(), LIMITS)
    door.prepare()
    assert looked_up.wait(30)
    door.close()


def stopped(door: Door, journal: list[Attempt], stop: Stop) -> threading.Thread:
    """Reads a stream on its own thread, so that a test can stop it."""
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
    thread.join(30)
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
    thread.join(30)
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


@pytest.mark.parametrize(
    "error",
    [CloudAuthFailed, CloudCut, CloudMalformed, CloudRejected, CloudTimeout, CloudUnreachable],
)
def test_what_cannot_change_or_may_have_been_paid_for_is_not_retried(
    error: type[CloudError],
) -> None:
    assert pause_before_retry(error("x"), 1, 60.0) is None


def test_a_server_error_is_retried_once() -> None:
    assert pause_before_retry(CloudFailed("500"), 1, 60.0) == PAUSE_S
    assert pause_before_retry(CloudFailed("500"), 2, 60.0) is None


@pytest.mark.parametrize(
    ("retry_after", "left", "pause"),
    [(0.5, 60.0, 0.5), (None, 60.0, PAUSE_S), (30.0, 60.0, None), (1.5, 1.0, None)],
)
def test_retry_after_is_honoured_where_it_fits(
    retry_after: float | None, left: float, pause: float | None
) -> None:
    error = CloudRateLimited("429", retry_after_s=retry_after)
    assert pause_before_retry(error, 1, left) == pause


SECRET = "Zanzibar-7731-secret"
CONFIGS = {
    name: ProviderConfig(name=name, protocol=PROVIDERS[name].protocol, model="m")
    for name in ("openai", "anthropic", "gemini", "mistral", "cactus_cloud")
}


def photo(
    form: str = "JPEG",
    secret: str = SECRET,
    size: tuple[int, int] = (320, 240),
    colour: str = "red",
) -> bytes:
    """A picture whose metadata tells a secret, in every place the format has for it."""
    pixels = Pillow.new("RGB", size, colour)
    exif = Pillow.Exif()
    exif[0x010E] = secret  # description
    exif[0x0112] = 1
    exif.get_ifd(0x8825)[1] = "N"  # GPS
    exif.get_ifd(0x8825)[2] = (48.0, 51.0, 29.5)
    exif.get_ifd(0x8825)[29] = secret
    options: dict[str, Any] = {"exif": exif}
    if form == "PNG":
        info = PngImagePlugin.PngInfo()
        info.add_text("Comment", secret)
        info.add_itxt("XML:com.adobe.xmp", f"<x>{secret}</x>")
        options["pnginfo"] = info
    if form in ("JPEG", "WEBP"):
        options["xmp"] = f"<x:xmpmeta>{secret}</x:xmpmeta>".encode()
    if form == "JPEG":
        options["comment"] = secret.encode()
    if form == "GIF":
        options = {"comment": secret.encode()}
    file = io.BytesIO()
    pixels.save(file, form, **options)
    assert secret.encode() in file.getvalue()
    return file.getvalue()


def request_with(*images: bytes) -> Request:
    pictures = tuple(Image.from_bytes(data, "/home/me/private.jpg") for data in images)
    return Request(messages=(Message("user", "What is this?", images=pictures),))


def sent_images(request: Request) -> list[Image]:
    return [image for message in request.messages for image in message.images]


@settings(max_examples=25, deadline=None)
@given(
    secret=st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=8, max_size=60),
    form=st.sampled_from(["JPEG", "PNG", "WEBP", "TIFF", "GIF"]),
    name=st.sampled_from(sorted(CONFIGS)),
)
def test_no_metadata_leaves_whatever_it_says(secret: str, form: str, name: str) -> None:
    [image] = sent_images(ready_to_leave(request_with(photo(form, secret)), CONFIGS[name]))
    assert secret.encode() not in image.data
    assert image.name == ""
    found = Pillow.open(io.BytesIO(image.data))
    assert not found.getexif()
    assert not {"exif", "xmp", "comment", "Comment", "icc_profile"} & set(found.info)


URLS = {"openai": "openai_url", "anthropic": "anthropic_url", "gemini": "gemini_url"}


@pytest.mark.parametrize("name", URLS)
def test_through_the_sdk_all_pictures_arrive_clean_and_resized(name: str, tmp_path: Path) -> None:
    with LoopbackCloud() as cloud:
        settings = Settings.load(
            {
                f"{name.upper()}_API_KEY": "k",
                f"EDGEWISE_{name.upper()}_BASE_URL": getattr(cloud, URLS[name]),
                "EDGEWISE_CHAIN": name,
            },
            data_dir=tmp_path,
        )
        large = photo("JPEG", size=(6000, 3000), colour="blue")
        images = [Image.from_bytes(data) for data in (large, photo("PNG"), photo("WEBP"))]
        with Engine(settings) as engine:
            reply = engine.complete("Compare these.", images=images, policy="cloud_only")
    body = json.dumps(cloud.requests[-1].body)
    assert reply.source == "cloud"
    assert SECRET not in body
    found = [
        Pillow.open(io.BytesIO(base64.b64decode(text.replace("-", "+").replace("_", "/"))))
        for text in re.findall(r"[A-Za-z0-9+/_-]{200,}={0,2}", body)
    ]
    side = PROVIDERS[name].image_side
    assert [picture.size for picture in found] == [(side, side // 2), (320, 240), (320, 240)]
    assert SECRET.encode() not in b"".join(picture.tobytes() for picture in found)
    assert all(not picture.getexif() for picture in found)
    assert reply.usage.cost_microdollars > 0


def test_text_is_left_as_it_is() -> None:
    request = Request(messages=(Message("user", "hello"),))
    assert ready_to_leave(request, CONFIGS["openai"]) is request


def test_a_picture_that_cannot_be_read_does_not_leave() -> None:
    with pytest.raises(InvalidRequest, match="image 2"):
        ready_to_leave(request_with(photo(), b"\x89PNG but not really"), CONFIGS["openai"])


def test_many_large_pictures_together_stay_below_what_servers_take() -> None:
    noise = io.BytesIO()
    Pillow.effect_noise((1600, 1600), 100).convert("RGB").save(noise, "PNG")
    request = ready_to_leave(request_with(*[noise.getvalue()] * 12), CONFIGS["openai"])
    assert sum(len(image.data) for image in sent_images(request)) * 4 / 3 <= 18_000_000


@pytest.mark.parametrize(
    ("provider", "model", "size", "tokens"),
    [
        ("anthropic", "m", (1000, 750), 1000),
        ("gemini", "m", (300, 300), 1120),
        ("gemini", "m", (960, 540), 258 * 6),
        ("openai", "m", (1024, 1024), 2520),  # 32 by 32 patches, 2.46 tokens each
        ("openai", "m", (16, 512), 85 + 170),
        ("openai", "gpt-4o-mini", (512, 512), 2833 + 5667),
        ("openrouter", "openai/gpt-4o-mini", (512, 512), 2833 + 5667),
        ("mistral", "m", (512, 512), 0),
        ("cactus_cloud", "m", (512, 512), 0),
    ],
)
def test_pictures_are_counted_by_the_providers_rules(
    provider: str, model: str, size: tuple[int, int], tokens: int
) -> None:
    assert count_tokens(PROVIDERS[provider], model, *size) == tokens


def test_the_count_enters_what_is_reserved() -> None:
    request = request_with(photo(size=(750, 750)))
    words = estimated_input_tokens(Request(messages=(Message("user", "What is this?"),)))
    assert estimated_input_tokens(request) == words + TOKENS_PER_IMAGE
    ready = ready_to_leave(request, CONFIGS["anthropic"])
    assert estimated_input_tokens(ready) == words + 750


MINUTE = Audio(WAVE, "audio/wav", seconds=60.0)  # $0.0045 at gpt-transcribe


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    book = Ledger(tmp_path / "ledger.sqlite3", budgets=[parse_budget("$0.01/day")])
    yield book
    book.close()


def hearing_lane(url: str, model: str = "gpt-transcribe", limits: TimeLimits = LIMITS) -> Lane:
    config = ProviderConfig(
        name="openai", protocol="openai", model=model, base_url=url, key=KEY, limits=limits
    )
    return Lane(config, open_provider, Breaker(30.0))


@pytest.fixture
def hearing_door(cloud: LoopbackCloud, ledger: Ledger) -> Iterator[Door]:
    made = Door([hearing_lane(cloud.openai_url)], ledger, LibraryPrices(), LIMITS)
    yield made
    made.close()


def hear(hearing_door: Door, request: Request) -> tuple[str, Attempt]:
    journal: list[Attempt] = []
    chunks = list(hearing_door.stream(request, journal, live=False, patience_s=None))
    assert isinstance(chunks[-1], Finish)
    (attempt,) = journal
    return "".join(chunk for chunk in chunks if isinstance(chunk, str)), attempt


def failed(hearing_door: Door, request: Request, error: type[CloudError]) -> Attempt:
    journal: list[Attempt] = []
    with pytest.raises(error):
        list(hearing_door.stream(request, journal, live=False, patience_s=None))
    (attempt,) = journal
    return attempt


@pytest.mark.parametrize("name", HEARING)
def test_an_engine_opens_a_door_for_speech_with_the_speech_models(
    cloud: LoopbackCloud, tmp_path: Path, name: str
) -> None:
    tables = {name: {"base_url": address(cloud, name), "key_env": "THE_KEY"}}
    settings = Settings.load(
        {"THE_KEY": KEY}, chain=[name], providers=tables, data_dir=tmp_path, config_dir=tmp_path
    )
    cloud.always("Right in the middle.")
    with Engine(settings) as engine:
        door = engine.parts.cloud("transcribe")
        journal: list[Attempt] = []
        request = spoken(MINUTE)
        chunks = list(door.stream(request, journal, live=False, patience_s=None))
        assert chunks[0] == "Right in the middle."
        (attempt,) = journal
        assert (attempt.backend, attempt.model) == (name, speech_model(name))
        assert (attempt.audio_seconds, attempt.outcome) == (60.0, "answered")
        assert attempt.cost_microdollars > 0
        assert engine.ledger.report().spent_microdollars == attempt.cost_microdollars
    assert [seen.audio for seen in cloud.requests] == [WAVE]


def test_sound_is_paid_by_its_seconds(
    hearing_door: Door, cloud: LoopbackCloud, ledger: Ledger
) -> None:
    cloud.script(Answer(text="All of it.", audio_seconds=60.0))
    text, attempt = hear(hearing_door, spoken(MINUTE))
    assert text == "All of it."
    assert (attempt.cost_microdollars, attempt.audio_seconds) == (4_500, 60.0)
    assert not attempt.estimated
    assert ledger.report().spent_microdollars == 4_500


def test_silence_is_answered_and_not_an_empty_answer(
    hearing_door: Door, cloud: LoopbackCloud
) -> None:
    cloud.script(Empty())
    text, attempt = hear(hearing_door, spoken(SOUND))
    assert (text, attempt.outcome) == ("", "answered")


def test_private_sound_never_reaches_the_socket(
    hearing_door: Door, cloud: LoopbackCloud, ledger: Ledger
) -> None:
    request = replace(spoken(SOUND), private=True)
    with pytest.raises(CloudClosed) as caught:
        list(hearing_door.stream(request, [], live=False, patience_s=None))
    assert caught.value.code == "private"
    assert (cloud.connections, ledger.seen(request.id)) == (0, False)


def test_a_budget_that_does_not_cover_the_seconds_sends_nothing(
    hearing_door: Door, cloud: LoopbackCloud
) -> None:
    """A cent a day: two minutes at $0.0045 each, not three."""
    cloud.always(Answer(text="Yes.", audio_seconds=60.0))
    for _ in range(2):
        hear(hearing_door, spoken(MINUTE))
    with pytest.raises(CloudClosed) as caught:
        list(hearing_door.stream(spoken(MINUTE), [], live=False, patience_s=None))
    assert caught.value.code == "budget_spent"
    assert len(cloud.requests) == 2
    text, _ = hear(hearing_door, spoken(Audio(WAVE, seconds=10.0)))
    assert text == "Yes.", "a shorter sound still fits"


def test_a_sound_that_does_not_say_how_long_it_is_is_not_free(
    hearing_door: Door, cloud: LoopbackCloud
) -> None:
    unsaid = Audio(bytes(8000 * 360), "audio/wav")  # perhaps six minutes of a telephone call
    with pytest.raises(CloudClosed) as caught:
        list(hearing_door.stream(spoken(unsaid), [], live=False, patience_s=None))
    assert (caught.value.code, cloud.connections) == ("budget_spent", 0)


def test_a_refusal_costs_nothing_and_has_no_seconds(
    hearing_door: Door, cloud: LoopbackCloud
) -> None:
    cloud.always(Status(500))
    attempt = failed(hearing_door, spoken(MINUTE), CloudFailed)
    assert (attempt.cost_microdollars, attempt.audio_seconds, attempt.tries) == (0, 0.0, 2)


@pytest.mark.parametrize(
    ("fault", "error"),
    [(Silence(), CloudTimeout), (Malformed(), CloudMalformed), (Cut(), CloudError)],
)
def test_what_may_have_been_transcribed_is_taken_for_paid(
    cloud: LoopbackCloud,
    ledger: Ledger,
    fault: Silence | Malformed | Cut,
    error: type[CloudError],
) -> None:
    limits = SHORT if isinstance(fault, Silence) else LIMITS
    lane = hearing_lane(cloud.openai_url, limits=limits)
    hearing_door = Door([lane], ledger, LibraryPrices(), limits)
    cloud.script(fault)
    attempt = failed(hearing_door, spoken(MINUTE), error)
    hearing_door.close()
    assert (attempt.cost_microdollars, attempt.audio_seconds) == (4_500, 60.0)
    assert attempt.estimated


def test_the_breaker_turns_the_next_sound_back_at_once(
    cloud: LoopbackCloud, hearing_door: Door, ledger: Ledger
) -> None:
    cloud.stop()
    failed(hearing_door, spoken(SOUND), CloudError)
    with pytest.raises(CloudClosed) as caught:
        list(hearing_door.stream(spoken(SOUND), [], live=False, patience_s=None))
    assert caught.value.code == "breaker_open"


def test_a_stop_from_another_thread_ends_the_wait_and_is_settled(
    hearing_door: Door, cloud: LoopbackCloud
) -> None:
    cloud.script(Silence())
    journal: list[Attempt] = []
    chunks: list[Chunk] = []
    stop = Stop()
    request = spoken(MINUTE)
    reader = threading.Thread(
        target=lambda: chunks.extend(
            hearing_door.stream(request, journal, live=False, patience_s=None, stop=stop)
        )
    )
    reader.start()
    cloud.wait_for(lambda server: len(server.requests) == 1)
    stop.ask()
    reader.join(30)
    assert not reader.is_alive()
    assert chunks == []
    assert [(each.outcome, each.audio_seconds) for each in journal] == [("cancelled", 60.0)]
    cloud.wait_for(lambda server: server.disconnects == 1)


def test_a_provider_that_cannot_transcribe_has_no_lane(tmp_path: Path) -> None:
    settings = Settings.load(
        {"ANTHROPIC_API_KEY": KEY, "DEEPSEEK_API_KEY": KEY}, data_dir=tmp_path, config_dir=tmp_path
    )
    with Engine(settings) as engine:
        shut = engine.parts.cloud("transcribe").closed(spoken(SOUND))
        assert shut is not None and shut.code == "no_key"
        assert engine.parts.cloud("chat").closed(replace(spoken(SOUND), task="chat")) is None


def test_vectors_come_through_the_door_and_are_paid_by_their_tokens(
    cloud: LoopbackCloud, ledger: Ledger
) -> None:
    door = Door(
        [hearing_lane(cloud.openai_url, "text-embedding-3-large")], ledger, LibraryPrices(), LIMITS
    )
    cloud.script(Answer(vectors=((1.0, 2.0),), input_tokens=1000))
    journal: list[Attempt] = []
    chunks = list(door.stream(written("a text"), journal, live=False, patience_s=None))
    door.close()
    assert chunks[0] == Vectors(((1.0, 2.0),))
    (attempt,) = journal
    assert (attempt.outcome, attempt.input_tokens, attempt.cost_microdollars) == (
        "answered",
        1000,
        130,
    )
