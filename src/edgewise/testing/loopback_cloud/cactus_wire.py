"""Cactus Cloud's text and speech endpoints on the wire. It never streams or reports usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgewise.testing.loopback_cloud.wire import (
    Answer,
    Event,
    Route,
    Status,
    decoded,
    fault_message,
    retry_after_header,
)


class CactusWire:
    name = "cactus"

    def route(
        self, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> Route | None:
        if method == "POST" and path == "/api/v1/text":
            return Route(self, model=str(body.get("model", "")), required=("text",))
        if method == "POST" and path == "/api/v1/transcribe":
            return Route(
                self,
                required=("audio", "mime_type"),
                audio=decoded(body.get("audio")),
                shape=lambda answer: {"transcript": answer.text},
            )
        return None

    def whole(self, answer: Answer, model: str) -> dict[str, Any]:
        calls = [
            {"name": call.name, "arguments": dict(call.arguments)} for call in answer.tool_calls
        ]
        return {"text": answer.text, "function_calls": calls}

    def events(self, answer: Answer, model: str, body: Mapping[str, Any]) -> list[Event]:
        return []

    def error(self, fault: Status) -> dict[str, Any]:
        # The service documents no error body; this is the simplest possible one.
        return {"error": fault_message(fault)}

    def error_event(self, fault: Status) -> bytes:
        return b""

    def broken_event(self) -> bytes:
        return b""

    def error_headers(self, fault: Status) -> dict[str, str]:
        return retry_after_header(fault)

    def models(self, names: Sequence[str]) -> dict[str, Any]:
        return {}
