"""The door: the chain, money, time limits, retries; what leaves of pictures; speech."""

from __future__ import annotations

import base64
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
from edgewise.cloud.breaker import Breaker
from edgewise.cloud.conversation import TOKENS_PER_IMAGE, estimated_input_tokens
from edgewise.cloud.door import (
    PAUSE_S,
    Door,
    Lane,
    count_tokens,
    pause_before_retry,
    ready_to_leave,
)
from edgewise.cloud.openai import open_provider
from edgewise.cloud.prices import LibraryPrices
from edgewise.cloud.provider import Chunk, CloudProvider, ProviderConfig, Stop, TimeLimits
from edgewise.cloud.providers import PROVIDERS
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
from edgewise.record.budget import parse_budget
from edgewise.record.ledger import Ledger
from edgewise.testing import (
    Answer,
    Cut,
    Empty,
    LoopbackCloud,
    Malformed,
    Silence,
    Status,
    black_hole,
    refused_url,
)
from edgewise.types.messages import Audio, Image, Message, Request
from edgewise.types.replies import Attempt
from edgewise.types.tokens import Finish, Vectors
from tests.cloud.adapter_cases import KEY, address
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

    def wait_s(self, request: Request) -> float:
        return self.wait

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
def test_through_the_sdk_all_pictures_arrive_clean_and_resized(name: str) -> None:
    with LoopbackCloud() as cloud:
        settings = Settings.load(
            {
                f"{name.upper()}_API_KEY": "k",
                f"EDGEWISE_{name.upper()}_BASE_URL": getattr(cloud, URLS[name]),
                "EDGEWISE_CHAIN": name,
            }
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
    ("protocol", "size", "tokens"),
    [
        ("anthropic", (1000, 750), 1000),
        ("gemini", (300, 300), 258),
        ("gemini", (960, 540), 258 * 6),
        ("openai", (1024, 1024), 85 + 4 * 170),
        ("openai", (512, 512), 85 + 170),
        ("cactus_cloud", (512, 512), 0),
    ],
)
def test_pictures_are_counted_by_the_providers_rules(
    protocol: Any, size: tuple[int, int], tokens: int
) -> None:
    assert count_tokens(protocol, *size) == tokens


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
        door = engine._cloud_for("transcribe")
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
        shut = engine._cloud_for("transcribe").closed(spoken(SOUND))
        assert shut is not None and shut.code == "no_key"
        assert engine._cloud_for("chat").closed(replace(spoken(SOUND), task="chat")) is None


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
