"""Anthropic's messages: reads the body, writes answers whole and streamed, counts tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from annotated_types import Ge
from pydantic import Field
from typing_extensions import TypedDict

from edgewise.calls.prompt import render_tools
from edgewise.calls.tools import TOOLS_LIMIT, as_tools
from edgewise.decide.policy import count_characters, estimate_tokens
from edgewise.server.access import Served
from edgewise.server.answer import Incoming, chat_options, logged
from edgewise.server.body import (
    Flag,
    Many,
    Model,
    Object,
    OneOf,
    Other,
    Text,
    TextOrMany,
    decode_picture,
    foreign,
    parse_body,
    read_model,
    read_picture,
)
from edgewise.server.chat import (
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
from edgewise.server.errors import AnthropicError, Fault, anthropic_error
from edgewise.server.state import ServerState
from edgewise.server.wire import (
    EVENTS,
    JSON,
    Ask,
    Metadata,
    NotEmpty,
    Opening,
    Report,
    ReportedUsage,
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
from edgewise.types.messages import Image, Message, ResponseFormat, ToolCall, WireName
from edgewise.types.replies import FinishReason, Reply, Switched, TextDelta


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
    content: TextOrMany[Annotated[TextBlock | ImageBlock, OneOf("type", other=True)]] | None = None
    is_error: Flag | None = None


class UserTurn(Model):
    role: Literal["user"]
    content: TextOrMany[
        Annotated[
            TextBlock | ThinkingBlock | ImageBlock | ToolResultBlock, OneOf("type", other=True)
        ]
    ]


class AssistantTurn(Model):
    role: Literal["assistant"]
    content: TextOrMany[
        Annotated[TextBlock | ThinkingBlock | ToolUseBlock, OneOf("type", other=True)]
    ]


class SystemTurn(Model):
    role: Literal["system"]
    content: TextOrMany[Annotated[TextBlock | ThinkingBlock, OneOf("type", other=True)]]


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
        Annotated[
            Many[Annotated[CustomTool, OneOf("type", other=True)]],
            Field(json_schema_extra={"maxItems": TOOLS_LIMIT}),
        ]
        | None
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
    sent = parse_body(body)
    asked = read_model(MessagesRequest, sent)
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
        body=sent,
        read=asked,
        foreign=tuple(dict.fromkeys(foreign(asked.messages))),
    )


def read_count(body: bytes, *, remote_images: bool) -> Ask:
    """A request that is only counted."""
    sent = parse_body(body)
    asked = read_model(CountRequest, sent)
    messages = _conversation(asked, remote_images)
    return Ask(model=asked.model, messages=messages, options=_tools(asked), metadata={}, body=sent)


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
    own = [each for each in asked.tools or () if isinstance(each, CustomTool)]
    given = [{name: getattr(each, name) for name in names} for each in own]
    tools = as_tools(given)  # none may be wrong, whichever is chosen
    if isinstance(asked.tool_choice, NamedChoice):
        return chosen_tool(tools, asked.tool_choice.name, "tool_choice.name")
    kind = (asked.tool_choice.type if asked.tool_choice else None) or "auto"
    others = len(own) < len(asked.tools or ())
    choice = "required" if kind == "any" else kind
    return choose_tools(tools, choice, "tool_choice.type", others=others)


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
    if not (texts or images or calls) and not isinstance(turn.content, str):
        # So that there is something that the ledger can show.
        texts += [f"[{block.type[:80]}]" for block in turn.content if isinstance(block, Other)]
    if texts or images or calls:
        words = joined(texts)
        if turn.role == "assistant":
            yield Message("assistant", words, tool_calls=tuple(calls))
        else:
            yield Message(turn.role, words, images=tuple(images))


def _result(block: ToolResultBlock, path: str, remote: bool) -> Message:
    content = block.content or ""
    parts: Sequence[TextBlock | ImageBlock | Other] = () if isinstance(content, str) else content
    texts = [content] if isinstance(content, str) else []
    texts += [part.text for part in parts if isinstance(part, TextBlock)]
    images = tuple(
        _picture(part, f"{path}[{number}].source", remote)
        for number, part in enumerate(parts)
        if isinstance(part, ImageBlock)
    )
    words = joined(texts)
    if block.is_error and not words.lstrip().lower().startswith("error"):
        words = f"Error: {words}"  # other protocols have no mark for it
    return Message("tool", words, images=images, tool_call_id=block.tool_use_id)


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
    forwards: WireName | None = "messages"
    note_places = ("message", "")
    in_path: tuple[str, bool] | None = None
    ping = b'event: ping\ndata: {"type":"ping"}\n\n'
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
            answered_by(ask, reply),
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
            opening.model or self._ask.model,
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
    calls = reply.tool_calls and reply.finish_reason != "length"
    return "tool_use" if calls else STOP[reply.finish_reason]


def _usage(reply: Reply) -> ReportedUsage:
    counted = answered_usage(reply)
    return {"input_tokens": counted.input_tokens, "output_tokens": counted.output_tokens}


# -- how long a request is for the model on the device ---------------------------------------------


MOST_CHARACTERS = 1_000_000  # counted exactly; more are estimated


class CountReport(TypedDict):
    """Whose tokens these are. Pictures are not counted."""

    model: NotEmpty
    estimated: bool


class TokenCount(TypedDict):
    input_tokens: Annotated[int, Ge(0)]
    edgewise: CountReport


def count_tokens(state: ServerState, incoming: Incoming) -> Work:
    """Nothing is asked of any model, so nothing is written into the ledger."""
    served = Served(endpoint="messages.count_tokens", client=incoming.client.name)

    def work() -> Work:
        ask = read_count(incoming.body, remote_images=state.server.remote_images)
        served.model = ask.model[:80]
        given = ask.body.get("tools") or ()
        own = [each for each in given if each.get("type") not in (None, "custom")]
        tokens, told = counted(state, incoming, ask, own)
        found: TokenCount = {"input_tokens": tokens, "edgewise": told}
        served.status, served.code = 200, "counted"
        yield whole(200, JSON, to_json(found))

    yield from logged(state, served, incoming.cancellation, work, anthropic_error)


def counted(
    state: ServerState, incoming: Incoming, ask: Ask, own: Sequence[Any]
) -> tuple[int, CountReport]:
    """Tokens of a request. `own` are the tools that only a provider has: its model reads them."""
    options = chat_options(state, incoming, ask.model, {})
    request = state.engine.parts.request(ask.messages, **{**ask.options, **options})
    if request.tool_choice == "none":  # the device does not read them then
        request = replace(request, tools=())
    # A longer text fits no device: counting it exactly would only take time and memory.
    long = count_characters(request.messages) > MOST_CHARACTERS
    count = None if long else state.engine.parts.count_tokens(request)
    tools = Message("system", render_tools(request.tools))
    others = estimate_tokens([Message("system", json.dumps(each)) for each in own])
    return (estimate_tokens([*request.messages, tools]) if count is None else count) + others, {
        "model": f"local/{state.engine.parts.backend(request.model).facts().model}",
        "estimated": count is None or bool(own),
    }
