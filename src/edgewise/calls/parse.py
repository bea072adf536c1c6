"""Finds the calls in whatever a model wrote: our lines, JSON of several shapes, Python, tags."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgewise.calls.prompt import STRICT_JSON, MalformedAnswer, parse_answer
from edgewise.calls.values.words import nearest, squashed

NAME_SLIPS = 4
LONGEST_TEXT = 32_000
DEPTH_LIMIT = 40
_RETRIES = 30  # bracketed text that turned out to be none of our business, looked into again
_CALLS_DEPTH_LIMIT = 6
_START = re.compile(r"[{\[]|(?<![\w.\-])([A-Za-z_][\w.\-]{0,100})\(")
_PYTHON_LIST = re.compile(r"\[\s*[A-Za-z_][\w.\-]{0,100}\(")
_BEFORE_NAME = re.compile(r"^[\s>*\-\u2022`]*(?:\d{1,3}[.)]\s*)?")
_SEVERAL = ("tool_calls", "function_calls", "calls", "tools", "functions", "actions")
_NAMES = ("name", "tool", "tool_name", "function_name", "function", "action", "recipient_name")
_ARGUMENTS = (
    "arguments", "parameters", "args", "params", "input", "kwargs", "tool_input", "action_input",
)  # fmt: skip
_QUOTES = {'"': '"', "'": "'", "`": "`", "\u201c": "\u201d", "\u2018": "\u2019"}
_CLOSERS = {"{": "}", "[": "]", "(": ")"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_WORDS = {"true": True, "false": False, "null": None, "none": None}
_SPACE = re.compile(r"\s*")
_BARE_NAME = re.compile(r"[\w$.\-]+")
_BARE_VALUE = re.compile(r"[^,}\])\n]*")
_BETWEEN = re.compile(r"\s*(?::|=>?|\uff1a)")
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_DECIMAL = re.compile(r"[+-]?(?:\d{1,18}\.?\d{0,18}|\.\d{1,18})(?:[eE][+-]?\d{1,2})?")
_HEX = re.compile(r"[0-9a-fA-F]{4}")


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
        if depth > _CALLS_DEPTH_LIMIT:
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


@dataclass(frozen=True, slots=True)
class Recovered:
    """A value read from a text, where it ended, and how far it was from JSON."""

    value: Any
    end: int
    exact: bool
    cut: bool = False


def recover(text: str, start: int = 0) -> Recovered:
    """The value at `start`. Exact JSON is read as such; anything else as well as it can be."""
    try:
        value, end = STRICT_JSON.raw_decode(text, start)
        return Recovered(value, end, exact=True)
    except (ValueError, RecursionError):
        reader = _Reader(text, start)
        value = reader.value(0)
        return Recovered(value, max(reader.position, start + 1), exact=False, cut=reader.cut)


def recover_arguments(text: str, start: int) -> tuple[list[Any], dict[str, Any], Recovered]:
    """`(1, place="Oslo")` at `start`: what is given by position and what by name."""
    reader = _Reader(text, start)
    positional, named = reader.arguments()
    end = max(reader.position, start + 1)
    return positional, named, Recovered(named, end, exact=False, cut=reader.cut)


def plain(word: str) -> Any:
    """A bare word as what it says: a number, true, false, null, or itself."""
    text = word.strip()
    if text.casefold() in _WORDS:
        return _WORDS[text.casefold()]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


class _Reader:
    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self.position = start
        self.cut = False
        self._open: list[str] = []  # closing brackets still to come

    def value(self, depth: int) -> Any:
        first = self._peek()
        if first in _CLOSERS and depth < DEPTH_LIMIT:
            return self._object(depth) if first == "{" else self._list(depth)
        if first in _QUOTES:
            return self._string()
        found = _BARE_VALUE.match(self._text, self.position)
        assert found is not None
        self.position = found.end()
        return plain(found.group())

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        self._enter()
        positional: list[Any] = []
        named: dict[str, Any] = {}
        while not self._left():
            name = _BARE_NAME.match(self._text, self.position)
            between = _BETWEEN.match(self._text, name.end()) if name else None
            if name and between and "=" in between.group():
                self.position = between.end()
                named[name.group()] = self.value(1)
            else:
                positional.append(self.value(1))
        return positional, named

    def _peek(self) -> str:
        space = _SPACE.match(self._text, self.position)
        assert space is not None
        self.position = space.end()
        return self._text[self.position : self.position + 1]

    def _enter(self) -> None:
        self._open.append(_CLOSERS[self._text[self.position]])
        self.position += 1

    def _left(self) -> bool:
        """Whether the innermost bracket is closed: by its mark, by an outer one, or by the end."""
        while True:
            mark = self._peek()
            if not mark:
                self.cut = True
            elif mark == self._open[-1]:
                self.position += 1
            elif mark not in self._open:
                if mark in ",}])":
                    self.position += 1
                    continue
                return False
            self._open.pop()
            return True

    def _list(self, depth: int) -> list[Any]:
        self._enter()
        items = []
        while not self._left():
            before = self.position
            items.append(self.value(depth + 1))
            if self.position == before:  # nothing could be read here
                self.position += 1
        return items

    def _object(self, depth: int) -> dict[str, Any]:
        self._enter()
        found: dict[str, Any] = {}
        while not self._left():
            name = self._name()
            between = _BETWEEN.match(self._text, self.position) if name is not None else None
            if name is None or between is None:
                if name is None:
                    self.position += 1
                continue
            self.position = between.end()
            if self._peek() in ("", ",", "}"):
                self.cut = self.cut or not self._peek()
                continue
            found[name] = self.value(depth + 1)
        return found

    def _name(self) -> str | None:
        if self._text[self.position] in _QUOTES:
            return self._string()
        bare = _BARE_NAME.match(self._text, self.position)
        if bare is None:
            return None
        self.position = bare.end()
        return bare.group()

    def _string(self) -> str:
        closing = _QUOTES[self._text[self.position]]
        self.position += 1
        parts: list[str] = []
        mark = re.compile(rf"[\\{closing}]")
        while found := mark.search(self._text, self.position):
            parts.append(self._text[self.position : found.start()])
            self.position = found.end()
            if found.group() == "\\":
                parts.append(self._escape())
            elif self._ends_string():
                return _joined(parts)
            else:
                parts.append(closing)  # an apostrophe, or a quotation inside the text
        parts.append(self._text[self.position :])
        self.position = len(self._text)
        self.cut = True
        text = _joined(parts)
        for bracket in self._open:  # `{"place":"Oslo}`: the quote is missing, not the brace
            text = text.rstrip().removesuffix(bracket)
        return text

    def _ends_string(self) -> bool:
        after = self._text[self.position : self.position + 24]
        start = after.lstrip()[:1]
        return not after.strip(" \t") or after[:1] == "\n" or (start != "" and start in ",:}])=")

    def _escape(self) -> str:
        letter = self._text[self.position : self.position + 1]
        self.position += 1
        code = _HEX.match(self._text, self.position) if letter == "u" else None
        if code is None:
            return _ESCAPES.get(letter, letter)
        self.position = code.end()
        return chr(int(code.group(), 16))


def _joined(parts: list[str]) -> str:
    """Text whose halves of surrogate pairs are put together, and lone ones replaced."""
    text = "".join(parts)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
