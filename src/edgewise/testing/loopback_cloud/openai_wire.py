"""OpenAI's chat completions, transcriptions and embeddings on the wire."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from edgewise.testing.loopback_cloud.wire import (
    DIMENSIONS,
    Answer,
    Event,
    Route,
    Status,
    fault_message,
    retry_after_header,
    sse,
    vectors_for,
)
from edgewise.types.messages import ToolCall

_FINISH = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "filtered": "content_filter",
}
_ERRORS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}
_HEAD = {"id": "chatcmpl-loopback", "created": 1_760_000_000, "system_fingerprint": "fp_loopback"}


class OpenAIWire:
    name = "openai"

    def route(
        self, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> Route | None:
        if method == "POST" and path == "/v1/chat/completions":
            return Route(
                self,
                model=str(body.get("model", "")),
                stream=body.get("stream") is True,
                required=("model", "messages"),
            )
        if method == "POST" and path == "/v1/audio/transcriptions":
            file = body.get("file")
            return Route(
                self,
                model=str(body.get("model", "")),
                required=("file", "model"),
                audio=file if isinstance(file, bytes) else b"",
                shape=_transcription,
            )
        if method == "POST" and path == "/v1/embeddings":
            return Route(
                self,
                model=str(body.get("model", "")),
                required=("input", "model"),
                shape=functools.partial(_embeddings, body),
            )
        if method == "GET" and path == "/v1/models":
            return Route(self, lists_models=True)
        return None

    def whole(self, answer: Answer, model: str) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            # OpenAI sends null, not "", beside tool calls.
            "content": answer.text if answer.text or not answer.tool_calls else None,
            "refusal": None,
        }
        if answer.tool_calls:
            message["tool_calls"] = [
                {
                    "id": _call_id(call, index),
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))},
                }
                for index, call in enumerate(answer.tool_calls)
            ]
        finish = _FINISH[answer.finish_reason]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        return {
            **_HEAD,
            "object": "chat.completion",
            "model": model,
            "choices": [choice],
            "usage": _usage(answer),
        }

    def events(self, answer: Answer, model: str, body: Mapping[str, Any]) -> list[Event]:
        options = body.get("stream_options")
        usage_wanted = isinstance(options, dict) and options.get("include_usage") is True

        def chunk(
            delta: dict[str, Any], finish: str | None = None, *, carries: bool = False
        ) -> Event:
            data: dict[str, Any] = {
                **_HEAD,
                "object": "chat.completion.chunk",
                "model": model,
                "choices": [
                    {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
                ],
            }
            if usage_wanted:
                data["usage"] = None
            return Event(sse(data), carries)

        events = [chunk({"role": "assistant", "content": "", "refusal": None})]
        events += [chunk({"content": piece}, carries=True) for piece in answer.pieces(answer.text)]
        for index, call in enumerate(answer.tool_calls):
            events += [
                chunk({"tool_calls": [delta]}, carries=True)
                for delta in _call_deltas(answer, call, index)
            ]
        events.append(chunk({}, _FINISH[answer.finish_reason]))
        if usage_wanted:
            last = {
                **_HEAD,
                "object": "chat.completion.chunk",
                "model": model,
                "choices": [],
                "usage": _usage(answer),
            }
            events.append(Event(sse(last)))
        return [*events, Event(sse("[DONE]"))]

    def error(self, fault: Status) -> dict[str, Any]:
        kind, code = _ERRORS.get(
            fault.status,
            ("server_error" if fault.status >= 500 else "invalid_request_error", None),
        )
        return {
            "error": {"message": fault_message(fault), "type": kind, "param": None, "code": code}
        }

    def error_event(self, fault: Status) -> bytes:
        return sse(self.error(fault))

    def broken_event(self) -> bytes:
        return sse('{"id": "chatcmpl-loopback", "choices": [{"delta": {"cont')

    def error_headers(self, fault: Status) -> dict[str, str]:
        return retry_after_header(fault)

    def models(self, names: Sequence[str]) -> dict[str, Any]:
        rows = [
            {"id": name, "object": "model", "created": 1_760_000_000, "owned_by": "loopback"}
            for name in names
        ]
        return {"object": "list", "data": rows}


def _call_id(call: ToolCall, index: int) -> str:
    return call.id or f"call_loopback_{index}"


def _call_deltas(answer: Answer, call: ToolCall, index: int) -> list[dict[str, Any]]:
    """The name comes first with empty arguments, which follow in pieces."""
    opening = {
        "index": index,
        "id": _call_id(call, index),
        "type": "function",
        "function": {"name": call.name, "arguments": ""},
    }
    arguments = answer.pieces(json.dumps(dict(call.arguments)))
    return [opening] + [{"index": index, "function": {"arguments": part}} for part in arguments]


def _transcription(answer: Answer) -> dict[str, Any]:
    if answer.audio_seconds:  # models billed by time report nothing else
        return {
            "text": answer.text,
            "usage": {"type": "duration", "seconds": answer.audio_seconds},
        }
    usage = {
        "type": "tokens",
        "input_tokens": answer.input_tokens,
        "input_token_details": {
            "audio_tokens": answer.audio_tokens,
            "text_tokens": answer.input_tokens - answer.audio_tokens,
        },
        "output_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
    }
    return {"text": answer.text, "usage": usage}


def _embeddings(body: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    given = body["input"]
    texts = [given] if isinstance(given, str) else list(given)
    vectors = vectors_for(answer, texts, int(body.get("dimensions") or DIMENSIONS))
    rows = [
        {"object": "embedding", "index": index, "embedding": list(vector)}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": answer.input_tokens, "total_tokens": answer.input_tokens}
    return {"object": "list", "model": body["model"], "data": rows, "usage": usage}


def _usage(answer: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
    }
