"""Anthropic's messages: the shapes of answers, whole and streamed, and of errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from edgewise.server.faults import Fault
from edgewise.server.fields import Fields
from edgewise.server.messages_request import read_messages
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
from edgewise.types.replies import Reply, Switched, TextDelta

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
