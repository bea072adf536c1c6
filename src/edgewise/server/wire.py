"""What the endpoints share: the pieces of a response, what is asked, and the `edgewise` object."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal, NotRequired, Protocol, cast

from annotated_types import Ge, Le, MinLen
from pydantic import Field
from starlette.types import Send
from typing_extensions import TypedDict

from edgewise.record.rows import short_error
from edgewise.server.errors import Fault, shown_reason, without_folders
from edgewise.server.routing import HEADER
from edgewise.types.measured import is_borrowed
from edgewise.types.messages import Handoff, Message, Source, ToolCall
from edgewise.types.replies import Attempt, CallReply, Place, Reply, Switched, TextDelta, Usage

LONG_LIST = 100  # of objects or lists, that are written one by one
JSON = {"content-type": "application/json"}
EVENTS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # proxies must pass each event on as it comes
}

# The types of what answers hold; the description of the server is made from them.
Count = Annotated[int, Ge(0)]
Amount = Annotated[float, Ge(0)]
Chance = Annotated[float, Ge(0), Le(1)]
NotEmpty = Annotated[str, MinLen(1)]


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a response; with a body, all of it."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


Work = Generator[Head | bytes, None, None]


async def send_head(send: Send, head: Head) -> None:
    headers = [
        (name.encode("latin-1"), _header_value(value)) for name, value in head.headers.items()
    ]
    await send({"type": "http.response.start", "status": head.status, "headers": headers})


def whole(status: int, headers: Mapping[str, str], body: bytes) -> Head:
    """A response that is all there."""
    return Head(status, {**headers, "content-length": str(len(body))}, body)


def _header_value(value: str) -> bytes:
    return value.replace("\r", " ").replace("\n", " ").encode("latin-1", "replace")


def to_json(value: object) -> bytes:
    """JSON in UTF-8. A long list is written item by item.

    While the encoder writes, no other thread runs: thousands of vectors in one go would stop the
    event loop.
    """
    if isinstance(value, dict):
        long = {name for name, each in value.items() if _is_long(each)}
        if long:
            fields = (
                to_json(str(name)) + b":" + (_long_list(each) if name in long else to_json(each))
                for name, each in value.items()
            )
            return b"{" + b",".join(fields) + b"}"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).encode()


def _is_long(value: object) -> bool:
    listed = isinstance(value, list) and len(value) > LONG_LIST
    return listed and isinstance(cast(list[object], value)[0], dict | list)


def _long_list(values: list[object]) -> bytes:
    return b"[" + b",".join(map(to_json, values)) + b"]"


def sse(value: object, event: str = "") -> bytes:
    """One server-sent event. JSON has no bare line ends, so one `data:` line is enough."""
    head = b"event: " + event.encode() + b"\n" if event else b""
    return head + b"data: " + to_json(value) + b"\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A chat request of any API: the engine's options, and what the answer must look like."""

    model: str
    messages: tuple[Message, ...]
    options: Mapping[str, Any]
    metadata: Mapping[str, Any]
    stream: bool = False
    usage: bool = True  # streams: count tokens at the end
    logprobs: int | None = None  # how many alternatives beside each token; None: no evidence
    loaded: Mapping[str, Any] | None = None  # the answer to a request that only loads the model
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
                "reason": shown_reason(self.switched.reason),
                "confidence": self.switched.confidence,
                "confidence_verified": self.switched.confidence_verified,
            }
        return known

    def headers(self) -> dict[str, str]:
        """What is known at the first byte of a stream; the rest is in its last event."""
        found = {HEADER + "id": self.id, HEADER + "source": self.source}
        if self.switched is not None:
            found[HEADER + "reason"] = self.switched.code
            if self.switched.confidence is not None:
                found |= _confidence(self.switched.confidence, self.switched.confidence_verified)
        return found


class Writer(Protocol):
    """Writes one streamed answer, event by event."""

    def begin(self, opening: Opening) -> Iterator[bytes]: ...

    def text(self, delta: TextDelta) -> Iterator[bytes]: ...

    def switched(self, event: Switched) -> Iterator[bytes]: ...

    def end(self, reply: Reply, extra: Report) -> Iterator[bytes]: ...

    def failed(self, fault: Fault) -> Iterator[bytes]: ...


class Wire(Protocol):
    """One chat API. Stateless."""

    name: str

    @property
    def stream_head(self) -> Mapping[str, str]:
        """The headers of its streams."""
        ...

    def read(self, body: bytes, *, remote_images: bool) -> Ask: ...

    def whole(self, ask: Ask, reply: Reply, extra: Report) -> Mapping[str, Any]:
        """The body of an answer that is not streamed; `extra` is its `edgewise` object."""
        ...

    def writer(self, ask: Ask, request_id: str) -> Writer: ...

    def error(self, fault: Fault) -> Mapping[str, Any]: ...


class DecisionReport(TypedDict):
    code: Annotated[NotEmpty, Field(description="see decision-codes.md")]
    reason: str
    policy: str
    handoff: Handoff
    threshold: Chance | None
    objective: Annotated[str, Field(description="what the threshold was found for")]
    calibration: str
    decided_after_tokens: Count | None
    truncated: bool


class AttemptReport(TypedDict):
    place: Place
    backend: str
    model: str
    outcome: NotEmpty
    error: str
    tries: Count
    first_token_ms: Amount | None
    total_ms: Amount
    input_tokens: Count
    output_tokens: Count
    cached_tokens: Count
    cost_microdollars: Count
    estimated: bool
    shown_chars: Count
    audio_seconds: Amount
    redacted: Annotated[dict[str, Count], Field(description="values that left as placeholders")]


class ReportedUsage(TypedDict):
    input_tokens: Count
    output_tokens: Count


class CallSource(TypedDict):
    name: str
    source: str
    confidence: Chance | None


class Report(TypedDict):
    """The `edgewise` object of every answer. Holds no text of the conversation."""

    id: NotEmpty
    source: Source
    model: Annotated[str, Field(description="empty where only signalled")]
    confidence: Chance | None
    confidence_verified: Annotated[
        bool,
        Field(description="false: a guess from other models, borrowed, or none; see calibrate.md"),
    ]
    cloud_handoff: bool
    needs_cloud_handoff: bool
    decision: DecisionReport
    degraded: bool
    degraded_code: str
    cost_usd: Amount
    cost_microdollars: Count
    usage: ReportedUsage
    attempts: list[AttemptReport]
    first_token_ms: Amount | None
    total_ms: Amount
    recorded: Annotated[bool, Field(description="false: the ledger failed; the log says why")]
    success: NotRequired[Literal[True]]
    response: NotRequired[None]
    calls: NotRequired[list[CallSource]]
    needs: NotRequired[Annotated[list[str], Field(description="parameters that are asked for")]]
    difficulty: NotRequired[Any]


def report(reply: Reply) -> Report:
    """Where an answer came from, how sure it is, why, and at what price."""
    decision = reply.decision
    found: Report = {
        "id": reply.id,
        "source": reply.source,
        "model": reply.model,
        "confidence": reply.confidence,
        "confidence_verified": reply.confidence_verified,
        "cloud_handoff": reply.cloud_handoff,
        "needs_cloud_handoff": reply.needs_cloud_handoff,
        "decision": {
            "code": decision.code,
            "reason": shown_reason(decision.reason),
            "policy": decision.policy,
            "handoff": decision.handoff,
            "threshold": decision.threshold,
            "objective": decision.objective,
            "calibration": decision.calibration,
            "decided_after_tokens": decision.decided_after_tokens,
            "truncated": decision.truncated,
        },
        "degraded": reply.degraded,
        "degraded_code": decision.degraded_code,
        "cost_usd": reply.usage.cost_microdollars / 1_000_000,
        "cost_microdollars": reply.usage.cost_microdollars,
        "usage": {
            "input_tokens": reply.usage.input_tokens,
            "output_tokens": reply.usage.output_tokens,
        },
        "attempts": [_attempt(each) for each in reply.attempts],
        "first_token_ms": reply.first_token_ms,
        "total_ms": reply.total_ms,
        "recorded": not reply.unrecorded,
    }
    if reply.signalled:  # the original handoff signal, for applications that route themselves
        found |= {"success": True, "response": None}
    if isinstance(reply, CallReply):
        found["calls"] = [
            {"name": call.name, "source": call.source, "confidence": call.confidence}
            for call in reply.tool_calls
        ]
        found["needs"] = list(reply.needs)
        found["difficulty"] = reply.difficulty
    return found


def _attempt(attempt: Attempt) -> AttemptReport:
    error = without_folders(short_error(attempt.error))
    return cast(AttemptReport, asdict(attempt) | {"error": error})


def report_headers(reply: Reply) -> dict[str, str]:
    """The `edgewise` object in short."""
    found = {
        HEADER + "id": reply.id,
        HEADER + "source": reply.source,
        HEADER + "cost": f"{reply.usage.cost_microdollars / 1_000_000:.6f}",
        HEADER + "reason": reply.decision.code,
    }
    if reply.confidence is not None:
        borrowed = is_borrowed(reply.decision.calibration)
        found |= _confidence(reply.confidence, reply.confidence_verified, borrowed=borrowed)
    if reply.degraded:
        found[HEADER + "degraded"] = reply.decision.degraded_code
    if reply.signalled:
        found[HEADER + "handoff"] = "signal"
    return found


def _confidence(value: float, verified: bool, *, borrowed: bool = False) -> dict[str, str]:
    found = {HEADER + "confidence": f"{value:.4f}"}
    said = {HEADER + "confidence-verified": "borrowed" if borrowed else "false"}
    return found if verified else found | said


def switch_note(event: Switched) -> dict[str, Any]:
    """What a stream says when the other side takes over."""
    return {"switched_to": event.to, "code": event.code, "reason": shown_reason(event.reason)}


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
