"""The whole description: every path with what it takes and gives, served as `/openapi.json`."""

from __future__ import annotations

from functools import cache
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

import edgewise
from edgewise.server.dashboard.page import (
    KINDS,
    files,
)
from edgewise.server.metrics import CONTENT_TYPE
from edgewise.server.openapi import answers, looks, questions, reports
from edgewise.server.openapi.shapes import TEXT, WORD, Schema, choice, either, named, said
from edgewise.server.routing import HEADER
from edgewise.server.wire import to_json

VERSION = "3.1.0"
EVENTS = "text/event-stream"
WORDS = {
    "400": "a field is wrong, or the request does not fit",
    "401": "no key, or a wrong one",
    "403": "Host or Origin not allowed",
    "404": "no such thing",
    "408": "the body took too long to arrive",
    "413": "the body is too large",
    "429": "busy, too often, or the budget is spent; Retry-After where waiting helps",
    "4XX": "the cloud's own refusal of the request",
    "500": "the server failed",
    "501": "an extra is not installed; the message names the command",
    "502": "the cloud failed",
    "503": "no local model, or the cloud is closed",
    "504": "it took too long",
}
GUARDED = ("401", "403", "429")
READ = (*GUARDED, "500")  # by a thread, from the ledger or from memory
ANSWERED = ("400", *GUARDED, "404", "408", "413", "4XX", "500", "501", "502", "503", "504")
SHAPES: dict[str, Schema] = {
    "ChatMessage": questions.CHAT_MESSAGE,
    "ResponseItem": questions.RESPONSE_ITEM,
    "Turn": questions.TURN,
    "Report": reports.REPORT,
    "SpeechReport": reports.SPEECH_REPORT,
    "Error": reports.ERROR,
    "AnthropicError": reports.ANTHROPIC_ERROR,
    "Model": answers.MODEL,
}
INTRODUCTION = (
    "Any client of OpenAI's or Anthropic's API, answered on the device where it is sure and by "
    "your cloud where it is not. Fields that are not described are ignored, a described one of "
    "the wrong type is a 400 that names it, and bodies may be nested 64 deep. "
    "`/v1/realtime` is a WebSocket and beyond this description: see docs/server.md."
)


async def description(_: Request) -> Response:
    """Made once; there is nothing in it that a stranger may not know."""
    return Response(_written(), media_type="application/json")


@cache
def _written() -> bytes:
    return to_json(document())


def document() -> dict[str, Any]:
    return {
        "openapi": VERSION,
        "info": {
            "title": "edgewise",
            "version": edgewise.__version__,
            "description": INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {path: _operations(path) for path in dict.fromkeys(path for _, path in _PATHS)},
        "components": {
            "schemas": SHAPES,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
        "security": [{}, {"bearer": []}, {"header": []}],
    }


def _operations(path: str) -> dict[str, Any]:
    return {method: made for (method, where), made in _PATHS.items() if where == path}


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _refusals(statuses: tuple[str, ...], shape: str = "Error") -> dict[str, Any]:
    return {
        status: {"description": WORDS[status], "content": _json(named(shape))}
        for status in statuses
    }


def _routing(**more: Schema) -> list[dict[str, Any]]:
    return [
        {"name": HEADER + name.replace("_", "-"), "in": "header", "schema": schema}
        for name, schema in (questions.ROUTING | more).items()
    ]


def _answer(words: str, content: dict[str, Any]) -> dict[str, Any]:
    """An answer of a model: its headers say in short where it is from."""
    always = ("id", "source")
    shown = {
        HEADER + name: {"schema": schema, "required": name in always and EVENTS not in content}
        for name, schema in {
            "id": WORD,
            "source": reports.SOURCE,
            "reason": WORD,
            "cost": WORD,
            "confidence": WORD,
            "degraded": WORD,
        }.items()
    }
    return {"description": words, "headers": shown, "content": content}


def _asking(
    name: str, words: str, body: Schema, content: dict[str, Any], shape: str = "Error", **more: Any
) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": words,
        "parameters": _routing(**more),
        "requestBody": {"required": True, "content": _json(body)},
        "responses": {"200": _answer(words, content)} | _refusals(ANSWERED, shape),
    }


def _looking(
    name: str,
    words: str,
    content: dict[str, Any],
    refused: tuple[str, ...] = READ,
    /,
    **path: Schema,
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": name,
        "summary": words,
        "responses": {"200": {"description": words, "content": content}} | _refusals(refused),
    }
    parameters = [
        {"name": part, "in": "path", "required": True, "schema": schema}
        for part, schema in path.items()
    ]
    return found | ({"parameters": parameters} if parameters else {})


def _hearing() -> dict[str, Any]:
    made = _asking(
        "transcribe",
        "What is said in a sound file",
        questions.TRANSCRIPTION,
        _streamed(answers.TRANSCRIPT) | {"text/plain": {"schema": TEXT}},
    )
    form = {"schema": questions.TRANSCRIPTION}
    return made | {"requestBody": {"required": True, "content": {"multipart/form-data": form}}}


def _ready() -> dict[str, Any]:
    made = _looking("ready", "Whether it takes requests", _json(looks.READY), ("403",))
    made["responses"]["503"] = {
        "description": "starting or stopping",
        "content": _json(looks.READY),
    }
    return made


def _streamed(shape: Schema) -> dict[str, Any]:
    """JSON; with `stream`, events, whose shapes this language has no words for."""
    return _json(shape) | {EVENTS: {}}


_SINCE = said(
    "30m, 24h, 7d, or a date or time in UTC",
    either(
        {"type": "string", "pattern": "^[0-9]{1,6}[smhdw]$"},
        {"type": "string", "format": "date"},
        {"type": "string", "format": "date-time"},
    ),
)
_PAGE = {"text/html": {"schema": TEXT}}
_FILE = {kind.partition(";")[0]: {"schema": TEXT} for kind in KINDS.values()}
_PATHS: dict[tuple[str, str], dict[str, Any]] = {
    ("post", "/v1/chat/completions"): _asking(
        "chat", "OpenAI's chat", questions.CHAT, _streamed(answers.CHAT)
    ),
    ("post", "/v1/responses"): _asking(
        "respond", "OpenAI's responses", questions.RESPONSE, _streamed(answers.RESPONSE)
    ),
    ("post", "/v1/messages"): _asking(
        "message",
        "Anthropic's messages",
        questions.MESSAGES,
        _streamed(answers.MESSAGE),
        "AnthropicError",
    ),
    ("post", "/v1/embeddings"): _asking(
        "embed",
        "OpenAI's embeddings",
        questions.EMBEDDINGS,
        _json(answers.EMBEDDINGS),
        space=questions.ROUTING_WORD,
    ),
    ("post", "/v1/audio/transcriptions"): _hearing(),
    ("get", "/v1/models"): _looking("models", "The names a request may use", _json(answers.MODELS)),
    ("get", "/v1/models/{model}"): _looking(
        "model", "One of those names", _json(named("Model")), (*READ, "404"), model=WORD
    ),
    ("get", "/metrics"): _looking(
        "metrics", "Counts for Prometheus", {CONTENT_TYPE: {"schema": TEXT}}
    ),
    ("get", "/edgewise/overview/{since}"): _looking(
        "overview", "Totals", _json(looks.OVERVIEW), (*READ, "400", "503"), since=_SINCE
    ),
    ("get", "/edgewise/confidences/{since}"): _looking(
        "confidences", "Judged requests", _json(looks.CONFIDENCES), (*READ, "400"), since=_SINCE
    ),
    ("get", "/edgewise/requests"): _looking("requests", "The latest", _json(looks.RECENT)),
    ("get", "/edgewise/requests/{id}"): _looking(
        "request", "One with its attempts", _json(looks.ONE_REQUEST), (*READ, "404"), id=WORD
    ),
    ("get", "/edgewise/events"): _looking(
        "events", "Requests as they end, until you leave", {EVENTS: {}}
    ),
    ("get", "/healthz"): _looking("alive", "Whether it lives", _json(looks.ALIVE), ("403",)),
    ("get", "/readyz"): _ready(),
    ("get", "/openapi.json"): _looking(
        "description", "This description", _json({"type": "object"}), ("403",)
    ),
    ("get", "/"): _looking("page", "The dashboard", _PAGE, ("403",)),
    ("get", "/dashboard/{name}"): _looking(
        "file", "A file of the dashboard", _FILE, ("403", "404"), name=choice(*files())
    ),
}
