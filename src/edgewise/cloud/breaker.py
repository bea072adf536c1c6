"""One circuit breaker per provider: opens after failures, half-opens by itself."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Literal, Protocol

from typing_extensions import override

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
FAILURES_TO_OPEN = 3
LONGEST_COOLDOWN_S = 300.0
LOOK_S = 1.0  # how old what is known of other processes may be, where nothing is about to leave


class Breaker:
    """Thread-safe. After `allow()`, call `succeeded()`, `failed()` or `released()`."""

    def __init__(
        self, cooldown_s: float = 5.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cooldown_s = cooldown_s
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._openings = 0
        self._open_until: float | None = None
        self._probing = False

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
            return self._state() == "closed" or (self._state() == "half_open" and not self._probing)

    def allow(self) -> bool:
        """Whether a request may go out now. While half-open, only one at a time may."""
        with self._lock:
            state = self._state()
            if state == "half_open" and not self._probing:
                self._probing = True
                return True
            return state == "closed"

    def succeeded(self) -> None:
        with self._lock:
            self._failures = self._openings = 0
            self._open_until = None
            self._probing = False

    def released(self) -> None:
        """The user left before there was a result: nothing was learned."""
        with self._lock:
            self._probing = False

    def failed(self, error: CloudError) -> None:
        with self._lock:
            probing, self._probing = self._probing, False
            if isinstance(error, CloudRejected):
                return  # the request was at fault, not the provider
            self._failures += 1
            if probing or isinstance(error, _OPENS_AT_ONCE) or self._failures >= FAILURES_TO_OPEN:
                self._open(error.retry_after_s)

    def _open(self, retry_after_s: float | None) -> None:
        cooldown = min(LONGEST_COOLDOWN_S, self._cooldown_s * 2**self._openings)
        if retry_after_s is not None:
            cooldown = min(LONGEST_COOLDOWN_S, max(retry_after_s, 0.0))
        self._openings = min(self._openings + 1, 16)
        self._open_until = self._clock() + cooldown

    def _state(self) -> State:
        if self._open_until is None:
            return "closed"
        return "open" if self._clock() < self._open_until else "half_open"


class Circuits(Protocol):
    """One row per provider, for all processes. Every method raises StoreAway."""

    def look(self, provider: str) -> float | None: ...

    def probe(self, provider: str, lease_s: float) -> bool: ...

    def fail(
        self,
        provider: str,
        at_once: bool,
        most: int,
        cooldown_s: float,
        longest_s: float,
        retry_s: float | None,
    ) -> None: ...

    def release(self, provider: str) -> None: ...

    def succeed(self, provider: str) -> None: ...


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
    def allow(self) -> bool:
        try:
            left = self._look(0.0)
            if left is None:
                return True
            self._looked_at = -LOOK_S
            taken = not left and self._circuits.probe(self._provider, self._lease_s)
        except StoreAway:
            return super().allow()
        if taken:
            with self._lock:
                self._probing = True
        return taken

    @override
    def succeeded(self) -> None:
        super().succeeded()
        known, self._looked_at = self._next_probe, -LOOK_S
        if known is not None or self._failed_here:
            self._failed_here = False
            self._tell(lambda: self._circuits.succeed(self._provider))

    @override
    def released(self) -> None:
        probing = self._probing
        super().released()
        if probing:
            self._tell(lambda: self._circuits.release(self._provider))

    @override
    def failed(self, error: CloudError) -> None:
        probing = self._probing
        super().failed(error)
        if isinstance(error, CloudRejected):
            if probing:
                self._tell(lambda: self._circuits.release(self._provider))
            return
        self._failed_here = True
        at_once = probing or isinstance(error, _OPENS_AT_ONCE)
        self._tell(
            lambda: self._circuits.fail(
                self._provider,
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
