"""Anthropic's messages on the wire, streamed and whole."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from edgewise.testing.loopback_cloud.wire import (
    Answer,
    Event,
    Route,
    Status,
    fault_message,
    retry_after_header,
    sse,
)

_FINISH = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "filtered": "refusal",
}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class AnthropicWire:
    name = "anthropic"

    def route(
        self, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> Route | None:
        if method == "POST" and path == "/v1/messages":
            return Route(
                self,
                model=str(body.get("model", "")),
                stream=body.get("stream") is True,
                required=("model", "max_tokens", "messages"),
            )
        # OpenAI lists its models at the same path; only Anthropic's clients send this header.
        if method == "GET" and path == "/v1/models" and "anthropic-version" in headers:
            return Route(self, lists_models=True)
        return None

    def whole(self, answer: Answer, model: str) -> dict[str, Any]:
        content = [{"type": "text", "text": answer.text}] if answer.text else []
        return {
            **_message(answer, model),
            "content": content + _calls(answer, with_input=True),
            "stop_reason": _FINISH[answer.finish_reason],
            "usage": {**_input_usage(answer), **_output_usage(answer)},
        }

    def events(self, answer: Answer, model: str, body: Mapping[str, Any]) -> list[Event]:
        events = [
            _event("message_start", message=_message(answer, model)),
            _event("ping"),
        ]
        blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
        if answer.text:
            texts = answer.pieces(answer.text)
            deltas: list[dict[str, Any]] = [{"type": "text_delta", "text": part} for part in texts]
            blocks.append(({"type": "text", "text": ""}, deltas))
        for block, call in zip(_calls(answer, with_input=False), answer.tool_calls, strict=True):
            arguments = answer.pieces(json.dumps(dict(call.arguments)))
            # Anthropic opens every call with an empty piece.
            deltas = [
                {"type": "input_json_delta", "partial_json": part} for part in ["", *arguments]
            ]
            blocks.append((block, deltas))
        for index, (block, deltas) in enumerate(blocks):
            events.append(_event("content_block_start", index=index, content_block=block))
            events += [
                _event("content_block_delta", carries=True, index=index, delta=delta)
                for delta in deltas
            ]
            events.append(_event("content_block_stop", index=index))
        end = {"stop_reason": _FINISH[answer.finish_reason], "stop_sequence": None}
        usage = _output_usage(answer)
        return [*events, _event("message_delta", delta=end, usage=usage), _event("message_stop")]

    def error(self, fault: Status) -> dict[str, Any]:
        kind = _ERRORS.get(
            fault.status, "api_error" if fault.status >= 500 else "invalid_request_error"
        )
        return {
            "type": "error",
            "error": {"type": kind, "message": fault_message(fault)},
            "request_id": "req_loopback",
        }

    def error_event(self, fault: Status) -> bytes:
        return sse(self.error(fault), event="error")

    def broken_event(self) -> bytes:
        return sse('{"type": "content_block_delta", "delta": {"te', event="content_block_delta")

    def error_headers(self, fault: Status) -> dict[str, str]:
        return retry_after_header(fault)

    def models(self, names: Sequence[str]) -> dict[str, Any]:
        rows = [
            {
                "type": "model",
                "id": name,
                "display_name": name,
                "created_at": "2026-01-01T00:00:00Z",
            }
            for name in names
        ]
        return {"data": rows, "has_more": False, "first_id": None, "last_id": None}


def _message(answer: Answer, model: str) -> dict[str, Any]:
    return {
        "id": "msg_loopback",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        # The final count comes with message_delta; a reader that stops here counts wrongly.
        "usage": {**_input_usage(answer), "output_tokens": 1},
    }


def _input_usage(answer: Answer) -> dict[str, Any]:
    return {
        # Unlike the others, Anthropic does not include cached tokens here.
        "input_tokens": answer.input_tokens - answer.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": answer.cached_tokens,
    }


def _output_usage(answer: Answer) -> dict[str, Any]:
    usage: dict[str, Any] = {"output_tokens": answer.output_tokens}
    if answer.reasoning_tokens:
        usage["output_tokens_details"] = {"thinking_tokens": answer.reasoning_tokens}
    return usage


def _calls(answer: Answer, *, with_input: bool) -> list[dict[str, Any]]:
    return [
        {
            "type": "tool_use",
            "id": call.id or f"toolu_loopback_{index}",
            "name": call.name,
            "input": dict(call.arguments) if with_input else {},
        }
        for index, call in enumerate(answer.tool_calls)
    ]


def _event(kind: str, *, carries: bool = False, **fields: Any) -> Event:
    return Event(sse({"type": kind, **fields}, event=kind), carries)
