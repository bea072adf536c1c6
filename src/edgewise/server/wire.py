"""What one family of endpoints must be able to say, and the pieces all of them share."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.types import Send

from edgewise.record.rows import masked_start
from edgewise.server.errors import Fault
from edgewise.server.fields import Fields
from edgewise.types.messages import Message, ToolCall
from edgewise.types.replies import Reply, Switched, TextDelta, Usage


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a response."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)


Work = Generator[Head | bytes, None, None]


async def send_head(send: Send, head: Head) -> None:
    headers = [
        (name.encode("latin-1"), _header_value(value)) for name, value in head.headers.items()
    ]
    await send({"type": "http.response.start", "status": head.status, "headers": headers})


def _header_value(value: str) -> bytes:
    return value.replace("\r", " ").replace("\n", " ").encode("latin-1", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request as read from a wire: the engine's options, and what the answer must look like."""

    model: str
    messages: tuple[Message, ...]
    options: Mapping[str, Any]
    metadata: Fields
    stream: bool = False
    usage: bool = True  # streams: count tokens at the end
    logprobs: int | None = None  # how many alternatives beside each token; None: no evidence
    created: int = field(default_factory=lambda: int(time.time()))


@dataclass(frozen=True, slots=True)
class Opening:
    """What is known when the first text of a stream is sent."""

    id: str
    source: str
    switched: Switched | None = None

    def to_dict(self) -> dict[str, Any]:
        known: dict[str, Any] = {"id": self.id, "source": self.source}
        if self.switched is not None:
            known |= {
                "code": self.switched.code,
                "reason": masked_start(self.switched.reason)[0],
                "confidence": self.switched.confidence,
            }
        return known


def switch_note(event: Switched) -> dict[str, Any]:
    """What a stream says when the other side takes over."""
    # The reason may quote a provider's error, and that a key.
    reason = masked_start(event.reason)[0]
    return {"switched_to": event.to, "code": event.code, "reason": reason}


class Writer(Protocol):
    """Writes one streamed answer, event by event."""

    def begin(self, opening: Opening) -> Iterator[bytes]: ...

    def text(self, delta: TextDelta) -> Iterator[bytes]: ...

    def switched(self, event: Switched) -> Iterator[bytes]: ...

    def end(self, reply: Reply, extra: Mapping[str, Any]) -> Iterator[bytes]: ...

    def failed(self, fault: Fault) -> Iterator[bytes]: ...


class Wire(Protocol):
    """One API's shapes. Stateless."""

    name: str

    def read(self, body: Fields, *, remote_images: bool) -> Ask: ...

    def whole(self, ask: Ask, reply: Reply, extra: Mapping[str, Any]) -> dict[str, Any]:
        """The body of an answer that is not streamed; `extra` is its `edgewise` object."""
        ...

    def writer(self, ask: Ask, request_id: str) -> Writer: ...

    def error(self, fault: Fault) -> dict[str, Any]: ...


def to_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).encode()


def sse(value: object, event: str = "") -> bytes:
    """One server-sent event. JSON has no bare line ends, so one `data:` line is enough."""
    head = b"event: " + event.encode() + b"\n" if event else b""
    return head + b"data: " + to_json(value) + b"\n\n"


def call_ids(reply: Reply) -> list[tuple[str, ToolCall]]:
    """Calls with an id each: those made on the device have none of their own."""
    return [
        (call.id or f"call_{reply.id[:16]}_{number}", call)
        for number, call in enumerate(reply.tool_calls)
    ]


def arguments_text(call: ToolCall) -> str:
    return json.dumps(dict(call.arguments), ensure_ascii=False, default=str)


def answered_usage(reply: Reply) -> Usage:
    """Tokens of the attempts whose text this is; the `edgewise` object has them all."""
    attempts = [each for each in reply.attempts if each.outcome == "answered"]
    return Usage(
        sum(each.input_tokens for each in attempts),
        sum(each.output_tokens for each in attempts),
    )


def model_name(ask: Ask, reply: Reply) -> str:
    """What answered, in the form that asks for it again."""
    for attempt in reversed(reply.attempts):
        if attempt.outcome == "answered":
            if attempt.place == "local":
                return f"local/{attempt.model}"
            return f"cloud/{attempt.backend}/{attempt.model}"
    return ask.model


def joined(parts: Sequence[str]) -> str:
    return "\n".join(part for part in parts if part)
