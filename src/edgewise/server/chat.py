"""OpenAI's chat completions, whole and streamed; and `/v1/models`, the names to ask for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Strict,
    Tag,
    ValidationInfo,
    WithJsonSchema,
)
from typing_extensions import TypedDict

from edgewise.calls.tools import NAME_LIMIT, TOOLS_LIMIT, as_tools
from edgewise.server.access import Client
from edgewise.server.answer import Incoming
from edgewise.server.body import (
    BadField,
    Between,
    Flag,
    Malformed,
    Many,
    Model,
    Object,
    OneOf,
    Other,
    Refused,
    Text,
    TextOrMany,
    foreign,
    parse_body,
    parse_inner,
    read_model,
    read_picture,
    refused,
)
from edgewise.server.errors import Error, Fault, fault_of, openai_error, refuse
from edgewise.server.state import ServerState
from edgewise.server.wire import (
    AUTO,
    COMMENT,
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
    arguments_text,
    call_ids,
    joined,
    sse,
    switch_note,
    to_json,
    whole,
)
from edgewise.types.messages import Image, Message, ResponseFormat, Tool, ToolCall, WireName
from edgewise.types.replies import FinishReason, Reply, Switched, TextDelta, Token

MOST_TOKENS = 1_000_000
MOST_ANSWERS = 128  # OpenAI's limit; the device gives one
MOST_ALTERNATIVES = 20  # OpenAI's limit; the device has five


def _arguments(value: Any, info: ValidationInfo) -> Any:
    """The arguments of a call, which come as JSON text."""
    if not isinstance(value, str | None):
        raise ValueError("expected an object, as JSON text")
    try:
        arguments = parse_inner(value or "{}", info)
    except json.JSONDecodeError:
        return Malformed()  # some model wrote it: the provider gets it as it is
    return arguments if isinstance(arguments, dict) else Malformed()


# What the chat APIs have in common.
ModelName = Annotated[
    Text,
    WithJsonSchema(
        {
            "anyOf": [{"enum": ["auto", "local", "cloud"]}, {"type": "string"}],
            "description": "auto, local/NAME or cloud/PROVIDER/MODEL",
        }
    ),
]
TokenLimit = Annotated[int, Between(1, MOST_TOKENS)]
Temperature = Annotated[float, Between(0, 2)]
Seed = Annotated[int, Between(-(2**63), 2**63)]
Alternatives = Annotated[int, Between(0, MOST_ALTERNATIVES)]
Texts = TextOrMany[Text]
Arguments = Annotated[
    Object,
    BeforeValidator(_arguments),
    WithJsonSchema(
        {
            "anyOf": [{"enum": ["{}", None]}, {"type": "string"}],
            "description": "an object, as JSON text",
        }
    ),
]
# Of tools, whatever `as_tools` checks itself is only described here.
ToolName = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "string",
            "pattern": "^[^\\s{}\\x00-\\x1f]([^{}\\x00-\\x1f]*[^\\s{}\\x00-\\x1f])?$",
            "maxLength": NAME_LIMIT,
        }
    ),
]
ToolDescription = Annotated[Any, WithJsonSchema({"type": ["string", "null"]})]
ToolParameters = Annotated[
    Any,
    WithJsonSchema(
        {"type": ["object", "null"], "properties": {"type": {"enum": ["object", "dict"]}}}
    ),
]
JsonSchema = Annotated[Object, MinLen(1)]
PictureUrl = Annotated[
    Text,
    Field(description="data:image/…;base64,…; an address where the server fetches them"),
]


class TextPart(Model):
    type: Literal["text", "input_text", "output_text"]
    text: Text


class RefusalPart(Model):
    type: Literal["refusal"]
    refusal: Text


class ImageAddress(Model):
    url: PictureUrl


class ImageUrlPart(Model):
    type: Literal["image_url"]
    image_url: ImageAddress


class InputImagePart(Model):
    type: Literal["input_image"]
    image_url: PictureUrl


class ChatFunction(Model):
    model_config = ConfigDict(extra="allow")  # schemas have other names elsewhere

    name: ToolName
    description: ToolDescription = None
    parameters: ToolParameters = None


class NestedTool(Model):
    """As chat completions have it."""

    type: Literal["function"]
    function: ChatFunction


class FlatTool(Model):
    """As responses have it."""

    model_config = ConfigDict(extra="allow")

    type: Literal["function"]
    name: ToolName
    description: ToolDescription = None
    parameters: ToolParameters = None


class OtherTool(Other):
    """That a provider runs, or makes something of its own of. The device is not offered it."""

    type: Annotated[
        str, Strict(), WithJsonSchema({"type": "string", "not": {"enum": ["function"]}})
    ]


class FunctionName(Model):
    name: Text


class ChosenFunction(Model):
    function: FunctionName


TextParts = TextOrMany[Annotated[TextPart | RefusalPart, OneOf("type", other=True)]]
Parts = TextOrMany[
    Annotated[TextPart | RefusalPart | ImageUrlPart | InputImagePart, OneOf("type", other=True)]
]


def _nested_or_flat(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("type"), str) and value["type"] != "function":
        return "~other"
    return "~nested" if value.get("function") is not None else "~flat"


def _choice_kind(value: Any) -> str | None:
    return "~word" if isinstance(value, str) else _nested_or_flat(value)


Tools = Annotated[
    Many[
        Annotated[
            Annotated[NestedTool, Tag("~nested")]
            | Annotated[FlatTool, Tag("~flat")]
            | Annotated[OtherTool, Tag("~other")],
            Discriminator(
                _nested_or_flat,
                custom_error_type="one_of",
                custom_error_message="type: expected one of function",
            ),
        ]
    ],
    Field(description="each name once", json_schema_extra={"maxItems": TOOLS_LIMIT}),
]
ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("~word")]
    | Annotated[ChosenFunction, Tag("~nested")]
    | Annotated[FunctionName, Tag("~flat")]
    | Annotated[OtherTool, Tag("~other")],
    Discriminator(
        _choice_kind,
        custom_error_type="tool_choice",
        custom_error_message="expected none, auto, required or an object",
    ),
    Field(description="required, or the name of one of the tools, needs tools"),
]


class SystemMessage(Model):
    role: Literal["system", "developer"]
    content: TextParts | None = None


class UserMessage(Model):
    role: Literal["user"]
    content: Parts | None = None


class CalledFunction(Model):
    name: Text
    arguments: Arguments = Field(default_factory=dict)


class AssistantCall(Model):
    id: Text
    type: Literal["function"] | None = None
    function: CalledFunction


class AssistantMessage(Model):
    role: Literal["assistant"]
    content: TextParts | None = None
    tool_calls: Many[Annotated[AssistantCall, OneOf("type", other=True)]] | None = None


class ToolMessage(Model):
    role: Literal["tool"]
    tool_call_id: Text
    content: TextParts | None = None


ChatMessage = SystemMessage | UserMessage | AssistantMessage | ToolMessage


class NamedSchema(Model):
    schema_: Annotated[Object, MinLen(1), Field(alias="schema")]
    name: Text | None = None
    strict: Flag | None = None


class PlainFormat(Model):
    type: Literal["text", "json_object"] | None = None


class SchemaFormat(Model):
    type: Literal["json_schema"]
    json_schema: NamedSchema


class StreamOptions(Model):
    include_usage: Flag | None = None


class ChatRequest(Model):
    model: ModelName
    messages: Annotated[
        Many[Annotated[ChatMessage, OneOf("role")]],
        Field(description="at least one with words", json_schema_extra={"minItems": 1}),
    ]
    max_completion_tokens: TokenLimit | None = None
    max_tokens: TokenLimit | None = None
    temperature: Temperature | None = None
    seed: Seed | None = None
    stop: Texts | None = None
    tools: Tools | None = None
    tool_choice: ToolChoice | None = None
    n: Annotated[int, Between(1, MOST_ANSWERS)] | None = None
    response_format: Annotated[PlainFormat | SchemaFormat, OneOf("type")] | None = None
    logprobs: Flag | None = None
    top_logprobs: Annotated[Alternatives | None, Field(description="goes with logprobs = true")] = (
        None
    )
    stream: Flag | None = None
    stream_options: StreamOptions | None = None
    modalities: Texts | None = None
    functions: Annotated[Refused, refused("use tools")] = None
    metadata: Metadata | None = None


def read_chat(body: bytes, *, remote_images: bool) -> Ask:
    sent = parse_body(body)
    asked = read_model(ChatRequest, sent)
    if asked.top_logprobs is not None and not asked.logprobs:
        raise BadField("top_logprobs", "goes with logprobs = true")
    limit = asked.max_completion_tokens or asked.max_tokens
    options = sampling(limit, asked.temperature, asked.seed, asked.stop)
    options |= tool_options(asked.tools, asked.tool_choice)
    given = asked.response_format
    if isinstance(given, SchemaFormat):
        options["response_format"] = held_to(given.json_schema)
    elif given is not None and given.type == "json_object":
        options["response_format"] = ResponseFormat()
    if asked.logprobs:
        options["evidence"] = True
    return Ask(
        model=asked.model,
        messages=tuple(
            _read_message(each, f"messages[{number}]", remote_images)
            for number, each in enumerate(asked.messages)
        ),
        options=options,
        metadata=asked.metadata or {},
        stream=bool(asked.stream),
        usage=bool(asked.stream_options and asked.stream_options.include_usage),
        logprobs=(asked.top_logprobs or 0) if asked.logprobs else None,
        body=sent,
        read=asked,
        foreign=tuple(dict.fromkeys(_foreign(asked))),
    )


def _foreign(asked: ChatRequest) -> Iterator[str]:
    yield from foreign(asked.messages)
    if (asked.n or 1) > 1:
        yield "n"
    if set(listed(asked.modalities)) - {"text"}:
        yield "modalities"
    if isinstance(asked.tool_choice, Other):
        yield "tool_choice"


def sampling(
    max_tokens: int | None,
    temperature: float | None,
    seed: int | None,
    stop: str | list[str] | None,
) -> dict[str, Any]:
    """The options that the chat APIs have; what is not given is the engine's to say."""
    options: dict[str, Any] = {}
    if max_tokens is not None:
        options["max_tokens"] = max_tokens
    if temperature is not None:
        options["temperature"] = temperature
    if seed is not None:
        options["seed"] = seed & 0x7FFFFFFF  # the runtime's have 32 bits; equal ones stay equal
    if stop:
        options["stop"] = tuple(filter(None, listed(stop)))
    return options


def listed(texts: str | list[str] | None) -> list[str]:
    """One text may stand for a list of one."""
    return [texts] if isinstance(texts, str) else texts or []


def tool_options(
    given: Sequence[NestedTool | FlatTool | Other] | None,
    choice: str | ChosenFunction | FunctionName | Other | None,
) -> dict[str, Any]:
    """Functions, in either of OpenAI's forms, and which of them may or must be called."""
    plain = [
        {"function": dict(each.function)} if isinstance(each, NestedTool) else dict(each)
        for each in given or ()
        if not isinstance(each, Other)
    ]
    tools = as_tools(plain)  # none may be wrong, whichever is chosen
    if isinstance(choice, Other):
        return choose_tools(tools, "auto", "tool_choice")
    if isinstance(choice, Model):
        name = (choice.function if isinstance(choice, ChosenFunction) else choice).name
        return chosen_tool(tools, name, "tool_choice")
    others = len(plain) < len(given or ())
    return choose_tools(tools, choice or "auto", "tool_choice", others=others)


def choose_tools(
    tools: tuple[Tool, ...], choice: str, path: str, *, others: bool = False
) -> dict[str, Any]:
    if choice == "required" and not tools and not others:
        raise BadField(path, "there are no tools")
    return {"tools": tools, "tool_choice": choice} if tools else {}


def chosen_tool(tools: tuple[Tool, ...], name: str, path: str) -> dict[str, Any]:
    if not any(tool.name == name for tool in tools):
        raise BadField(path, f"there is no tool {name[:80]!r}")
    return {"tools": tools, "tool_choice": {"name": name}}


def held_to(named: NamedSchema) -> ResponseFormat:
    return ResponseFormat(named.schema_, named.name or "answer", bool(named.strict))


def _read_message(given: ChatMessage, path: str, remote: bool) -> Message:
    texts, images = read_content(given.content, f"{path}.content", remote)
    if isinstance(given, ToolMessage):
        return Message("tool", texts, tool_call_id=given.tool_call_id)
    if isinstance(given, AssistantMessage):
        calls = tuple(
            ToolCall(each.function.name, each.function.arguments, each.id)
            for each in given.tool_calls or ()
            if isinstance(each, AssistantCall)
        )
        return Message("assistant", texts, tool_calls=calls)
    return Message("user" if given.role == "user" else "system", texts, images=images)


def read_content(
    content: str | Sequence[TextPart | RefusalPart | ImageUrlPart | InputImagePart | Other] | None,
    path: str,
    remote: bool,
) -> tuple[str, tuple[Image, ...]]:
    """The text and the pictures of a message whose content is a text or a list of parts."""
    if content is None or isinstance(content, str):
        return content or "", ()
    texts: list[str] = []
    images: list[Image] = []
    for number, part in enumerate(content):
        place = f"{path}[{number}].image_url"
        match part:
            case TextPart():
                texts.append(part.text)
            case RefusalPart():
                texts.append(part.refusal)
            case ImageUrlPart():
                images.append(read_picture(part.image_url.url, f"{place}.url", remote=remote))
            case InputImagePart():
                images.append(read_picture(part.image_url, place, remote=remote))
    if not texts and not images:  # so that there is something that the ledger can show
        texts += [f"[{part.type[:80]}]" for part in content if isinstance(part, Other)]
    return joined(texts), tuple(images)


def system_first(text: str, messages: Iterator[Message]) -> tuple[Message, ...]:
    """Instructions that an API keeps apart from the turns become the first of them."""
    system = (Message("system", text),) if text else ()
    return (*system, *messages)


class NamedLogprob(TypedDict):
    token: str
    logprob: Annotated[float, Le(0)]
    bytes: list[Annotated[int, Ge(0), Le(255)]]


class TokenLogprob(NamedLogprob):
    top_logprobs: Annotated[list[NamedLogprob], MaxLen(MOST_ALTERNATIVES)]


class Logprobs(TypedDict):
    content: list[TokenLogprob]
    refusal: None


class FunctionCall(TypedDict):
    name: NotEmpty
    arguments: str


class ChatToolCall(TypedDict):
    id: NotEmpty
    type: Literal["function"]
    function: FunctionCall


class ChatAnswer(TypedDict):
    role: Literal["assistant"]
    content: str | None
    refusal: None
    tool_calls: NotRequired[Annotated[list[ChatToolCall], MinLen(1)]]


ChatFinish = Literal["stop", "length", "tool_calls", "content_filter"]


class ChatChoice(TypedDict):
    index: Literal[0]
    message: ChatAnswer
    logprobs: Logprobs | None
    finish_reason: ChatFinish


class ChatUsage(TypedDict):
    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Count


class ChatCompletion(TypedDict):
    id: NotEmpty
    object: Literal["chat.completion"]
    created: Count
    model: str
    choices: Annotated[list[ChatChoice], MinLen(1), MaxLen(1)]
    usage: ChatUsage
    system_fingerprint: None
    edgewise: Report


FINISH: dict[FinishReason, ChatFinish] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "filtered": "content_filter",
}


class ChatWire:
    name = "chat.completions"
    forwards: WireName | None = "chat"
    note_places = ("", "")
    in_path: tuple[str, bool] | None = None
    ping = COMMENT
    stream_head = EVENTS

    def read(self, body: bytes, *, remote_images: bool) -> Ask:
        return read_chat(body, remote_images=remote_images)

    def whole(self, ask: Ask, reply: Reply, extra: Report) -> ChatCompletion:
        message: ChatAnswer = {
            "role": "assistant",
            "content": reply.text or (None if reply.tool_calls or reply.signalled else ""),
            "refusal": None,
        }
        if reply.tool_calls:
            message["tool_calls"] = tool_calls(reply)
        choice: ChatChoice = {
            "index": 0,
            "message": message,
            "logprobs": _whole_logprobs(ask, reply),
            "finish_reason": finish_reason(reply),
        }
        return {
            "id": f"chatcmpl-{reply.id}",
            "object": "chat.completion",
            "created": ask.created,
            "model": answered_by(ask, reply),
            "choices": [choice],
            "usage": usage(reply),
            "system_fingerprint": None,
            "edgewise": extra,
        }

    def writer(self, ask: Ask, request_id: str) -> ChatWriter:
        return ChatWriter(ask, request_id)

    def error(self, fault: Fault) -> Error:
        return openai_error(fault)


class ChatWriter:
    """`chat.completion.chunk` events, and `[DONE]`."""

    def __init__(self, ask: Ask, request_id: str) -> None:
        self._ask = ask
        self._head: dict[str, Any] = {
            "id": f"chatcmpl-{request_id}",
            "object": "chat.completion.chunk",
            "created": ask.created,
            "model": ask.model,
            "system_fingerprint": None,
        }

    def begin(self, opening: Opening) -> Iterator[bytes]:
        self._head["model"] = opening.model or self._ask.model
        yield self._chunk({"role": "assistant", "content": ""}, edgewise=opening.to_dict())

    def text(self, delta: TextDelta) -> Iterator[bytes]:
        wanted = self._ask.logprobs
        evidence = None if wanted is None else logprobs(delta.tokens, wanted)
        yield self._chunk({"content": delta.text}, logprobs=evidence)

    def switched(self, event: Switched) -> Iterator[bytes]:
        sure = {"confidence": event.confidence, "confidence_verified": event.confidence_verified}
        note = switch_note(event) | sure
        yield self._chunk({}, edgewise=note)

    def end(self, reply: Reply, extra: Report) -> Iterator[bytes]:
        for index, call in enumerate(tool_calls(reply)):
            yield self._chunk({"tool_calls": [{"index": index, **call}]})
        yield self._chunk({}, finish_reason(reply), edgewise=extra)
        if self._ask.usage:
            yield sse({**self._head, "choices": [], "usage": usage(reply)})
        yield b"data: [DONE]\n\n"

    def failed(self, fault: Fault) -> Iterator[bytes]:
        yield sse(openai_error(fault))

    def _chunk(
        self,
        delta: Mapping[str, Any],
        finish: str | None = None,
        *,
        logprobs: Mapping[str, Any] | None = None,
        edgewise: Mapping[str, Any] | None = None,
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        body: dict[str, Any] = {**self._head, "choices": [choice]}
        if self._ask.usage:
            body["usage"] = None
        if edgewise is not None:
            body["edgewise"] = edgewise
        return sse(body)


def finish_reason(reply: Reply) -> ChatFinish:
    calls = reply.tool_calls and reply.finish_reason != "length"
    return "tool_calls" if calls else FINISH[reply.finish_reason]


def tool_calls(reply: Reply) -> list[ChatToolCall]:
    return [
        {
            "id": name,
            "type": "function",
            "function": {"name": call.name, "arguments": arguments_text(call)},
        }
        for name, call in call_ids(reply)
    ]


def usage(reply: Reply) -> ChatUsage:
    counted = answered_usage(reply)
    return {
        "prompt_tokens": counted.input_tokens,
        "completion_tokens": counted.output_tokens,
        "total_tokens": counted.input_tokens + counted.output_tokens,
    }


def logprobs(tokens: Sequence[Token], wanted: int) -> Logprobs:
    """Evidence in OpenAI's form. A token inside a character has no text of its own."""
    return {
        "content": [
            {
                **_named(token.text, token.logprob),
                "top_logprobs": [_named(*each) for each in token.alternatives[:wanted]],
            }
            for token in tokens
            if token.has_evidence
        ],
        "refusal": None,
    }


def _named(text: str, logprob: float) -> NamedLogprob:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode())}


def _whole_logprobs(ask: Ask, reply: Reply) -> Logprobs | None:
    """Only the device has evidence, and only an answer that is all its own is described by it."""
    if ask.logprobs is None or reply.source != "local":
        return None
    return logprobs(reply.decision.evidence, ask.logprobs)


# -- the names a request may use -------------------------------------------------------------------


CREATED = 1_760_000_000  # the shape wants a time; names have none
RELEASED = "2025-10-09"  # the same time, as a day


class ModelEntry(TypedDict):
    id: NotEmpty
    object: Literal["model"]
    created: Count
    owned_by: NotEmpty


class NamedModel(TypedDict):
    """The same, as TypeSafe's clients want it."""

    name: NotEmpty
    description: str
    release_date: str


class ModelList(TypedDict):
    object: Literal["list"]
    data: Annotated[list[ModelEntry], MinLen(1)]
    models: Annotated[list[NamedModel], MinLen(1)]


def model_list(state: ServerState, incoming: Incoming) -> Work:
    data = models(state, incoming.client)
    named: list[NamedModel] = [
        {"name": each["id"], "description": each["owned_by"], "release_date": RELEASED}
        for each in data
    ]
    found: ModelList = {"object": "list", "data": data, "models": named}
    yield whole(200, JSON, to_json(found))


def one_model(state: ServerState, incoming: Incoming) -> Work:
    name = incoming.path["model"]
    for model in models(state, incoming.client):
        if model["id"] == name:
            yield whole(200, JSON, to_json(model))
            return
    fault = fault_of(
        refuse(404, "model_not_found", f"model {name[:80]!r} not found", param="model")
    )
    yield whole(404, JSON, to_json(openai_error(fault)))


def models(state: ServerState, client: Client) -> list[ModelEntry]:
    """`auto`, the local model, the other pulled ones, and what the chain of providers names; of
    those, what the client may ask for."""
    names = [(AUTO, "edgewise")]
    if state.local_model:
        names.append((f"local/{state.local_model}", "device"))
    names += [(f"local/{model.name}", "device") for model in state.pulled()]
    for lane in state.lanes():
        names.append((f"cloud/{lane.config.name}/{lane.config.model}", lane.config.name))
    return [
        {"id": name, "object": "model", "created": CREATED, "owned_by": owner}
        for name, owner in dict(names).items()
        if client.may_ask(name)
    ]
