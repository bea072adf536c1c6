"""Reads the body of `/v1/messages`, Anthropic's API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgewise.functions.tool_schema import as_tools
from edgewise.server.chat_request import MOST_TOKENS, sampling, system_first
from edgewise.server.fields import Fields
from edgewise.server.pictures import decoded, read_picture
from edgewise.server.wire import Ask, joined
from edgewise.types.messages import AnswerSchema, Image, Message, ToolCall


def read_messages(body: Fields, *, remote_images: bool) -> Ask:
    body.whole("max_tokens", low=1, high=MOST_TOKENS)  # required here
    options = sampling(body, ("max_tokens",)) | _tools(body)
    if (schema := _answer_schema(body.inner("output_config").inner("format"))) is not None:
        options["answer_schema"] = schema
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


def _answer_schema(given: Fields) -> AnswerSchema | None:
    if not given.values:
        return None
    given.choice("type", "", ("json_schema",))
    schema = given.inner("schema")
    if not schema.values:
        raise given.bad("schema", "is required")
    return AnswerSchema(schema.values, strict=True)


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
