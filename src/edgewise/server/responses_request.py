"""Reads the body of `/v1/responses`. Nothing is kept between requests."""

from __future__ import annotations

from collections.abc import Iterator

from edgewise.server.chat_request import (
    MOST_ALTERNATIVES,
    read_arguments,
    read_parts,
    read_schema,
    read_tools,
    sampling,
    system_first,
)
from edgewise.server.fields import Fields
from edgewise.server.wire import Ask
from edgewise.types.messages import AnswerSchema, Message, ToolCall

STATEFUL = ("previous_response_id", "conversation", "prompt")
LOGPROBS = "message.output_text.logprobs"


def read_response(body: Fields, *, remote_images: bool) -> Ask:
    for name in STATEFUL:
        if body.has(name):
            raise body.bad(name, "this server keeps no state; send the whole conversation")
    if body.flag("background"):
        raise body.bad("background", "this server keeps no state; stream it instead")
    options = sampling(body, ("max_output_tokens",)) | read_tools(body)
    if (schema := _answer_schema(body.inner("text").inner("format"))) is not None:
        options["answer_schema"] = schema
    alternatives = body.whole("top_logprobs", 0, low=0, high=MOST_ALTERNATIVES)
    logprobs = None
    if LOGPROBS in body.texts("include"):
        logprobs = alternatives
        options["evidence"] = True
    return Ask(
        model=body.text("model"),
        messages=system_first(body.text("instructions", ""), _turns(body, remote_images)),
        options=options,
        metadata=body.inner("metadata"),
        stream=body.flag("stream"),
        logprobs=logprobs,
    )


def _answer_schema(given: Fields) -> AnswerSchema | None:
    kind = given.choice("type", "text", ("text", "json_object", "json_schema"))
    if kind == "text":
        return None
    return AnswerSchema() if kind == "json_object" else read_schema(given)


def _turns(body: Fields, remote: bool) -> Iterator[Message]:
    if isinstance(body.values.get("input"), str):
        yield Message("user", body.text("input"))
        return
    calls: list[ToolCall] = []
    for item in body.each("input", required=True):
        kind = item.text("type", "message")
        if kind == "function_call":  # calls of one turn stand side by side
            calls.append(ToolCall(item.text("name"), read_arguments(item), item.text("call_id")))
            continue
        if calls:
            yield Message("assistant", tool_calls=tuple(calls))
            calls = []
        if kind == "message":
            yield _message(item, remote)
        elif kind == "function_call_output":
            text, _ = read_parts(_as_content(item), remote)
            yield Message("tool", text, tool_call_id=item.text("call_id"))
        elif kind != "reasoning":  # another model's thoughts are not ours to continue
            raise item.bad("type", f"{kind[:40]!r} is not supported")
    if calls:
        yield Message("assistant", tool_calls=tuple(calls))


def _as_content(item: Fields) -> Fields:
    return Fields({"content": item.values.get("output")}, item.path)


def _message(item: Fields, remote: bool) -> Message:
    role = item.choice("role", "", ("system", "developer", "user", "assistant"))
    text, images = read_parts(item, remote)
    if images and role != "user":
        raise item.bad("content", "only a user's message may hold images")
    if role == "assistant":
        return Message("assistant", text)
    return Message("user" if role == "user" else "system", text, images=images)
