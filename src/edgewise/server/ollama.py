"""Ollama's API: `/api/chat` and `/api/generate`, its lists of models, and `/api/embed`."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict, override

from edgewise import __version__
from edgewise.calls.tools import TOOLS_LIMIT, as_tools
from edgewise.server.access import Client, Served
from edgewise.server.answer import Incoming, logged
from edgewise.server.body import (
    BadField,
    Between,
    DescribedBy,
    Flag,
    Many,
    Model,
    Object,
    Text,
    TextOrMany,
    decode_picture,
    read_body,
)
from edgewise.server.chat import (
    CREATED,
    MOST_TOKENS,
    ModelName,
    NestedTool,
    Seed,
    Temperature,
    Texts,
    listed,
    models,
    sampling,
    system_first,
)
from edgewise.server.embeddings import (
    MOST_DIMENSIONS,
    EmbeddingsMetadata,
    EmbeddingsReport,
    embedded,
    embeddings_report,
    name_of,
    options_of,
)
from edgewise.server.errors import Fault, OllamaError, ollama_error, refuse
from edgewise.server.state import ServerState
from edgewise.server.wire import (
    JSON,
    Ask,
    Count,
    Metadata,
    NotEmpty,
    Opening,
    Report,
    Work,
    answered_by,
    answered_usage,
    call_ids,
    report_headers,
    to_json,
    whole,
)
from edgewise.types.embeddings import Embeddings
from edgewise.types.messages import Image, Message, ResponseFormat, Tool, ToolCall, WireName
from edgewise.types.replies import Reply, Switched, TextDelta

LINES = {
    "content-type": "application/x-ndjson",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # proxies must pass each line on as it comes
}
NANOSECONDS = 1_000_000  # in a millisecond
LATEST = ":latest"  # the tag of a model that has no other
# This API sends pictures without their kind: the beginning of their base64 tells.
PICTURES = {"iVBOR": "image/png", "/9j/": "image/jpeg", "R0lG": "image/gif", "UklG": "image/webp"}


# -- what is asked ---------------------------------------------------------------------------------


class OllamaCalledFunction(Model):
    name: Text
    arguments: Object = Field(default_factory=dict)


class OllamaCall(Model):
    id: Annotated[Text | None, Field(description="older clients send none")] = None
    function: OllamaCalledFunction


class OllamaMessage(Model):
    role: Literal["system", "user", "assistant", "tool"]
    content: Text | None = None
    images: Annotated[Many[Text] | None, Field(description="base64, without a prefix")] = None
    tool_calls: Many[OllamaCall] | None = None
    tool_name: Text | None = None
    tool_call_id: Text | None = None


class OllamaOptions(Model):
    """The options that mean something here. The others belong to Ollama's runtime."""

    temperature: Temperature | None = None
    seed: Seed | None = None
    num_predict: Annotated[
        Annotated[int, Between(-2, MOST_TOKENS)] | None,
        Field(description="0 or less: the max_tokens of the settings"),
    ] = None
    stop: Texts | None = None


class OllamaRequest(Model):
    model: ModelName
    stream: Annotated[Flag | None, Field(description="true if it is left out")] = None
    format: Annotated[
        Literal["", "json"] | Object | None, Field(description="json, or a JSON Schema")
    ] = None
    options: OllamaOptions | None = None
    keep_alive: Annotated[
        Any, Field(description='how long the model stays in memory: seconds, or like "5m"')
    ] = None
    think: Annotated[Any, Field(description="ignored: no thoughts are shown")] = None
    metadata: Metadata | None = None


class OllamaChatRequest(OllamaRequest):
    messages: Annotated[
        Many[OllamaMessage] | None, Field(description="none: only load the model")
    ] = None
    tools: (
        Annotated[
            Many[NestedTool],
            Field(description="each name once", json_schema_extra={"maxItems": TOOLS_LIMIT}),
        ]
        | None
    ) = None


class OllamaGenerateRequest(OllamaRequest):
    prompt: Annotated[Text | None, Field(description="none: only load the model")] = None
    system: Text | None = None
    images: Annotated[Many[Text] | None, Field(description="base64, without a prefix")] = None
    raw: Annotated[Flag | None, Field(description="only false")] = None
    template: Annotated[Text | None, Field(description="only empty")] = None
    suffix: Annotated[Text | None, Field(description="only empty")] = None


def read_chat(body: bytes) -> Ask:
    asked = read_body(OllamaChatRequest, body)
    tools = as_tools([{"function": dict(each.function)} for each in asked.tools or ()])
    empty = {"message": {"role": "assistant", "content": ""}}
    turns = tuple(_turns(asked.messages or ()))
    return _ask(asked, turns, None if asked.messages else empty, tools)


def read_generate(body: bytes) -> Ask:
    asked = read_body(OllamaGenerateRequest, body)
    for name in ("raw", "template", "suffix"):
        if getattr(asked, name):  # a cloud could not do it
            raise BadField(name, "not possible here; send a plain prompt")
    pictures = _pictures(asked.images, "images")
    turn = Message("user", asked.prompt or "", images=pictures)
    turns = system_first(asked.system or "", iter([turn]))
    return _ask(asked, turns, None if asked.prompt else {"response": ""})


def plain_name(model: str) -> str:
    """Clients add a tag to names that have none."""
    return model.removesuffix(LATEST)


_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ms|us|µs|ns|h|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
MOST_KEPT_S = 366 * 86_400.0


def keep_alive_s(given: Any) -> float | None:
    """Seconds from Ollama's `keep_alive`: a number, or a text like "5m"; negative: for ever."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, (int, float, str)):
        raise BadField("keep_alive", 'expected seconds, or a text like "5m"')
    if isinstance(given, str):
        text = given.strip()
        sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text)
        parts = _PART.findall(rest)
        if re.fullmatch(r"[0-9]{1,12}", rest):
            seconds = sign * float(rest)
        elif parts and "".join(a + b for a, b in parts) == rest and len(rest) < 40:
            seconds = sign * sum(float(number) * _SECONDS[unit] for number, unit in parts)
        else:
            raise BadField("keep_alive", 'expected seconds, or a text like "5m"')
    else:
        seconds = float(given)
    if not seconds >= 0:
        return math.inf
    return seconds if seconds <= MOST_KEPT_S else math.inf


def _ask(
    asked: OllamaRequest,
    messages: tuple[Message, ...],
    empty: dict[str, Any] | None,
    tools: tuple[Tool, ...] = (),
) -> Ask:
    """`empty` is the answer without words to a request without words: it only loads the model."""
    given = asked.options or OllamaOptions()
    limit = given.num_predict if (given.num_predict or 0) > 0 else None
    options = sampling(limit, given.temperature, given.seed, given.stop)
    if tools:
        options["tools"] = tools
    if asked.format == "json":
        options["response_format"] = ResponseFormat()
    elif isinstance(asked.format, dict):
        options["response_format"] = ResponseFormat(asked.format, strict=True)
    keep_s = keep_alive_s(asked.keep_alive)
    why = "unload" if keep_s == 0 else "load"
    loaded = {"model": asked.model, "created_at": now(), "done": True, "done_reason": why}
    return Ask(
        model=plain_name(asked.model),
        messages=messages,
        options=options,
        metadata=asked.metadata or {},
        stream=asked.stream is not False,
        loaded=None if empty is None else loaded | empty,
        keep_s=keep_s,
    )


def _turns(given: list[OllamaMessage] | tuple[()]) -> Iterator[Message]:
    """Calls need ids. A result without one belongs to the first open call of its tool."""
    waiting: list[ToolCall] = []
    for number, turn in enumerate(given):
        words = turn.content or ""
        pictures = _pictures(turn.images, f"messages[{number}].images")
        if turn.role == "assistant":
            calls = tuple(
                ToolCall(
                    each.function.name, each.function.arguments, each.id or f"call_{number}_{place}"
                )
                for place, each in enumerate(turn.tool_calls or ())
            )
            waiting += calls
            yield Message("assistant", words, tool_calls=calls)
        elif turn.role == "tool":
            call = _answered(turn, waiting)
            waiting = [each for each in waiting if each is not call]
            name = turn.tool_call_id or (call.id if call else "")
            yield Message("tool", words, images=pictures, tool_call_id=name)
        else:
            yield Message(turn.role, words, images=pictures)


def _answered(result: OllamaMessage, waiting: list[ToolCall]) -> ToolCall | None:
    if result.tool_call_id:
        return next((call for call in waiting if call.id == result.tool_call_id), None)
    same = [call for call in waiting if result.tool_name in (None, "", call.name)]
    return next(iter([*same, *waiting]), None)


def _pictures(given: list[str] | None, path: str) -> tuple[Image, ...]:
    return tuple(
        decode_picture(
            data,
            next((kind for start, kind in PICTURES.items() if data.startswith(start)), "unknown"),
            f"{path}[{number}]",
        )
        for number, data in enumerate(given or ())
    )


# -- what is answered ------------------------------------------------------------------------------


class AnswerFunction(TypedDict):
    index: Count
    name: NotEmpty
    arguments: dict[str, Any]


class AnswerCall(TypedDict):
    id: NotEmpty
    function: AnswerFunction


class AnswerTurn(TypedDict):
    role: Literal["assistant"]
    content: str
    tool_calls: NotRequired[list[AnswerCall]]


class OllamaAnswer(TypedDict):
    """What both endpoints answer. The facts at the end come with the last line of a stream."""

    model: str
    created_at: NotEmpty
    done: bool
    done_reason: NotRequired[Literal["stop", "length", "load"]]
    total_duration: NotRequired[Annotated[Count, Field(description="nanoseconds")]]
    load_duration: NotRequired[Count]
    prompt_eval_count: NotRequired[Count]
    prompt_eval_duration: NotRequired[Count]
    eval_count: NotRequired[Count]
    eval_duration: NotRequired[Count]
    edgewise: NotRequired[Report]


class OllamaChatAnswer(OllamaAnswer):
    message: AnswerTurn


class OllamaGenerateAnswer(OllamaAnswer):
    response: str


def now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


class OllamaChatWire:
    """`/api/chat`."""

    name = "ollama.chat"
    forwards: WireName | None = None
    note_places = ("", "")
    in_path: tuple[str, bool] | None = None
    ping = b""
    stream_head = LINES

    def read(self, body: bytes, *, remote_images: bool) -> Ask:
        return read_chat(body)

    def piece(self, model: str, text: str, calls: list[AnswerCall]) -> dict[str, Any]:
        """One line of a stream, or the beginning of a whole answer."""
        turn: AnswerTurn = {"role": "assistant", "content": text}
        if calls:
            turn["tool_calls"] = calls
        return {"model": model, "created_at": now(), "message": turn, "done": False}

    def whole(self, ask: Ask, reply: Reply, extra: Report) -> dict[str, Any]:
        return self.piece(answered_by(ask, reply), reply.text, calls_of(reply)) | _end(reply, extra)

    def writer(self, ask: Ask, request_id: str) -> OllamaWriter:
        return OllamaWriter(self, ask)

    def error(self, fault: Fault) -> OllamaError:
        return ollama_error(fault)


class OllamaGenerateWire(OllamaChatWire):
    """`/api/generate`, which has no tools."""

    name = "ollama.generate"
    forwards: WireName | None = None
    note_places = ("", "")
    ping = b""

    @override
    def read(self, body: bytes, *, remote_images: bool) -> Ask:
        return read_generate(body)

    @override
    def piece(self, model: str, text: str, calls: list[AnswerCall]) -> dict[str, Any]:
        return {"model": model, "created_at": now(), "response": text, "done": False}


class OllamaWriter:
    """One JSON object a line. Calls have a line of their own; the last line is `done`."""

    def __init__(self, wire: OllamaChatWire, ask: Ask) -> None:
        self._wire, self._ask = wire, ask

    def begin(self, opening: Opening) -> Iterator[bytes]:
        yield from ()

    def text(self, delta: TextDelta) -> Iterator[bytes]:
        yield _line(self._wire.piece(self._ask.model, delta.text, []))

    def switched(self, event: Switched) -> Iterator[bytes]:
        yield from ()  # clients would take another object for text

    def end(self, reply: Reply, extra: Report) -> Iterator[bytes]:
        if calls := calls_of(reply):
            yield _line(self._wire.piece(self._ask.model, "", calls))
        yield _line(self._wire.piece(answered_by(self._ask, reply), "", []) | _end(reply, extra))

    def failed(self, fault: Fault) -> Iterator[bytes]:
        yield _line(ollama_error(fault))


def _line(value: object) -> bytes:
    return to_json(value) + b"\n"


def calls_of(reply: Reply) -> list[AnswerCall]:
    return [
        {
            "id": name,
            "function": {"index": index, "name": call.name, "arguments": dict(call.arguments)},
        }
        for index, (name, call) in enumerate(call_ids(reply))
    ]


def _end(reply: Reply, extra: Report) -> dict[str, Any]:
    used, first_ms = answered_usage(reply), reply.first_token_ms or 0.0
    return {
        "done": True,
        "done_reason": "length" if reply.finish_reason == "length" else "stop",
        "total_duration": round(reply.total_ms * NANOSECONDS),
        "load_duration": 0,
        "prompt_eval_count": used.input_tokens,
        "prompt_eval_duration": round(first_ms * NANOSECONDS),
        "eval_count": used.output_tokens,
        "eval_duration": max(0, round((reply.total_ms - first_ms) * NANOSECONDS)),
        "edgewise": extra,
    }


# -- models and embeddings -------------------------------------------------------------------------


# Of Ollama: clients look here for what a server can do. Three numbers, as some of them count.
OLLAMA_VERSION = "0.12.0"
NEVER = "2318-01-01T00:00:00Z"  # as Ollama writes it, and every client can read it


class ModelDetails(TypedDict):
    parent_model: str
    format: str
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str


class OllamaModel(TypedDict):
    name: NotEmpty
    model: NotEmpty
    modified_at: NotEmpty
    size: Count
    digest: NotEmpty
    details: ModelDetails


class LoadedModel(OllamaModel):
    expires_at: NotEmpty
    size_vram: Count


class OllamaModels(TypedDict):
    models: list[OllamaModel]


class LoadedModels(TypedDict):
    models: list[LoadedModel]


class OllamaVersion(TypedDict):
    version: NotEmpty
    edgewise: NotEmpty


class ShownModel(TypedDict):
    modelfile: str
    parameters: str
    template: str
    details: ModelDetails
    model_info: dict[str, Any]
    capabilities: list[str]
    modified_at: NotEmpty


class ShowRequest(Model):
    model: Text | None = None
    name: Annotated[Text | None, Field(description="what older clients say")] = None


class OllamaEmbedRequest(Model):
    model: ModelName
    input: Annotated[TextOrMany[Text] | None, Field(description="none: only load the model")] = None
    dimensions: Annotated[int, Between(1, MOST_DIMENSIONS)] | None = None
    truncate: Annotated[Flag | None, Field(description="ignored: long texts are windows")] = None
    metadata: Annotated[dict[str, Any], DescribedBy(EmbeddingsMetadata)] | None = None


class OllamaEmbeddingRequest(Model):
    """Of the older endpoint."""

    model: ModelName
    prompt: Annotated[Text | None, Field(description="none: only load the model")] = None
    metadata: Annotated[dict[str, Any], DescribedBy(EmbeddingsMetadata)] | None = None


class OllamaEmbeddings(TypedDict):
    model: str
    embeddings: list[list[float]]
    total_duration: NotRequired[Annotated[Count, Field(description="nanoseconds")]]
    load_duration: NotRequired[Count]
    prompt_eval_count: NotRequired[Count]
    edgewise: NotRequired[EmbeddingsReport]


class OllamaEmbedding(TypedDict):
    embedding: list[float]
    edgewise: NotRequired[EmbeddingsReport]


def version(_: ServerState, incoming: Incoming) -> Work:
    found: OllamaVersion = {"version": OLLAMA_VERSION, "edgewise": __version__}
    yield from _told(found)


def tags(state: ServerState, incoming: Incoming) -> Work:
    found: OllamaModels = {"models": _entries(state, incoming.client)}
    yield from _told(found)


def running(state: ServerState, incoming: Incoming) -> Work:
    """The local models that were opened, less those that have left the memory."""
    opened = {f"local/{name}" for name in state.engine.parts.opened_models}
    found: LoadedModels = {
        "models": [
            {**entry, "expires_at": _leaves(state, entry["name"]), "size_vram": 0}
            for entry in _entries(state, incoming.client)
            if plain_name(entry["name"]) in opened
        ]
    }
    yield from _told(found)


def _leaves(state: ServerState, name: str) -> str:
    found = state.engine.parts.models.known(plain_name(name).removeprefix("local/"))
    if found is None or math.isinf(found.until):
        return NEVER
    return datetime.fromtimestamp(found.until, UTC).isoformat().replace("+00:00", "Z")


def show(state: ServerState, incoming: Incoming) -> Work:
    served = Served(endpoint="ollama.show", client=incoming.client.name)

    def work() -> Work:
        asked = read_body(ShowRequest, incoming.body)
        name = plain_name(asked.model or asked.name or "")
        served.model = name[:80]
        entry = next(
            (each for each in _entries(state, incoming.client) if plain_name(each["name"]) == name),
            None,
        )
        if entry is None:
            raise refuse(404, "model_not_found", f"model {name[:80]!r} not found", param="model")
        served.status, served.code = 200, "shown"
        found: ShownModel = {
            "modelfile": "",
            "parameters": "",
            "template": "",
            "details": entry["details"],
            "model_info": _facts(state, name),
            "capabilities": ["completion", "tools", "vision"],
            "modified_at": entry["modified_at"],
        }
        yield from _told(found)

    yield from logged(state, served, incoming.cancellation, work, ollama_error)


def embed(state: ServerState, incoming: Incoming) -> Work:
    served = Served(endpoint="ollama.embed", client=incoming.client.name)

    def work() -> Work:
        asked = read_body(OllamaEmbedRequest, incoming.body)
        texts = listed(asked.input)
        more = {} if asked.dimensions is None else {"dimensions": asked.dimensions}
        made = _embedded(state, incoming, served, asked, texts, more)
        if made is None:
            empty: OllamaEmbeddings = {"model": asked.model, "embeddings": []}
            yield from _told(empty)
            return
        found: OllamaEmbeddings = {
            "model": name_of(made),
            "embeddings": [list(vector) for vector in made.vectors],
            "total_duration": round(made.total_ms * NANOSECONDS),
            "load_duration": 0,
            "prompt_eval_count": made.usage.input_tokens,
            "edgewise": embeddings_report(made),
        }
        yield from _told(found, report_headers(made))

    yield from logged(state, served, incoming.cancellation, work, ollama_error)


def embeddings(state: ServerState, incoming: Incoming) -> Work:
    """The endpoint of older clients: one text, one vector."""
    served = Served(endpoint="ollama.embed", client=incoming.client.name)

    def work() -> Work:
        asked = read_body(OllamaEmbeddingRequest, incoming.body)
        made = _embedded(state, incoming, served, asked, listed(asked.prompt), {})
        if made is None:
            empty: OllamaEmbedding = {"embedding": []}
            yield from _told(empty)
            return
        found: OllamaEmbedding = {
            "embedding": list(made.vectors[0]),
            "edgewise": embeddings_report(made),
        }
        yield from _told(found, report_headers(made))

    yield from logged(state, served, incoming.cancellation, work, ollama_error)


def _embedded(
    state: ServerState,
    incoming: Incoming,
    served: Served,
    asked: OllamaEmbedRequest | OllamaEmbeddingRequest,
    texts: list[str],
    more: dict[str, Any],
) -> Embeddings | None:
    """The vectors; None where there are no words: that is Ollama's way to load a model."""
    model = plain_name(asked.model)
    served.model = model[:80]
    options = options_of(state, incoming, model, asked.metadata or {}) | more
    incoming.cancellation.check()
    if not any(texts):
        served.status, served.code = 200, "loaded"
        return None
    made = embedded(state, texts, options)
    served.id, served.reply = made.id, made
    served.status, served.code = 200, made.decision.code
    return made


def _entries(state: ServerState, client: Client) -> list[OllamaModel]:
    """The names of `/v1/models`, in Ollama's words: each with a tag."""
    since = datetime.fromtimestamp(CREATED, UTC).isoformat().replace("+00:00", "Z")
    found: list[OllamaModel] = []
    pulled = {f"local/{model.name}": model for model in state.pulled()}
    for model in models(state, client):
        weights = pulled.get(model["id"])
        row = weights.row if weights else None
        name = model["id"] if ":" in model["id"] else model["id"] + LATEST
        details: ModelDetails = {
            "parent_model": "",
            "format": "gguf" if model["owned_by"] == "device" else "",
            "family": model["owned_by"],
            "families": [model["owned_by"]],
            "parameter_size": row.parameters if row else "",
            "quantization_level": weights.quantisation if weights else "",
        }
        found.append(
            {
                "name": name,
                "model": name,
                "modified_at": since,
                "size": weights.bytes if weights else 0,
                "digest": hashlib.sha256(name.encode()).hexdigest(),
                "details": details,
            }
        )
    return found


def _facts(state: ServerState, name: str) -> dict[str, Any]:
    facts: dict[str, Any] = {"general.architecture": "edgewise"}
    if state.local_model and not name.startswith("cloud"):
        asked = state.find_pulled(name.removeprefix("local/"))
        other = asked if asked != state.local_model else ""
        facts["edgewise.context_length"] = state.engine.parts.backend(other).facts().context_tokens
    return facts


def _told(value: object, headers: Mapping[str, str] = MappingProxyType({})) -> Work:
    yield whole(200, JSON | dict(headers), to_json(value))
