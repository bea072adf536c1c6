"""The door: the one place where requests leave the device.

In this order, for each provider of the chain: private requests are turned back, the breaker is
asked, money is reserved, the provider streams, and the attempt is settled exactly once, however
it ends (answered, failed, cancelled by the reader).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field

from edgewise.cloud import charges
from edgewise.cloud.breaker import Breaker
from edgewise.cloud.conversation import estimated_finish
from edgewise.cloud.pictures import ready_to_leave
from edgewise.cloud.provider import (
    Chunk,
    CloudProvider,
    Prices,
    ProviderConfig,
    Purse,
    Stop,
    TimeLimits,
)
from edgewise.cloud.pump import Pump, Stopped
from edgewise.cloud.retry import pause_before_retry
from edgewise.errors import (
    BudgetExceeded,
    CloudClosed,
    CloudCut,
    CloudEmpty,
    CloudError,
    CloudMalformed,
    CloudTimeout,
    EdgewiseError,
    LedgerError,
)
from edgewise.types.messages import Request, ToolCall
from edgewise.types.replies import Attempt
from edgewise.types.tokens import Finish, Vectors

_log = logging.getLogger(__name__)

_THAT_DO = {"transcribe": " that transcribes", "embed": " that embeds"}


@dataclass(slots=True)
class Lane:
    """One provider of the chain, opened when first used; its circuit lives as long as it does."""

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
class _Trip:
    """One attempt under way: what came back so far."""

    lane: Lane
    attempt_id: str
    started: float
    stop: Stop
    first: float | None = None
    characters: int = 0
    tries: int = 0
    finish: Finish | None = None

    @property
    def begun(self) -> bool:
        """Something of the answer has arrived."""
        return self.first is not None


@dataclass(slots=True)
class Door:
    """Fulfils `Cloud`. Thread-safe: each stream keeps its own state."""

    lanes: Sequence[Lane]
    purse: Purse
    prices: Prices
    limits: TimeLimits = field(default_factory=TimeLimits)
    clock: Callable[[], float] = time.monotonic

    def closed(self, request: Request) -> CloudClosed | None:
        if not request.may_leave:
            return CloudClosed("the request is private", code="private")
        if not self.lanes:
            which = _THAT_DO.get(request.task, "")
            return CloudClosed(
                f"no cloud provider{which} has a key (edgewise auth set PROVIDER)", code="no_key"
            )
        if not any(lane.breaker.would_allow() for lane in self.lanes):
            return self._breakers_open()
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
        if (shut := self.closed(request)) is not None:
            raise shut
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
                ready = ready_to_leave(request, lane.config) if request.has_images else request
            except (EdgewiseError, ImportError) as error:
                lane.breaker.released()
                last = CloudClosed(str(error), provider=lane.config.name, code="provider_unusable")
                continue
            if give_up is None and patience_s is not None:
                give_up = self.clock() + patience_s
            if not stop.begin():
                lane.breaker.released()
                return
            trip = _Trip(lane, f"{request.id}/{request.part}{len(journal)}", self.clock(), stop)
            try:
                yield from self._attempt(ready, trip, journal, live, give_up)
                return
            except CloudError as error:
                last = error
                if live and trip.begun:
                    raise  # some of it was shown: nobody else can start over
        raise last

    def prepare(self) -> None:
        """Load the first provider's SDK in the background, while the device is busy answering."""
        if self.lanes and self.lanes[0].provider is None:
            threading.Thread(target=self._open_first, name="edgewise-prepare", daemon=True).start()

    def _open_first(self) -> None:
        with contextlib.suppress(
            EdgewiseError, ImportError
        ):  # `stream` meets it again, and says so
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
    ) -> Iterator[Chunk]:
        lane = trip.lane
        self._reserve(request, trip)
        failure: CloudError | None = None
        outcome = "cancelled"  # unless something below says otherwise: the reader left
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
        except Stopped:
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
        bound = charges.highest(self.prices, config, request)
        try:
            self.purse.reserve(trip.attempt_id, request, config, bound)
        except LedgerError as error:
            trip.lane.breaker.released()
            code = "budget_spent" if isinstance(error, BudgetExceeded) else "ledger_unavailable"
            raise CloudClosed(str(error), provider=config.name, code=code) from error

    def _settle(self, trip: _Trip, attempt: Attempt) -> None:
        try:
            self.purse.settle(trip.attempt_id, attempt)
        except LedgerError as error:
            # The answer is not lost for it; the reservation runs out and is settled in full then.
            _log.warning("could not settle %s: %s", trip.attempt_id, error)

    def _tries(self, request: Request, trip: _Trip, give_up: float | None) -> Iterator[Chunk]:
        """The same provider once more where that is safe; then its error."""
        while True:
            if trip.stop.asked:
                raise Stopped
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
        pump = Pump(provider, request, f"{trip.attempt_id}.{trip.tries}")
        trip.stop.wakes(pump.wake)
        try:
            while True:
                wait = (must_end if trip.begun else first_by) - self.clock()
                chunk = pump.next(min(wait, limits.first_token_s))
                if chunk is None:
                    break
                if isinstance(chunk, Finish):
                    trip.finish = chunk
                    continue
                self._note(trip, chunk)
                yield chunk
        finally:
            pump.close()
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

    def _account(
        self, request: Request, trip: _Trip, outcome: str, failure: CloudError | None
    ) -> Attempt:
        """What this attempt was, what it took, and what it costs as far as anyone can know."""
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
        )
        finish = trip.finish
        if finish is None:
            # An answer that comes in one piece was made before it was cut or garbled.
            whole = request.task in _THAT_DO
            paid = (CloudTimeout, CloudCut, CloudMalformed) if whole else CloudTimeout
            refused = failure and not trip.begun and not isinstance(failure, paid)
            if refused or not trip.tries:
                return attempt  # refused, or stopped, before it began: nobody charges for that
            finish = estimated_finish(request, "stop", trip.characters)
        return charges.charged(attempt, finish, self.prices, config)
