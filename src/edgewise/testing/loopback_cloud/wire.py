"""What one provider's wire protocol must be able to say, and the pieces all of them share."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from edgewise.testing.loopback_cloud.faults import Answer, Status

DIMENSIONS = 8  # of made vectors, where the request does not say


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRequest:
    """One request as it arrived. Header names are lower-case; `body` is {} unless a JSON object.

    `connection` numbers the TCP connection from 1, so equal numbers mean it was reused. A form's
    fields are the `body` too, a file as its bytes. `audio` is the sound to transcribe, decoded.
    """

    path: str
    protocol: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    stream: bool
    connection: int
    method: str = "POST"
    query: str = ""
    audio: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event, ready to send. `chunk` marks those that carry part of the answer."""

    data: bytes
    chunk: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request belongs: a protocol, the model asked for, and what the path asks.

    `shape` makes the body of an answer that is not a chat's.
    """

    wire: Wire
    model: str = ""
    stream: bool = False
    lists_models: bool = False
    required: tuple[str, ...] = field(default=())
    audio: bytes = b""
    shape: Callable[[Answer], dict[str, Any]] | None = None

    def whole(self, answer: Answer) -> dict[str, Any]:
        """The body of an answer in one piece: of this route's own shape, or a chat's."""
        return self.shape(answer) if self.shape else self.wire.whole(answer, self.model)


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


def decoded(text: object) -> bytes:
    """The bytes of a base64 text, in either alphabet; nothing where it is none."""
    try:
        return base64.b64decode(str(text).replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error:
        return b""


def vectors_for(
    answer: Answer, texts: Sequence[str], dimensions: int
) -> tuple[tuple[float, ...], ...]:
    """The scripted vectors, or some made of each text's hash."""
    if answer.vectors is not None:
        return answer.vectors
    return tuple(
        tuple(byte / 127.5 - 1 for byte in hashlib.shake_256(text.encode()).digest(dimensions))
        for text in texts
    )


def retry_after_header(fault: Status) -> dict[str, str]:
    if fault.retry_after_s is None:
        return {}
    return {"retry-after": f"{fault.retry_after_s:g}"}


def fault_message(fault: Status) -> str:
    return fault.message or f"The loopback cloud was told to answer {fault.status}."
