"""What a tool's JSON Schema allows, read once into plain values, and what in a call it forbids.

The prompt, the grammar, the coercion and the checks all read schemas through this file, so that
they cannot disagree on what a parameter is."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from edgewise.calls.memory import per_tool
from edgewise.errors import InvalidRequest
from edgewise.types.calls import Complaint, ComplaintCode
from edgewise.types.messages import Tool

Kind = Literal["str", "int", "float", "bool", "list", "obj", "null", "choice", "any"]
TYPE_NAMES: Mapping[str, Kind] = {
    **dict.fromkeys(("string", "str", "text", "char", "character"), "str"),
    **dict.fromkeys(("integer", "int", "long", "short", "byte", "bigint"), "int"),
    **dict.fromkeys(("number", "float", "double", "decimal"), "float"),
    **dict.fromkeys(("boolean", "bool"), "bool"),
    **dict.fromkeys(("array", "list", "tuple", "set", "arraylist"), "list"),
    **dict.fromkeys(("object", "dict", "map", "hashmap", "hash"), "obj"),
}
DEPTH_LIMIT = 8  # what is nested deeper may be anything
SHAPE_LIMIT = 2000  # shapes read of one tool; a schema that refers to itself in many places grows
READ_LIMIT = 1_000_000  # characters read of one tool, references followed; beyond, any value goes
VALUE_CHARS = 20  # that a value counts as, beside its text
KEYWORD_LIMIT = 200  # of a schema that others refer to, and options of one: all of them are copied
_UNWRITABLE = re.compile("[\ud800-\udfff\U00040000-\U000dffff]")
_KIND_WORDS = {
    "str": "text", "int": "a whole number", "float": "a number", "bool": "true or false",
    "list": "a list", "obj": "an object", "null": "null",
}  # fmt: skip
Problem = tuple[ComplaintCode, str]


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of value, with its limits. A parameter allows one or several of these."""

    kind: Kind
    choices: tuple[Any, ...] = ()
    low: int | float | None = None
    high: int | float | None = None
    low_open: bool = False
    high_open: bool = False
    shortest: int = 0  # characters of a string, items of a list
    longest: int | None = None
    items: tuple[Shape, ...] = ()
    fields: tuple[Field, ...] | None = None  # None: an object with any names
    extra: tuple[Shape, ...] | None = None  # what unlisted names of an object may hold
    verbatim: bool = False  # a string in the user's own words: no format, no pattern
    hints: tuple[str, ...] = ()  # strings that the schema itself gives: default and examples


@dataclass(frozen=True, slots=True)
class Field:
    """A named value of an object: an argument, or a part of one."""

    name: str
    shapes: tuple[Shape, ...]
    required: bool


ANY: tuple[Shape, ...] = (Shape("any"),)
NULL = Shape("null")


@per_tool
def read_parameters(tool: Tool) -> Shape:
    """The arguments a tool takes, as an object with fields.

    Raises InvalidRequest, naming the tool and the field, where there is no sense to be made of it.
    """
    schema: object = tool.parameters
    if not isinstance(schema, Mapping):
        raise InvalidRequest(f"tool {tool.name!r}: its parameters are not a JSON object")
    reader = _Reader(tool.name, definitions_of(schema))
    reader.check_definitions()
    shape = reader.object_shape(schema, "", 1)
    return replace(shape, fields=shape.fields or ())


def definitions_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """What `$ref` can point at, by its whole address."""
    found: dict[str, Any] = {}
    for key in ("definitions", "$defs"):
        if isinstance(schema.get(key), Mapping):
            found.update({f"#/{key}/{name}": value for name, value in schema[key].items()})
    return found


def resolve(raw: Any, definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """A field's schema with one `$ref` or lone `allOf` followed; {} where it is no schema."""
    if not isinstance(raw, Mapping):
        return {}
    target, parts = raw.get("$ref"), raw.get("allOf")
    if target is None and isinstance(parts, list) and len(parts) == 1:
        lone = parts[0] if isinstance(parts[0], Mapping) else {}
        raw = {**lone, **raw}
        target = lone.get("$ref")
    found = definitions.get(target) if isinstance(target, str) else None
    return {**found, **raw} if isinstance(found, Mapping) else raw


def options_of(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The alternatives of `anyOf` or `oneOf`, without null."""
    options = field.get("anyOf") or field.get("oneOf") or []
    if not isinstance(options, list):
        return []
    resolved = [resolve(option, definitions) for option in options]
    return [option for option in resolved if option.get("type") != "null"]


class _Reader:
    def __init__(self, tool: str, definitions: Mapping[str, Any]) -> None:
        self._tool = tool
        self._definitions = definitions
        self._left = SHAPE_LIMIT
        self._unread = READ_LIMIT
        self._referred: dict[tuple[str, int], tuple[Shape, ...]] = {}

    def check_definitions(self) -> None:
        """What is referred to may be read many times, also by others than this file."""
        for address, target in self._definitions.items():
            named = target if isinstance(target, Mapping) else {}
            lists = [named.get(name) for name in ("anyOf", "oneOf", "allOf", "type")]
            sizes = [len(each) for each in (named, *lists) if isinstance(each, Mapping | list)]
            if max(sizes, default=0) > KEYWORD_LIMIT:
                raise self._wrong(address, f"it has more than {KEYWORD_LIMIT} keywords or options")

    def object_shape(self, field: Mapping[str, Any], path: str, depth: int) -> Shape:
        extra = field.get("additionalProperties")
        allowed: tuple[Shape, ...] | None = ANY if extra is True else None
        if isinstance(extra, Mapping):
            allowed = self.shapes(extra, f"{path}.*", depth + 1)
        properties = field.get("properties")
        if properties is None:
            return Shape("obj", extra=allowed)
        if not isinstance(properties, Mapping):
            raise self._wrong(path, "its properties are not a JSON object")
        required = self._required(field, path)
        fields = []
        for name, raw in properties.items():
            here = f"{path}.{name}" if path else str(name)
            if not isinstance(name, str) or not encodable(name):
                raise self._wrong(here, "its name is not text")
            if raw is not True and not isinstance(raw, Mapping):
                raise self._wrong(here, f"its schema is {raw!r}, not a JSON object")
            # Some schemas mark a parameter itself: {"type": "string", "required": true}.
            must = name in required or resolve(raw, self._definitions).get("required") is True
            fields.append(Field(name, self.shapes(raw, here, depth + 1), must))
        return Shape("obj", fields=tuple(fields), extra=allowed)

    def shapes(self, raw: Any, path: str, depth: int) -> tuple[Shape, ...]:
        self._left -= 1
        if not isinstance(raw, Mapping) or depth > DEPTH_LIMIT:
            return ANY
        if self._left < 0 or self._unread < 0:
            return ANY
        target = raw.get("$ref")
        if len(raw) == 1 and isinstance(target, str):  # the same wherever it is referred to
            key = (target, depth)
            if key not in self._referred:
                self._referred[key] = self._read(resolve(raw, self._definitions), path, depth)
            return self._referred[key]
        return self._read(resolve(raw, self._definitions), path, depth)

    def _read(self, field: Mapping[str, Any], path: str, depth: int) -> tuple[Shape, ...]:
        self._unread -= _characters(field)
        declared = field.get("type")
        names = list(declared) if isinstance(declared, list | tuple) else [declared]
        choices = _choices(field)
        if choices:
            return self._chosen(choices, names)
        null = (NULL,) if "null" in names or field.get("nullable") is True else ()
        found = [
            self._of_type(name, field, path, depth) for name in names if name not in (None, "null")
        ]
        if not found:
            for option in options_of(field, self._definitions):
                found += self.shapes(option, path, depth + 1)
            if found and _offers_null(field):
                null = (NULL,)
        if not found and "null" not in names:
            found = [self._guess(field, path, depth)]
        return (*(shape for shape in found if shape.kind != "null"), *null) or ANY

    def _of_type(self, name: Any, field: Mapping[str, Any], path: str, depth: int) -> Shape:
        base, _, inner = str(name).strip().lower().partition("[")
        kind = TYPE_NAMES.get(base.strip(), "any")
        if kind == "list":
            return self._list(field, inner.rstrip("]").strip(), path, depth)
        if kind == "obj":
            return self.object_shape(field, path, depth)
        if kind == "str":
            return _string(field)
        return _number(kind, field) if kind in ("int", "float") else Shape(kind)

    def _list(self, field: Mapping[str, Any], inner: str, path: str, depth: int) -> Shape:
        items = field.get("items")
        shapes = ANY
        if isinstance(items, Mapping) and items:
            shapes = self.shapes(items, f"{path}[]", depth + 1)
        elif inner:
            shapes = (Shape(TYPE_NAMES.get(inner, "any")),)
        low, high = _length(field, "minItems", "maxItems")
        return Shape("list", items=shapes, shortest=low, longest=high)

    def _guess(self, field: Mapping[str, Any], path: str, depth: int) -> Shape:
        if isinstance(field.get("properties"), Mapping):
            return self.object_shape(field, path, depth)
        if isinstance(field.get("items"), Mapping):
            return self._list(field, "", path, depth)
        return ANY[0]

    def _chosen(self, choices: tuple[Any, ...], names: list[Any]) -> tuple[Shape, ...]:
        shape = Shape("choice", choices=choices)
        kinds = {TYPE_NAMES.get(str(name).partition("[")[0].strip().lower()) for name in names}
        if kinds == {"list"} and not any(isinstance(choice, list | tuple) for choice in choices):
            return (Shape("list", items=(shape,)),)  # a list's choices, written one level too high
        return (shape,)

    def _required(self, field: Mapping[str, Any], path: str) -> set[str]:
        listed = field.get("required")
        if not isinstance(listed, list | tuple):
            return set()
        if not all(isinstance(name, str) for name in listed):
            raise self._wrong(path, "`required` is not a list of names")
        return set(listed)

    def _wrong(self, path: str, what: str) -> InvalidRequest:
        where = f"tool {self._tool!r}, field {path!r}" if path else f"tool {self._tool!r}"
        return InvalidRequest(f"{where}: {what}")


def encodable(text: str) -> bool:
    """Whether a model can write it: not half of a surrogate pair, nor what no text ever has.

    Unicode has left the planes 4 to 13 empty, and a vocabulary may lack their first bytes. A
    grammar that asks for one leads nowhere, which ends the runtime and the process with it.
    """
    return _UNWRITABLE.search(text) is None


def _characters(field: Mapping[str, Any]) -> int:
    """What reading a schema takes, beside the schemas inside it."""
    lists = [field.get(name) for name in ("enum", "required", "examples", "type")]
    values = [value for listed in lists if isinstance(listed, list | tuple) for value in listed]
    texts = (len(value) for value in (*values, field.get("const")) if isinstance(value, str))
    return VALUE_CHARS * (1 + len(field) + len(values)) + sum(texts)


def _choices(field: Mapping[str, Any]) -> tuple[Any, ...]:
    listed = [field["const"]] if "const" in field else field.get("enum")
    if not isinstance(listed, list | tuple):
        return ()
    return tuple(value for value in listed if not isinstance(value, str) or encodable(value))


def _offers_null(field: Mapping[str, Any]) -> bool:
    options = field.get("anyOf") or field.get("oneOf") or []
    return any(isinstance(option, Mapping) and option.get("type") == "null" for option in options)


def _string(field: Mapping[str, Any]) -> Shape:
    low, high = _length(field, "minLength", "maxLength")
    examples = field.get("examples")
    hints: Sequence[Any] = examples if isinstance(examples, list | tuple) else ()
    hints = [field.get("default"), field.get("example"), *hints]
    return Shape(
        "str",
        shortest=low,
        longest=high or None,  # some write 0 where there is no limit
        verbatim=not field.get("format") and not field.get("pattern"),
        hints=tuple(hint for hint in hints if isinstance(hint, str) and encodable(hint)),
    )


def _number(kind: Kind, field: Mapping[str, Any]) -> Shape:
    low, high = _bound(field.get("minimum")), _bound(field.get("maximum"))
    # Drafts before 6 write {"minimum": 0, "exclusiveMinimum": true}.
    low_open = field.get("exclusiveMinimum") is True
    high_open = field.get("exclusiveMaximum") is True
    above, below = _bound(field.get("exclusiveMinimum")), _bound(field.get("exclusiveMaximum"))
    if above is not None and (low is None or above >= low):
        low, low_open = above, True
    if below is not None and (high is None or below <= high):
        high, high_open = below, True
    shape = Shape(kind, low=low, high=high, low_open=low_open, high_open=high_open)
    if low is not None and high is not None and not has_room(shape, low, high):
        return Shape(kind)
    return shape


def has_room(shape: Shape, low: float, high: float) -> bool:
    """Whether there is a number between the ends of a shape's range."""
    if shape.kind == "float":
        return low < high or (low == high and not shape.low_open and not shape.high_open)
    first, last = whole_bounds(shape)
    return first is not None and last is not None and first <= last


def whole_bounds(shape: Shape) -> tuple[int | None, int | None]:
    """The lowest and the highest whole number of a range; None where it has no end."""
    low, high = shape.low, shape.high
    return (
        None if low is None else math.floor(low) + 1 if shape.low_open else math.ceil(low),
        None if high is None else math.ceil(high) - 1 if shape.high_open else math.floor(high),
    )


def _bound(value: Any) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < 1e15 else None


def _length(field: Mapping[str, Any], low: str, high: str) -> tuple[int, int | None]:
    shortest, longest = (
        value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
        for value in (field.get(low), field.get(high))
    )
    if shortest is not None and longest is not None and shortest > longest:
        return 0, None
    return shortest or 0, longest


def validate(name: str, arguments: object, tool: Tool) -> list[Complaint]:
    """Everything about a call that the schema forbids; empty where it is valid."""
    if name != tool.name:
        return [Complaint("unknown_tool", f"there is no tool {name!r}")]
    shape = read_parameters(tool)
    fields = shape.fields or ()
    if not isinstance(arguments, Mapping):
        return [Complaint("not_json", f"the arguments of {name!r} are not an object")]
    known = {field.name for field in fields}
    complaints = [
        Complaint("unknown_argument", f"{name!r} has no argument {one!r}", argument=str(one))
        for one in arguments
        if one not in known and shape.extra is None
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
