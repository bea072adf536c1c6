"""What one provider's wire protocol must be able to say, and the pieces all of them share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from edgewise.testing.loopback_cloud.faults import Answer, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRequest:
    """One request as it arrived. Header names are lower-case; `body` is {} unless a JSON object.

    `connection` numbers the TCP connection from 1, so equal numbers mean it was reused.
    """

    path: str
    protocol: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    stream: bool
    connection: int
    method: str = "POST"
    query: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event, ready to send. `chunk` marks those that carry part of the answer."""

    data: bytes
    chunk: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request belongs: a protocol, the model asked for, and what the path asks."""

    wire: Wire
    model: str = ""
    stream: bool = False
    lists_models: bool = False
    required: tuple[str, ...] = field(default=())


class Wire(Protocol):
    """One provider's shapes. Stateless."""

    name: str

    def route(
        self, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> Route | None:
        """None when the path is not this provider's."""
        ...

    def whole(self, answer: Answer, model: str) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        ...

    def events(self, answer: Answer, model: str, body: Mapping[str, Any]) -> list[Event]:
        """A streamed answer, from its first event to its last."""
        ...

    def error(self, fault: Status) -> dict[str, Any]: ...

    def error_event(self, fault: Status) -> bytes:
        """An error inside a stream that began well."""
        ...

    def broken_event(self) -> bytes:
        """An event whose data is not JSON."""
        ...

    def error_headers(self, fault: Status) -> dict[str, str]: ...

    def models(self, names: Sequence[str]) -> dict[str, Any]: ...


def sse(data: object, *, event: str = "", newline: str = "\n") -> bytes:
    """One server-sent event. Text goes as it is, everything else as JSON."""
    text = data if isinstance(data, str) else json.dumps(data)
    head = f"event: {event}{newline}" if event else ""
    return f"{head}data: {text}{newline}{newline}".encode()


def beginning(events: Sequence[Event], chunks: int) -> list[Event]:
    """The events up to the `chunks`-th that carries text. Never the end of the answer."""
    taken: list[Event] = []
    seen = 0
    last = max((i for i, event in enumerate(events) if event.chunk), default=-1)
    for i, event in enumerate(events):
        if i > last or (event.chunk and seen == chunks):
            break
        taken.append(event)
        seen += event.chunk
    return taken


def retry_after_header(fault: Status) -> dict[str, str]:
    if fault.retry_after_s is None:
        return {}
    return {"retry-after": f"{fault.retry_after_s:g}"}


def fault_message(fault: Status) -> str:
    return fault.message or f"The loopback cloud was told to answer {fault.status}."
