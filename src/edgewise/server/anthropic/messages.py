"""Anthropic's messages: reads the body, writes answers whole and streamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from edgewise.calls.tools import TOOLS_LIMIT, as_tools
from edgewise.server.body import (
    Flag,
    Many,
    Model,
    Object,
    OneOf,
    Text,
    TextOrMany,
    decode_picture,
    read_body,
    read_picture,
)
from edgewise.server.errors import AnthropicError, Fault, anthropic_error
from edgewise.server.openai.chat import (
    JsonSchema,
    ModelName,
    PictureUrl,
    Seed,
    Temperature,
    Texts,
    TokenLimit,
    ToolDescription,
    ToolName,
    ToolParameters,
    choose_tools,
    chosen_tool,
    sampling,
    system_first,
)
from edgewise.server.routing import Metadata
from edgewise.server.wire import (
    EVENTS,
    Ask,
    NotEmpty,
    Opening,
    Report,
    ReportedUsage,
    answered_usage,
    arguments_text,
    call_ids,
    joined,
    model_name,
    sse,
    switch_note,
)
from edgewise.types.messages import Image, Message, ResponseFormat, ToolCall
from edgewise.types.replies import Reply, Switched, TextDelta
from edgewise.types.tokens import FinishReason


class Base64Source(Model):
    type: Literal["base64"]
    media_type: Text
    data: Text


class UrlSource(Model):
    type: Literal["url"]
    url: PictureUrl


class TextBlock(Model):
    type: Literal["text"]
    text: Text


class ImageBlock(Model):
    type: Literal["image"]
    source: Annotated[Base64Source | UrlSource, OneOf("type")]


class ThinkingBlock(Model):
    """Another model's thoughts; passed over."""

    type: Literal["thinking", "redacted_thinking"]


class ToolUseBlock(Model):
    type: Literal["tool_use"]
    id: Text
    name: Text
    input: Object | None = None


class ToolResultBlock(Model):
    type: Literal["tool_result"]
    tool_use_id: Text
    content: TextOrMany[Annotated[TextBlock | ImageBlock, OneOf("type")]] | None = None


class UserTurn(Model):
    role: Literal["user"]
    content: TextOrMany[
        Annotated[TextBlock | ThinkingBlock | ImageBlock | ToolResultBlock, OneOf("type")]
    ]


class AssistantTurn(Model):
    role: Literal["assistant"]
    content: TextOrMany[Annotated[TextBlock | ThinkingBlock | ToolUseBlock, OneOf("type")]]


class SystemTurn(Model):
    role: Literal["system"]
    content: TextOrMany[Annotated[TextBlock | ThinkingBlock, OneOf("type")]]


Turn = UserTurn | AssistantTurn | SystemTurn


class SystemText(Model):
    text: Text


class CustomTool(Model):
    type: Literal["custom"] | None = None
    name: ToolName
    description: ToolDescription = None
    input_schema: ToolParameters = None


class AnyChoice(Model):
    type: Literal["auto", "any", "none"] | None = None


class NamedChoice(Model):
    type: Literal["tool"]
    name: Text


class OutputFormat(Model):
    type: Literal["json_schema"]
    schema_: Annotated[JsonSchema, Field(alias="schema")]


class OutputConfig(Model):
    format: OutputFormat | None = None


class CountRequest(Model):
    """What a model reads; `/v1/messages/count_tokens` takes no more."""

    model: ModelName
    messages: Annotated[
        Many[Annotated[Turn, OneOf("role")]],
        Field(description="at least one with words", json_schema_extra={"minItems": 1}),
    ]
    system: TextOrMany[SystemText] | None = None
    tools: (
        Annotated[Many[CustomTool], Field(json_schema_extra={"maxItems": TOOLS_LIMIT})] | None
    ) = None
    tool_choice: Annotated[AnyChoice | NamedChoice, OneOf("type")] | None = None


class MessagesRequest(CountRequest):
    max_tokens: TokenLimit
    temperature: Temperature | None = None
    seed: Seed | None = None
    stop_sequences: Texts | None = None
    output_config: OutputConfig | None = None
    stream: Flag | None = None
    metadata: Metadata | None = None


def read_messages(body: bytes, *, remote_images: bool) -> Ask:
    asked = read_body(MessagesRequest, body)
    options = sampling(asked.max_tokens, asked.temperature, asked.seed, asked.stop_sequences)
    options |= _tools(asked)
    if asked.output_config and (held := asked.output_config.format):
        options["response_format"] = ResponseFormat(held.schema_, strict=True)
    return Ask(
        model=asked.model,
        messages=_conversation(asked, remote_images),
        options=options,
        metadata=asked.metadata or {},
        stream=bool(asked.stream),
    )


def read_count(body: bytes, *, remote_images: bool) -> Ask:
    """A request that is only counted."""
    asked = read_body(CountRequest, body)
    messages = _conversation(asked, remote_images)
    return Ask(model=asked.model, messages=messages, options=_tools(asked), metadata={})


def _conversation(asked: CountRequest, remote_images: bool) -> tuple[Message, ...]:
    system = asked.system or ""
    if not isinstance(system, str):
        system = joined([each.text for each in system])
    turns = (
        message
        for number, turn in enumerate(asked.messages)
        for message in _read_turn(turn, f"messages[{number}].content", remote_images)
    )
    return system_first(system, turns)


def _tools(asked: CountRequest) -> dict[str, Any]:
    names = ("name", "description", "input_schema")
    given = [{name: getattr(each, name) for name in names} for each in asked.tools or ()]
    tools = as_tools(given)  # none may be wrong, whichever is chosen
    if isinstance(asked.tool_choice, NamedChoice):
        return chosen_tool(tools, asked.tool_choice.name, "tool_choice.name")
    kind = (asked.tool_choice.type if asked.tool_choice else None) or "auto"
    return choose_tools(tools, "required" if kind == "any" else kind, "tool_choice.type")


def _read_turn(turn: Turn, path: str, remote: bool) -> Iterator[Message]:
    """A turn of Anthropic's may hold results of tools and words: those are messages of ours."""
    texts: list[str] = []
    images: list[Image] = []
    calls: list[ToolCall] = []
    if isinstance(turn.content, str):
        texts.append(turn.content)
    else:
        for number, block in enumerate(turn.content):
            match block:
                case TextBlock():
                    texts.append(block.text)
                case ImageBlock():
                    images.append(_picture(block, f"{path}[{number}].source", remote))
                case ToolUseBlock():
                    calls.append(ToolCall(block.name, block.input or {}, block.id))
                case ToolResultBlock():
                    yield _result(block, f"{path}[{number}].content", remote)
    if texts or images or calls:
        words = joined(texts)
        if turn.role == "assistant":
            yield Message("assistant", words, tool_calls=tuple(calls))
        else:
            yield Message(turn.role, words, images=tuple(images))


def _result(block: ToolResultBlock, path: str, remote: bool) -> Message:
    content = block.content or ""
    parts: Sequence[TextBlock | ImageBlock] = () if isinstance(content, str) else content
    texts = [content] if isinstance(content, str) else []
    texts += [part.text for part in parts if isinstance(part, TextBlock)]
    images = tuple(
        _picture(part, f"{path}[{number}].source", remote)
        for number, part in enumerate(parts)
        if isinstance(part, ImageBlock)
    )
    return Message("tool", joined(texts), images=images, tool_call_id=block.tool_use_id)


def _picture(block: ImageBlock, path: str, remote: bool) -> Image:
    source = block.source
    if isinstance(source, UrlSource):
        return read_picture(source.url, f"{path}.url", remote=remote)
    return decode_picture(source.data, source.media_type, f"{path}.data")


StopReason = Literal["end_turn", "max_tokens", "tool_use", "refusal"]
STOP: dict[FinishReason, StopReason] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "filtered": "refusal",
}


class AnswerText(TypedDict):
    type: Literal["text"]
    text: NotEmpty


class AnswerCall(TypedDict):
    type: Literal["tool_use"]
    id: NotEmpty
    name: NotEmpty
    input: dict[str, Any]


class AnswerMessage(TypedDict):
    id: NotEmpty
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[AnswerText | AnswerCall]
    stop_reason: StopReason
    stop_sequence: None
    usage: ReportedUsage
    edgewise: Report


class MessagesWire:
    name = "messages"
    stream_head = EVENTS

    def read(self, body: bytes, *, remote_images: bool) -> Ask:
        return read_messages(body, remote_images=remote_images)

    def whole(self, ask: Ask, reply: Reply, extra: Report) -> dict[str, Any]:
        content: list[AnswerText | AnswerCall] = []
        if reply.text:
            content.append({"type": "text", "text": reply.text})
        content += [
            {"type": "tool_use", "id": name, "name": call.name, "input": dict(call.arguments)}
            for name, call in call_ids(reply)
        ]
        return _message(
            reply.id,
            model_name(ask, reply),
            content=content,
            stop_reason=_stop_reason(reply),
            usage=_usage(reply),
            edgewise=extra,
        )

    def writer(self, ask: Ask, request_id: str) -> MessagesWriter:
        return MessagesWriter(ask, request_id)

    def error(self, fault: Fault) -> AnthropicError:
        return anthropic_error(fault)


class MessagesWriter:
    """`message_start`, content blocks one after the other, `message_delta`, `message_stop`."""

    def __init__(self, ask: Ask, request_id: str) -> None:
        self._ask = ask
        self._id = request_id
        self._open = False

    def begin(self, opening: Opening) -> Iterator[bytes]:
        message = _message(
            self._id,
            self._ask.model,
            usage={"input_tokens": 0, "output_tokens": 0},
            edgewise=opening.to_dict(),
        )
        yield _event("message_start", message=message)

    def text(self, delta: TextDelta) -> Iterator[bytes]:
        if not self._open:
            self._open = True
            block = {"type": "text", "text": ""}
            yield _event("content_block_start", index=0, content_block=block)
        piece = {"type": "text_delta", "text": delta.text}
        yield _event("content_block_delta", index=0, delta=piece)

    def switched(self, event: Switched) -> Iterator[bytes]:
        yield _event("ping", edgewise=switch_note(event))

    def end(self, reply: Reply, extra: Report) -> Iterator[bytes]:
        if self._open:
            yield _event("content_block_stop", index=0)
        for index, (name, call) in enumerate(call_ids(reply), start=int(self._open)):
            block = {"type": "tool_use", "id": name, "name": call.name, "input": {}}
            yield _event("content_block_start", index=index, content_block=block)
            piece = {"type": "input_json_delta", "partial_json": arguments_text(call)}
            yield _event("content_block_delta", index=index, delta=piece)
            yield _event("content_block_stop", index=index)
        yield _event(
            "message_delta",
            delta={"stop_reason": _stop_reason(reply), "stop_sequence": None},
            usage=_usage(reply),
            edgewise=extra,
        )
        yield _event("message_stop")

    def failed(self, fault: Fault) -> Iterator[bytes]:
        yield sse(anthropic_error(fault), "error")


def _event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields}, kind)


def _message(request_id: str, model: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"msg_{request_id}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        **fields,
    }


def _stop_reason(reply: Reply) -> StopReason:
    return "tool_use" if reply.tool_calls else STOP[reply.finish_reason]


def _usage(reply: Reply) -> ReportedUsage:
    counted = answered_usage(reply)
    return {"input_tokens": counted.input_tokens, "output_tokens": counted.output_tokens}
