"""The door: the only place where requests leave the device."""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgewise.cloud.breaker import Breaker
from edgewise.cloud.conversation import estimated_finish
from edgewise.cloud.prices import charged, highest
from edgewise.cloud.provider import (
    BudgetGuard,
    Chunk,
    CloudProvider,
    Prices,
    ProviderConfig,
    Stop,
    TimeLimits,
)
from edgewise.cloud.providers import Protocol, Provider, row_for
from edgewise.cloud.redact import Redactor
from edgewise.errors import (
    BudgetExceeded,
    CloudClosed,
    CloudCut,
    CloudEmpty,
    CloudError,
    CloudFailed,
    CloudMalformed,
    CloudRateLimited,
    CloudTimeout,
    EdgewiseError,
    LedgerError,
    StoreAway,
    TooSoon,
)
from edgewise.types.messages import Image, Request, ToolCall, new_request_id
from edgewise.types.progress import Progress, watched
from edgewise.types.replies import Attempt
from edgewise.types.tokens import Finish, Vectors
from edgewise.vision.pictures import encode, open_picture, shrink

BACKLOG = 64  # chunks that may wait for a slow reader before the provider is slowed down
MOST_TRIES = 2
PAUSE_S = 0.25
LONGEST_PAUSE_S = 2.0
# The most bytes that the strictest server takes in one request, base64 included.
MOST_BYTES_TOGETHER = 18_000_000
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Lane:
    """One provider of the chain, opened when first used, with its breaker."""

    config: ProviderConfig
    open: Callable[[ProviderConfig], CloudProvider]
    breaker: Breaker
    provider: CloudProvider | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self) -> CloudProvider:
        with self.lock:
            if self.provider is None:
                self.provider = self.open(self.config)
            return self.provider


@dataclass(slots=True)
class Door:
    """Implements `Cloud`. Thread-safe: each stream has its own state.

    `no_lanes` are the words for a door without a lane: whose key is missing.
    """

    lanes: Sequence[Lane]
    budget_guard: BudgetGuard
    prices: Prices
    limits: TimeLimits = field(default_factory=TimeLimits)
    clock: Callable[[], float] = time.monotonic
    redactor: Redactor = field(default_factory=Redactor)
    own_id: str = field(default_factory=new_request_id)  # of the engine, for what leaves
    no_lanes: str = "no cloud provider has a key (edgewise auth set PROVIDER)"

    def closed(self, request: Request) -> CloudClosed | None:
        if not request.may_leave:
            return CloudClosed("the request is private", code="private")
        if (kept := self.redactor.closed(request)) is not None:
            return kept
        if not self.lanes:
            return CloudClosed(self.no_lanes, code="no_key")
        if not any(lane.breaker.would_allow() for lane in self.lanes):
            return self._breakers_open()
        return self._too_soon(request)

    def _too_soon(self, request: Request) -> CloudClosed | None:
        try:
            wait_s = self.budget_guard.wait_s(request)
        except LedgerError as error:
            return CloudClosed(str(error), code=_closing_code(error))
        if not wait_s:
            return None
        words = f"a handoff left moments ago; the next may leave in {wait_s:.1f} s (cloud_every_s)"
        return CloudClosed(words, code="cooldown", retry_after_s=wait_s)

    def stream(
        self,
        request: Request,
        journal: list[Attempt],
        *,
        live: bool,
        patience_s: float | None,
        stop: Stop | None = None,
    ) -> Generator[Chunk, None, None]:
        if (shut := self.closed(request)) is not None:
            raise shut
        request = replace(request, via=(*request.via, self.own_id))
        sealed = self.redactor.seal(request)
        stop = stop or Stop()
        give_up: float | None = None
        last: CloudError = self._breakers_open()
        for lane in self.lanes:
            if give_up is not None and self.clock() >= give_up:
                break
            if not lane.breaker.allow():
                continue
            try:
                lane.get()  # loading an SDK is not waiting for the network
                ready = ready_to_leave(sealed.request, lane.config)
            except (EdgewiseError, ImportError) as error:
                lane.breaker.released()
                last = CloudClosed(str(error), provider=lane.config.name, code="provider_unusable")
                continue
            if give_up is None and patience_s is not None:
                give_up = self.clock() + patience_s
            if not stop.begin():
                lane.breaker.released()
                return
            attempt_id = f"{request.id}/{request.part}{len(journal)}"
            trip = _Trip(lane, attempt_id, self.clock(), stop, sealed.counts)
            try:
                yield from sealed.open(self._attempt(ready, trip, journal, live, give_up))
                return
            except CloudError as error:
                last = error
                if live and trip.begun:
                    raise  # some text was shown: nobody else can start over
        raise last

    def prepare(self) -> None:
        """Load the first provider's SDK in the background, while the device answers."""
        if self.lanes and self.lanes[0].provider is None:
            threading.Thread(target=self._open_first, name="edgewise-prepare", daemon=True).start()

    def _open_first(self) -> None:
        # `stream` meets the same error again, and reports it.
        with contextlib.suppress(EdgewiseError, ImportError):
            self.lanes[0].get()

    def close(self) -> None:
        for lane in self.lanes:
            if lane.provider is not None:
                lane.provider.close()

    def _breakers_open(self) -> CloudClosed:
        wait = min((lane.breaker.seconds_left() for lane in self.lanes), default=0.0)
        names = ", ".join(lane.config.name for lane in self.lanes)
        return CloudClosed(
            f"{names} failed moments ago; next try in {wait:.0f} s", code="breaker_open"
        )

    def _attempt(
        self,
        request: Request,
        trip: _Trip,
        journal: list[Attempt],
        live: bool,
        give_up: float | None,
    ) -> Generator[Chunk, None, None]:
        lane = trip.lane
        self._reserve(request, trip)
        if trip.progress is not None:
            trip.progress.start("cloud", lane.config.name, lane.config.model)
        failure: CloudError | None = None
        outcome = "cancelled"  # the default if the reader leaves
        try:
            held: list[Chunk] = []
            for chunk in self._tries(request, trip, give_up):
                if live:
                    yield chunk
                else:
                    held.append(chunk)
            outcome = "answered"
            lane.breaker.succeeded()
            yield from held
        except _Stopped:
            return
        except CloudError as error:
            failure, outcome = error, error.code
            lane.breaker.failed(error)
            raise
        finally:
            if outcome == "cancelled":
                lane.breaker.released()
            attempt = self._account(request, trip, outcome, failure)
            journal.append(attempt)
            self._settle(trip, attempt)

    def _reserve(self, request: Request, trip: _Trip) -> None:
        config = trip.lane.config
        bound = highest(self.prices, config, request)
        try:
            self.budget_guard.reserve(trip.attempt_id, request, config, bound)
        except LedgerError as error:
            trip.lane.breaker.released()
            code = _closing_code(error)
            raise CloudClosed(str(error), provider=config.name, code=code) from error

    def _settle(self, trip: _Trip, attempt: Attempt) -> None:
        try:
            self.budget_guard.settle(trip.attempt_id, attempt)
        except LedgerError as error:
            # The answer is not lost; the reservation expires and is then settled in full.
            _log.warning("could not settle %s: %s", trip.attempt_id, error)

    def _tries(self, request: Request, trip: _Trip, give_up: float | None) -> Iterator[Chunk]:
        """Try the same provider once more if that is safe; then raise its error."""
        while True:
            if trip.stop.asked:
                raise _Stopped
            trip.tries += 1
            try:
                yield from self._one_try(request, trip, give_up)
                return
            except CloudError as error:
                if trip.begun:
                    raise
                left = (give_up or trip.started + self.limits.total_s) - self.clock()
                pause = pause_before_retry(error, trip.tries, left)
                if pause is None:
                    raise
                trip.stop.wait(pause)

    def _one_try(self, request: Request, trip: _Trip, give_up: float | None) -> Iterator[Chunk]:
        provider, limits = trip.lane.get(), self.limits
        must_end = trip.started + limits.total_s
        first_by = min(self.clock() + limits.first_token_s, must_end, give_up or must_end)
        stream = ThreadedStream(provider, request, f"{trip.attempt_id}.{trip.tries}")
        trip.stop.wakes(stream.wake)
        try:
            while True:
                wait = (must_end if trip.begun else first_by) - self.clock()
                chunk = stream.next(min(wait, limits.first_token_s))
                if chunk is None:
                    break
                if isinstance(chunk, Finish):
                    trip.finish = chunk
                    continue
                self._note(trip, chunk)
                yield chunk
        finally:
            stream.close()
        name = provider.config.name
        if trip.finish is None:
            raise CloudCut(f"{name} stopped before the end of the answer", provider=name)
        if not trip.begun:
            raise CloudEmpty(f"{name} sent an empty answer", provider=name)
        yield trip.finish

    def _note(self, trip: _Trip, chunk: str | ToolCall | Vectors) -> None:
        if trip.first is None:
            trip.first = self.clock()
        if isinstance(chunk, str):
            trip.characters += len(chunk)
            if trip.progress is not None:
                trip.progress.count()

    def _account(
        self, request: Request, trip: _Trip, outcome: str, failure: CloudError | None
    ) -> Attempt:
        """This attempt with its usage and cost, as far as they are known."""
        config, now = trip.lane.config, self.clock()
        attempt = Attempt(
            place="cloud",
            backend=config.name,
            model=config.model,
            outcome=outcome,
            error=str(failure or ""),
            tries=trip.tries,
            first_token_ms=None if trip.first is None else 1000 * (trip.first - trip.started),
            total_ms=1000 * (now - trip.started),
            redacted=trip.redacted,
        )
        finish = trip.finish
        if finish is None:
            # An answer that comes in one piece was complete before it was cut or garbled.
            whole = request.task in ("transcribe", "embed")
            paid = (CloudTimeout, CloudCut, CloudMalformed) if whole else CloudTimeout
            refused = failure and not trip.begun and not isinstance(failure, paid)
            if refused or not trip.tries:
                return attempt  # refused or stopped before it began: nobody charges for that
            finish = estimated_finish(request, "stop", trip.characters)
        return charged(attempt, finish, self.prices, config)


@dataclass(slots=True)
class _Trip:
    """One running attempt: what came back so far."""

    lane: Lane
    attempt_id: str
    started: float
    stop: Stop
    redacted: Mapping[str, int]
    first: float | None = None
    characters: int = 0
    tries: int = 0
    finish: Finish | None = None
    progress: Progress | None = field(default_factory=watched.get)

    @property
    def begun(self) -> bool:
        """Whether some of the answer has arrived."""
        return self.first is not None


class ThreadedStream:
    """One try at one provider: its blocking stream runs on its own thread.

    So waiting for it has an exact limit. The time-outs of an HTTP client do not cover a name server
    that never answers, nor the sum of many small waits. Here the reader decides how long to wait,
    and leaving never blocks.
    """

    def __init__(self, provider: CloudProvider, request: Request, wire_id: str) -> None:
        self._provider = provider
        self._name = provider.config.name
        self._wire_id = wire_id
        self._queue: queue.Queue[Chunk | CloudError | _Stopped | None] = queue.Queue(BACKLOG)
        self._left = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(request,), name=f"edgewise-{self._name}", daemon=True
        )
        self._thread.start()

    def next(self, timeout_s: float) -> Chunk | None:
        """The next chunk; None at the end. Raises CloudTimeout, or what the provider raised.

        Raises _Stopped if `wake` was called.
        """
        try:
            item = self._queue.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            raise CloudTimeout(
                f"{self._name} sent nothing for {timeout_s:.1f} s", provider=self._name
            ) from None
        if isinstance(item, CloudError | _Stopped):
            raise item
        return item

    def wake(self) -> None:
        """From another thread: end the reader's wait."""
        while True:
            try:
                self._queue.put_nowait(_Stopped())
                return
            except queue.Full:
                with contextlib.suppress(queue.Empty):
                    self._queue.get_nowait()  # nobody will read it

    def close(self) -> None:
        """Leave: break the connection if the thread still uses it. Returns at once."""
        self._left.set()
        if self._thread.is_alive():
            self._provider.abort(self._wire_id)

    def _run(self, request: Request) -> None:
        chunks = self._provider.stream(request, self._wire_id)
        try:
            for chunk in chunks:
                if not self._offer(chunk):
                    return
            self._offer(None)
        except CloudError as error:
            self._offer(error)
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; nobody may hang
            self._offer(CloudError(f"{type(error).__name__}: {error}", provider=self._name))
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()

    def _offer(self, item: Chunk | CloudError | None) -> bool:
        while not self._left.is_set():
            try:
                self._queue.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False


class _Stopped(Exception):
    """Another thread ended the wait. Never leaves the door."""


def _closing_code(error: LedgerError) -> str:
    known = isinstance(error, BudgetExceeded | TooSoon | StoreAway)
    return error.code if known else "ledger_unavailable"


def pause_before_retry(error: CloudError, tries: int, seconds_left: float) -> float | None:
    """Seconds to wait before the next try, or None for no further try.

    Retried: 429 if its Retry-After fits, and 5xx. Not retried: what will not change soon (DNS,
    refused, no route, keys, bad requests) and what may have been paid for (time-outs, cuts).
    """
    if tries >= MOST_TRIES:
        return None
    if isinstance(error, CloudRateLimited):
        pause = PAUSE_S if error.retry_after_s is None else error.retry_after_s
    elif isinstance(error, CloudFailed):
        pause = PAUSE_S
    else:
        return None
    return pause if pause <= min(LONGEST_PAUSE_S, seconds_left) else None


def ready_to_leave(request: Request, config: ProviderConfig) -> Request:
    """The request with all its pictures rewritten: upright, resized, without metadata.

    Raises InvalidRequest for an unreadable picture: what cannot be cleaned does not leave.
    """
    if not request.has_images:
        return request
    row = row_for(config)
    count = sum(len(message.images) for message in request.messages)
    most_bytes = min(row.image_bytes, MOST_BYTES_TOGETHER * 3 // 4 // count)
    position = 0
    messages = []
    for message in request.messages:
        images = []
        for image in message.images:
            position += 1
            images.append(_ready(image, position, row, most_bytes))
        messages.append(replace(message, images=tuple(images)))
    return replace(request, messages=tuple(messages))


def count_tokens(protocol: Protocol, width: int, height: int) -> int:
    """By the provider's published rules; 0 if it publishes none."""
    match protocol:
        case "anthropic":
            return math.ceil(width * height / 750)
        case "gemini":
            return _gemini_tokens(width, height)
        case "openai":
            return _openai_tokens(width, height)
    return 0


def _ready(image: Image, position: int, row: Provider, most_bytes: int) -> Image:
    picture = open_picture(image, position, side=row.image_side)
    written = encode(picture, most_bytes)
    while len(written.data) > most_bytes and max(picture.size) > 256:
        picture = shrink(picture, max(picture.size) * 3 // 4)
        written = encode(picture, most_bytes)
    tokens = count_tokens(row.protocol, *picture.size)
    return Image(written.data, written.media_type, tokens=tokens)  # no name: it may be a path


def _gemini_tokens(width: int, height: int) -> int:
    """258 for a small picture, and for each tile of a larger one."""
    if max(width, height) <= 384:
        return 258
    tile = min(768, max(256, int(min(width, height) / 1.5)))
    return 258 * math.ceil(width / tile) * math.ceil(height / tile)


def _openai_tokens(width: int, height: int) -> int:
    """85, and 170 for each 512-pixel tile once the shorter side is at most 768."""
    scale = min(1.0, 2048 / max(width, height))
    scale *= min(1.0, 768 / max(1.0, min(width, height) * scale))
    tiles = math.ceil(width * scale / 512) * math.ceil(height * scale / 512)
    return 85 + 170 * tiles
