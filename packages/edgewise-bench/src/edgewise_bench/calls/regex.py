"""The baseline without a model: regular expressions that know types and words, and no tool.

It takes a request apart at "and", "then", commas and full stops, takes for each part the first
tool that shares most words with it, and fills arguments with what looks like them. It is here to
show how far patterns alone go, and is written to be fair, not to win.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgewise.calibrate.rows import Call
from edgewise.types.messages import Tool

_JOINTS = re.compile(r"\s*(?:[,;.!?]\s+|\s)(?:and then|and also|and|then|also)\s+|[;,.!?]\s+")
_WORDS = re.compile(r"[a-z]{3,}")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?")
_TIME = re.compile(r"\b(\d{1,2})(?::(\d{2}))?\s*([ap])\.?m\b\.?|\b(\d{1,2}):(\d{2})\b", re.I)
_AT_TIME = re.compile(rf"\s*\b(?:at |by |for )?(?:{_TIME.pattern})", re.I)
_DATE = re.compile(
    r"\b(?:\d{4}-\d{2}-\d{2}|today|tonight|tomorrow|(?:next |on )?"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b",
    re.I,
)
_QUOTED = re.compile(r"[\"\u201c]([^\"\u201d]{2,})[\"\u201d]|(?<!\w)'([^']{2,})'(?!\w)")
_NAMES = re.compile(r"(?<!^)(?<!\w)[A-Z][\w'-]*(?:\s+[A-Z][\w'-]*)*")
_SAID = re.compile(r"\b(?:saying|says|say|that|about|to say|called|named|titled)\s+(.+)", re.I)
_AFTER = re.compile(
    r"\b(?:in|to|for|at|of|from|on|with|play|find|search)\s+(?:the |my |a )?(.+)", re.I
)
_NO = re.compile(r"\b(?:no|not|off|without|disable|stop|don't)\b", re.I)
_LONG_TEXT = ("message", "text", "body", "content", "note", "title", "description")
_PLAIN = {"the", "and", "for", "with", "this", "that", "from", "given", "get", "set", "use", "are"}


def regex_calls(request: str, tools: Sequence[Tool]) -> list[Call]:
    """The calls that patterns find in a request; none where no tool shares a word with it."""
    calls: list[Call] = []
    for part in _parts(request, tools):
        tool = _first_tool(part, tools)
        if tool is not None and (arguments := _arguments(part, tool)) is not None:
            calls.append((tool.name, arguments))
    return calls


def _parts(request: str, tools: Sequence[Tool]) -> list[str]:
    """Pieces between joints; one that speaks of no tool belongs to the piece before it."""
    parts: list[str] = []
    begin = 0
    for boundary in (*_JOINTS.finditer(request), None):
        piece = request[begin : boundary.start() if boundary else len(request)]
        if parts and _first_tool(piece, tools) is None:
            parts[-1] = request[request.find(parts[-1]) : begin + len(piece)]
        elif piece.strip():
            parts.append(piece)
        begin = boundary.end() if boundary else begin
    return parts


def _first_tool(text: str, tools: Sequence[Tool]) -> Tool | None:
    words = _stems(text)
    shared = [len(words & _tool_stems(tool)) for tool in tools]
    most = max(shared, default=0)
    return tools[shared.index(most)] if most else None


def _tool_stems(tool: Tool) -> set[str]:
    described = (_field(field).get("description", "") for _, field in _fields(tool))
    return _stems(" ".join([_CAMEL.sub(" ", tool.name), tool.description, *described]))


def _stems(text: str) -> set[str]:
    return {word[:5] for word in _WORDS.findall(text.lower()) if word not in _PLAIN}


def _fields(tool: Tool) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, field in dict(tool.parameters.get("properties") or {}).items():
        yield name, _field(field)


def _field(field: Any) -> Mapping[str, Any]:
    return field if isinstance(field, Mapping) else {}


def _arguments(text: str, tool: Tool) -> dict[str, Any] | None:
    """None where a required argument is nowhere to be seen."""
    text = text.strip().rstrip(".!?")
    without_times = _TIME.sub(" ", text)
    numbers = [_number(found[0]) for found in _NUMBER.finditer(without_times)]
    required = tool.parameters.get("required") or ()
    arguments: dict[str, Any] = {}
    for name, field in _fields(tool):
        value = _value(name, field, text, numbers, name in required)
        if value is not None:
            arguments[name] = value
        elif name in required:
            return None
    return arguments


def _value(
    name: str, field: Mapping[str, Any], text: str, numbers: list[int | float], required: bool
) -> Any:
    if field.get("enum"):
        return _choice(field["enum"], text)
    kind = field.get("type")
    if kind in ("integer", "number", "float"):
        return _clock_part(name, text) if _is_clock(name, text) else _take(numbers, kind)
    if kind == "boolean":
        return not _NO.search(text) if required else None
    if kind == "string":
        return _text(name.lower(), text, required)
    return None


def _choice(choices: Sequence[Any], text: str) -> Any:
    for choice in choices:
        if re.search(rf"\b{re.escape(str(choice))}\b", text, re.I):
            return choice
    return None


def _is_clock(name: str, text: str) -> bool:
    return name.lower().startswith(("hour", "minute")) and _TIME.search(text) is not None


def _clock_part(name: str, text: str) -> int:
    found = _TIME.search(text)
    assert found is not None  # `_is_clock` has looked
    hour, minute = int(found[1] or found[4]), int(found[2] or found[5] or 0)
    if found[3]:
        hour = hour % 12 + (12 if found[3].lower() == "p" else 0)
    return hour if name.lower().startswith("hour") else minute


def _take(numbers: list[int | float], kind: str) -> int | float | None:
    if not numbers:
        return None
    number = numbers.pop(0)
    return int(number) if kind == "integer" else number


def _number(text: str) -> int | float:
    plain = text.replace(",", "")
    return float(plain) if "." in plain else int(plain)


def _text(name: str, text: str, required: bool) -> str | None:
    if "time" in name or "date" in name or "day" in name:
        found = _TIME.search(text) or _DATE.search(text)
        return found[0] if found else None
    text = _AT_TIME.sub("", text)
    if quoted := _QUOTED.search(text):
        return quoted[1] or quoted[2]
    if name.startswith(_LONG_TEXT) and (said := _SAID.search(text)):
        return said[1].strip()
    if names := _NAMES.search(text):
        return names[0]
    after = _AFTER.search(text)
    return after[1].strip() if after and required else None
