"""Reads the body of `/v1/chat/completions`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from edgewise.functions.tool_schema import as_tools
from edgewise.server.fields import BadField, Fields
from edgewise.server.pictures import read_picture
from edgewise.server.wire import Ask, joined
from edgewise.types.messages import AnswerSchema, Image, Message, ToolCall

MOST_TOKENS = 1_000_000
MOST_ALTERNATIVES = 20  # OpenAI's limit; the device has five
ROLES = ("system", "developer", "user", "assistant", "tool")


def read_chat(body: Fields, *, remote_images: bool) -> Ask:
    _refuse_several(body)
    messages = tuple(_message(each, remote_images) for each in body.each("messages", required=True))
    options = sampling(body, ("max_completion_tokens", "max_tokens"))
    options |= read_tools(body)
    if (schema := _answer_schema(body.inner("response_format"))) is not None:
        options["answer_schema"] = schema
    logprobs = None
    if body.flag("logprobs"):
        logprobs = body.whole("top_logprobs", 0, low=0, high=MOST_ALTERNATIVES)
        options["evidence"] = True
    elif body.has("top_logprobs"):
        raise body.bad("top_logprobs", "goes with logprobs = true")
    return Ask(
        model=body.text("model"),
        messages=messages,
        options=options,
        metadata=body.inner("metadata"),
        stream=body.flag("stream"),
        usage=body.inner("stream_options").flag("include_usage"),
        logprobs=logprobs,
    )


def _refuse_several(body: Fields) -> None:
    if body.whole("n", 1, low=1, high=128) != 1:
        raise body.bad("n", "one answer per request")
    if body.has("functions"):
        raise body.bad("functions", "use tools")
    if "audio" in body.texts("modalities"):
        raise body.bad("modalities", "only text")


def sampling(body: Fields, limits: tuple[str, ...]) -> dict[str, Any]:
    """The options that all three APIs have; what is not given is the engine's to say."""
    options: dict[str, Any] = {}
    for name in reversed(limits):  # the first of them wins, and none may be wrong
        if body.has(name):
            options["max_tokens"] = body.whole(name, low=1, high=MOST_TOKENS)
    if body.has("temperature"):
        options["temperature"] = body.number("temperature", low=0, high=2)
    if body.has("seed"):
        # The runtime's are 32 bits wide; equal seeds stay equal.
        options["seed"] = body.whole("seed", low=-(2**63), high=2**63) & 0x7FFFFFFF
    if stops := body.texts("stop") + body.texts("stop_sequences"):
        options["stop"] = tuple(stop for stop in stops if stop)
    return options


def read_tools(body: Fields) -> dict[str, Any]:
    """Functions, in either of OpenAI's forms; `tool_choice` may leave one of them, or none."""
    tools = as_tools([_function(each) for each in body.each("tools")])  # none may be wrong
    choice = body.values.get("tool_choice")
    if isinstance(choice, dict):
        chosen = body.inner("tool_choice")
        name = (chosen.inner("function") if chosen.has("function") else chosen).text("name")
        tools = tuple(tool for tool in tools if tool.name == name)
        if not tools:
            raise body.bad("tool_choice", f"there is no tool {name[:80]!r}")
    elif body.choice("tool_choice", "auto", ("none", "auto", "required")) == "none":
        tools = ()
    return {"tools": tools} if tools else {}


def _function(tool: Fields) -> dict[str, Any]:
    if tool.text("type") != "function":
        raise tool.bad("type", "only functions")
    return dict(tool.values)


def _answer_schema(given: Fields) -> AnswerSchema | None:
    kind = given.choice("type", "text", ("text", "json_object", "json_schema"))
    if kind == "text":
        return None
    return AnswerSchema() if kind == "json_object" else read_schema(given.inner("json_schema"))


def read_schema(named: Fields) -> AnswerSchema:
    schema = named.inner("schema")
    if not schema.values:
        raise named.bad("schema", "is required")
    return AnswerSchema(schema.values, named.text("name", "answer"), named.flag("strict"))


def _message(given: Fields, remote: bool) -> Message:
    role = given.choice("role", "", ROLES)
    texts, images = read_parts(given, remote)
    if images and role != "user":
        raise given.bad("content", "only a user's message may hold images")
    if role == "tool":
        return Message("tool", texts, tool_call_id=given.text("tool_call_id"))
    if role == "assistant":
        calls = tuple(_call(each) for each in given.each("tool_calls"))
        return Message("assistant", texts, tool_calls=calls)
    return Message("user" if role == "user" else "system", texts, images=images)


def read_parts(given: Fields, remote: bool) -> tuple[str, tuple[Image, ...]]:
    """The text and the pictures of a message whose content is a text or a list of parts."""
    content = given.values.get("content")
    if content is None or isinstance(content, str):
        return content or "", ()
    texts: list[str] = []
    images: list[Image] = []
    for part in given.each("content"):
        match part.text("type"):
            case "text" | "input_text" | "output_text":
                texts.append(part.text("text"))
            case "refusal":
                texts.append(part.text("refusal"))
            case "image_url":
                url = part.inner("image_url")
                images.append(read_picture(url.text("url"), url.name_of("url"), remote=remote))
            case "input_image":
                place = part.name_of("image_url")
                images.append(read_picture(part.text("image_url"), place, remote=remote))
            case kind:
                raise part.bad("type", f"{kind[:40]!r} is not supported")
    return joined(texts), tuple(images)


def _call(given: Fields) -> ToolCall:
    function = given.inner("function")
    return ToolCall(
        function.text("name"),
        read_arguments(function),
        given.text("id"),
    )


def read_arguments(given: Fields) -> dict[str, Any]:
    text = given.text("arguments", "{}") or "{}"
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise given.bad("arguments", "not JSON") from error
    if not isinstance(arguments, dict):
        raise BadField(given.name_of("arguments"), "expected an object, as JSON text")
    return arguments


def system_first(text: str, messages: Iterator[Message]) -> tuple[Message, ...]:
    """Instructions that an API keeps apart from the turns become the first of them."""
    system = (Message("system", text),) if text else ()
    return (*system, *messages)
