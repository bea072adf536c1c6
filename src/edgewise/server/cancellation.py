"""One client's request while it is served: whose it is, and how it is called off."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

from edgewise.errors import Cancelled


class Cancellation:
    """Known to everything that runs for a request, through `current`.

    Work blocks on three things: a place in the queue, the local model, the network. Each says,
    while it waits, how it can be woken; `leave` wakes them all, and what they raise ends the flow.
    """

    def __init__(self, client: str = "", *, cloud: str = "") -> None:
        self.client = client
        self.cloud = cloud  # the one provider and model it wants, "openai/gpt-6-luna"
        self.left = False  # stop working
        self.late = False  # because it took too long: the client still listens
        self._lock = threading.Lock()
        self._wakers: list[Callable[[], object]] = []

    @property
    def gone(self) -> bool:
        """Nobody listens any more."""
        return self.left and not self.late

    def leave(self, *, late: bool = False) -> None:
        """Stop now, from any thread. Returns at once."""
        with self._lock:
            if self.left:
                self.late = self.late and late
                return
            self.left, self.late = True, late
            wakers = list(self._wakers)
        for wake in wakers:
            wake()

    @contextmanager
    def waking(self, wake: Callable[[], object]) -> Generator[None]:
        """While inside, leaving calls `wake`. Raises Cancelled where it is too late to wait."""
        with self._lock:
            if self.left:
                raise Cancelled("the caller left")
            self._wakers.append(wake)
        try:
            yield
        finally:
            with self._lock:
                self._wakers.remove(wake)

    def check(self) -> None:
        if self.left:
            raise Cancelled("the caller left")


current: ContextVar[Cancellation | None] = ContextVar("edgewise_visit", default=None)
