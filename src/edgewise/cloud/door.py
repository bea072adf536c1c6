"""The door: the only place where requests leave the device; and the breaker before each cloud."""

from __future__ import annotations

import base64
import contextlib
import errno
import functools
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from typing_extensions import override

from edgewise.cloud.conversation import (
    LONGEST_ANSWER,
    base64_text,
    believable,
    data_url,
    estimated_finish,
    picture_source,
)
from edgewise.cloud.provider import (
    Arrived,
    BudgetGuard,
    Chunk,
    Circuits,
    CloudProvider,
    Prices,
    ProviderConfig,
    Stop,
    TimeLimits,
)
from edgewise.cloud.providers import PROVIDERS, Provider, charged, highest, row_for
from edgewise.cloud.redact import Redactor
from edgewise.errors import (
    BudgetExceeded,
    CloudAuthFailed,
    CloudClosed,
    CloudCut,
    CloudEmpty,
    CloudError,
    CloudFailed,
    CloudRateLimited,
    CloudRejected,
    CloudTimeout,
    CloudUnreachable,
    EdgewiseError,
    InvalidRequest,
    LedgerError,
    StoreAway,
    TooSoon,
    place_of,
)
from edgewise.types.messages import Image, Request, ToolCall, WireName, new_request_id
from edgewise.types.replies import Attempt, Finish, Judged, Progress, Raw, Vectors, Voiced, watched
from edgewise.vision.pictures import MOST_PICTURES, encode, open_picture, shrink

# -- the breaker: clouds that fail are left alone for a while --------------------------------------
#
# A model that only a client names has one of its own.


State = Literal["closed", "open", "half_open"]

# Failures that mean the provider is unreachable or will keep refusing: one is enough.
_OPENS_AT_ONCE = (CloudUnreachable, CloudTimeout, CloudAuthFailed, CloudRateLimited)
_OURS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
MOST_CAUSES = 20  # of an error: our own, the SDK's, the HTTP client's, the system's
FAILURES_TO_OPEN = 3
LONGEST_COOLDOWN_S = 300.0
LOOK_S = 1.0  # how old what is known of other processes may be, where nothing is about to leave


@dataclass(frozen=True, slots=True, eq=False)
class Permit:
    """That one request may leave. With it the request says how it ended.

    `opening` is how often the circuit had opened by then: what a request that left earlier found
    says nothing of the circuit as it is now. `lease` is the probe's name in the shared store.
    """

    opening: int
    lease: str = ""


def _about_provider(error: CloudError) -> bool:
    """Not the request's fault, nor this machine's, which had no descriptor or memory left."""
    found: BaseException | None = error
    for _ in range(MOST_CAUSES):
        if isinstance(found, OSError) and found.errno in _OURS:
            return False
        found = found and (found.__cause__ or found.__context__)
    return not isinstance(error, CloudRejected)


class Breaker:
    """Thread-safe. What `allow()` gave goes to `succeeded()`, `failed()` or `released()`.

    The first of them counts; the others then do nothing. `began()` may come before.
    """

    def __init__(
        self, cooldown_s: float = 5.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cooldown_s = cooldown_s
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._openings = 0
        self._open_until: float | None = None
        self._opening = 0
        self._probe: Permit | None = None

    @property
    def state(self) -> State:
        with self._lock:
            return self._state()

    def seconds_left(self) -> float:
        """How long until the next probe is allowed; 0 if it is now."""
        with self._lock:
            if self._open_until is None:
                return 0.0
            return max(0.0, self._open_until - self._clock())

    def would_allow(self) -> bool:
        """Like `allow`, without taking the probe."""
        with self._lock:
            return self._state() == "closed" or (
                self._state() == "half_open" and self._probe is None
            )

    def allow(self) -> Permit | None:
        """A permit if a request may go out now. While half-open, only one at a time may."""
        with self._lock:
            state = self._state()
            if state == "open" or (state == "half_open" and self._probe is not None):
                return None
            permit = Permit(self._opening)
            if state == "half_open":
                self._probe = permit
            return permit

    def succeeded(self, permit: Permit) -> None:
        with self._lock:
            self._give_back(permit)
            if permit.opening == self._opening:
                self._failures = self._openings = 0
                self._open_until = None

    def began(self, permit: Permit) -> None:
        """An answer arrives. If it is the probe's, nobody waits for its end: it may be long."""
        with self._lock:
            probing = self._probe is permit
        if probing or permit.lease:
            self.succeeded(permit)

    def released(self, permit: Permit) -> None:
        """The user left before there was a result: nothing was learned."""
        with self._lock:
            self._give_back(permit)

    def failed(self, permit: Permit, error: CloudError) -> None:
        with self._lock:
            probing = self._give_back(permit)
            if not _about_provider(error) or permit.opening != self._opening:
                return  # the request or this machine was at fault, or it is about an earlier time
            self._failures += 1
            if probing or isinstance(error, _OPENS_AT_ONCE) or self._failures >= FAILURES_TO_OPEN:
                self._open(error.retry_after_s)

    def _give_back(self, permit: Permit) -> bool:
        """Whether it was the probe."""
        if self._probe is not permit:
            return False
        self._probe = None
        return True

    def _open(self, retry_after_s: float | None) -> None:
        cooldown = min(LONGEST_COOLDOWN_S, self._cooldown_s * 2**self._openings)
        if retry_after_s is not None:
            cooldown = min(LONGEST_COOLDOWN_S, max(retry_after_s, 0.0))
        self._openings = min(self._openings + 1, 16)
        self._opening += 1
        self._probe = None
        self._open_until = self._clock() + cooldown

    def _state(self) -> State:
        if self._open_until is None:
            return "closed"
        return "open" if self._clock() < self._open_until else "half_open"


class SharedBreaker(Breaker):
    """A breaker that all processes of one ledger share; this process's own while it is away.

    What one process finds out, the others know before they ask. The probe is leased, so that a
    process that dies with it does not keep it.
    """

    def __init__(
        self,
        provider: str,
        circuits: Circuits,
        cooldown_s: float = 5.0,
        lease_s: float = 150.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(cooldown_s, clock)
        self._provider, self._circuits, self._lease_s = provider, circuits, lease_s
        self._looked_at = -LOOK_S
        self._next_probe: float | None = None  # by our clock; None: closed
        self._failed_here = False  # since the last success: there is a row to delete

    def _look(self, at_most_s: float = LOOK_S) -> float | None:
        """Seconds until the next probe; None: closed. Raises StoreAway."""
        now = self._clock()
        if now - self._looked_at >= at_most_s:
            left = self._circuits.look(self._provider)
            self._next_probe = None if left is None else now + left
            self._looked_at = now
        return None if self._next_probe is None else max(0.0, self._next_probe - now)

    @property
    @override
    def state(self) -> State:
        try:
            left = self._look()
        except StoreAway:
            return super().state
        return "closed" if left is None else "open" if left else "half_open"

    @override
    def seconds_left(self) -> float:
        try:
            return self._look() or 0.0
        except StoreAway:
            return super().seconds_left()

    @override
    def would_allow(self) -> bool:
        try:
            return not self._look()
        except StoreAway:
            return super().would_allow()

    @override
    def allow(self) -> Permit | None:
        try:
            left = self._look(0.0)
            if left is None:
                return Permit(self._opening)
            self._looked_at = -LOOK_S
            lease = "" if left else self._circuits.probe(self._provider, self._lease_s)
        except StoreAway:
            return super().allow()
        if not lease:
            return None
        with self._lock:
            self._probe = Permit(self._opening, lease)
            return self._probe

    @override
    def succeeded(self, permit: Permit) -> None:
        super().succeeded(permit)
        known, self._looked_at = self._next_probe, -LOOK_S
        if known is not None or self._failed_here:
            self._failed_here = False
            self._tell(lambda: self._circuits.succeed(self._provider, permit.lease))

    @override
    def released(self, permit: Permit) -> None:
        with self._lock:
            probing = self._give_back(permit)
        if probing and permit.lease:
            self._tell(lambda: self._circuits.release(self._provider, permit.lease))

    @override
    def failed(self, permit: Permit, error: CloudError) -> None:
        if not _about_provider(error):
            self.released(permit)
            return
        earlier = permit.opening != self._opening and not permit.lease
        super().failed(permit, error)
        if earlier:
            return
        self._failed_here = True
        at_once = bool(permit.lease) or isinstance(error, _OPENS_AT_ONCE)
        self._tell(
            lambda: self._circuits.fail(
                self._provider,
                permit.lease,
                at_once,
                FAILURES_TO_OPEN,
                self._cooldown_s,
                LONGEST_COOLDOWN_S,
                error.retry_after_s,
            )
        )

    def _tell(self, change: Callable[[], None]) -> None:
        self._looked_at = -LOOK_S
        with contextlib.suppress(StoreAway):
            change()


# -- the door --------------------------------------------------------------------------------------


BACKLOG = 64  # chunks that may wait for a slow reader before the provider is slowed down
MOST_TRIES = 2
# Tokens of an answer that a budget pays for and nobody limited, until one fits the budget.
LIMITS = (LONGEST_ANSWER, 4096, 1024, 256)
PAUSE_S = 0.25
LONGEST_PAUSE_S = 2.0
# The most bytes that the strictest server takes in one request, base64 included.
MOST_BYTES_TOGETHER = 18_000_000
# Of a try that cannot have cost anything, unless the provider had begun.
_REFUSALS = (
    CloudAuthFailed,
    CloudClosed,
    CloudFailed,
    CloudRateLimited,
    CloudRejected,
    CloudUnreachable,
)
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
    _prepared: bool = field(default=False, init=False)

    def closed(self, request: Request) -> CloudClosed | None:
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
        sealed = self.redactor.seal(_seen_to_begin(request, patience_s))
        stop = stop or Stop()
        give_up: float | None = None
        last: CloudError | None = None
        # First who has read the beginning of this conversation, and keeps it for a while.
        for lane in sorted(self.lanes, key=lambda each: each.config.name != request.lane):
            if give_up is not None and self.clock() >= give_up:
                break
            if (permit := lane.breaker.allow()) is None:
                continue
            try:
                try:
                    lane.get()  # loading an SDK is not waiting for the network
                    ready = ready_to_leave(sealed.request, lane.config)
                except (EdgewiseError, ImportError) as error:
                    last = _unusable(error, lane.config.name)
                    continue
                if give_up is None and patience_s is not None:
                    give_up = self.clock() + patience_s
                if not stop.begin():
                    return
                attempt_id = f"{request.id}/{request.part}{len(journal)}"
                trip = _Trip(lane, permit, attempt_id, self.clock(), stop, sealed.counts)
                try:
                    yield from sealed.open(self._attempt(ready, trip, journal, live, give_up))
                    return
                except CloudError as error:
                    last = error
                    if live and trip.shown:
                        raise  # some of it was passed on: nobody else can start over
            finally:
                lane.breaker.released(permit)  # however it ended; does nothing after a result
        raise self._breakers_open() if last is None else last

    def prepare(self, *, prices: bool = True) -> None:
        """Load the first provider's SDK in the background, while the device answers; and what its
        price list says, which is needed before anything leaves.

        Once: where it cannot be loaded, no request after it needs a thread to find that out.
        """
        if self.lanes and self.lanes[0].provider is None and not self._prepared:
            self._prepared = True
            target = functools.partial(self._open_first, prices)
            threading.Thread(target=target, name="edgewise-prepare", daemon=True).start()

    def _open_first(self, prices: bool) -> None:
        # `stream` meets the same error again, and reports it.
        with contextlib.suppress(EdgewiseError, ImportError):
            self.lanes[0].get()
            if prices:
                self.prices.known(self.lanes[0].config)

    def close(self) -> None:
        """Break what still runs. The next request opens the providers again."""
        self._prepared = False
        for lane in self.lanes:
            with lane.lock:
                provider, lane.provider = lane.provider, None
            if provider is not None:
                provider.close()

    def _breakers_open(self) -> CloudClosed:
        wait = min((lane.breaker.seconds_left() for lane in self.lanes), default=0.0)
        names = ", ".join(lane.config.name for lane in self.lanes)
        return CloudClosed(
            f"{names} failed moments ago; next try in {wait:.0f} s",
            code="breaker_open",
            retry_after_s=wait,
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
        request = self._reserve(request, trip)
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
            lane.breaker.succeeded(trip.permit)
            yield from held
        except _Stopped:
            return
        except CloudError as error:
            failure, outcome = error, error.code
            if not trip.impatient:
                lane.breaker.failed(trip.permit, error)
            raise
        finally:
            attempt = self._account(request, trip, outcome, failure)
            journal.append(attempt)
            self._settle(trip, attempt)

    def _reserve(self, request: Request, trip: _Trip) -> Request:
        """Set the money aside. Returns the request with the limit that makes the bound true."""
        config = trip.lane.config
        limited = request.task == "speak" and self.budget_guard.has_budget(request)
        if limited and not self.prices.known(config):
            words = f"nobody knows what {config.name} charges for speech"
            words += f" (voice_price in [providers.{config.name}] says it)"
            raise CloudClosed(words, provider=config.name, code="price_unknown")
        refused: LedgerError | None = None
        for asked in self._limited(request, config):
            trip.reserved = highest(self.prices, config, asked)
            try:
                self.budget_guard.reserve(trip.attempt_id, asked, config, trip.reserved)
                return asked
            except BudgetExceeded as error:
                refused = error
            except LedgerError as error:
                refused = error
                break
        assert refused is not None, "each try ends with a reservation or a refusal"
        code = _closing_code(refused)
        raise CloudClosed(str(refused), provider=config.name, code=code) from refused

    def _limited(self, request: Request, config: ProviderConfig) -> Sequence[Request]:
        """As it was asked. With a budget and without a limit it is tried with shorter and shorter
        ones: an answer of any length would need all the money."""
        unlimited = request.max_tokens is None and request.task in ("chat", "call")
        if not unlimited or not self.budget_guard.has_budget(request):
            return [request]
        if not highest(self.prices, config, request):
            return [request]  # it is free
        most = row_for(config).longest(config.model) or LONGEST_ANSWER
        return [replace(request, max_tokens=min(most, limit)) for limit in LIMITS]

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
                trip.owes = trip.begun or (trip.owes and not _refused(error))
                if trip.begun or trip.owes:
                    raise  # the reservation is for one answer
                left = (give_up or trip.started + self.limits.total_s) - self.clock()
                pause = pause_before_retry(error, trip.tries, left)
                if pause is None:
                    raise
                trip.stop.wait(pause)

    def _one_try(self, request: Request, trip: _Trip, give_up: float | None) -> Iterator[Chunk]:
        provider = trip.lane.get()
        stream = ThreadedStream(provider, request, f"{trip.attempt_id}.{trip.tries}")
        trip.stop.wakes(stream.wake)
        original = request.original
        # An answer in one piece may be silent for as long as it may last.
        in_parts = original is None or original.stream
        quiet_s = self.limits.first_token_s if in_parts else self.limits.total_s
        quiet_until = self.clock() + quiet_s
        waiting: list[Raw] = []  # pieces before the first of the answer itself
        try:
            while (chunk := self._next(stream, trip, quiet_until, give_up)) is not None:
                if isinstance(chunk, Finish):
                    trip.finish = _believed(request, chunk, trip)
                    continue
                self._note(trip, chunk)
                # A ping says that the connection stands, not that an answer is being made: before
                # the answer has begun, it wins no time. Later it does, as far as `total_s`: some
                # servers send empty events while they wait for the end of a call.
                if not trip.begun:
                    waiting += [chunk] if isinstance(chunk, Raw) else []
                    continue
                if not trip.announced:
                    trip.announced = True
                    trip.lane.breaker.began(trip.permit)
                yield from waiting
                waiting.clear()
                if not isinstance(chunk, Arrived):
                    yield chunk
                quiet_until = self.clock() + quiet_s
        finally:
            trip.owes = stream.close()
        name = provider.config.name
        if trip.finish is None:
            raise CloudCut(f"{name} stopped before the end of the answer", provider=name)
        # The limit fell into a call, or into thoughts. What is passed on may be empty, and say why:
        # agents go on after an empty turn, and are told of a refusal.
        cut = trip.finish.reason == "length" and request.tools
        if not trip.shown and not cut and original is None:
            raise CloudEmpty(f"{name} sent an empty answer", provider=name)
        yield from waiting
        yield trip.finish

    def _next(
        self, stream: ThreadedStream, trip: _Trip, quiet_until: float, give_up: float | None
    ) -> Chunk | None:
        """The next chunk. Its silence ends at `quiet_until`; our patience may end earlier."""
        must_end = ends = trip.started + self.limits.total_s
        if not trip.begun and give_up is not None:
            ends = min(ends, give_up)
        try:
            return stream.next(min(ends, quiet_until) - self.clock())
        except CloudTimeout:
            # Who has no patience, or had enough of an answer, has not found the provider silent.
            ours = ends < quiet_until and self.clock() >= ends
            trip.impatient = ours and (trip.begun or ends < must_end)
            if trip.impatient and trip.begun:
                name, total_s = trip.lane.config.name, self.limits.total_s
                words = f"{name} had not ended after {total_s:g} s (total_s)"
                raise CloudTimeout(words, provider=name) from None
            raise

    def _note(
        self, trip: _Trip, chunk: str | ToolCall | Vectors | Judged | Voiced | Arrived | Raw
    ) -> None:
        if isinstance(chunk, Arrived | Raw):
            trip.arrived += chunk.size
        text = chunk.text if isinstance(chunk, Raw) else chunk
        if isinstance(chunk, Arrived) or (isinstance(chunk, Raw) and not (text or chunk.size)):
            return
        if trip.first is None:
            trip.first = self.clock()
        if isinstance(text, str):
            trip.characters += len(text)
            if trip.progress is not None:
                trip.progress.count()

    def _account(
        self, request: Request, trip: _Trip, outcome: str, failure: CloudError | None
    ) -> Attempt:
        """This attempt with its usage and cost. Without the provider's usage: what was reserved."""
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
            if not trip.owes:
                return attempt  # refused or stopped before it began: nobody charges for that
            finish = estimated_finish(request, "stop", trip.characters)
        attempt = charged(attempt, finish, self.prices, config, request.original)
        # How much was thought, or written after we left, nobody said.
        return replace(attempt, cost_microdollars=trip.reserved) if finish.estimated else attempt


@dataclass(slots=True)
class _Trip:
    """One running attempt: what came back so far."""

    lane: Lane
    permit: Permit
    attempt_id: str
    started: float
    stop: Stop
    redacted: Mapping[str, int]
    first: float | None = None
    characters: int = 0  # of the text that was passed on
    arrived: int = 0  # bytes that were not: of calls, and of thoughts
    announced: bool = False  # the breaker knows that an answer has begun
    impatient: bool = False  # we ended the wait; the provider was still within its time
    tries: int = 0
    reserved: int = 0
    owes: bool = False  # a try was sent and not refused: it may be charged for
    finish: Finish | None = None
    progress: Progress | None = field(default_factory=watched.get)

    @property
    def shown(self) -> bool:
        """Whether some of the answer was passed on."""
        return self.first is not None

    @property
    def begun(self) -> bool:
        """Whether some of the answer has arrived, passed on or not: it is being paid for."""
        return self.shown or self.arrived > 0


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

    def close(self) -> bool:
        """Leave: break the connection if the thread still uses it. Returns at once.

        False if nothing was sent, and nothing will be.
        """
        self._left.set()
        return not self._thread.is_alive() or self._provider.abort(self._wire_id) is not False

    def _run(self, request: Request) -> None:
        chunks: Iterator[Chunk] | None = None
        try:
            chunks = self._provider.stream(request, self._wire_id)
            for chunk in chunks:
                if not self._offer(chunk):
                    return
            self._offer(None)
        except CloudError as error:
            self._offer(error)
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; nobody may hang
            # Not its words: they may quote what it was sent.
            words = f"{self._name} broke off: {place_of(error)}"
            self._offer(CloudError(words, provider=self._name))
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


def _refused(error: CloudError) -> bool:
    """Whether a try ended before the provider began. Nobody charges for that."""
    return isinstance(error, _REFUSALS) and not error.begun


def _believed(request: Request, finish: Finish, trip: _Trip) -> Finish:
    """With an estimate where the provider's usage cannot be true."""
    if finish.estimated or believable(finish):
        return finish
    _log.warning("%s reports a usage that cannot be", trip.lane.config.name)
    return estimated_finish(request, finish.reason, trip.characters)


def _unusable(error: Exception, provider: str) -> CloudClosed:
    if isinstance(error, CloudClosed):
        return error
    return CloudClosed(str(error), provider=provider, code="provider_unusable")


def _seen_to_begin(request: Request, patience_s: float | None) -> Request:
    """With a short patience, whole answers are asked for as streams, too: they begin."""
    if request.original is None or patience_s is None:
        return request
    return replace(request, original=replace(request.original, stream=True))


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
    """The request as this provider gets it. One in its own protocol keeps its original; all
    pictures are rewritten: upright, resized, without metadata.

    Raises InvalidRequest for an unreadable picture: what cannot be cleaned does not leave; and for
    parts that only their own protocol can say.
    """
    row, original = row_for(config), request.original
    if original is not None and not row.speaks(original.wire):
        if original.parts:
            named = ", ".join(name[:40] for name in original.parts[:3])
            raise CloudClosed(
                f"{config.name} cannot be sent {named}",
                provider=config.name,
                code="parts_unsupported",
            )
        request, original = replace(request, original=None), None
    if original is not None:
        # Those that a device sees may have been made smaller for it: what leaves is cleaned anew.
        wire = original.wire
        count = sum(1 for _ in _pictures_in(original.body, wire))
        if not count:
            return request
        cleaner = _Cleaner(row, config.model, count)
        # Each by itself: what holds no picture stays the very value that came.
        body = {
            name: cleaner.cleaned(each, wire)
            if name in _CONVERSATIONS and any(_pictures_in(each, wire, _PARTS))
            else each
            for name, each in original.body.items()
        }
        pictures = tuple(cleaner.pictures)
        return replace(request, original=replace(original, body=body, pictures=pictures))
    if not request.has_images:
        return request
    cleaner = _Cleaner(row, config.model, sum(len(each.images) for each in request.messages))
    messages = tuple(
        replace(message, images=tuple(map(cleaner.ready, message.images)))
        for message in request.messages
    )
    return replace(request, messages=messages)


# Where a protocol has pictures: in its conversation, and there in the parts of messages. Elsewhere,
# as in the input of a call or in a schema, the same words are a text, and are paid for as one.
_CONVERSATIONS = ("messages", "input", "contents")
_PARTS = ("content", "parts", "output", "source", "functionResponse", "function_response")


def _pictures_in(
    value: Any, wire: WireName, names: Sequence[str] = _CONVERSATIONS
) -> Iterator[Image]:
    """The pictures of an original. One that is only pointed to has an address and no bytes. Raises
    InvalidRequest for what is no picture."""
    if isinstance(value, list):
        for each in value:
            yield from _pictures_in(each, wire, names)
    if not isinstance(value, dict):
        return
    if (picture := _picture(value, wire)) is not None:
        yield picture
        return
    for name, each in value.items():
        if name in names:
            yield from _pictures_in(each, wire, _PARTS)


def _picture(part: Mapping[str, Any], wire: WireName) -> Image | None:
    kind, source, url = part.get("type"), part.get("source"), part.get("image_url")
    if wire == "messages":
        if kind != "image" or not isinstance(source, dict):
            return None
        if "data" in source:
            return _from_base64(source["data"])
        return Image(b"", url=str(source.get("url") or source.get("file_id")))
    if wire == "gemini":
        if (blob := _blob(part)) is None:
            return None
        data = str(blob.get("data")).replace("-", "+").replace("_", "/")
        return _from_base64(data + "=" * (-len(data) % 4))
    if kind not in ("image_url", "input_image") or not url:
        return None
    given = str(url.get("url", "") if isinstance(url, dict) else url)
    return (
        _from_base64(given.partition(",")[2])
        if given.startswith("data:")
        else Image(b"", url=given)
    )


def _blob(part: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """A picture in Gemini's words, which may be spelt in two ways."""
    for name in ("inlineData", "inline_data"):
        blob = part.get(name)
        if isinstance(blob, dict):
            kind = str(blob.get("mimeType") or blob.get("mime_type"))
            return blob if kind.startswith("image/") else None
    return None


def _from_base64(data: Any) -> Image:
    try:
        return Image(base64.b64decode(data))
    except (TypeError, ValueError) as error:
        raise InvalidRequest("a picture is not base64") from error


class _Cleaner:
    """Rewrites the pictures of one request for one provider; `pictures` are those of an original,
    as they leave."""

    def __init__(self, row: Provider, model: str, count: int) -> None:
        if count > MOST_PICTURES:
            raise InvalidRequest(f"{count} pictures in one request; {MOST_PICTURES} are the most")
        self._row, self._model = row, model
        self._most_bytes = min(row.image_bytes, MOST_BYTES_TOGETHER * 3 // 4 // max(1, count))
        self._position = 0
        self.pictures: list[Image] = []

    def ready(self, image: Image) -> Image:
        self._position += 1
        picture = open_picture(image, self._position, side=self._row.image_side)
        written = encode(picture, self._most_bytes)
        while len(written.data) > self._most_bytes and max(picture.size) > 256:
            picture = shrink(picture, max(picture.size) * 3 // 4)
            written = encode(picture, self._most_bytes)
        tokens = count_tokens(self._row, self._model, *picture.size)
        return Image(written.data, written.media_type, tokens=tokens)  # no name: it may be a path

    def cleaned(self, value: Any, wire: WireName) -> Any:
        """A part of an original, with cleaned pictures in place of its own. An address stays: the
        provider opens it."""
        if isinstance(value, list):
            return [self.cleaned(each, wire) for each in value]
        if not isinstance(value, dict):
            return value
        if (picture := _picture(value, wire)) is None:
            return {
                name: self.cleaned(each, wire) if name in _PARTS else each
                for name, each in value.items()
            }
        if not picture.data:
            self.pictures.append(replace(picture, tokens=most_tokens(self._row, self._model)))
            return value
        made = self.ready(picture)
        self.pictures.append(made)
        if wire == "gemini" and (blob := _blob(value)) is not None:
            name = "inlineData" if "inlineData" in value else "inline_data"
            spelt = "mimeType" if "mimeType" in blob else "mime_type"
            told = {spelt: made.media_type, "data": base64_text(made)}
            return {**value, name: {**blob, **told}}
        if wire == "messages":
            return {**value, "source": {**value["source"], **picture_source(made)}}
        url: Any = data_url(made)
        if isinstance(value["image_url"], dict):
            url = {**value["image_url"], "url": url}
        return {**value, "image_url": url}


def count_tokens(row: Provider, model: str, width: int, height: int) -> int:
    """The most by the provider's published rules; 0 if it publishes none."""
    match row.protocol:
        case "anthropic":
            return math.ceil(width * height / 750)
        case "gemini":
            return _gemini_tokens(width, height)
        case "openai" if row.name == "openai" or _tiled(row, model):
            return _openai_tokens(width, height, _tiled(row, model))
    return 0


def most_tokens(row: Provider, model: str) -> int:
    """Of a picture that the provider fetches, however large; 0 if it publishes no rule."""
    if row.protocol != "openai" or not (row.name == "openai" or _tiled(row, model)):
        return 0
    base, each = _tiled(row, model) or (85, 170)
    return max(base + each * _MOST_TILES, math.ceil(2.46 * _MOST_PATCHES))


def _tiled(row: Provider, model: str) -> tuple[int, ...]:
    """What a model counts for a picture and for each tile of it, whoever serves it."""
    name = model.rpartition("/")[2]
    return row.traits(model).image_tokens or PROVIDERS["openai"].traits(name).image_tokens


_MOST_TILES = 8  # of 768 by 2048 pixels, to which any picture is made smaller
_MOST_PATCHES = 10_000  # of one that is read as it is


def _gemini_tokens(width: int, height: int) -> int:
    """258 for each tile of a picture; models since Gemini 3 count 1,120 for any."""
    tile = min(768, max(256, int(min(width, height) / 1.5)))
    return max(1120, 258 * math.ceil(width / tile) * math.ceil(height / tile))


def _openai_tokens(width: int, height: int, tiled: tuple[int, ...]) -> int:
    """A base, and more for each 512-pixel tile once the shorter side is at most 768.

    Newer models count patches of 32 pixels, the smallest of them 2.46 tokens for each.
    """
    base, each = tiled or (85, 170)
    scale = min(1.0, 2048 / max(width, height))
    scale *= min(1.0, 768 / max(1.0, min(width, height) * scale))
    tiles = math.ceil(width * scale / 512) * math.ceil(height * scale / 512)
    patches = math.ceil(width / 32) * math.ceil(height / 32)
    return max(base + each * tiles, math.ceil(2.46 * patches))
