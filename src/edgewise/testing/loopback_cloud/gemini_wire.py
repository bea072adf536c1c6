"""Gemini's generateContent, streamed and whole, and its embeddings on the wire."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from edgewise.testing.loopback_cloud.wire import (
    DIMENSIONS,
    Answer,
    Event,
    Route,
    Status,
    decoded,
    fault_message,
    sse,
    vectors_for,
)

_GENERATE = re.compile(
    r"/v1(?:beta|alpha)?/models/([^/:]+):(streamGenerateContent|generateContent)"
)
_EMBED = re.compile(r"/v1(?:beta|alpha)?/models/([^/:]+):batchEmbedContents")
_LIST = re.compile(r"/v1(?:beta|alpha)?/models")
# Gemini has no reason of its own for tool calls.
_FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP", "filtered": "SAFETY"}
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_NEWLINE = "\r\n"  # Google's streams use it; a reader that splits on "\n\n" alone sees no event


class GeminiWire:
    name = "gemini"

    def route(
        self, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> Route | None:
        found = _GENERATE.fullmatch(path)
        if method == "POST" and found:
            return Route(
                self,
                model=found[1],
                stream=found[2] == "streamGenerateContent",
                required=("contents",),
                audio=_sound_in(body.get("contents")),
            )
        found = _EMBED.fullmatch(path)
        if method == "POST" and found:
            return Route(
                self,
                model=found[1],
                required=("requests",),
                shape=functools.partial(_embeddings, body),
            )
        # OpenAI lists its models at /v1/models too; only Google's clients send this header.
        if method == "GET" and _LIST.fullmatch(path) and "x-goog-api-key" in headers:
            return Route(self, lists_models=True)
        return None

    def whole(self, answer: Answer, model: str) -> dict[str, Any]:
        parts = ([{"text": answer.text}] if answer.text else []) + _calls(answer)
        return _response(answer, model, parts, last=True)

    def events(self, answer: Answer, model: str, body: Mapping[str, Any]) -> list[Event]:
        parts = [{"text": piece} for piece in answer.pieces(answer.text)] + _calls(answer)
        events = [
            Event(sse(_response(answer, model, [part], last=False), newline=_NEWLINE), True)
            for part in parts
        ]
        # The reason has its own event, so that a cut before it is seen as a cut.
        end = _response(answer, model, [{"text": ""}] if parts else [], last=True)
        return [*events, Event(sse(end, newline=_NEWLINE))]

    def error(self, fault: Status) -> dict[str, Any]:
        error: dict[str, Any] = {
            "code": fault.status,
            "message": fault_message(fault),
            "status": _STATUS.get(fault.status, "UNKNOWN"),
        }
        if fault.retry_after_s is not None:
            error["details"] = [
                {
                    "@type": "type.googleapis.com/google.rpc.RetryInfo",
                    "retryDelay": f"{fault.retry_after_s:g}s",
                }
            ]
        return {"error": error}

    def error_event(self, fault: Status) -> bytes:
        return sse(self.error(fault), newline=_NEWLINE)

    def broken_event(self) -> bytes:
        return sse('{"candidates": [{"content": {"parts": [{"te', newline=_NEWLINE)

    def error_headers(self, fault: Status) -> dict[str, str]:
        return {}  # Gemini says in the body how long to wait

    def models(self, names: Sequence[str]) -> dict[str, Any]:
        rows = [
            {
                "name": f"models/{name}",
                "displayName": name,
                "supportedGenerationMethods": ["generateContent"],
            }
            for name in names
        ]
        return {"models": rows}


def _sound_in(contents: Any) -> bytes:
    """The first inline sound of a conversation."""
    with contextlib.suppress(AttributeError, TypeError):  # a shape that no Google client sends
        for part in (part for turn in contents or () for part in turn.get("parts") or ()):
            inline = part.get("inlineData") or {}
            kind = inline.get("mimeType") or inline.get("mime_type")  # Google accepts either
            if str(kind).startswith("audio/"):
                return decoded(inline.get("data"))
    return b""


def _embeddings(body: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    texts = [
        "".join(part.get("text", "") for part in each["content"]["parts"])
        for each in body["requests"]
    ]
    wanted = [each.get("outputDimensionality") for each in body["requests"]]
    vectors = vectors_for(answer, texts, int((wanted and wanted[0]) or DIMENSIONS))
    return {
        "embeddings": [{"values": list(vector)} for vector in vectors],
        "usageMetadata": {"promptTokenCount": answer.input_tokens},
    }


def _calls(answer: Answer) -> list[dict[str, Any]]:
    """Gemini sends each call whole, never in pieces."""
    calls = []
    for call in answer.tool_calls:
        shape: dict[str, Any] = {"name": call.name, "args": dict(call.arguments)}
        if call.id:
            shape["id"] = call.id
        calls.append({"functionCall": shape})
    return calls


def _response(
    answer: Answer, model: str, parts: list[dict[str, Any]], *, last: bool
) -> dict[str, Any]:
    content: dict[str, Any] = {"role": "model"}
    if parts:
        content["parts"] = parts
    candidate: dict[str, Any] = {"content": content, "index": 0}
    if last:
        candidate["finishReason"] = _FINISH[answer.finish_reason]
    return {
        "candidates": [candidate],
        "usageMetadata": _usage(answer, last=last),
        "modelVersion": model,
        "responseId": "loopback",
    }


def _usage(answer: Answer, *, last: bool) -> dict[str, Any]:
    usage: dict[str, Any] = {
        "promptTokenCount": answer.input_tokens,
        "totalTokenCount": answer.input_tokens,
    }
    if answer.cached_tokens:
        usage["cachedContentTokenCount"] = answer.cached_tokens
    if answer.audio_tokens:
        words = answer.input_tokens - answer.audio_tokens
        usage["promptTokensDetails"] = [
            {"modality": "TEXT", "tokenCount": words},
            {"modality": "AUDIO", "tokenCount": answer.audio_tokens},
        ]
    if last:
        # Unlike the others, Gemini does not count thoughts as part of the answer.
        usage["candidatesTokenCount"] = answer.output_tokens - answer.reasoning_tokens
        usage["totalTokenCount"] += answer.output_tokens
        if answer.reasoning_tokens:
            usage["thoughtsTokenCount"] = answer.reasoning_tokens
    return usage
