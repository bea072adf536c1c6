"""The protocols between a flow, the door to the cloud, a provider, and the budget guard."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from edgewise.errors import CloudClosed
from edgewise.types.messages import Request, ToolCall
from edgewise.types.replies import Attempt
from edgewise.types.tokens import Finish, Vectors

# Names the engines that a request came through. A server that finds itself there refuses.
VIA_HEADER = "x-edgewise-via"
LOOP_STATUS = 508

Chunk = str | ToolCall | Vectors | Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """Seconds. `patience` limits the wait for a first token if the device could answer."""

    connect_s: float = 1.5
    first_token_s: float = 15.0
    total_s: float = 120.0
    patience_s: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderConfig:
    """One provider, completed with the user's key and choices."""

    name: str
    protocol: str
    model: str
    base_url: str = ""
    key: str = field(default="", repr=False)  # must not appear in a traceback
    limits: TimeLimits = TimeLimits()


class CloudProvider(Protocol):
    """One wire protocol, one client, reused connections. Maps vendor errors to ours."""

    @property
    def config(self) -> ProviderConfig: ...

    def stream(self, request: Request, wire_id: str) -> Iterator[Chunk]:
        """Yield text and tool calls as they come, then one `Finish` with usage.

        For `request.task == "transcribe"` the text is what was said, "" if nobody spoke; for
        "embed" it is one `Vectors` for the user's messages.
        It blocks, and runs on a thread of the door. `wire_id` names this try in the headers.
        Raises only `CloudError`s. Closing the iterator closes the HTTP response.
        """
        ...

    def abort(self, wire_id: str) -> None:
        """Called from another thread: break the connection of this try, if there is one."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class ChecksKeys(Protocol):
    """A provider that can say for free whether its key is good."""

    def check_key(self) -> None:
        """One small request that costs nothing. Raises CloudAuthFailed, or why it cannot say."""
        ...


class BudgetGuard(Protocol):
    """Reserve before a cloud call, settle after it. Both are idempotent per attempt id."""

    def reserve(
        self, attempt_id: str, request: Request, config: ProviderConfig, microdollars: int
    ) -> None:
        """Raises BudgetExceeded, TooSoon or LedgerUnavailable; then nothing is sent."""
        ...

    def wait_s(self, request: Request) -> float:
        """Seconds until this request may leave, as far as the last handoffs say; 0: now."""
        ...

    def settle(self, attempt_id: str, attempt: Attempt) -> None: ...


class Prices(Protocol):
    """Tokens and sound to micro-dollars."""

    def cost(
        self,
        config: ProviderConfig,
        input_tokens: int,
        output_tokens: int,
        audio_seconds: float = 0.0,
        audio_tokens: int = 0,
    ) -> int:
        """`audio_tokens` are the part of `input_tokens` that was sound."""
        ...


class Stop:
    """Ends a stream from another thread at once: it wakes whoever waits for the network."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = threading.Event()
        self._begun = False
        self._wake: Callable[[], None] | None = None

    @property
    def asked(self) -> bool:
        return self._asked.is_set()

    def ask(self) -> bool:
        """Stop now. False if nothing had begun; then nothing will."""
        with self._lock:
            self._asked.set()
            if self._wake is not None:
                self._wake()
            return self._begun

    def begin(self) -> bool:
        """Called before anything is paid for or sent: whether to go on."""
        with self._lock:
            self._begun = self._begun or not self.asked
            return not self.asked

    def wakes(self, wake: Callable[[], None]) -> None:
        """How to wake the waiting thread; called at once if it is already stopped."""
        with self._lock:
            self._wake = wake
            if self.asked:
                wake()

    def wait(self, seconds: float) -> bool:
        """Sleep until stopped, or for this long; return whether it was stopped."""
        return self._asked.wait(seconds)


class Cloud(Protocol):
    """What a flow sees of the cloud: the door."""

    def closed(self, request: Request) -> CloudClosed | None:
        """Why nothing could leave right now, without trying; None if the door is open."""
        ...

    def stream(
        self,
        request: Request,
        journal: list[Attempt],
        *,
        live: bool,
        patience_s: float | None,
        stop: Stop | None = None,
    ) -> Generator[Chunk, None, None]:
        """Stream one provider's answer, trying the chain in order; each try is added to `journal`.

        `live=False` holds each provider's answer back until it is complete; a cut stream can then
        be tried elsewhere. `patience_s` limits the wait for the first token over the whole chain.
        `stop` ends it from another thread: the connection is closed, the attempt settled as
        cancelled, and the stream ends without a `Finish`.
        Raises the last CloudError if nobody answered.
        """
        ...
