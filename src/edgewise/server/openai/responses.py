"""OpenAI's responses: reads the body, writes answers. Nothing is kept between requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from edgewise.server.errors import Fault
from edgewise.server.fields import Fields
from edgewise.server.openai.chat import (
    MOST_ALTERNATIVES,
    logprobs,
    openai_error,
    read_arguments,
    read_parts,
    read_schema,
    read_tools,
    sampling,
    system_first,
)
from edgewise.server.wire import (
    Ask,
    Opening,
    answered_usage,
    arguments_text,
    call_ids,
    model_name,
    sse,
    switch_note,
)
from edgewise.types.messages import Message, ResponseFormat, ToolCall
from edgewise.types.replies import Reply, Switched, TextDelta
from edgewise.types.tokens import Token

STATEFUL = ("previous_response_id", "conversation", "prompt")
LOGPROBS = "message.output_text.logprobs"


def read_response(body: Fields, *, remote_images: bool) -> Ask:
    for name in STATEFUL:
        if body.has(name):
            raise body.bad(name, "this server keeps no state; send the whole conversation")
    if body.flag("background"):
        raise body.bad("background", "this server keeps no state; stream it instead")
    options = sampling(body, ("max_output_tokens",)) | read_tools(body)
    if (schema := _response_format(body.inner("text").inner("format"))) is not None:
        options["response_format"] = schema
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


def _response_format(given: Fields) -> ResponseFormat | None:
    kind = given.choice("type", "text", ("text", "json_object", "json_schema"))
    if kind == "text":
        return None
    return ResponseFormat() if kind == "json_object" else read_schema(given)


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
            yield _read_message(item, remote)
        elif kind == "function_call_output":
            text, _ = read_parts(_as_content(item), remote)
            yield Message("tool", text, tool_call_id=item.text("call_id"))
        elif kind != "reasoning":  # another model's thoughts are not ours to continue
            raise item.bad("type", f"{kind[:40]!r} is not supported")
    if calls:
        yield Message("assistant", tool_calls=tuple(calls))


def _as_content(item: Fields) -> Fields:
    return Fields({"content": item.values.get("output")}, item.path)


def _read_message(item: Fields, remote: bool) -> Message:
    role = item.choice("role", "", ("system", "developer", "user", "assistant"))
    text, images = read_parts(item, remote)
    if images and role != "user":
        raise item.bad("content", "only a user's message may hold images")
    if role == "assistant":
        return Message("assistant", text)
    return Message("user" if role == "user" else "system", text, images=images)


class ResponsesWire:
    name = "responses"

    def read(self, body: Fields, *, remote_images: bool) -> Ask:
        return read_response(body, remote_images=remote_images)

    def whole(self, ask: Ask, reply: Reply, extra: Mapping[str, Any]) -> dict[str, Any]:
        evidence = reply.decision.evidence if reply.source == "local" else ()
        output = [_message(reply.id, [_text(ask, reply.text, evidence)])] if reply.text else []
        output += [_call(reply, number) for number in range(len(reply.tool_calls))]
        short = reply.finish_reason in ("length", "filtered") and not reply.tool_calls
        reason = "max_output_tokens" if reply.finish_reason == "length" else "content_filter"
        return _response(
            ask,
            reply.id,
            status="incomplete" if short else "completed",
            model=model_name(ask, reply),
            output=output,
            incomplete_details={"reason": reason} if short else None,
            usage=_usage(reply),
            edgewise=dict(extra),
        )

    def writer(self, ask: Ask, request_id: str) -> ResponsesWriter:
        return ResponsesWriter(ask, request_id)

    def error(self, fault: Fault) -> dict[str, Any]:
        return openai_error(fault)


class ResponsesWriter:
    """`response.*` events, numbered from 0."""

    def __init__(self, ask: Ask, request_id: str) -> None:
        self._ask = ask
        self._id = request_id
        self._number = 0
        self._texts: list[str] = []
        self._tokens: list[Token] = []

    def begin(self, opening: Opening) -> Iterator[bytes]:
        begun = _response(self._ask, self._id, status="in_progress", edgewise=opening.to_dict())
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)

    def text(self, delta: TextDelta) -> Iterator[bytes]:
        if not self._texts:
            item = _message(self._id, [], status="in_progress")
            yield self._event("response.output_item.added", output_index=0, item=item)
            yield self._part("response.content_part.added", part=_text(self._ask, "", ()))
        self._texts.append(delta.text)
        self._tokens += delta.tokens
        wanted = self._ask.logprobs
        evidence = logprobs(delta.tokens, wanted)["content"] if wanted is not None else []
        yield self._part("response.output_text.delta", delta=delta.text, logprobs=evidence)

    def switched(self, event: Switched) -> Iterator[bytes]:
        said = switch_note(event)
        going = _response(self._ask, self._id, status="in_progress", edgewise=said)
        yield self._event("response.in_progress", response=going)

    def end(self, reply: Reply, extra: Mapping[str, Any]) -> Iterator[bytes]:
        if self._texts:
            yield from self._end_of_text(reply)
        first = 1 if self._texts else 0
        for number in range(len(reply.tool_calls)):
            yield from self._call(_call(reply, number), first + number)
        whole = ResponsesWire().whole(self._ask, reply, extra)
        yield self._event(f"response.{whole['status']}", response=whole)

    def failed(self, fault: Fault) -> Iterator[bytes]:
        error = {"code": fault.code, "message": fault.message}
        broken = _response(self._ask, self._id, status="failed", error=error)
        yield self._event("response.failed", response=broken)

    def _end_of_text(self, reply: Reply) -> Iterator[bytes]:
        part = _text(self._ask, "".join(self._texts), self._tokens)
        done = {"text": part["text"], "logprobs": part["logprobs"]}
        yield self._part("response.output_text.done", **done)
        yield self._part("response.content_part.done", part=part)
        item = _message(self._id, [part])
        yield self._event("response.output_item.done", output_index=0, item=item)

    def _call(self, item: Mapping[str, Any], index: int) -> Iterator[bytes]:
        begun = {**item, "arguments": "", "status": "in_progress"}
        yield self._event("response.output_item.added", output_index=index, item=begun)
        place = {"item_id": item["id"], "output_index": index}
        arguments = item["arguments"]
        yield self._event("response.function_call_arguments.delta", **place, delta=arguments)
        yield self._event(
            "response.function_call_arguments.done",
            **place,
            name=item["name"],
            arguments=arguments,
        )
        yield self._event("response.output_item.done", output_index=index, item=item)

    def _part(self, kind: str, **fields: Any) -> bytes:
        place = {"item_id": f"msg_{self._id}", "output_index": 0, "content_index": 0}
        return self._event(kind, **place, **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        return sse({"type": kind, "sequence_number": number, **fields}, kind)


def _response(ask: Ask, request_id: str, **fields: Any) -> dict[str, Any]:
    """Everything the official client expects to find, changed by `fields`."""
    return {
        "id": f"resp_{request_id}",
        "object": "response",
        "created_at": ask.created,
        "status": "in_progress",
        "model": ask.model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": dict(ask.metadata.values),
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": False,
        "temperature": ask.options.get("temperature", 0.0),
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        **fields,
    }


def _message(
    request_id: str, content: list[dict[str, Any]], *, status: str = "completed"
) -> dict[str, Any]:
    return {
        "id": f"msg_{request_id}",
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }


def _text(ask: Ask, text: str, tokens: Any) -> dict[str, Any]:
    evidence = logprobs(tokens, ask.logprobs)["content"] if ask.logprobs is not None else []
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": evidence}


def _call(reply: Reply, number: int) -> dict[str, Any]:
    name, call = call_ids(reply)[number]
    return {
        "id": f"fc_{reply.id}_{number}",
        "type": "function_call",
        "status": "completed",
        "call_id": name,
        "name": call.name,
        "arguments": arguments_text(call),
    }


def _usage(reply: Reply) -> dict[str, Any]:
    counted = answered_usage(reply)
    return {
        "input_tokens": counted.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": counted.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": counted.input_tokens + counted.output_tokens,
    }
