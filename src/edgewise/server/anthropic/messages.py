"""Anthropic's messages: reads the body, writes answers whole and streamed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from edgewise.calls.tools import as_tools
from edgewise.server.errors import Fault
from edgewise.server.fields import Fields
from edgewise.server.openai.chat import (
    MOST_TOKENS,
    sampling,
    system_first,
)
from edgewise.server.pictures import decoded, read_picture
from edgewise.server.wire import (
    Ask,
    Opening,
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


def read_messages(body: Fields, *, remote_images: bool) -> Ask:
    body.whole("max_tokens", low=1, high=MOST_TOKENS)  # required here
    options = sampling(body, ("max_tokens",)) | _tools(body)
    if (schema := _response_format(body.inner("output_config").inner("format"))) is not None:
        options["response_format"] = schema
    turns = (
        message
        for each in body.each("messages", required=True)
        for message in _turn(each, remote_images)
    )
    return Ask(
        model=body.text("model"),
        messages=system_first(_system(body), turns),
        options=options,
        metadata=body.inner("metadata"),
        stream=body.flag("stream"),
    )


def _system(body: Fields) -> str:
    if isinstance(body.values.get("system"), list):
        return joined([each.text("text") for each in body.each("system")])
    return body.text("system", "")


def _response_format(given: Fields) -> ResponseFormat | None:
    if not given.values:
        return None
    given.choice("type", "", ("json_schema",))
    schema = given.inner("schema")
    if not schema.values:
        raise given.bad("schema", "is required")
    return ResponseFormat(schema.values, strict=True)


def _tools(body: Fields) -> dict[str, Any]:
    given: list[dict[str, Any]] = []
    for each in body.each("tools"):
        if each.text("type", "custom") != "custom":
            raise each.bad("type", "only tools that the client runs")
        given.append(
            {name: each.values.get(name) for name in ("name", "description", "input_schema")}
        )
    tools = as_tools(given)  # none may be wrong, whichever is chosen
    choice = body.inner("tool_choice")
    match choice.choice("type", "auto", ("auto", "any", "tool", "none")):
        case "none":
            tools = ()
        case "tool":
            name = choice.text("name")
            tools = tuple(tool for tool in tools if tool.name == name)
            if not tools:
                raise choice.bad("name", f"there is no tool {name[:80]!r}")
    return {"tools": tools} if tools else {}


def _turn(given: Fields, remote: bool) -> Iterator[Message]:
    """A turn of Anthropic's may hold results of tools and words: those are messages of ours."""
    role = given.choice("role", "", ("user", "assistant", "system"))
    texts: list[str] = []
    images: list[Image] = []
    calls: list[ToolCall] = []
    content = given.values.get("content")
    blocks = [] if isinstance(content, str) else given.each("content", required=True)
    if isinstance(content, str):
        texts.append(content)
    for block in blocks:
        match block.text("type"):
            case "text":
                texts.append(block.text("text"))
            case "image" if role == "user":
                images.append(_picture(block.inner("source"), remote))
            case "tool_use" if role == "assistant":
                arguments = block.inner("input").values
                calls.append(ToolCall(block.text("name"), arguments, block.text("id")))
            case "tool_result" if role == "user":
                yield _result(block, remote)
            case "thinking" | "redacted_thinking":
                continue  # another model's thoughts are not ours to continue
            case kind:
                raise block.bad("type", f"{kind[:40]!r} is not supported here")
    if texts or images or calls:
        words = joined(texts)
        if role == "assistant":
            yield Message("assistant", words, tool_calls=tuple(calls))
        else:
            yield Message("user" if role == "user" else "system", words, images=tuple(images))


def _result(block: Fields, remote: bool) -> Message:
    content = block.values.get("content")
    texts: list[str] = []
    images: list[Image] = []
    if isinstance(content, list):
        for part in block.each("content"):
            if part.text("type") == "image":
                images.append(_picture(part.inner("source"), remote))
            else:
                texts.append(part.text("text"))
    else:
        texts.append(block.text("content", ""))
    return Message(
        "tool", joined(texts), images=tuple(images), tool_call_id=block.text("tool_use_id")
    )


def _picture(source: Fields, remote: bool) -> Image:
    if source.choice("type", "", ("base64", "url")) == "url":
        return read_picture(source.text("url"), source.name_of("url"), remote=remote)
    kind = source.text("media_type")
    return decoded(source.text("data"), kind, source.name_of("data"))


STOP = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "filtered": "refusal",
}
ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


class MessagesWire:
    name = "messages"

    def read(self, body: Fields, *, remote_images: bool) -> Ask:
        return read_messages(body, remote_images=remote_images)

    def whole(self, ask: Ask, reply: Reply, extra: Mapping[str, Any]) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if reply.text:
            content.append({"type": "text", "text": reply.text})
        content += [
            {"type": "tool_use", "id": name, "name": call.name, "input": dict(call.arguments)}
            for name, call in call_ids(reply)
        ]
        counted = answered_usage(reply)
        return _message(
            reply.id,
            model_name(ask, reply),
            content=content,
            stop_reason=_stop_reason(reply),
            usage={"input_tokens": counted.input_tokens, "output_tokens": counted.output_tokens},
            edgewise=dict(extra),
        )

    def writer(self, ask: Ask, request_id: str) -> MessagesWriter:
        return MessagesWriter(ask, request_id)

    def error(self, fault: Fault) -> dict[str, Any]:
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
        said = switch_note(event)
        yield _event("ping", edgewise=said)

    def end(self, reply: Reply, extra: Mapping[str, Any]) -> Iterator[bytes]:
        if self._open:
            yield _event("content_block_stop", index=0)
        for index, (name, call) in enumerate(call_ids(reply), start=int(self._open)):
            block = {"type": "tool_use", "id": name, "name": call.name, "input": {}}
            yield _event("content_block_start", index=index, content_block=block)
            piece = {"type": "input_json_delta", "partial_json": arguments_text(call)}
            yield _event("content_block_delta", index=index, delta=piece)
            yield _event("content_block_stop", index=index)
        counted = answered_usage(reply)
        yield _event(
            "message_delta",
            delta={"stop_reason": _stop_reason(reply), "stop_sequence": None},
            usage={"input_tokens": counted.input_tokens, "output_tokens": counted.output_tokens},
            edgewise=dict(extra),
        )
        yield _event("message_stop")

    def failed(self, fault: Fault) -> Iterator[bytes]:
        yield sse(anthropic_error(fault), "error")


def anthropic_error(fault: Fault) -> dict[str, Any]:
    kind = ERRORS.get(fault.status, "api_error" if fault.status >= 500 else ERRORS[400])
    error = {"type": kind, "message": fault.message, "code": fault.code}
    return {"type": "error", "error": error}


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


def _stop_reason(reply: Reply) -> str:
    return "tool_use" if reply.tool_calls else STOP[reply.finish_reason]
