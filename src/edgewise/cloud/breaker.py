"""One circuit breaker per provider: opens after failures, half-opens by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal

from edgewise.errors import (
    CloudAuthFailed,
    CloudError,
    CloudRateLimited,
    CloudRejected,
    CloudTimeout,
    CloudUnreachable,
)

State = Literal["closed", "open", "half_open"]

# Failures that mean the provider is unreachable or will keep refusing: one is enough.
_OPENS_AT_ONCE = (CloudUnreachable, CloudTimeout, CloudAuthFailed, CloudRateLimited)
FAILURES_TO_OPEN = 3
LONGEST_COOLDOWN_S = 300.0


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
