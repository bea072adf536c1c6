"""Brings the arguments of a call to the types, ranges and choices that its schema names.

Each change is named by a stable code with its argument: `coerced:minutes`, `clamped:level`, …
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgewise.functions.clean_text import clean_text
from edgewise.functions.nearest_name import nearest, squashed
from edgewise.functions.recover_json import recover
from edgewise.functions.schema import Field, Shape, read_parameters
from edgewise.functions.validate import has_kind, problem_in, problem_with, same_json
from edgewise.types.messages import Tool, ToolCall

CHOICE_SLIPS = 3
ARGUMENT_SLIPS = 2

_NUMBER = re.compile(r"[+-]?\d{1,16}(?:\.\d{0,16})?(?:[eE][+-]?\d{1,2})?|[+-]?\.\d{1,16}")
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3}){1,5}(?:\.\d{1,16})?")
_TRUE = {"true", "yes", "on", "1", "y"}
_FALSE = {"false", "no", "off", "0", "n"}


def coerce_call(call: ToolCall, tool: Tool, request: str = "") -> tuple[ToolCall, tuple[str, ...]]:
    """The call with its arguments as the schema wants them, in schema order, and what was changed.

    Whole numbers of float parameters become floats without being named: 5 is 5.0. What cannot be
    put right is left for `validate` to complain about.
    """
    coercer = _Coercer(request)
    arguments: Any = call.arguments if isinstance(call.arguments, Mapping) else {}
    found = coercer.members(arguments, read_parameters(tool), "")
    return replace(call, arguments=found), tuple(dict.fromkeys(coercer.repairs))


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
            if not field.required and _says_nothing(named[name], field):
                self.repairs.append(f"dropped:{label or name}")
                continue
            found[name] = self.value(named[name], field.shapes, label or name)
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
    low, high = shape.low, shape.high
    if shape.kind == "int":
        if low is not None:
            low = math.floor(low) + 1 if shape.low_open else math.ceil(low)
        if high is not None:
            high = math.ceil(high) - 1 if shape.high_open else math.floor(high)
        return low, high
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
