"""The protocols between a flow, the door to the cloud, a provider, and the purse that pays."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from edgewise.errors import CloudClosed
from edgewise.types.messages import Request, ToolCall
from edgewise.types.replies import Attempt
from edgewise.types.tokens import Finish

Chunk = str | ToolCall | Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """Seconds. `patience` bounds the wait for a first token where the device could answer."""

    connect_s: float = 1.5
    first_token_s: float = 15.0
    total_s: float = 120.0
    patience_s: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderConfig:
    """One row of the directory, completed with the user's key and choices."""

    name: str
    protocol: str
    model: str
    base_url: str = ""
    key: str = field(default="", repr=False)  # must not reach a log through a traceback
    limits: TimeLimits = TimeLimits()


class CloudProvider(Protocol):
    """One wire protocol, one client, connections reused. Maps vendor errors to ours."""

    @property
    def config(self) -> ProviderConfig: ...

    def stream(self, request: Request, wire_id: str) -> Iterator[Chunk]:
        """Yield text and tool calls as they come, then one `Finish` with usage.

        Blocks; runs on a thread of the door's. `wire_id` names this try in the request's headers.
        Raises only `CloudError`s. Closing the iterator closes the HTTP response.
        """
        ...

    def abort(self, wire_id: str) -> None:
        """Called from another thread: break the connection this try is blocked on, if any."""
        ...

    def close(self) -> None: ...


class Purse(Protocol):
    """Reserve before a cloud call, settle after it; both idempotent per attempt id."""

    def reserve(
        self, attempt_id: str, request: Request, config: ProviderConfig, microdollars: int
    ) -> None:
        """Raises BudgetExceeded or LedgerUnavailable; either way nothing is sent."""
        ...

    def settle(self, attempt_id: str, attempt: Attempt) -> None: ...


class Prices(Protocol):
    """Tokens to micro-dollars."""

    def cost(self, config: ProviderConfig, input_tokens: int, output_tokens: int) -> int: ...


class Cloud(Protocol):
    """What a flow sees of the cloud: the door."""

    def closed(self, request: Request) -> CloudClosed | None:
        """Why nothing could leave right now, without trying; None when the door is open."""
        ...

    def stream(
        self, request: Request, journal: list[Attempt], *, live: bool, patience_s: float | None
    ) -> Generator[Chunk, None, None]:
        """Stream one provider's answer, trying the chain in order; each try lands in `journal`.

        `live=False` holds each provider's answer back until it is whole, so that a cut stream can
        be tried elsewhere. `patience_s` bounds the wait for the first token over the whole chain.
        Raises the last CloudError when nobody answered.
        """
        ...
