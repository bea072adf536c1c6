"""Finds the calls in whatever a model wrote: our lines, JSON of several shapes, Python, tags."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgewise.functions.nearest_name import nearest, squashed
from edgewise.functions.recover_json import recover, recover_arguments
from edgewise.functions.tool_prompt import MalformedAnswer, parse_answer

NAME_SLIPS = 4
LONGEST_TEXT = 32_000
_RETRIES = 30  # bracketed text that turned out to be none of our business, looked into again
_DEPTH_LIMIT = 6

_START = re.compile(r"[{\[]|(?<![\w.\-])([A-Za-z_][\w.\-]{0,100})\(")
_PYTHON_LIST = re.compile(r"\[\s*[A-Za-z_][\w.\-]{0,100}\(")
_BEFORE_NAME = re.compile(r"^[\s>*\-\u2022`]*(?:\d{1,3}[.)]\s*)?")
_SEVERAL = ("tool_calls", "function_calls", "calls", "tools", "functions", "actions")
_NAMES = ("name", "tool", "tool_name", "function_name", "function", "action", "recipient_name")
_ARGUMENTS = (
    "arguments", "parameters", "args", "params", "input", "kwargs", "tool_input", "action_input",
)  # fmt: skip


@dataclass(slots=True)
class RawCall:
    """A call as it was written. `positional` are values given without a name."""

    name: str
    arguments: Any
    positional: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class Reading:
    """The calls of a text; whether it was the format itself, and whether it broke off."""

    calls: list[RawCall]
    exact: bool
    cut: bool = False


def read_calls(text: str, tools: Mapping[str, Collection[str]]) -> Reading:
    """The calls in a text, in order. `tools` has the argument names of each tool there is."""
    text = text[:LONGEST_TEXT]
    try:
        parsed = parse_answer(text)
    except MalformedAnswer:
        return _Scan(text, tools).reading()
    lines = Reading([RawCall(call.name, call.arguments) for call in parsed], exact=True)
    if not parsed or any(meant_tool(call.name, tools) for call in parsed):
        return lines
    scanned = _Scan(text, tools).reading()  # `Answer: {"name": …}` looks like a line of ours
    return scanned if scanned.calls else lines


def meant_tool(name: str, names: Collection[str]) -> str | None:
    """The tool a written name stands for: exact, without its namespace, or misspelt."""
    if name in names:
        return name
    last = re.split(r"[./:]", name)[-1]
    if last in names:
        return last
    under = [known for known in names if re.split(r"[./:]", known)[-1] == name]
    if len(under) == 1:
        return under[0]
    return nearest(name, names, NAME_SLIPS)


class _Scan:
    def __init__(self, text: str, tools: Mapping[str, Collection[str]]) -> None:
        self._text = text
        self._tools = tools
        self._squashed = {squashed(name) for name in tools}
        self._retries = _RETRIES
        self._found = Reading([], exact=False)

    def reading(self) -> Reading:
        position = 0
        while start := _START.search(self._text, position):
            position = self._python(start) if start.group(1) else self._json(start.start())
        return self._found

    def _python(self, start: re.Match[str]) -> int:
        name = start.group(1)
        if meant_tool(name, self._tools) is None:
            return start.end()
        positional, named, end = recover_arguments(self._text, start.end() - 1)
        self._found.calls.append(RawCall(name, named, positional))
        self._found.cut |= end.cut
        return end.end

    def _json(self, start: int) -> int:
        if _PYTHON_LIST.match(self._text, start):
            return start + 1
        recovered = recover(self._text, start)
        calls = list(self._calls(recovered.value, 0)) or list(self._line(recovered.value, start))
        if not calls and not recovered.exact and self._retries:
            self._retries -= 1
            return start + 1
        self._found.calls += calls
        self._found.cut |= recovered.cut and bool(calls)
        return recovered.end

    def _line(self, value: Any, start: int) -> Iterator[RawCall]:
        """An object whose tool is named before it on its line, or is the only one there is."""
        if not isinstance(value, Mapping):
            return
        line = self._text[max(self._text.rfind("\n", 0, start) + 1, start - 200) : start]
        before = _BEFORE_NAME.sub("", line).rstrip(" \t:=(`>")
        for name in (before, before.rpartition(" ")[2], before.rpartition(">")[2]):
            if name and meant_tool(name, self._tools) is not None:
                yield RawCall(name, value)
                return
        if len(self._tools) == 1:
            [(only, arguments)] = self._tools.items()
            if any(name in arguments for name in value):
                yield RawCall(only, value)

    def _calls(self, value: Any, depth: int) -> Iterator[RawCall]:
        if depth > _DEPTH_LIMIT:
            return
        if isinstance(value, list):
            for item in value:
                yield from self._calls(item, depth + 1)
        elif isinstance(value, Mapping):
            yield from self._object_calls(value, depth)

    def _object_calls(self, value: Mapping[str, Any], depth: int) -> Iterator[RawCall]:
        for key in _SEVERAL:
            if isinstance(value.get(key), list):
                yield from self._calls(value[key], depth + 1)
                return
        if isinstance(value.get("function"), Mapping):
            yield from self._calls(value["function"], depth + 1)
            return
        name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
        given = next((key for key in _ARGUMENTS if isinstance(value.get(key), Mapping | str)), None)
        if name is not None and (given is not None or meant_tool(name, self._tools) is not None):
            rest = {key: part for key, part in value.items() if key not in ("id", "type", *_NAMES)}
            yield RawCall(name, rest if given is None else value[given])
        elif len(value) == 1:
            [(key, inside)] = value.items()
            if isinstance(inside, Mapping) and squashed(str(key)) in self._squashed:
                yield RawCall(str(key), inside)
