"""Brings the calls of an answer to the types, ranges and choices of their schemas."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgewise.calls.parse import RawCall, meant_tool, read_calls, recover
from edgewise.calls.prompt import NO_CALL
from edgewise.calls.schema import (
    Field,
    Shape,
    has_kind,
    problem_in,
    problem_with,
    read_parameters,
    same_json,
    validate,
    whole_bounds,
)
from edgewise.calls.values.words import nearest, squashed
from edgewise.types.calls import Complaint
from edgewise.types.messages import Source, Tool, ToolCall

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
        return Repaired((), (), _no_calls(answer))
    noted = () if reading.exact else ("recovered_json",)
    if reading.cut:
        noted = (*noted, "truncated")
    empty = [ToolCall(call.name, {}, source=source) for call in reading.calls]
    return _finish(reading.calls, empty, by_name, request, noted)


def is_refusal(text: str) -> bool:
    """Whether prose says that nothing can be done."""
    return _REFUSAL.search(text[:2000]) is not None


def _no_calls(answer: str) -> tuple[Complaint, ...]:
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
        for name, field in fields.items():
            if name not in named:
                continue
            value = named[name]
            if field.required or not _says_nothing(value, field):
                value = self.value(value, field.shapes, label or name)
            if field.required or not _says_nothing(value, field):
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
