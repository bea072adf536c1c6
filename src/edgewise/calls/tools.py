"""Tools in every form users have them, JSON Schemas and Python functions, and how to run one."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import functools
import inspect
import json
import math
import pathlib
import re
import types
import typing
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin

from typing_extensions import ReadOnly, is_typeddict

from edgewise.errors import InvalidRequest
from edgewise.types.messages import Tool, ToolLike

_SECTION = re.compile(
    r"(?:args|arguments|parameters|params|keyword args|keyword arguments|other parameters|returns?|"
    r"raises|yields?|examples?|notes?|attributes|see also|warnings?|references|todo)\s*:?",
    re.IGNORECASE,
)
_PARAMETER_SECTION = re.compile(r"(?:keyword |other )?(?:arg|argument|param|parameter)s\s*:?", re.I)
_GOOGLE = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?")
_SPHINX = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*?\s)?\*{0,2}(\w+)\s*:\s*(.*)"
)
_RULE = re.compile(r"-{3,}|={3,}")


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """The summary paragraph, and a description for each parameter that has one."""
    lines = inspect.cleandoc(text).splitlines() if text else []
    descriptions: dict[str, str] = {}
    for name, words in _parameters(lines):
        described = " ".join(" ".join(words).split())
        if described:
            descriptions.setdefault(name, described)
    return _summary(lines), descriptions


def _summary(lines: Sequence[str]) -> str:
    kept = []
    for number, line in enumerate(lines):
        if not line.strip() or line.lstrip().startswith(":") or _begins_section(lines, number):
            break
        kept.append(line.strip())
    return " ".join(kept)


def _begins_section(lines: Sequence[str], number: int) -> bool:
    line = lines[number].strip()
    if not _SECTION.fullmatch(line):
        return False
    return line.endswith(":") or _is_ruled(lines, number)


def _is_ruled(lines: Sequence[str], number: int) -> bool:
    return number + 1 < len(lines) and _RULE.fullmatch(lines[number + 1].strip()) is not None


def _parameters(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    for number, line in enumerate(lines):
        sphinx = _SPHINX.fullmatch(line.strip())
        if sphinx:
            yield sphinx[1], [sphinx[2], *_deeper(lines, number + 1, _indent(line))]
        elif _PARAMETER_SECTION.fullmatch(line.strip()):
            if _is_ruled(lines, number):
                yield from _numpy(lines, number + 2, _indent(line))
            elif line.strip().endswith(":"):
                yield from _google(lines, number + 1, _indent(line))


def _google(lines: Sequence[str], number: int, outer: int) -> Iterator[tuple[str, list[str]]]:
    inner = None
    while number < len(lines) and (not lines[number].strip() or _indent(lines[number]) > outer):
        line = lines[number]
        number += 1
        if not line.strip():
            continue
        inner = _indent(line) if inner is None else inner
        match = _GOOGLE.fullmatch(line.strip())
        if match and _indent(line) == inner:
            yield match[1], [match[2], *_deeper(lines, number, inner)]


def _numpy(lines: Sequence[str], number: int, outer: int) -> Iterator[tuple[str, list[str]]]:
    while number < len(lines):
        line = lines[number]
        if _is_ruled(lines, number):
            return
        match = _NUMPY.fullmatch(line.strip())
        if match and _indent(line) == outer:
            words = list(_deeper(lines, number + 1, outer))
            for name in match[1].split(","):
                yield name.strip(), words
        number += 1


def _deeper(lines: Sequence[str], number: int, indent: int) -> Iterator[str]:
    """The lines that follow with more indentation, up to a blank one."""
    while number < len(lines) and lines[number].strip() and _indent(lines[number]) > indent:
        yield lines[number].strip()
        number += 1


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


HINT_NESTING_LIMIT = 12

Schema = dict[str, Any]

_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    decimal.Decimal: {"type": "number"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    pathlib.Path: {"type": "string"},
    list: {"type": "array"},
    set: {"type": "array"},
    frozenset: {"type": "array"},
    tuple: {"type": "array"},
    dict: {"type": "object"},
    object: {},
    Any: {},
    inspect.Parameter.empty: {},
}
LISTS: tuple[Any, ...] = (
    list, set, frozenset, tuple, collections.abc.Iterable, collections.abc.Collection,
    collections.abc.Sequence, collections.abc.Set, collections.abc.MutableSequence,
)  # fmt: skip
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_SKIPPED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
# What evaluating an annotation may raise: it is the user's code.
_BAD_HINT = (
    NameError, TypeError, AttributeError, SyntaxError, ValueError, LookupError, ImportError,
    ArithmeticError, RecursionError,
)  # fmt: skip


def tool_from_function(function: Callable[..., Any], path: str = "tools[0]") -> Tool:
    """A tool from a function's name, signature, type hints and docstring."""
    name = name_of(function, path)
    summary, described = read_docstring(inspect.getdoc(_unwrapped(function)))
    hints = hints_of(function, path, name)
    properties: Schema = {}
    required = []
    for parameter in _signature(function, path, name).parameters.values():
        if parameter.kind in _SKIPPED:
            continue
        place = f"{path}.parameters.properties.{parameter.name}"
        schema = _schema(hints.get(parameter.name, Any), place, HINT_NESTING_LIMIT)
        if parameter.name in described:
            schema.setdefault("description", described[parameter.name])
        if parameter.default is inspect.Parameter.empty:
            required.append(parameter.name)
        else:
            schema |= _default(parameter.default)
        properties[parameter.name] = schema
    return Tool(name, summary, {"type": "object", "properties": properties, "required": required})


def _unwrapped(function: Callable[..., Any]) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def name_of(function: Callable[..., Any], path: str) -> str:
    plain = _unwrapped(function)
    name = getattr(plain, "__name__", type(plain).__name__)
    if name == "<lambda>":
        raise InvalidRequest(f"{path}.name: a lambda has no name; use a function")
    return str(name)


def _signature(function: Callable[..., Any], path: str, name: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"{path}: {name} has no signature that can be read") from error


def hints_of(function: Callable[..., Any], path: str, name: str) -> dict[str, Any]:
    plain = _unwrapped(function)
    if inspect.isclass(plain):
        plain = plain.__init__
    elif not inspect.isroutine(plain):
        plain = type(plain).__call__
    return _type_hints(plain, f"{path}: the type hints of {name}")


def _type_hints(holder: Any, place: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(holder, include_extras=True)
    except _BAD_HINT as error:
        raise InvalidRequest(f"{place} cannot be read: {error}") from error


def _default(value: Any) -> Schema:
    if isinstance(value, enum.Enum):
        value = value.value
    try:
        written = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return {}
    return {} if value is None else {"default": json.loads(written)}


def _schema(hint: Any, place: str, depth: int) -> Schema:
    """The JSON Schema of a type hint."""
    if depth == 0:
        raise InvalidRequest(f"{place}: the type is nested too deeply")
    hint, description = bare_hint(hint)
    schema = _bare_schema(hint, place, depth)
    return {**schema, "description": description} if description else schema


def bare_hint(hint: Any) -> tuple[Any, str]:
    """A hint without Annotated, Required, NewType and aliases, and what Annotated says of it."""
    description = ""
    while True:
        origin = get_origin(hint)
        if origin is typing.Annotated:
            hint, *notes = get_args(hint)
            description = description or next(filter(None, map(_note, notes)), "")
        elif origin in (Required, NotRequired, ReadOnly):
            hint = get_args(hint)[0]
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        else:
            return hint, description


def _note(note: Any) -> str:
    """The words of an annotation: a string, or an object that carries a description."""
    words = note if isinstance(note, str) else getattr(note, "description", None)
    words = words or getattr(note, "documentation", None)
    return words if isinstance(words, str) else ""


def _bare_schema(hint: Any, place: str, depth: int) -> Schema:
    origin = get_origin(hint)
    if origin is Literal:
        values = get_args(hint)
        return _choices([v.value if isinstance(v, enum.Enum) else v for v in values])
    if origin in (Union, types.UnionType):
        return _union(get_args(hint), place, depth)
    if origin is not None:
        return _generic(origin, get_args(hint), place, depth)
    try:
        if hint in _PLAIN:
            return dict(_PLAIN[hint])
    except TypeError:  # unhashable: no type at all
        pass
    if isinstance(hint, typing.TypeVar):
        return {}
    if inspect.isclass(hint):
        return _class_schema(hint, place, depth)
    raise InvalidRequest(f"{place}: cannot describe the type {hint!r}")


def _class_schema(hint: type, place: str, depth: int) -> Schema:
    if issubclass(hint, enum.Enum):
        return _choices([member.value for member in hint])
    if is_typeddict(hint):
        required: Any = getattr(hint, "__required_keys__", frozenset())
        return _object(hint, required, {}, place, depth)
    if dataclasses.is_dataclass(hint):
        fields = [field for field in dataclasses.fields(hint) if field.init]
        missing = dataclasses.MISSING
        needed = {f.name for f in fields if f.default is missing and f.default_factory is missing}
        return _object(hint, needed, {field.name: field for field in fields}, place, depth)
    if callable(getattr(hint, "model_json_schema", None)):  # pydantic, without importing it
        return dict(hint.model_json_schema())  # type: ignore[attr-defined]
    if issubclass(hint, _MAPPINGS):
        return {"type": "object"}
    if issubclass(hint, LISTS) and not issubclass(hint, str | bytes):
        return {"type": "array"}
    for base in (bool, int, float, str):
        if issubclass(hint, base):
            return dict(_PLAIN[base])
    raise InvalidRequest(f"{place}: cannot describe the type {hint.__qualname__}")


def _object(
    hint: type,
    needed: collections.abc.Set[str],
    fields: Mapping[str, dataclasses.Field[Any]],
    place: str,
    depth: int,
) -> Schema:
    properties: Schema = {}
    required = []
    for name, inner in _type_hints(hint, f"{place}: the fields of {hint.__qualname__}").items():
        if fields and name not in fields:
            continue
        schema = _schema(inner, f"{place}.properties.{name}", depth - 1)
        if name in fields:
            described = fields[name].metadata.get("description")
            schema |= {"description": described} if isinstance(described, str) else {}
            schema |= _default(fields[name].default)
        properties[name] = schema
        # Where annotations are text, a TypedDict's own list of required keys is wrong.
        if get_origin(inner) is Required or (
            name in needed and get_origin(inner) is not NotRequired
        ):
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def _choices(values: list[Any]) -> Schema:
    kinds = {type(value) for value in values}
    kind = _PLAIN.get(kinds.pop(), {}) if len(kinds) == 1 else {}
    return {**kind, "enum": values}


def _union(options: tuple[Any, ...], place: str, depth: int) -> Schema:
    """`X | None` is X: a tool's argument is left out rather than null."""
    schemas = [_schema(option, place, depth - 1) for option in options if option is not type(None)]
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _generic(origin: Any, arguments: tuple[Any, ...], place: str, depth: int) -> Schema:
    if origin in _MAPPINGS:
        values = _schema(arguments[-1], place, depth - 1)
        return {"type": "object", "additionalProperties": values or True}
    if origin in LISTS:
        kinds = [kind for kind in arguments if kind is not Ellipsis]
        items = [_schema(kind, f"{place}.items", depth - 1) for kind in kinds]
        alike = [item for number, item in enumerate(items) if item not in items[:number]]
        fixed = origin is tuple and Ellipsis not in arguments
        size = {"minItems": len(items), "maxItems": len(items)} if fixed else {}
        inner = alike[0] if len(alike) == 1 else {"anyOf": alike}
        return {"type": "array", "items": inner if alike else {}, **size}
    return _bare_schema(origin, place, depth - 1)


NESTING_LIMIT = 32
TOOLS_LIMIT = 10_000
NAME_LIMIT = 256
SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema")  # OpenAI, Anthropic, MCP


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Tools, and for those that are Python functions what to call, by name."""

    tools: tuple[Tool, ...] = ()
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


def as_tools(items: Sequence[ToolLike] | Toolbox) -> tuple[Tool, ...]:
    """`as_toolbox(items).tools`"""
    return as_toolbox(items).tools


def as_toolbox(items: Sequence[ToolLike] | Toolbox) -> Toolbox:
    """Tools from edgewise tools, request-style dictionaries and plain functions, mixed as you like.

    Raises InvalidRequest with the place of the first bad field, as in
    "tools[2].parameters.properties.hour: expected an object".
    """
    if isinstance(items, Toolbox):
        return items
    if isinstance(items, str | bytes) or not isinstance(items, Sequence):
        raise InvalidRequest(f"tools: expected a list, got {_kind(items)}")
    if len(items) > TOOLS_LIMIT:
        raise InvalidRequest(f"tools: {len(items)} tools, at most {TOOLS_LIMIT} are taken")
    tools: dict[str, Tool] = {}
    functions: dict[str, Callable[..., Any]] = {}
    for number, item in enumerate(items):
        path = f"tools[{number}]"
        tool = _tool(item, path)
        if tool.name in tools:
            earlier = list(tools).index(tool.name)
            raise InvalidRequest(f"{path}.name: {tool.name!r} is the name of tools[{earlier}] too")
        tools[tool.name] = tool
        if not isinstance(item, Tool | Mapping):
            functions[tool.name] = item
    return Toolbox(tuple(tools.values()), functions)


def parse_tools_file(text: str) -> tuple[Tool, ...]:
    """Tools from JSON: a list of them, or an object with the list under "tools"."""
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidRequest(f"tools: not JSON: {error.msg} at {where}") from error
    except RecursionError as error:
        raise InvalidRequest("tools: nested too deeply") from error
    except ValueError as error:
        raise InvalidRequest(f"tools: not JSON: {error}") from error
    if isinstance(found, dict):
        if "tools" not in found:
            raise InvalidRequest('tools: expected a list, or an object with "tools"')
        found = found["tools"]
    return as_tools(found)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _tool(item: Any, path: str) -> Tool:
    if isinstance(item, Tool):
        _check_tool(item.name, item.description, item.parameters, path, "parameters")
        return item
    if isinstance(item, Mapping):
        return _from_mapping(item, path)
    if callable(item):
        tool = tool_from_function(item, path)
        _check_tool(tool.name, tool.description, tool.parameters, path, "parameters")
        return tool
    raise InvalidRequest(f"{path}: expected a tool, an object or a function, got {_kind(item)}")


def _from_mapping(item: Mapping[str, Any], path: str) -> Tool:
    if "function" in item:
        item, path = item["function"], f"{path}.function"
        if not isinstance(item, Mapping):
            raise InvalidRequest(f"{path}: expected an object, got {_kind(item)}")
    key = next((key for key in SCHEMA_KEYS if item.get(key) is not None), SCHEMA_KEYS[0])
    schema = item.get(key)
    schema = {"type": "object", "properties": {}} if schema is None else schema
    description = item.get("description")
    description = "" if description is None else description
    _check_tool(item.get("name"), description, schema, path, key)
    return Tool(item["name"], description, schema)


def _check_tool(name: Any, description: Any, schema: Any, path: str, key: str) -> None:
    if not isinstance(name, str) or not name.strip():
        raise InvalidRequest(f"{path}.name: expected a name, got {_kind(name)}")
    if name != name.strip() or len(name) > NAME_LIMIT or any(c in "{\n\r" for c in name):
        raise InvalidRequest(f"{path}.name: {name[:40]!r} cannot be the name of a tool")
    if not isinstance(description, str):
        raise InvalidRequest(f"{path}.description: expected text, got {_kind(description)}")
    place = f"{path}.{key}"
    _check_schema(schema, place, NESTING_LIMIT)
    if schema.get("type", "object") not in ("object", "dict"):
        raise InvalidRequest(f'{place}.type: expected "object", got {schema["type"]!r}')


def _check_schema(schema: Any, place: str, depth: int) -> None:
    """Raise InvalidRequest unless every part of a JSON Schema that is read later can be read."""
    if not isinstance(schema, Mapping):
        raise InvalidRequest(f"{place}: expected an object, got {_kind(schema)}")
    if depth == 0:
        raise InvalidRequest(f"{place}: nested too deeply")
    for key, value in schema.items():
        check = _CHECKS.get(key) if isinstance(key, str) else _bad_key
        if check is not None:
            check(value, f"{place}.{key}", depth - 1)


def _bad_key(_: Any, place: str, __: int) -> None:
    raise InvalidRequest(f"{place}: names must be text")


def _check_fields(value: Any, place: str, depth: int) -> None:
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{place}: expected an object, got {_kind(value)}")
    for name, inner in value.items():
        if not isinstance(name, str):
            _bad_key(inner, f"{place}.{name}", depth)
        _check_schema(inner, f"{place}.{name}", depth)


def _check_required(value: Any, place: str, _: int) -> None:
    if isinstance(value, bool):  # {"type": "string", "required": true} is common and is read
        return
    if not isinstance(value, list | tuple):
        raise InvalidRequest(f"{place}: expected a list, got {_kind(value)}")
    for number, name in enumerate(value):
        _check_text(name, f"{place}[{number}]", 0)


def _check_text(value: Any, place: str, _: int) -> None:
    if value is not None and not isinstance(value, str):
        raise InvalidRequest(f"{place}: expected text, got {_kind(value)}")


def _check_type(value: Any, place: str, _: int) -> None:
    names = value if isinstance(value, list | tuple) else [value]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InvalidRequest(f"{place}: expected the name of a type, got {_kind(value)}")


def _check_options(value: Any, place: str, depth: int) -> None:
    if not isinstance(value, list | tuple) or not value:
        raise InvalidRequest(f"{place}: expected a list with something in it, got {_kind(value)}")
    for number, inner in enumerate(value):
        _check_schema(inner, f"{place}[{number}]", depth)


def _check_items(value: Any, place: str, depth: int) -> None:
    if isinstance(value, list | tuple):
        return _check_options(value, place, depth)
    return None if isinstance(value, bool) else _check_schema(value, place, depth)


def _check_choices(value: Any, place: str, depth: int) -> None:
    if not isinstance(value, list | tuple) or not value:
        raise InvalidRequest(f"{place}: expected a list with something in it, got {_kind(value)}")
    for number, choice in enumerate(value):
        _check_json(choice, f"{place}[{number}]", depth)


def _check_json(value: Any, place: str, depth: int) -> None:
    if value is None or isinstance(value, str | bool | int):
        return
    if isinstance(value, float) and math.isfinite(value):
        return
    if depth <= 0:
        raise InvalidRequest(f"{place}: nested too deeply")
    if isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            _check_json(inner, f"{place}[{number}]", depth - 1)
    elif isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        for key, inner in value.items():
            _check_json(inner, f"{place}.{key}", depth - 1)
    else:
        raise InvalidRequest(f"{place}: {_kind(value)} is not JSON")


def _check_number(value: Any, place: str, _: int) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not whole and not (isinstance(value, float) and math.isfinite(value)):
        raise InvalidRequest(f"{place}: expected a number, got {_kind(value)}")


def _check_count(value: Any, place: str, _: int) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (whole and value >= 0):
        raise InvalidRequest(f"{place}: expected a whole number from 0, got {_kind(value)}")


_CHECKS: dict[str, Callable[[Any, str, int], None]] = {
    **dict.fromkeys(("properties", "$defs", "definitions", "patternProperties"), _check_fields),
    **dict.fromkeys(("anyOf", "oneOf", "allOf"), _check_options),
    **dict.fromkeys(("description", "title", "format", "pattern", "$ref"), _check_text),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), _check_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _check_count),
    **dict.fromkeys(("default", "const", "example", "examples"), _check_json),
    "additionalProperties": _check_items,
    "items": _check_items,
    "enum": _check_choices,
    "required": _check_required,
    "type": _check_type,
}


def _kind(value: Any) -> str:
    """What a value is, as JSON calls it, for a message."""
    if value is None:
        return "nothing"
    names = {bool: "true or false", str: "text", int: "a number", float: "a number"}
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    return (
        "empty text"
        if isinstance(value, str) and not value
        else names.get(type(value), type(value).__name__)
    )


_MADE_FROM_TEXT: dict[Any, Callable[[str], Any]] = {
    datetime.datetime: datetime.datetime.fromisoformat,
    datetime.date: datetime.date.fromisoformat,
    datetime.time: datetime.time.fromisoformat,
    decimal.Decimal: decimal.Decimal,
    uuid.UUID: uuid.UUID,
    pathlib.Path: pathlib.Path,
}


def call_function(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a function with JSON values, made into the enums and dataclasses it asks for.

    Arguments that do not fit its signature raise InvalidRequest; its own errors are passed on.
    """
    name = name_of(function, "tools")
    hints = hints_of(function, "tools", name)
    signature = inspect.signature(function)
    first = [p.name for p in signature.parameters.values() if p.kind is p.POSITIONAL_ONLY]
    try:
        made = {key: _value(hints.get(key, Any), value) for key, value in arguments.items()}
        positional = [made.pop(key) for key in first if key in made]
        bound = signature.bind(*positional, **made)
    except TypeError as error:
        raise InvalidRequest(f"{name}: {error}") from error
    return function(*bound.args, **bound.kwargs)


def _value(hint: Any, value: Any) -> Any:
    """A JSON value as the type the function asks for; what does not fit is left as it is."""
    hint, _ = bare_hint(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        fitting = (_value(option, value) for option in arguments if option is not type(None))
        return next((made for made in fitting if made is not value), value)
    if origin in LISTS and isinstance(value, list) and arguments:
        made = [_value(arguments[0], item) for item in value]
        return origin(made) if origin in (set, frozenset, tuple) else made
    if not inspect.isclass(hint):
        return value
    if issubclass(hint, enum.Enum):
        return next((member for member in hint if member.value == value), value)
    if hint in _MADE_FROM_TEXT and isinstance(value, str):
        try:
            return _MADE_FROM_TEXT[hint](value)
        except (ValueError, ArithmeticError):
            return value
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        hints = typing.get_type_hints(hint, include_extras=True)
        return hint(**{name: _value(hints.get(name, Any), inner) for name, inner in value.items()})
    return value
