"""What the chat APIs share: pieces of a response, and what is ours on a wire.

A request says in headers or metadata where it may go; an answer has an `edgewise` object.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import math
import re
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, NotRequired, Protocol, cast

from annotated_types import Ge, GroupedMetadata, Le, MinLen
from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema
from starlette.types import Send
from typing_extensions import TypedDict, override

from edgewise import plugins
from edgewise.errors import InvalidRequest
from edgewise.local.catalogue import MODELS, model_name
from edgewise.record.rows import short_error
from edgewise.server.body import (
    BadField,
    DescribedBy,
    Model,
    check_place,
    parse_inner,
    read_model,
)
from edgewise.server.errors import Fault, refuse, shown_reason, without_folders
from edgewise.types.messages import Handoff, Message, Source, ToolCall, WireName, as_kinds, as_share
from edgewise.types.replies import CallReply, Place, Reply, Switched, TextDelta, Usage, is_borrowed

LONG_LIST = 100  # of objects or lists, that are written one by one
JSON = {"content-type": "application/json"}
COMMENT = b": waiting\n\n"  # in a stream of events, which every client passes over
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


class Pings:
    """What the client of a stream gets while it waits: a sign that somebody is there.

    The event loop sends them, a thread answers. Whoever is first sends the head.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._head: Head | None = None
        self._ping = b""
        self._begun = self._sent = False
        self.failed: Callable[[Fault], bytes] | None = None

    def arm(self, head: Head, ping: bytes, failed: Callable[[Fault], bytes]) -> None:
        """From now on it may be sent; `failed` tells a fault where it is too late for a status.

        An empty ping is none: then the head waits for the answer."""
        if not ping:
            return
        with self._lock:
            self._head, self._ping, self.failed = head, ping, failed

    def begin(self) -> bool:
        """The answer begins. True: the head was sent already."""
        with self._lock:
            self._begun = True
            return self._sent

    def due(self) -> tuple[Head | None, bytes]:
        """What to send now: a head, where none was sent yet, and a ping."""
        with self._lock:
            head = None if self._begun or self._sent else self._head
            self._sent = self._sent or head is not None
            return head, self._ping


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
    keep_s: float | None = None  # how long the model is to stay in memory after it; None: unsaid
    body: Mapping[str, Any] = field(default_factory=dict)  # as it was sent,
    read: Any = None  # and what we read of it
    foreign: tuple[str, ...] = ()  # what only a provider of the same protocol can answer
    wrong: InvalidRequest | None = None  # why it could not be read; told where no provider is asked
    created: int = field(default_factory=lambda: int(time.time()))


@dataclass(frozen=True, slots=True)
class Opening:
    """What is known when the first text of a stream is sent."""

    id: str
    source: str
    switched: Switched | None = None
    model: str = ""  # that answers, in the form that asks for it again

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

    def headers(self, not_translated: Sequence[str] = ()) -> dict[str, str]:
        """What is known at the first byte of a stream; the rest is in its last event."""
        found = {HEADER + "id": self.id, HEADER + "source": self.source}
        found |= _missing(not_translated)
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
    """One chat API. Stateless.

    `forwards`: the protocol that its requests can be sent on in. `note_places` are the objects in
    the first and in the last event of a stream that hold our object; empty: the event itself.
    `in_path`: the model and whether a stream is wanted, in the API that says them there.
    """

    name: str
    forwards: WireName | None
    note_places: tuple[str, str]
    in_path: tuple[str, bool] | None
    ping: bytes  # between two events of a stream; empty: its clients know none

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
    kept_at: Annotated[
        Chance | None, Field(description="the confidence at which a stream was shown")
    ]
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
    price_guessed: Annotated[bool, Field(description="the price of this model is not known")]


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
    not_translated: NotRequired[
        Annotated[list[str], Field(description="fields that the answering provider was not told")]
    ]


def report(reply: Reply) -> Report:
    """Where an answer came from, how sure it is, why, and at what price."""
    told = Reply.to_dict(reply)
    decision, usage = told["decision"], told["usage"]
    known = told | {
        "decision": {name: decision[name] for name in DecisionReport.__annotations__}
        | {"reason": shown_reason(decision["reason"])},
        "degraded_code": decision["degraded_code"],
        "cost_usd": usage["cost_microdollars"] / 1_000_000,
        "cost_microdollars": usage["cost_microdollars"],
        "usage": {name: usage[name] for name in ReportedUsage.__annotations__},
        "attempts": [
            each | {"error": without_folders(short_error(each["error"]))}
            for each in told["attempts"]
        ],
    }
    if not reply.signalled:  # the handoff signal is for applications that route themselves
        del known["success"], known["response"]
    if isinstance(reply, CallReply):
        known["calls"] = [
            {name: call[name] for name in CallSource.__annotations__} for call in told["tool_calls"]
        ]
        known["needs"] = list(reply.needs)
    return cast(Report, {name: known[name] for name in Report.__annotations__ if name in known})


def _missing(names: Sequence[str]) -> dict[str, str]:
    plain = (_UNPRINTABLE.sub("?", name)[:80] for name in names)
    return {HEADER + "not-translated": ", ".join(plain)} if names else {}


def report_headers(reply: Reply, not_translated: Sequence[str] = ()) -> dict[str, str]:
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
    return found | _missing(not_translated)


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
    """As a cloud wrote them; as JSON where the device did, or where they were changed since."""
    with contextlib.suppress(ValueError):
        if call.written and json.loads(call.written) == call.arguments:
            return call.written
    return json.dumps(dict(call.arguments), ensure_ascii=False, default=str)


def answered_usage(reply: Reply) -> Usage:
    """Tokens of the attempts whose text this is; the `edgewise` object has them all.

    A function model that found no tool has answered too, and none of it was said.
    """
    attempts = [each for each in reply.attempts if each.outcome == "answered"]
    if attempts and reply.source in ("local", "cloud"):
        last = attempts[-1]
        attempts = [one for one in attempts if (one.place, one.model) == (last.place, last.model)]
    return Usage(
        sum(each.input_tokens for each in attempts),
        sum(each.output_tokens for each in attempts),
    )


def answered_by(ask: Ask, reply: Reply) -> str:
    """What answered, in the form that asks for it again."""
    for attempt in reversed(reply.attempts):
        if attempt.outcome == "answered":
            if attempt.place == "local":
                return f"local/{attempt.model}"
            return f"cloud/{attempt.backend}/{attempt.model}"
    return ask.model


def joined(parts: Sequence[str]) -> str:
    return "\n".join(part for part in parts if part)


# -- what a request says about routing: its model's name, its headers, its metadata ----------------


HEADER = "x-edgewise-"
_UNPRINTABLE = re.compile("[^ -~]")  # a client's own names may hold anything
PREFIX = "edgewise_"  # of names in metadata, where they may stand among others
LOCAL_ONLY = "local_only"
AUTO, LOCAL, CLOUD = "auto", "local", "cloud"
LEAST_SHARE, MOST_SHARE = 0.0001, 0.9999  # of errors: none at all cannot be promised


class Range(GroupedMetadata):
    """A number, or text that holds one: headers have nothing else. A share may be in percent."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    @override
    def __iter__(self) -> Iterator[object]:
        number = {"type": "number", "minimum": self.low, "maximum": self.high}
        text = {"type": "string", "pattern": "^[0-9]+([.][0-9]+)?$"}
        yield BeforeValidator(self._read)
        yield WithJsonSchema({"anyOf": [number, text]})

    def _read(self, value: Any) -> float:
        try:
            is_share = isinstance(value, str) and self.high <= 1
            number = as_share(value) if is_share else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if isinstance(value, bool) or not self.low <= number <= self.high:
            raise ValueError(f"expected a number from {self.low:g} to {self.high:g}")
        return number


def _word(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > 128:
        raise ValueError("expected a word")
    return value.strip()


def _policies(schema: dict[str, Any]) -> None:
    schema["anyOf"][0] = {"enum": list(plugins.names("policies"))}


Word = Annotated[
    str,
    BeforeValidator(_word),
    WithJsonSchema({"type": "string", "pattern": r"\S", "maxLength": 128}),
]


def _facts(value: Any, info: ValidationInfo) -> dict[str, Any]:
    """Known facts: an object, or its JSON as text. Headers and metadata often hold only text."""
    if isinstance(value, str):
        try:
            value = parse_inner(value, info)
        except json.JSONDecodeError as error:
            raise ValueError("expected a JSON object") from error
    if not isinstance(value, dict):
        raise ValueError("expected an object of names and values")
    for name, fact in value.items():
        if not _is_fact(fact, nested=2):
            raise ValueError(f"{name[:40]}: a text, a number, a list or a table of them is wanted")
    return value


def _is_fact(value: Any, nested: int) -> bool:
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return nested > 0 and all(_is_fact(one, nested - 1) for one in inner)
    return value is None or isinstance(value, str | int | float)


def _kinds(value: Any) -> tuple[str, ...]:
    """`true`, `EMAIL, CARD` or a list of kinds."""
    if not isinstance(value, bool | str | list | tuple) or len(value := _plain(value)) > 512:
        raise ValueError("expected true, or a list of kinds like EMAIL")
    if not str(value).strip():  # a variable that somebody forgot to set must not let a request out
        raise ValueError("expected true, false, or kinds like EMAIL; got nothing")
    return as_kinds(value)


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str) and not all(isinstance(each, str) for each in value):
        raise ValueError("expected true, or a list of kinds like EMAIL")
    return value


Kinds = Annotated[
    tuple[str, ...],
    BeforeValidator(_kinds),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "boolean"},
                {"type": "string", "minLength": 1, "pattern": "\\S", "maxLength": 512},
                {"type": "array", "items": {"type": "string"}, "maxItems": 512},
            ]
        }
    ),
]


class Routing(Model):
    """Routing of one request: its metadata, or `x-edgewise-*` headers. Clients may keep more here.

    In metadata each may also be called `edgewise_policy` and so on.
    """

    policy: Annotated[Word | None, Field(json_schema_extra=_policies)] = None
    privacy: Annotated[
        Annotated[Literal["private", "open"], BeforeValidator(lambda each: _word(each).lower())]
        | None,
        Field(description="private: never leaves the device"),
    ] = None
    redact: Annotated[
        Kinds | None, Field(description="kinds that leave as placeholders only; true: all")
    ] = None
    private_kinds: Annotated[
        Kinds | None, Field(description="kinds that keep the request on the device")
    ] = None
    handoff: Annotated[
        Annotated[Literal["automatic", "signal"], BeforeValidator(_word)] | None,
        Field(description="signal: only say that it should be handed off"),
    ] = None
    threshold: Annotated[float, Range(0, 1)] | None = None
    max_error: Annotated[
        Annotated[float, Range(LEAST_SHARE, MOST_SHARE)] | None,
        Field(description="of what is kept, in place of a threshold"),
    ] = None
    error_probability: Annotated[
        Annotated[float, Range(LEAST_SHARE, MOST_SHARE)] | None,
        Field(description="that it is more after all"),
    ] = None
    cloud_share: Annotated[
        Annotated[float, Range(0, 1)] | None,
        Field(description="of requests, in place of a threshold"),
    ] = None
    deadline_ms: Annotated[float, Range(1, 86_400_000)] | None = None
    context: Annotated[
        Annotated[
            dict[str, Any],
            BeforeValidator(_facts),
            WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}}),
        ]
        | None,
        Field(description="known facts: date, time, place, names, tables"),
    ] = None
    budget_key: Annotated[Word | None, Field(description="whose budget pays")] = None

    def options(self) -> dict[str, Any]:
        """For the engine."""
        found = {name: value for name, value in self if value is not None}
        if (privacy := found.pop("privacy", None)) is not None:
            found["private"] = privacy == "private"
        return found


# As it was sent: some answers repeat it.
Metadata = Annotated[dict[str, Any], DescribedBy(Routing)]


@dataclass(frozen=True, slots=True)
class Route:
    """Options for the engine, and the one cloud model that is wanted, if any."""

    options: Mapping[str, Any] = field(default_factory=dict)
    cloud: str = ""


def read_routing(
    metadata: Mapping[str, Any], headers: Mapping[str, str], path: str = "metadata"
) -> dict[str, Any]:
    """Engine options from metadata, which stands at `path`, and from headers; a header wins.

    But of what keeps a request in, the strictest wins, wherever it is said. A wrong value and a
    name nobody knows are refused and not passed over: a misspelt privacy must not let a request
    out.
    """
    for name, value in metadata.items():
        if not (name in Routing.model_fields or name.startswith(PREFIX) or value is None):
            check_place(name, f"{path}.", path)
    own = [name for name in metadata if name.startswith(PREFIX)]
    check_names(own, PREFIX, f"{path}.")
    check_names([name for name in headers if name.startswith(HEADER[:-1])], HEADER)
    options: dict[str, Any] = {}
    for name in Routing.model_fields:
        header = HEADER + name.replace("_", "-")
        for values, given, place in (
            (metadata, name, f"{path}.{name}"),
            (metadata, PREFIX + name, f"{path}.{PREFIX}{name}"),
            (headers, header, header),
        ):
            if values.get(given) is not None:
                found = read_model(Routing, {name: values[given]}, named=place).options()
                options = stricter(options, found)
    return options


def kept_in(options: Mapping[str, Any]) -> dict[str, Any]:
    """What of these keeps a request on the device, or parts of it."""
    found = {
        name: options[name] for name in ("private", "redact", "private_kinds") if options.get(name)
    }
    return found | ({"policy": LOCAL_ONLY} if options.get("policy") == LOCAL_ONLY else {})


def stricter(options: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Both together: what is said later counts, unless it would let out what was to stay."""
    found = {**options, **later}
    if options.get("policy") == LOCAL_ONLY:
        found["policy"] = LOCAL_ONLY
    if options.get("private"):
        found["private"] = True
    for name in ("redact", "private_kinds"):
        if options.get(name):
            found[name] = tuple(dict.fromkeys((*options[name], *later.get(name, ()))))
    return found


def check_names(names: Iterable[str], start: str, path: str = "") -> None:
    """Names that are ours to give, each beginning with `start`. Raises BadField at an unknown."""
    known = [*Routing.model_fields, "space"]
    if start == HEADER:
        known = [name.replace("_", "-") for name in known]
    for name in names:
        if name.startswith(start) and name.removeprefix(start) in known:
            continue
        near = difflib.get_close_matches(name[len(start) : 80], known, n=1)
        hint = f"did you mean {start}{near[0]}?" if near else f"{start}… is {', '.join(known)}"
        raise BadField(f"{path}{name[:80]}", f"there is no such setting; {hint}")


def no_other(_: str) -> str:
    """Where the device has one model for the task."""
    return ""


SAME = "<same>"
_KEEP_IN = ("private", "privacy", "localonly")  # no model is called so


def meant(name: str, models: Mapping[str, str], chore: str = "") -> str:
    """What a client's name for a model stands for: the first pattern that fits says it, also one
    that fits `task/CHORE`. Who names a place has chosen for such work, too."""
    placed = place_named(name).partition("/")[0] in (LOCAL, CLOUD)
    asked = [name, f"task/{chore}"] if chore and not placed else [name]
    for pattern, route in models.items():
        if any(fnmatchcase(each, pattern) for each in asked):
            return route.replace(SAME, name)
    return name


def place_named(name: str) -> str:
    """`local` for `Local`, `edgewise/local` or `local:latest`: who names a place means it, however
    it is written. Other names stay as they are."""
    start, slash, rest = name.partition("/")
    if start.lower() == "edgewise":
        start, slash, rest = rest.partition("/")
    where = start.removesuffix(":latest").lower()
    return f"{where}{slash}{rest}" if where in (AUTO, LOCAL, CLOUD) else name


def resolve_model(
    name: str,
    *,
    local_model: str,
    any_model: bool,
    other: Callable[[str], str] = no_other,
    provider: Callable[[str], str] = no_other,
) -> Route:
    """What a model's name means: `auto`, `local/<name>` or `cloud/<provider>/<name>`.

    `other` is the full name of another model of the device that could answer, else empty;
    `provider` is who of the chain has a model of this name.
    """
    name = place_named(name)
    where, _, rest = name.partition("/")
    if name in ("", AUTO):
        return Route()
    if re.sub("[^a-z]", "", name.lower()) in _KEEP_IN:
        raise _unknown(name, "to keep a request in, ask for local, or say x-edgewise-privacy")
    if where == LOCAL:
        # `local/standard` names the model on that rung
        if rest in ("", local_model) or model_name(rest, MODELS) == local_model:
            return Route({"policy": LOCAL_ONLY})
        if found := other(rest):
            return Route({"policy": LOCAL_ONLY, "model": found})
        raise _unknown(
            name, f"the local model is {f'{LOCAL}/{local_model}' if local_model else 'missing'}"
        )
    if where == CLOUD:
        if rest in ("", AUTO):
            return Route({"policy": "cloud_only"})
        return Route({"policy": "cloud_only"}, cloud=rest)
    if found := other(name):
        return Route({} if found == local_model else {"model": found})
    if any_model:
        known = provider(name)
        return Route(cloud=f"{known}/{name}") if known else Route()
    raise _unknown(name, "known are auto, local/NAME and cloud/PROVIDER/NAME")


def _unknown(name: str, hint: str) -> Exception:
    return refuse(404, "model_not_found", f"model {name[:80]!r} not found: {hint}", param="model")
