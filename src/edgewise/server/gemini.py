"""Gemini's API: reads the body, writes answers whole and streamed, counts tokens, lists models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired

from annotated_types import GroupedMetadata
from pydantic import (
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from typing_extensions import TypedDict, override

from edgewise.calls.tools import TOOLS_LIMIT, as_tools
from edgewise.cloud.gemini import NO_SIGNATURE
from edgewise.server.access import Served
from edgewise.server.answer import Incoming, answer, logged
from edgewise.server.anthropic import CountReport, counted
from edgewise.server.body import (
    PICTURES,
    BadField,
    Between,
    Flag,
    Model,
    Object,
    Text,
    decode_picture,
    parse_body,
    read_model,
)
from edgewise.server.chat import (
    MOST_ANSWERS,
    Seed,
    Temperature,
    TokenLimit,
    ToolDescription,
    ToolName,
    ToolParameters,
    choose_tools,
    chosen_tool,
    models,
    sampling,
    system_first,
)
from edgewise.server.errors import Fault, GoogleError, fault_of, google_error, refuse
from edgewise.server.state import ServerState
from edgewise.server.wire import (
    EVENTS,
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
    joined,
    sse,
    switch_note,
    to_json,
    whole,
)
from edgewise.types.messages import Image, Message, ResponseFormat, Tool, ToolCall, WireName
from edgewise.types.replies import FinishReason, Reply, Switched, TextDelta

# -- what is asked ---------------------------------------------------------------------------------


def _listed(value: Any) -> Any:
    """Where Google wants a list, it takes one thing for a list of it."""
    return [value] if isinstance(value, dict) else value


class _OneOrMany(GroupedMetadata):
    """A list, or one item of it; described as either."""

    @override
    def __iter__(self) -> Iterator[object]:
        yield from (FailFast(), BeforeValidator(_listed), _Described())


class _Described:
    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        found = handler(schema)
        return {"anyOf": [found, found["items"]]}


One = _OneOrMany()


class GeminiModel(Model):
    """Google takes every name in either spelling: `inlineData` and `inline_data`."""

    model_config = ConfigDict(
        extra="ignore", alias_generator=to_camel, populate_by_name=True, protected_namespaces=()
    )


class Blob(GeminiModel):
    mime_type: Text
    data: Annotated[Text, Field(description="base64, in either alphabet")]


class CalledFunction(GeminiModel):
    name: Text
    args: Object | None = None
    id: Text | None = None


class FunctionResult(GeminiModel):
    name: Text
    response: Object | None = None
    id: Text | None = None


class GeminiPart(GeminiModel):
    """One of these; others are for Google only."""

    text: Text | None = None
    thought: Flag | None = None
    thought_signature: Text | None = None
    inline_data: Blob | None = None
    function_call: CalledFunction | None = None
    function_response: FunctionResult | None = None


class Content(GeminiModel):
    role: Literal["user", "model", "function"] | None = None
    parts: Annotated[list[GeminiPart], One] | None = None


class Instruction(GeminiModel):
    parts: Annotated[list[GeminiPart], One] | None = None


class FunctionDeclaration(GeminiModel):
    name: ToolName
    description: ToolDescription = None
    parameters: Annotated[
        Object | None,
        WithJsonSchema({"type": ["object", "null"], "properties": {"type": {"enum": ["OBJECT"]}}}),
    ] = None
    parameters_json_schema: ToolParameters = None


class GeminiTool(GeminiModel):
    """Of a tool that Google runs, as `googleSearch`, nothing is read."""

    function_declarations: Annotated[list[FunctionDeclaration], One] | None = None


class FunctionCallingConfig(GeminiModel):
    mode: Annotated[
        Text | None, WithJsonSchema({"enum": ["AUTO", "ANY", "NONE", "VALIDATED", None]})
    ] = None
    allowed_function_names: list[Text] | None = None


class ToolConfig(GeminiModel):
    function_calling_config: FunctionCallingConfig | None = None


class GenerationConfig(GeminiModel):
    max_output_tokens: TokenLimit | None = None
    temperature: Temperature | None = None
    seed: Seed | None = None
    stop_sequences: list[Text] | None = None
    candidate_count: Annotated[int, Between(1, MOST_ANSWERS)] | None = None
    response_mime_type: Text | None = None
    response_schema: Object | None = None
    response_json_schema: Object | None = None
    response_modalities: list[Text] | None = None


class GeminiCountRequest(GeminiModel):
    """What a model reads."""

    contents: Annotated[
        list[Content],
        One,
        Field(description="at least one with words", json_schema_extra={"minItems": 1}),
    ]
    system_instruction: Instruction | None = None
    tools: (
        Annotated[list[GeminiTool], One, Field(json_schema_extra={"maxItems": TOOLS_LIMIT})] | None
    ) = None


class GenerateContentRequest(GeminiCountRequest):
    tool_config: ToolConfig | None = None
    generation_config: GenerationConfig | None = None
    cached_content: Annotated[
        Text | None, Field(description="the beginning lies at Google, so only Google can answer")
    ] = None
    metadata: Metadata | None = None


def read_generate(body: bytes, model: str, *, stream: bool, remote_images: bool) -> Ask:
    sent = parse_body(body)
    asked = read_model(GenerateContentRequest, sent)
    config = asked.generation_config or GenerationConfig()
    options = sampling(
        config.max_output_tokens, config.temperature, config.seed, config.stop_sequences
    )
    options |= _tools(asked.tools, asked.tool_config)
    if (held := _format(config)) is not None:
        options["response_format"] = held
    return Ask(
        model=model,
        messages=_conversation(asked),
        options=options,
        metadata=asked.metadata or {},
        stream=stream,
        body=sent,
        read=asked,
        foreign=tuple(dict.fromkeys(_foreign(asked, sent))),
    )


def read_count(body: bytes, model: str) -> Ask:
    """Google takes the contents, or a whole request in which they stand."""
    sent = parse_body(body, depth=3)
    for name in ("generateContentRequest", "generate_content_request"):
        if isinstance(sent.get(name), dict):
            sent = sent[name]
    asked = read_model(GeminiCountRequest, sent)
    options = _tools(asked.tools, None)
    return Ask(model=model, messages=_conversation(asked), options=options, metadata={}, body=sent)


def _conversation(asked: GeminiCountRequest) -> tuple[Message, ...]:
    told = asked.system_instruction.parts if asked.system_instruction else None
    system = joined([part.text for part in told or () if part.text])
    return system_first(system, _turns(asked.contents))


def _turns(contents: Sequence[Content]) -> Iterator[Message]:
    """A content of Gemini's may hold results of functions and words: those are messages of ours."""
    waiting: list[tuple[str, str]] = []  # calls without a result: their names and ids
    for number, content in enumerate(contents):
        calls: list[ToolCall] = []
        parts = content.parts or []
        for at, part in enumerate(parts):
            if (call := part.function_call) is not None:
                calls.append(ToolCall(call.name, call.args or {}, call.id or f"call_{number}_{at}"))
                waiting.append((call.name, calls[-1].id))
            elif (result := part.function_response) is not None:
                yield Message("tool", _told(result), tool_call_id=_answers(result, waiting))
        texts = [part.text for part in parts if part.text and not part.thought]
        if content.role == "model":  # its parts are pieces of one text
            if texts or calls:
                yield Message("assistant", "".join(texts), tool_calls=tuple(calls))
            continue
        images = tuple(_pictures(parts, f"contents[{number}].parts"))
        if texts or images:
            yield Message("user", joined(texts), images=images)
        elif names := [name for part in parts for name in _unreadable(part)]:
            yield Message("user", " ".join(f"[{name}]" for name in names))  # for the ledger


def _pictures(parts: Sequence[GeminiPart], path: str) -> Iterator[Image]:
    for at, part in enumerate(parts):
        blob = part.inline_data
        if blob is not None and blob.mime_type in PICTURES:
            data = blob.data.replace("-", "+").replace("_", "/")
            data += "=" * (-len(data) % 4)
            yield decode_picture(data, blob.mime_type, f"{path}[{at}].inlineData.data")


def _answers(result: FunctionResult, waiting: list[tuple[str, str]]) -> str:
    """The id of the call that this answers: the oldest of that name, where none is given."""
    for name, id in waiting:
        if id == result.id or (not result.id and name == result.name):
            waiting.remove((name, id))
            return id
    return result.id or result.name


def _told(result: FunctionResult) -> str:
    """Its words, where it has only words."""
    given = result.response or {}
    for name, before in (("result", ""), ("output", ""), ("error", "Error: ")):
        if list(given) == [name] and isinstance(given[name], str):
            return f"{before}{given[name]}"
    return json.dumps(given, ensure_ascii=False)


def _unreadable(part: GeminiPart) -> Iterator[str]:
    """What nobody here can read of a part, by name."""
    blob = part.inline_data
    if blob is not None and blob.mime_type not in PICTURES:
        yield blob.mime_type[:80]
    known = (part.text, part.inline_data, part.function_call, part.function_response)
    if all(each is None for each in known) and not (part.thought or part.thought_signature):
        yield "part"


def _foreign(asked: GenerateContentRequest, sent: Mapping[str, Any]) -> Iterator[str]:
    contents = _listed(sent["contents"])
    for read, content in zip(asked.contents, contents, strict=True):
        for part, given in zip(read.parts or (), _listed(content.get("parts")) or (), strict=True):
            for name in _unreadable(part):
                own = [each for each in given if given[each] is not None]
                yield str(own[0])[:80] if name == "part" and own else name
            if read.role == "model" and part.inline_data is not None:
                yield "inlineData"
            result = given.get("functionResponse") or given.get("function_response") or {}
            if result.get("parts"):  # pictures and files
                yield "functionResponse.parts"
    if asked.cached_content:
        yield "cachedContent"
    config = asked.generation_config or GenerationConfig()
    if (config.candidate_count or 1) > 1:
        yield "n"
    if {each.upper() for each in config.response_modalities or ()} - {"TEXT"}:
        yield "modalities"


# -- tools and schemas -----------------------------------------------------------------------------


def _tools(given: Sequence[GeminiTool] | None, config: ToolConfig | None) -> dict[str, Any]:
    declared = [each for tool in given or () for each in tool.function_declarations or ()]
    tools = as_tools(
        [
            {
                "name": each.name,
                "description": each.description,
                "parameters": each.parameters_json_schema or json_schema(each.parameters),
            }
            for each in declared
        ]
    )
    wanted = (config and config.function_calling_config) or FunctionCallingConfig()
    mode, path = (wanted.mode or "AUTO").upper(), "toolConfig.functionCallingConfig.mode"
    if mode not in ("AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED"):
        raise BadField(path, "expected one of AUTO, ANY, NONE, VALIDATED")
    allowed = wanted.allowed_function_names or []
    if mode == "ANY" and len(allowed) == 1:
        return chosen_tool(tools, allowed[0], path)
    if mode == "ANY" and allowed:
        tools = _allowed(tools, allowed)
    choice = {"ANY": "required", "NONE": "none"}.get(mode, "auto")
    others = any(not tool.function_declarations for tool in given or ())
    return choose_tools(tools, choice, path, others=others)


def _allowed(tools: tuple[Tool, ...], names: Sequence[str]) -> tuple[Tool, ...]:
    return tuple(tool for tool in tools if tool.name in names)


_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
# What is no part of JSON Schema, and says nothing that a grammar must hold to.
_NOTES = ("propertyOrdering", "example", "title")


def json_schema(given: Any) -> Any:
    """A schema of Google's, a subset of OpenAPI's, as JSON Schema: words in small letters, numbers
    that are numbers."""
    if isinstance(given, list):
        return [json_schema(each) for each in given]
    if not isinstance(given, Mapping):
        return given
    found: dict[str, Any] = {}
    for spelt, value in given.items():
        name = to_camel(spelt) if "_" in spelt.strip("_") else spelt
        if name in _NOTES or value is None or (name, value) == ("format", "enum"):
            continue
        if name == "type" and isinstance(value, str):
            if value != "TYPE_UNSPECIFIED":
                found[name] = value.lower()
        elif name in ("properties", "$defs") and isinstance(value, Mapping):
            found[name] = {each: json_schema(schema) for each, schema in value.items()}
        elif name in _COUNTS and isinstance(value, str) and value.isdigit():
            found[name] = int(value)
        elif name in ("enum", "required", "default"):
            found[name] = value
        else:
            found[name] = json_schema(value)
    return found


def _format(config: GenerationConfig) -> ResponseFormat | None:
    # Some clients put Google's words into either.
    schema = json_schema(config.response_json_schema or config.response_schema)
    if (config.response_mime_type or "").startswith("application/json"):
        return ResponseFormat(schema or {}, strict=bool(schema))
    return None


# -- what is answered ------------------------------------------------------------------------------

GeminiFinish = Literal["STOP", "MAX_TOKENS", "SAFETY"]
FINISH: dict[FinishReason, GeminiFinish] = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "tool_calls": "STOP",
    "filtered": "SAFETY",
}


class GeminiCall(TypedDict):
    id: NotEmpty
    name: NotEmpty
    args: dict[str, Any]


class AnswerPart(TypedDict):
    text: NotRequired[str]
    functionCall: NotRequired[GeminiCall]
    thoughtSignature: NotRequired[str]


class AnswerContent(TypedDict):
    role: Literal["model"]
    parts: list[AnswerPart]


class Candidate(TypedDict):
    content: AnswerContent
    index: Literal[0]
    finishReason: NotRequired[GeminiFinish]


class GeminiUsage(TypedDict):
    promptTokenCount: Count
    candidatesTokenCount: Count
    totalTokenCount: Count


class GenerateContentResponse(TypedDict):
    candidates: list[Candidate]
    usageMetadata: NotRequired[GeminiUsage]
    modelVersion: str
    responseId: NotEmpty
    edgewise: NotRequired[Report]


class GeminiTokens(TypedDict):
    totalTokens: Count
    edgewise: CountReport


class GeminiEntry(TypedDict):
    name: NotEmpty
    displayName: NotEmpty
    supportedGenerationMethods: list[str]


class GeminiModels(TypedDict):
    models: list[GeminiEntry]


class GeminiWire:
    """One request: in this API the path says the model, and whether a stream is wanted."""

    name = "gemini"
    forwards: WireName | None = "gemini"
    note_places = ("", "")
    ping = b""  # Google's own client takes a comment for JSON
    stream_head = EVENTS

    def __init__(self, model: str, *, stream: bool) -> None:
        self._model, self._stream = model, stream
        self.in_path: tuple[str, bool] | None = (model, stream)

    def read(self, body: bytes, *, remote_images: bool) -> Ask:
        return read_generate(body, self._model, stream=self._stream, remote_images=remote_images)

    def whole(self, ask: Ask, reply: Reply, extra: Report) -> Mapping[str, Any]:
        words: list[AnswerPart] = [{"text": reply.text}] if reply.text else []
        parts = [*words, *_calls(reply)]
        return _ending(answered_by(ask, reply), parts, reply, extra)

    def writer(self, ask: Ask, request_id: str) -> GeminiWriter:
        return GeminiWriter(ask, request_id)

    def error(self, fault: Fault) -> GoogleError:
        return google_error(fault)


class GeminiWriter:
    """One response after the other, each with a piece of the text; the last says how it ended."""

    def __init__(self, ask: Ask, request_id: str) -> None:
        self._ask, self._id = ask, request_id
        self._model = ask.model
        self._opening: dict[str, Any] | None = None

    def begin(self, opening: Opening) -> Iterator[bytes]:
        self._model = opening.model or self._ask.model
        self._opening = opening.to_dict()
        return iter(())

    def text(self, delta: TextDelta) -> Iterator[bytes]:
        yield self._piece(delta.text, self._opening)
        self._opening = None

    def switched(self, event: Switched) -> Iterator[bytes]:
        yield self._piece("", switch_note(event))

    def end(self, reply: Reply, extra: Report) -> Iterator[bytes]:
        parts = _calls(reply) or [{"text": ""}]
        yield sse(_ending(self._model, parts, reply, extra))

    def failed(self, fault: Fault) -> Iterator[bytes]:
        yield sse(google_error(fault))

    def _piece(self, text: str, note: Mapping[str, Any] | None) -> bytes:
        body: dict[str, Any] = {
            "candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}],
            "modelVersion": self._model,
            "responseId": self._id,
        }
        return sse(body if note is None else {**body, "edgewise": note})


def _calls(reply: Reply) -> list[AnswerPart]:
    """With the signature that stands for none: Gemini refuses calls in the history without one."""
    return [
        {
            "functionCall": {"id": name, "name": call.name, "args": dict(call.arguments)},
            "thoughtSignature": NO_SIGNATURE,
        }
        for name, call in call_ids(reply)
    ]


def _ending(
    model: str, parts: list[AnswerPart], reply: Reply, extra: Report
) -> GenerateContentResponse:
    used = answered_usage(reply)
    return {
        "candidates": [
            {
                "content": {"role": "model", "parts": parts},
                "index": 0,
                "finishReason": FINISH[reply.finish_reason],
            }
        ],
        "usageMetadata": {
            "promptTokenCount": used.input_tokens,
            "candidatesTokenCount": used.output_tokens,
            "totalTokenCount": used.input_tokens + used.output_tokens,
        },
        "modelVersion": model,
        "responseId": reply.id,
        "edgewise": extra,
    }


# -- the paths -------------------------------------------------------------------------------------


def generate(state: ServerState, incoming: Incoming) -> Work:
    """`/v1beta/models/MODEL:METHOD`, or `/v1/…`, which newer clients ask."""
    model, _, method = incoming.path["model"].rpartition(":")
    if (alt := incoming.query.get("alt", "json")) not in ("json", "sse"):
        yield _refused(400, "invalid_request", f"alt: expected json or sse, got {alt[:40]!r}")
        return
    match method:
        case "generateContent":
            yield from answer(state, GeminiWire(model, stream=False), incoming)
        case "streamGenerateContent" if alt == "sse":
            yield from answer(state, GeminiWire(model, stream=True), incoming)
        case "streamGenerateContent":
            words = "this server streams events: ask for …:streamGenerateContent?alt=sse"
            yield _refused(400, "invalid_request", words)
        case "countTokens":
            yield from count_tokens(state, incoming, model)
        case _:
            yield _refused(404, "not_found", f"there is no method {method[:80]!r} here")


def count_tokens(state: ServerState, incoming: Incoming, model: str) -> Work:
    served = Served(endpoint="gemini.count_tokens", client=incoming.client.name)

    def work() -> Work:
        ask = read_count(incoming.body, model)
        served.model = model[:80]
        given = _listed(ask.body.get("tools")) or ()
        own = [
            {name: each[name]}
            for each in given
            for name in each
            if name not in ("functionDeclarations", "function_declarations")
        ]
        tokens, told = counted(state, incoming, ask, own)
        found: GeminiTokens = {"totalTokens": tokens, "edgewise": told}
        served.status, served.code = 200, "counted"
        yield whole(200, JSON, to_json(found))

    yield from logged(state, served, incoming.cancellation, work, google_error)


def list_models(state: ServerState, incoming: Incoming) -> Work:
    found: GeminiModels = {"models": _entries(state, incoming)}
    yield whole(200, JSON, to_json(found))


def one_model(state: ServerState, incoming: Incoming) -> Work:
    name = incoming.path["model"]
    for entry in _entries(state, incoming):
        if entry["name"] == f"models/{name}":
            yield whole(200, JSON, to_json(entry))
            return
    yield _refused(404, "model_not_found", f"model {name[:80]!r} not found")


def _entries(state: ServerState, incoming: Incoming) -> list[GeminiEntry]:
    methods = ["generateContent", "streamGenerateContent", "countTokens"]
    return [
        {
            "name": f"models/{each['id']}",
            "displayName": each["id"],
            "supportedGenerationMethods": methods,
        }
        for each in models(state, incoming.client)
    ]


def _refused(status: int, code: str, words: str) -> Any:
    fault = fault_of(refuse(status, code, words))
    return whole(status, JSON, to_json(google_error(fault)))
