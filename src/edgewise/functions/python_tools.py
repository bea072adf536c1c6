"""Describe a plain Python function as a tool."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import functools
import inspect
import json
import pathlib
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin

from typing_extensions import ReadOnly, is_typeddict

from edgewise.errors import InvalidRequest
from edgewise.functions.docstrings import read_docstring
from edgewise.types.messages import Tool

NESTING_LIMIT = 12

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
        schema = _schema(hints.get(parameter.name, Any), place, NESTING_LIMIT)
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
