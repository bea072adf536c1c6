"""A circuit breaker per provider: opens after failures, half-opens by itself.

A model that only a client names has one of its own.
"""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from typing_extensions import override

from edgewise.cloud.provider import Circuits
from edgewise.errors import (
    CloudAuthFailed,
    CloudError,
    CloudRateLimited,
    CloudRejected,
    CloudTimeout,
    CloudUnreachable,
    StoreAway,
)

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
