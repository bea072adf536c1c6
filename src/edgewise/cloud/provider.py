"""The protocols between a flow, the door to the cloud, a provider, and the ledger."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from edgewise.errors import CloudClosed
from edgewise.types.messages import Request, ToolCall
from edgewise.types.replies import Attempt, Finish, Judged, Raw, Vectors, Voiced

# Names the engines that a request came through. A server that finds itself there refuses.
VIA_HEADER = "x-edgewise-via"
LOOP_STATUS = 508


@dataclass(frozen=True, slots=True)
class Arrived:
    """Something of the answer came that is not shown: a piece of a call, or a thought.

    `size` is in bytes. 0: nothing of the answer, only a sign that the connection stands (a ping, an
    event that opens or ends something). The door takes it, and passes it on to nobody.
    """

    size: int


Chunk = str | ToolCall | Vectors | Judged | Voiced | Finish | Arrived | Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """Seconds.

    `first_token_s` limits every silence: until the answer begins, and between two pieces of it.
    `patience_s` limits the first one where the device could answer. An answer has begun with the
    first byte of it, shown or not. `total_s` ends a call that never ends; it is long, because an
    answer that is being written is not to be thrown away.
    """

    connect_s: float = 1.5
    first_token_s: float = 15.0
    total_s: float = 600.0
    patience_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Rates:
    """What a provider charges by the user's own word: dollars per million tokens."""

    input: float
    output: float
    cached: float  # of what it had read before
    characters: float | None = None  # of a million that are spoken


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderConfig:
    """One provider, completed with the user's key and choices."""

    name: str
    protocol: str
    model: str
    base_url: str = ""
    key: str = field(default="", repr=False)  # must not appear in a traceback
    limits: TimeLimits = TimeLimits()
    rates: Rates | None = None  # None: as the price list says
    voice: str = ""  # who speaks, unless a request says; of a model that speaks


class CloudProvider(Protocol):
    """One wire protocol, one client, reused connections. Maps vendor errors to ours."""

    @property
    def config(self) -> ProviderConfig: ...

    def stream(self, request: Request, wire_id: str) -> Iterator[Chunk]:
        """Yield text and tool calls as they come, then one `Finish` with usage.

        Yield `Arrived` for every event without text or a whole call, and before a whole call for
        its pieces: what is not passed on would count as silence, and as free.
        For `request.task == "transcribe"` the text is what was said, "" if nobody spoke; for
        "embed" it is one `Vectors` for the user's messages, for "decide" one `Judged`, for "speak"
        one `Voiced` of the text, in the format `request.sound` or as WAV. A request
        with an `original` of the provider's protocol leaves as that, and `Raw` pieces come in place
        of text and `Arrived`.
        It blocks, and runs on a thread of the door. `wire_id` names this try in the headers.
        Raises only `CloudError`s. Closing the iterator closes the HTTP response.
        """
        ...

    def abort(self, wire_id: str) -> bool | None:
        """Called from another thread: break the connection of this try, if there is one.

        False if nothing of it was sent, and nothing will be: then it costs nothing.
        """
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

    def has_budget(self, request: Request) -> bool:
        """Whether any budget limits what this request may cost."""
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
        cached_tokens: int = 0,
        stored_tokens: int = 0,
        stored_long_tokens: int = 0,
        spoken_tokens: int = 0,
        searches: int = 0,
        characters: int = 0,
    ) -> int:
        """As `Finish` has them: of `input_tokens`, `audio_tokens` were sound, `cached_tokens` the
        provider had read before, and `stored_tokens` it put into its cache; of `output_tokens`,
        `spoken_tokens` are sound; `characters` were spoken."""
        ...

    def known(self, config: ProviderConfig) -> bool:
        """False if `cost` is a guess."""
        ...


class Circuits(Protocol):
    """What all processes know of providers that fail: one row each. Every method raises StoreAway.

    `lease` names a probe. A result with a lease counts while that probe is out; one without, while
    the circuit is closed.
    """

    def look(self, provider: str) -> float | None: ...

    def probe(self, provider: str, lease_s: float) -> str:
        """The lease of the probe; "" if it is not free."""
        ...

    def fail(
        self,
        provider: str,
        lease: str,
        at_once: bool,
        most: int,
        cooldown_s: float,
        longest_s: float,
        retry_s: float | None,
    ) -> None: ...

    def release(self, provider: str, lease: str) -> None: ...

    def succeed(self, provider: str, lease: str) -> None: ...


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
        be tried elsewhere. `patience_s` limits the wait until an answer begins, over the whole
        chain. No `Arrived` leaves the door.
        `stop` ends it from another thread: the connection is closed, the attempt settled as
        cancelled, and the stream ends without a `Finish`.
        Raises the last CloudError if nobody answered.
        """
        ...
