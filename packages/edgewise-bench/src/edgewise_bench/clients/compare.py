"""What a client sent beside what the cloud got, and what the cloud said beside what arrived."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgewise.testing import SeenRequest
from edgewise.types.messages import ToolCall
from edgewise_bench.clients.script import as_sent, tool_names
from edgewise_bench.clients.tap import Exchange

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_PROVIDERS_HEADERS = ("anthropic-beta", "anthropic-version", "openai-beta")
_CUT = ("length", "max_tokens", "max_output_tokens", "MAX_TOKENS")


@dataclass(slots=True)
class Found:
    """What is wrong with the requests of one client. Paths name what did not arrive."""

    tools_lost: int = 0
    arguments_changed: int = 0
    cut_by_us: int = 0
    fields_lost: set[str] = field(default_factory=set)

    def compare(self, asked: Exchange, arrived: SeenRequest, calls: list[ToolCall]) -> None:
        ours, theirs = as_json(asked.body), arrived.body
        here, there = list(tool_names(ours.get("tools"))), list(tool_names(theirs.get("tools")))
        self.tools_lost += sum(name not in there for name in here)
        self.fields_lost |= set(lost(_named_alike(ours), _named_alike(theirs)))
        self.fields_lost |= {
            name
            for name in _PROVIDERS_HEADERS
            if name in asked.headers and asked.headers[name] != arrived.headers.get(name)
        }
        self.cut_by_us += _limit(theirs) < _limit(ours) or ending(asked.reply) in _CUT
        heard = list(calls_in(asked.reply))
        self.arguments_changed += sum(as_sent(call) not in heard for call in calls)
        self.arguments_changed += max(0, len(heard) - len(calls))


def as_json(body: bytes) -> dict[str, Any]:
    value = json.loads(body or b"{}")
    return value if isinstance(value, dict) else {}


def _named_alike(body: Mapping[str, Any]) -> dict[str, Any]:
    """Without the model, which a route chooses. Newer models want another name for the limit."""
    found = {name: value for name, value in body.items() if name not in ("model", *_LIMITS)}
    limits = [body[name] for name in _LIMITS if name in body]
    return {**found, "limit": limits} if limits else found


def lost(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """The places of our value that are missing or different in theirs. All items have one place.

    A picture leaves without its metadata, which may say where it was taken: it must be there.
    """
    if _is_picture(ours) and _is_picture(theirs):
        return
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name, value in ours.items():
            place = f"{path}.{name}" if path else name
            if name in theirs:
                yield from lost(value, theirs[name], place)
            elif value is not None:  # which says nothing
                yield place
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for one, other in zip(ours, theirs, strict=True):
            yield from lost(one, other, f"{path}[]")
    elif ours != theirs or type(ours) is not type(theirs):
        yield path


def _is_picture(value: Any) -> bool:
    if isinstance(value, dict):
        return str(value.get("media_type")).startswith("image/") and bool(value.get("data"))
    return isinstance(value, str) and value.startswith("data:image/")


def _limit(body: Mapping[str, Any]) -> float:
    return next((float(body[name]) for name in _LIMITS if body.get(name)), float("inf"))


def events(reply: bytes) -> Iterator[dict[str, Any]]:
    """The JSON of a reply, or of each event of a stream."""
    if reply.lstrip().startswith(b"{"):
        yield as_json(reply)
        return
    for line in reply.splitlines():
        if line.startswith(b"data:") and (text := line[5:].strip()) != b"[DONE]":
            yield as_json(text)


def calls_in(reply: bytes) -> Iterator[tuple[str, str]]:
    """The name and the arguments, as they are written, of every call in any protocol's reply."""
    pieces: dict[object, list[str]] = {}
    for event in events(reply):
        found = (*_of_chat(event), *_of_message(event), *_of_response(event), *_of_gemini(event))
        for place, name, arguments in found:
            held = pieces.setdefault(place, ["", ""])
            held[0] += name
            held[1] += arguments
    for name, arguments in pieces.values():
        if name:  # else a tool of the provider
            yield name, arguments


Piece = tuple[object, str, str]  # a place, and what is added to its name and arguments


def _of_chat(event: Mapping[str, Any]) -> Iterator[Piece]:
    for choice in event.get("choices") or ():
        written = choice.get("delta") or choice.get("message") or {}
        for at, call in enumerate(written.get("tool_calls") or ()):
            function = call["function"]
            name, arguments = function.get("name") or "", function.get("arguments") or ""
            yield call.get("index", at), name, arguments


def _of_message(event: Mapping[str, Any]) -> Iterator[Piece]:
    if event.get("type") == "message":
        for block in event["content"]:
            if block["type"] == "tool_use":
                yield block["id"], block["name"], json.dumps(block["input"])
    block, delta = event.get("content_block") or {}, event.get("delta") or {}
    if block.get("type") == "tool_use":
        yield event["index"], block["name"], ""
    if isinstance(delta, dict) and "partial_json" in delta:
        yield event["index"], "", delta["partial_json"]


def _of_response(event: Mapping[str, Any]) -> Iterator[Piece]:
    for item in (event.get("response") or event).get("output") or ():
        if item["type"] == "function_call":
            yield item["call_id"], item["name"], item["arguments"]


def _of_gemini(event: Mapping[str, Any]) -> Iterator[Piece]:
    for candidate in event.get("candidates") or ():
        for at, part in enumerate((candidate.get("content") or {}).get("parts") or ()):
            if call := part.get("functionCall"):
                yield call.get("id", at), call["name"], json.dumps(call.get("args") or {})


def ending(reply: bytes) -> str:
    """Why the answer ended, in the words of its protocol."""
    found = ""
    for event in events(reply):
        for choice in event.get("choices") or ():
            found = choice.get("finish_reason") or found
        for candidate in event.get("candidates") or ():
            found = candidate.get("finishReason") or found
        if event.get("type") in ("message_delta", "message"):
            found = (event.get("delta") or event).get("stop_reason") or found
        short = (event.get("response") or event).get("incomplete_details") or {}
        found = short.get("reason") or found
    return found
