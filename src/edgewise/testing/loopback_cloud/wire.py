"""What a provider's wire protocol must define, and the replies and faults of a script."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from edgewise.types.messages import ToolCall
from edgewise.types.tokens import FinishReason

DIMENSIONS = 8  # of invented vectors, if the request does not say
FIXED_SENTENCE = "The loopback cloud heard the question and gives this fixed answer."
CUT_SENTENCE = "This answer is long enough to be broken off before it has come to its end."


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A complete answer. Text comes first, tool calls after it, as providers send them.

    chunk_size       characters per streamed piece, of text and of tool arguments alike
    delay_first_s    silence before the first byte, headers included
    delay_between_s  silence between two streamed pieces
    cached_tokens    how many of `input_tokens` came from the provider's cache
    reasoning_tokens how many of `output_tokens` were hidden thoughts
    finish           None: "tool_calls" if there are some, otherwise "stop"
    audio_tokens     how many of `input_tokens` were sound
    audio_seconds    of sound; OpenAI's transcriptions then report these instead of tokens
    vectors          for embeddings; None: invented, the same for the same text

    Providers count cached and reasoning tokens differently. Each protocol sends what its provider
    would, so that a test notices a client that counts wrongly.
    """

    text: str = FIXED_SENTENCE
    tool_calls: tuple[ToolCall, ...] = ()
    chunk_size: int = 8
    delay_first_s: float = 0.0
    delay_between_s: float = 0.0
    input_tokens: int = 12
    cached_tokens: int = 0
    output_tokens: int = 8
    reasoning_tokens: int = 0
    finish: FinishReason | None = None
    audio_tokens: int = 0
    audio_seconds: float = 0.0
    vectors: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        if self.chunk_size < 1:
            raise ValueError(f"chunk_size must be at least 1, got {self.chunk_size!r}")

    @property
    def finish_reason(self) -> FinishReason:
        return self.finish or ("tool_calls" if self.tool_calls else "stop")

    def pieces(self, text: str) -> list[str]:
        """`text` in pieces of `chunk_size`; an empty text has none."""
        return [text[i : i + self.chunk_size] for i in range(0, len(text), self.chunk_size)]


@dataclass(frozen=True, slots=True)
class Status:
    """An HTTP error with the provider's kind of body.

    With `after_chunks` a stream begins well, and the error comes as an event inside it.
    Gemini states its waiting time in the body; the others send a `retry-after` header.
    """

    status: int
    retry_after_s: float | None = None
    message: str = ""
    after_chunks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The answer breaks off. Of a body that is not streamed, half is sent.

    how  "reset"  the TCP connection is reset
         "close"  the connection is closed in mid-body, as by a dying proxy
         "end"    the HTTP body ends properly, but the answer's own end is missing
    """

    after_chunks: int = 2
    text: str = CUT_SENTENCE
    chunk_size: int = 8
    how: Literal["reset", "close", "end"] = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """Status 200 and broken JSON: in the body, or in the stream after some good pieces."""

    after_chunks: int = 0


@dataclass(frozen=True, slots=True)
class Empty:
    """A well-formed answer with nothing in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """The request is read but never answered, until the client leaves or the server stops.

    With `after_chunks` a stream begins, then stalls with the connection open.
    """

    after_chunks: int = 0


Fault = Status | Cut | Malformed | Empty | Silence


Scripted = Answer | Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRequest:
    """One request as it arrived. Header names are lower-case; `body` is {} unless a JSON object.

    `connection` numbers the TCP connections from 1, so equal numbers mean that it was reused. The
    fields of a form are the `body` too, a file as its bytes. `audio` is the decoded sound.
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
    """One server-sent event, ready to send. `chunk` marks events with part of the answer."""

    data: bytes
    chunk: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """The target of a request: a protocol, the model, and what the path asks for.

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
        """The body of an answer in one piece: in this route's shape, or a chat's."""
        return self.shape(answer) if self.shape else self.wire.whole(answer, self.model)


class Wire(Protocol):
    """One provider's shapes. Stateless."""

    name: str

    def route(
        self, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> Route | None:
        """None if the path is not this provider's."""
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
    """One server-sent event. Text is sent as it is, everything else as JSON."""
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
    """The bytes of a base64 text, in either alphabet; empty if it is not one."""
    try:
        return base64.b64decode(str(text).replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error:
        return b""


def vectors_for(
    answer: Answer, texts: Sequence[str], dimensions: int
) -> tuple[tuple[float, ...], ...]:
    """The scripted vectors, or some derived from each text's hash."""
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
