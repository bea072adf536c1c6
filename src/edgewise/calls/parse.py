"""Finds the calls in whatever a model wrote: our lines, JSON of several shapes, Python, tags."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgewise.calls.prompt import STRICT_JSON, MalformedAnswer, parse_answer
from edgewise.calls.values.words import fold, nearest, squashed, stem, words
from edgewise.grammar.check import has_kind, problem_in, problem_with, same_json, validate
from edgewise.grammar.tools import NO_CALL, Field, Shape, read_parameters, whole_bounds
from edgewise.types.messages import Context, Source, Tool, ToolCall
from edgewise.types.replies import Complaint

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
class ReadCalls:
    """The calls of a text; whether it was the format itself, and whether it broke off."""

    calls: list[RawCall]
    exact: bool
    cut: bool = False


def read_calls(text: str, tools: Mapping[str, Collection[str]]) -> ReadCalls:
    """The calls in a text, in order. `tools` has the argument names of each tool there is."""
    text = text[:LONGEST_TEXT]
    try:
        parsed = parse_answer(text)
    except MalformedAnswer:
        return _Scan(text, tools).reading()
    lines = ReadCalls([RawCall(call.name, call.arguments) for call in parsed], exact=True)
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
        self._found = ReadCalls([], exact=False)

    def reading(self) -> ReadCalls:
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


# -- lists in words --------------------------------------------------------------------------------


Row = Mapping[str, Any]


def as_listed(call: ToolCall, context: Context) -> ToolCall:
    """The call with texts taken from the tables of the context, where these have a column so named.

    A text that stands in the column gets its spelling. One that does not is exchanged if its words
    describe exactly one row. Every change is a repair `listed:ARGUMENT`.
    """
    changed: dict[str, str] = {}
    for name, value in call.arguments.items():
        if isinstance(value, str) and (listed := _listed(value, name, context)) not in ("", value):
            changed[name] = listed
    if not changed:
        return call
    repairs = (*call.repairs, *(f"listed:{name}" for name in changed))
    return replace(call, arguments={**call.arguments, **changed}, repairs=repairs)


def _listed(value: str, column: str, context: Context) -> str:
    """What the tables call this; "" if they have no such column, or nothing in it fits."""
    rows = [row for table in _tables(context) for row in table if isinstance(row.get(column), str)]
    same = {row[column] for row in rows if fold(row[column]) == fold(value)}
    if same:
        return str(value if value in same else min(same))
    wanted = {stem(word) for word in words(value)} - _LITTLE
    meant = {row[column] for row in rows if wanted and wanted <= _described(row)}
    return str(meant.pop()) if len(meant) == 1 else ""


_LITTLE = frozenset(map(stem, ("the", "a", "an", "my", "our", "in", "on", "at", "of")))


def _described(row: Row) -> set[str]:
    return {stem(word) for cell in row.values() if isinstance(cell, str) for word in words(cell)}


def _tables(context: Context) -> Iterator[Sequence[Row]]:
    for value in context.values():
        if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
            yield [row for row in value if isinstance(row, Mapping)]


# -- repairing what was written --------------------------------------------------------------------


CHOICE_SLIPS = 3
ARGUMENT_SLIPS = 2
_PAIRS = {'"': '"', "'": "'", "`": "`", "\u201c": "\u201d", "\u2018": "\u2019", "\u00ab": "\u00bb"}
# "p.m.", "U.S.", "J.": the full stop belongs to the word.
_ABBREVIATION = re.compile(r"(?:^|[\s.])[^\W\d_]\.$")
_NUMBER = re.compile(r"[+-]?\d{1,16}(?:\.\d{0,16})?(?:[eE][+-]?\d{1,2})?|[+-]?\.\d{1,16}")
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3}){1,5}(?:\.\d{1,16})?")
_TRUE = {"true", "yes", "on", "1", "y"}
_FALSE = {"false", "no", "off", "0", "n"}
_REFUSAL = re.compile(
    r"\b(?:sorry|apologi[sz]e|cannot|can['\u2019]?t|could not|couldn['\u2019]t|unable|not able|"
    r"(?:do|does) not have|don['\u2019]t have|as an ai|no (?:\w+ )?(?:tools?|functions?)\b|"
    r"not (?:possible|supported|available))\b",
    re.IGNORECASE,
)
_EMPTY = re.compile(r"(?:```\w*)?\s*(?:\[\s*\]|\{\s*\})\s*(?:```)?")
_NOTHING = {NO_CALL, "null", "nocall", "nocalls", "notool", "nofunctioncall", "nocallneeded"}


@dataclass(frozen=True, slots=True)
class Repaired:
    """The calls, what was changed to get them, and what is still wrong.

    `by_call` holds the changes of each call; `repairs` all of them, each once.
    """

    calls: tuple[ToolCall, ...]
    repairs: tuple[str, ...]
    complaints: tuple[Complaint, ...]
    by_call: tuple[tuple[str, ...], ...] = ()


def repair(
    answer: str | Sequence[ToolCall],
    tools: Sequence[Tool],
    request: str = "",
    *,
    source: Source = "local",
) -> Repaired:
    """The calls in an answer, brought to the schemas of the tools.

    Calls that are given as such keep their id and source; those read from text get `source`.
    """
    by_name = {tool.name: tool for tool in tools}
    if not isinstance(answer, str):
        raw = [RawCall(call.name, call.arguments) for call in answer]
        return _finish(raw, list(answer), by_name, request, ())
    reading = read_calls(answer, {name: _names(tool) for name, tool in by_name.items()})
    if not reading.calls:
        return Repaired((), (), no_calls(answer))
    noted = () if reading.exact else ("recovered_json",)
    if reading.cut:
        noted = (*noted, "truncated")
    empty = [ToolCall(call.name, {}, source=source) for call in reading.calls]
    return _finish(reading.calls, empty, by_name, request, noted)


def is_refusal(text: str) -> bool:
    """Whether prose says that nothing can be done."""
    return _REFUSAL.search(text[:2000]) is not None


def no_calls(answer: str) -> tuple[Complaint, ...]:
    """What is wrong with an answer that has no call in it; nothing if it says that none is due."""
    said = re.sub(r"[\W_]+", "", answer[:200]).casefold()
    if said in _NOTHING or _EMPTY.fullmatch(answer.strip()[:200]):
        return ()
    if is_refusal(answer):
        return (Complaint("refusal", f"the model refused: {answer.strip()[:120]!r}"),)
    what = f"there is no call in {answer.strip()[:120]!r}" if answer.strip() else "it is empty"
    return (Complaint("not_json", f"the answer cannot be read: {what}"),)


def _finish(
    raw: Sequence[RawCall],
    given: Sequence[ToolCall],
    by_name: Mapping[str, Tool],
    request: str,
    noted: tuple[str, ...],
) -> Repaired:
    calls: list[ToolCall] = []
    by_call: list[tuple[str, ...]] = []
    complaints: list[Complaint] = []
    for index, (written, call) in enumerate(zip(raw, given, strict=True)):
        fixed, made, wrong = _one(written, call, by_name, request)
        calls.append(fixed)
        by_call.append((*noted, *made))
        complaints += [replace(complaint, call=index) for complaint in wrong]
    repairs = tuple(dict.fromkeys(code for made in by_call for code in made))
    return Repaired(tuple(calls), repairs, tuple(complaints), tuple(by_call))


def _one(
    raw: RawCall, call: ToolCall, by_name: Mapping[str, Tool], request: str
) -> tuple[ToolCall, tuple[str, ...], list[Complaint]]:
    name = meant_tool(raw.name, by_name)
    if name is None:
        kept = raw.arguments if isinstance(raw.arguments, Mapping) else {}
        message = f"there is no tool {raw.name!r}"
        return replace(call, arguments=dict(kept)), (), [Complaint("unknown_tool", message)]
    tool = by_name[name]
    made: tuple[str, ...] = () if name == raw.name else ("renamed_tool",)
    arguments, more = _arguments(raw, tool)
    arguments, coerced = coerce(arguments, tool, request)
    made = tuple(dict.fromkeys((*made, *more, *coerced)))
    return replace(call, name=name, arguments=arguments), made, validate(name, arguments, tool)


def _arguments(raw: RawCall, tool: Tool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Arguments as names and values, also from a string of JSON or from positions."""
    value: Any = raw.arguments
    made: tuple[str, ...] = ()
    if isinstance(value, str) and value.strip():
        value, made = recover(value.strip()).value, ("recovered_json",)
    names = _names(tool)
    if isinstance(value, Mapping):
        found = {str(name): part for name, part in value.items()}
    else:
        bare = value is None or value in ("", [], {})
        found = {names[0]: value} if len(names) == 1 and not bare else {}
    free = [name for name in names if name not in found]
    return found | dict(zip(free, raw.positional, strict=False)), made


def _names(tool: Tool) -> list[str]:
    return [field.name for field in read_parameters(tool).fields or ()]


def clean_text(text: str, request: str = "") -> str:
    """The text without surrounding quotes and spaces, and without the request's own full stop.

    Text that is nothing but quotes or spaces is left as it is: it may be a separator.
    """
    found = text
    while True:
        shorter = _without_full_stop(_unquoted(found.strip()), request)
        if not shorter.strip() or shorter == found:
            return found
        found = shorter


def _unquoted(text: str) -> str:
    closing = _PAIRS.get(text[:1])
    if closing is None or len(text) < 3 or not text.endswith(closing):
        return text
    inside = text[1:-1]
    # 'tis the Night's end': more quotes inside, so these two need not be a pair.
    return text if closing in inside or text[0] in inside else inside


def _without_full_stop(text: str, request: str) -> str:
    said = request.rstrip()
    if not text.endswith(".") or text.endswith("..") or _ABBREVIATION.search(text):
        return text
    ends_request = said.casefold().endswith(text.casefold()) and said.casefold() != text.casefold()
    return text[:-1].rstrip() or text if ends_request else text


def coerce(
    arguments: object, tool: Tool, request: str = ""
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The arguments as the schema wants them, in schema order, and what was changed.

    Whole numbers of float parameters become floats without being named: 5 is 5.0. What cannot be
    put right is left for `validate` to complain about.
    """
    coercer = _Coercer(request)
    given = arguments if isinstance(arguments, Mapping) else {}
    found = coercer.members(given, read_parameters(tool), "")
    return found, tuple(dict.fromkeys(coercer.repairs))


class _Coercer:
    def __init__(self, request: str) -> None:
        self._request = request
        self.repairs: list[str] = []

    def members(self, given: Mapping[str, Any], shape: Shape, label: str) -> dict[str, Any]:
        """The parts of an object. `label` is the argument it is part of, "" for the arguments."""
        fields = {field.name: field for field in shape.fields or ()}
        named = self._named(given, fields, shape.extra is not None, label)
        found: dict[str, Any] = {}
        for name, own in fields.items():
            if name not in named:
                continue
            value = named[name]
            if own.required or not _says_nothing(value, own):
                value = self.value(value, own.shapes, label or name)
            if own.required or not _says_nothing(value, own):
                found[name] = value
            else:
                self.repairs.append(f"dropped:{label or name}")
        for name, value in named.items():
            if name not in fields:
                found[name] = self.value(value, shape.extra or (), label or name)
        return found

    def value(self, value: Any, shapes: tuple[Shape, ...], label: str) -> Any:
        """The value in the first shape that it can be brought to; those it has already go first."""
        ready = [shape for shape in shapes if problem_in(value, shape) is None]
        rest = [shape for shape in shapes if all(shape is not other for other in ready)]
        best: tuple[Any, list[str]] | None = None
        for shape in (*ready, *rest):
            before, self.repairs = self.repairs, []
            changed = self._to(value, shape, label)
            made, self.repairs = self.repairs, before
            if problem_in(changed, shape) is None:
                self.repairs += made
                return changed
            if best is None and has_kind(changed, shape) and shape.kind != "choice":
                best = (changed, made)
        if ready or best is None:
            return value
        self.repairs += best[1]
        return best[0]

    def _named(
        self, given: Mapping[str, Any], fields: Mapping[str, Field], open_: bool, label: str
    ) -> dict[str, Any]:
        found = {name: value for name, value in given.items() if name in fields}
        for name, value in given.items():
            if name in fields:
                continue
            missing = [field for field in fields if field not in found]
            meant = None if open_ else nearest(str(name), missing, ARGUMENT_SLIPS)
            if meant is not None:
                found[meant] = value
                self.repairs.append(f"renamed:{label or meant}")
            elif open_:
                found[str(name)] = value
            else:
                self.repairs.append(f"dropped:{label or name}")
        return found

    def _to(self, value: Any, shape: Shape, label: str) -> Any:
        if shape.kind not in ("obj", "any"):
            value = self._unwrapped(value, label)
        match shape.kind:
            case "str":
                return self._text(value, label)
            case "int" | "float":
                return self._number(value, shape, label)
            case "bool":
                return self._named_if_new("coerced", label, value, _truth(value))
            case "null":
                empty = isinstance(value, str) and value.strip().casefold() in ("null", "none", "")
                return self._named_if_new("coerced", label, value, None) if empty else value
            case "list":
                return self._list(value, shape, label)
            case "obj":
                return self._object(value, shape, label)
            case "choice":
                return self._named_if_new("snapped", label, value, _snapped(value, shape.choices))
            case _:
                return value

    def _named_if_new(self, code: str, label: str, before: Any, after: Any) -> Any:
        if type(before) is not type(after) or before != after:
            self.repairs.append(f"{code}:{label}")
        return after

    def _unwrapped(self, value: Any, label: str) -> Any:
        """The 15 in {"minutes": 15} as the value of `minutes`."""
        if isinstance(value, Mapping) and len(value) == 1:
            [(name, inside)] = value.items()
            if squashed(str(name)) in (squashed(label), "value") and not isinstance(
                inside, Mapping
            ):
                self.repairs.append(f"coerced:{label}")
                return inside
        return value

    def _text(self, value: Any, label: str) -> Any:
        if isinstance(value, list | tuple) and len(value) == 1 and isinstance(value[0], str):
            self.repairs.append(f"coerced:{label}")
            value = value[0]
        if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
            return self._named_if_new("coerced", label, value, json.dumps(value))
        if not isinstance(value, str):
            return value
        return self._named_if_new("cleaned", label, value, clean_text(value, self._request))

    def _number(self, value: Any, shape: Shape, label: str) -> Any:
        number = _as_number(value)
        if number is None:
            return value
        if shape.kind == "int" and isinstance(number, float):
            code = "coerced" if number.is_integer() else "rounded"
            number = self._named_if_new(code, label, number, round(number))
        elif shape.kind == "float" and isinstance(number, int) and abs(number) < 10**300:
            number = float(number)
        if isinstance(value, str):
            self.repairs.append(f"coerced:{label}")
        return self._in_range(number, shape, label)

    def _in_range(self, number: Any, shape: Shape, label: str) -> Any:
        if problem_in(number, shape) is None:
            return number
        if number < 0 and problem_in(-number, shape) is None:
            return self._named_if_new("sign", label, number, -number)
        low, high = _nearest_allowed(shape)
        if low is not None and number < low:
            return self._named_if_new("clamped", label, number, low)
        if high is not None and number > high:
            return self._named_if_new("clamped", label, number, high)
        return number

    def _list(self, value: Any, shape: Shape, label: str) -> Any:
        if isinstance(value, str) and value.lstrip().startswith(("[", "(")):
            value = self._named_if_new("coerced", label, value, recover(value.lstrip()).value)
        if isinstance(value, tuple | set | frozenset):
            value = list(value)
        if value is None:
            return value
        if not isinstance(value, list):
            value = self._named_if_new("coerced", label, value, [value])
        return [self.value(item, shape.items, label) if shape.items else item for item in value]

    def _object(self, value: Any, shape: Shape, label: str) -> Any:
        if isinstance(value, str) and value.lstrip().startswith("{"):
            value = self._named_if_new("coerced", label, value, recover(value.lstrip()).value)
        if not isinstance(value, Mapping):
            return value
        if shape.fields is None and not shape.extra:
            return value
        return self.members(value, shape, label)


def _says_nothing(value: Any, field: Field) -> bool:
    """An optional argument that the model filled in with null or "" because it was not said."""
    if value is None:
        return problem_with(None, field.shapes) is not None
    return (
        value == ""
        and all(shape.kind != "any" for shape in field.shapes)
        and not any("" in shape.choices or "" in shape.hints for shape in field.shapes)
    )


def _as_number(value: Any) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value if isinstance(value, int) or math.isfinite(value) else None
    text = value.strip() if isinstance(value, str) else ""
    if _GROUPED.fullmatch(text):
        text = text.replace(",", "")
    if not _NUMBER.fullmatch(text):
        return None
    return int(text) if text.lstrip("+-").isdecimal() else float(text)


def _truth(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return value
    word = str(value).strip().casefold()
    return True if word in _TRUE else False if word in _FALSE else value


def _nearest_allowed(shape: Shape) -> tuple[int | float | None, int | float | None]:
    """The lowest and the highest value of a range, whether or not its ends belong to it."""
    if shape.kind == "int":
        return whole_bounds(shape)
    low, high = shape.low, shape.high
    if low is not None:
        low = math.nextafter(low, math.inf) if shape.low_open else float(low)
    if high is not None:
        high = math.nextafter(high, -math.inf) if shape.high_open else float(high)
    return low, high


def _snapped(value: Any, choices: tuple[Any, ...]) -> Any:
    if any(same_json(value, choice) for choice in choices):
        return value
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str | int | float):
        return value
    written = {
        (choice if isinstance(choice, str) else json.dumps(choice)): choice
        for choice in choices
        if isinstance(choice, str | int | float)
    }
    text = value if isinstance(value, str) else json.dumps(value)
    meant = nearest(clean_text(text), written, CHOICE_SLIPS)
    return value if meant is None else written[meant]
