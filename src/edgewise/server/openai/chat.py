"""OpenAI's chat completions: reads the body, writes answers whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgewise.calls.tools import as_tools
from edgewise.server.errors import Fault
from edgewise.server.fields import BadField, Fields
from edgewise.server.pictures import read_picture
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
from edgewise.types.tokens import Token

MOST_TOKENS = 1_000_000
MOST_ALTERNATIVES = 20  # OpenAI's limit; the device has five
ROLES = ("system", "developer", "user", "assistant", "tool")


def read_chat(body: Fields, *, remote_images: bool) -> Ask:
    _refuse_several(body)
    messages = tuple(_message(each, remote_images) for each in body.each("messages", required=True))
    options = sampling(body, ("max_completion_tokens", "max_tokens"))
    options |= read_tools(body)
    if (schema := _response_format(body.inner("response_format"))) is not None:
        options["response_format"] = schema
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


def _response_format(given: Fields) -> ResponseFormat | None:
    kind = given.choice("type", "text", ("text", "json_object", "json_schema"))
    if kind == "text":
        return None
    return ResponseFormat() if kind == "json_object" else read_schema(given.inner("json_schema"))


def read_schema(named: Fields) -> ResponseFormat:
    schema = named.inner("schema")
    if not schema.values:
        raise named.bad("schema", "is required")
    return ResponseFormat(schema.values, named.text("name", "answer"), named.flag("strict"))


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


FINISH = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "filtered": "content_filter",
}


class ChatWire:
    name = "chat.completions"

    def read(self, body: Fields, *, remote_images: bool) -> Ask:
        return read_chat(body, remote_images=remote_images)

    def whole(self, ask: Ask, reply: Reply, extra: Mapping[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": reply.text or (None if reply.tool_calls or reply.signalled else ""),
            "refusal": None,
        }
        if reply.tool_calls:
            message["tool_calls"] = tool_calls(reply)
        choice = {
            "index": 0,
            "message": message,
            "logprobs": _whole_logprobs(ask, reply),
            "finish_reason": finish_reason(reply),
        }
        return {
            "id": f"chatcmpl-{reply.id}",
            "object": "chat.completion",
            "created": ask.created,
            "model": model_name(ask, reply),
            "choices": [choice],
            "usage": usage(reply),
            "system_fingerprint": None,
            "edgewise": dict(extra),
        }

    def writer(self, ask: Ask, request_id: str) -> ChatWriter:
        return ChatWriter(ask, request_id)

    def error(self, fault: Fault) -> dict[str, Any]:
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
        yield self._chunk({"role": "assistant", "content": ""}, edgewise=opening.to_dict())

    def text(self, delta: TextDelta) -> Iterator[bytes]:
        wanted = self._ask.logprobs
        evidence = None if wanted is None else logprobs(delta.tokens, wanted)
        yield self._chunk({"content": delta.text}, logprobs=evidence)

    def switched(self, event: Switched) -> Iterator[bytes]:
        said = switch_note(event)
        yield self._chunk({}, edgewise=said | {"confidence": event.confidence})

    def end(self, reply: Reply, extra: Mapping[str, Any]) -> Iterator[bytes]:
        for index, call in enumerate(tool_calls(reply)):
            yield self._chunk({"tool_calls": [{"index": index, **call}]})
        yield self._chunk({}, finish_reason(reply), edgewise=dict(extra))
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


def openai_error(fault: Fault) -> dict[str, Any]:
    return {
        "error": {
            "message": fault.message,
            "type": fault.kind,
            "param": fault.param or None,
            "code": fault.code,
        }
    }


def finish_reason(reply: Reply) -> str:
    return "tool_calls" if reply.tool_calls else FINISH[reply.finish_reason]


def tool_calls(reply: Reply) -> list[dict[str, Any]]:
    return [
        {
            "id": name,
            "type": "function",
            "function": {"name": call.name, "arguments": arguments_text(call)},
        }
        for name, call in call_ids(reply)
    ]


def usage(reply: Reply) -> dict[str, int]:
    counted = answered_usage(reply)
    return {
        "prompt_tokens": counted.input_tokens,
        "completion_tokens": counted.output_tokens,
        "total_tokens": counted.input_tokens + counted.output_tokens,
    }


def logprobs(tokens: Sequence[Token], wanted: int) -> dict[str, Any]:
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


def _named(text: str, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode())}


def _whole_logprobs(ask: Ask, reply: Reply) -> dict[str, Any] | None:
    """Only the device has evidence, and only an answer that is all its own is described by it."""
    if ask.logprobs is None or reply.source != "local":
        return None
    return logprobs(reply.decision.evidence, ask.logprobs)
