"""Whether a call is one its tool's schema allows, each fault with its name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from edgewise.functions.schema import Field, Shape, read_parameters
from edgewise.types.calls import Complaint, ComplaintCode
from edgewise.types.messages import Tool, ToolCall

Problem = tuple[ComplaintCode, str]

_KIND_WORDS = {
    "str": "text", "int": "a whole number", "float": "a number", "bool": "true or false",
    "list": "a list", "obj": "an object", "null": "null",
}  # fmt: skip


def validate(call: ToolCall, tool: Tool) -> list[Complaint]:
    """Everything about the call that the schema forbids; empty where it is valid."""
    if call.name != tool.name:
        return [Complaint("unknown_tool", f"there is no tool {call.name!r}")]
    shape = read_parameters(tool)
    fields = shape.fields or ()
    arguments: object = call.arguments
    if not isinstance(arguments, Mapping):
        return [Complaint("not_json", f"the arguments of {call.name!r} are not an object")]
    known = {field.name for field in fields}
    complaints = [
        Complaint("unknown_argument", f"{call.name!r} has no argument {name!r}", argument=str(name))
        for name in arguments
        if name not in known and shape.extra is None
    ]
    complaints += _fields(fields, arguments)
    return complaints


def _fields(fields: tuple[Field, ...], arguments: Mapping[str, Any]) -> Iterator[Complaint]:
    for field in fields:
        name = field.name
        if name not in arguments:
            if field.required:
                yield Complaint("missing_argument", f"{name!r} is missing", argument=name)
            continue
        value = arguments[name]
        problem = problem_with(value, field.shapes)
        if field.required and value == "" and _only_text(field.shapes):
            problem = ("empty_value", "is empty")
        if problem is not None:
            yield Complaint(problem[0], f"{name!r} {problem[1]}", argument=name)


def _only_text(shapes: tuple[Shape, ...]) -> bool:
    return all(shape.kind in ("str", "null") for shape in shapes)


def problem_with(value: Any, shapes: tuple[Shape, ...]) -> Problem | None:
    """What is wrong with a value; None if one of the shapes allows it."""
    problems = []
    for shape in shapes:
        problem = problem_in(value, shape)
        if problem is None:
            return None
        problems.append(problem)
    # Of several shapes, the one that has the right type has the most to say.
    return next((one for one in problems if one[0] != "wrong_type"), problems[0])


def problem_in(value: Any, shape: Shape) -> Problem | None:
    """What is wrong with a value if it is to have this shape."""
    if shape.kind == "any":
        return None
    if shape.kind == "choice":
        if any(same_json(value, choice) for choice in shape.choices):
            return None
        return "not_in_enum", f"is {_short(value)}, which is not one of the choices"
    if not has_kind(value, shape):
        return "wrong_type", f"is {_short(value)}, not {_KIND_WORDS[shape.kind]}"
    if shape.kind in ("int", "float"):
        return _range_problem(value, shape)
    if shape.kind in ("str", "list"):
        length = len(value)
        if length < shape.shortest or (shape.longest is not None and length > shape.longest):
            return "out_of_range", f"is {_short(value)}: too short or too long"
    if shape.kind == "list":
        return next(_inside((item, shape.items) for item in value), None)
    return _object_problem(value, shape) if shape.kind == "obj" else None


def has_kind(value: Any, shape: Shape) -> bool:
    """Whether a value is of the shape's type. True is no number; 5 is a float, 5.0 no int."""
    match shape.kind:
        case "str":
            return isinstance(value, str)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float":
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return number and (isinstance(value, int) or math.isfinite(value))
        case "bool":
            return isinstance(value, bool)
        case "list":
            return isinstance(value, list | tuple)
        case "obj":
            return isinstance(value, Mapping)
        case "null":
            return value is None
        case _:
            return True


def same_json(one: Any, other: Any) -> bool:
    """Equal as JSON: 1 is 1.0, but not true."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _inside(parts: Iterator[tuple[Any, tuple[Shape, ...]]]) -> Iterator[Problem]:
    for value, shapes in parts:
        problem = problem_with(value, shapes) if shapes else None
        if problem is not None:
            yield problem[0], f"holds a value that {problem[1]}"


def _object_problem(value: Mapping[str, Any], shape: Shape) -> Problem | None:
    if shape.fields is None:
        extra = shape.extra or ()
        return next(_inside((part, extra) for part in value.values()), None)
    known = {field.name for field in shape.fields}
    unknown = next((name for name in value if name not in known), None)
    if unknown is not None and shape.extra is None:
        return "unknown_argument", f"has no part {unknown!r}"
    for field in shape.fields:
        if field.name in value:
            problem = problem_with(value[field.name], field.shapes)
            if problem is not None:
                return problem[0], f"has a part {field.name!r} that {problem[1]}"
        elif field.required:
            return "missing_argument", f"has no part {field.name!r}"
    return None


def _range_problem(value: float, shape: Shape) -> Problem | None:
    too_low = shape.low is not None and (
        value < shape.low or (shape.low_open and value == shape.low)
    )
    too_high = shape.high is not None and (
        value > shape.high or (shape.high_open and value == shape.high)
    )
    if too_low or too_high:
        return "out_of_range", f"is {value!r}, out of range"
    return None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
