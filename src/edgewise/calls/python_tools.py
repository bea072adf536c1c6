"""Python functions as tools: their schemas from signature, type hints and docstring; their calls.

Loads pydantic, so it is imported only where a function is given as a tool."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import functools
import inspect
import json
import operator
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NotRequired, Required, Union, get_args, get_origin

import docstring_parser
from docstring_parser.google import DEFAULT_SECTIONS, GoogleParser, Section, SectionType
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypedDict, is_typeddict, override

from edgewise.errors import InvalidRequest
from edgewise.types.messages import Tool

NESTING_LIMIT = 12

Schema = dict[str, Any]

_SKIPPED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
# What evaluating an annotation may raise: it is the user's code.
_BAD_HINT = (
    NameError, TypeError, AttributeError, SyntaxError, ValueError, LookupError, ImportError,
    ArithmeticError, RecursionError,
)  # fmt: skip
_UNREADABLE = (PydanticUserError, PydanticUndefinedAnnotation, RecursionError)
_BASES: tuple[tuple[type, Schema], ...] = (
    (bool, {"type": "boolean"}), (int, {"type": "integer"}), (float, {"type": "number"}),
    (str, {"type": "string"}), (collections.abc.Mapping, {"type": "object"}),
    (collections.abc.Collection, {"type": "array"}),
)  # fmt: skip
_READ_AS_LISTS = (
    collections.abc.Iterable, collections.abc.Collection, collections.abc.MutableSequence,
)  # fmt: skip
_DROPPED = ("title", "$defs", "discriminator")
_SAYS_NOTHING = {"default": None, "format": "path", "additionalProperties": True}
_SECTION = re.compile(r"[A-Z][A-Za-z ]*:|:\w.*|@\w.*")
_GOOGLE = GoogleParser(
    [
        *DEFAULT_SECTIONS,
        Section("Keyword Args", "param", SectionType.MULTIPLE),
        Section("Keyword Arguments", "param", SectionType.MULTIPLE),
        Section("Other Parameters", "param", SectionType.MULTIPLE),
    ]
)


def tool_from_function(function: Callable[..., Any], path: str = "tools[0]") -> Tool:
    """A tool from a function's name, signature, type hints and docstring."""
    name = _name_of(function, path)
    summary, described = read_docstring(inspect.getdoc(_unwrapped(function)))
    hints = _hints_of(function, path, name)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"{path}: {name} has no signature that can be read") from error
    properties: Schema = {}
    required = []
    for parameter in signature.parameters.values():
        if parameter.kind in _SKIPPED:
            continue
        hint = hints.get(parameter.name, Any)
        schema = _schema(hint, f"{path}.parameters.properties.{parameter.name}")
        description = _note(hint) or described.get(parameter.name)
        if description:
            schema["description"] = description
        if parameter.default is inspect.Parameter.empty:
            required.append(parameter.name)
        else:
            schema |= _default(parameter.default)
        properties[parameter.name] = schema
    return Tool(name, summary, {"type": "object", "properties": properties, "required": required})


def call_function(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a function with JSON values, made into the enums, dataclasses, dates … it asks for.

    Arguments that do not fit its hints or signature raise InvalidRequest; its own errors are
    passed on.
    """
    name = _name_of(function, "tools")
    hints = _hints_of(function, "tools", name)
    signature = inspect.signature(function)
    first = [p.name for p in signature.parameters.values() if p.kind is p.POSITIONAL_ONLY]
    made = {key: _value(hints.get(key, Any), value, name, key) for key, value in arguments.items()}
    try:
        positional = [made.pop(key) for key in first if key in made]
        bound = signature.bind(*positional, **made)
    except TypeError as error:
        raise InvalidRequest(f"{name}: {error}") from error
    return function(*bound.args, **bound.kwargs)


def describe_answer(
    kind: type[Any], place: str
) -> tuple[Schema, Callable[[str], Any], Schema | None]:
    """The JSON Schema of a class, and what makes an instance of it from JSON. Third, the schema
    that the device is held to, if it is another one.

    `parse` raises ValueError with one line for JSON that does not validate.
    """
    try:
        adapter = TypeAdapter(_readable(kind))
        schema = adapter.json_schema(schema_generator=_ToolSchema)
        local = adapter.json_schema(schema_generator=_LocalSchema)
    except (*_UNREADABLE, *_BAD_HINT) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidRequest(f"{place}: cannot describe {kind.__name__}: {reason}") from error

    def parse(text: str) -> Any:
        try:
            return adapter.validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = "".join(f"[{n}]" if isinstance(n, int) else f".{n}" for n in first["loc"])
            raise ValueError(f"${where}: {first['msg']}") from error

    return schema, parse, None if local == schema else local


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """The summary paragraph, and a description for each parameter that has one."""
    plain = inspect.cleandoc(text or "")
    summary: list[str] = []
    for line in plain.splitlines():
        if not line.strip() or _SECTION.fullmatch(line.strip()):
            break
        summary.append(line.strip())
    described: dict[str, str] = {}
    for parse in (docstring_parser.parse, _GOOGLE.parse):
        try:
            found = parse(plain).params
        except docstring_parser.ParseError:
            continue
        for parameter in found:
            words = " ".join((parameter.description or "").split())
            for name in re.findall(r"\w+", parameter.arg_name) if words else ():
                described.setdefault(name, words)
    return " ".join(summary), described


def _unwrapped(function: Callable[..., Any]) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _name_of(function: Callable[..., Any], path: str) -> str:
    plain = _unwrapped(function)
    name = getattr(plain, "__name__", type(plain).__name__)
    if name == "<lambda>":
        raise InvalidRequest(f"{path}.name: a lambda has no name; use a function")
    return str(name)


def _hints_of(function: Callable[..., Any], path: str, name: str) -> dict[str, Any]:
    plain = _unwrapped(function)
    if inspect.isclass(plain):
        plain = plain.__init__
    elif not inspect.isroutine(plain):
        plain = type(plain).__call__
    try:
        return typing.get_type_hints(plain, include_extras=True)
    except _BAD_HINT as error:
        raise InvalidRequest(f"{path}: the type hints of {name} cannot be read: {error}") from error


def _value(hint: Any, value: Any, function: str, name: str) -> Any:
    """A JSON value as the type that the function asks for."""
    try:
        return TypeAdapter(_readable(hint)).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, (name, *first["loc"])))
        got = "" if first["type"] == "missing" else f", got {_quoted(first['input'])}"
        raise InvalidRequest(f"{function}: {place}: {first['msg']}{got}") from error
    except _UNREADABLE:
        return value


def _quoted(value: Any) -> str:
    written = repr(value)
    return written if len(written) <= 60 else f"{written[:59]}…"


def _schema(hint: Any, place: str) -> Schema:
    """The JSON Schema of a type hint."""
    try:
        readable = _readable(hint)
        found = TypeAdapter(readable).json_schema(schema_generator=_ToolSchema)
    except _UNREADABLE as error:
        for base, schema in _BASES:
            if inspect.isclass(hint) and issubclass(hint, base):
                return dict(schema)
        name = getattr(hint, "__qualname__", repr(hint))
        reason = str(error).partition("\n")[0]
        raise InvalidRequest(f"{place}: cannot describe the type {name}: {reason}") from error
    plain: Schema = _inlined(found, found.get("$defs", {}), place, NESTING_LIMIT)
    return plain


class _ToolSchema(GenerateJsonSchema):
    """Descriptions also from a dataclass's fields; decimals are numbers."""

    @override
    def decimal_schema(self, schema: Any) -> Schema:
        return {"type": "number"}

    @override
    def dataclass_schema(self, schema: Any) -> Schema:
        found = super().dataclass_schema(schema)
        hints = typing.get_type_hints(schema["cls"], include_extras=True)
        properties = found.get("properties", {})
        for field in dataclasses.fields(schema["cls"]):
            words = field.metadata.get("description") or _note(hints[field.name])
            if not field.init:
                properties.pop(field.name, None)
            elif words and field.name in properties:
                properties[field.name]["description"] = words
        return found


class _LocalSchema(_ToolSchema):
    """Times without a zone, as in Python: JSON Schema's must have one, which nobody has said. A
    small model writes lengths of time better as 01:30:00 than as PT1H30M; Python reads both."""

    @override
    def time_schema(self, schema: Any) -> Schema:
        return super().time_schema(schema) | _local(schema, "time-local")

    @override
    def datetime_schema(self, schema: Any) -> Schema:
        return super().datetime_schema(schema) | _local(schema, "date-time-local")

    @override
    def timedelta_schema(self, schema: Any) -> Schema:
        return {"type": "string", "format": "clock-duration"}


def _local(schema: Any, name: str) -> Schema:
    return {"format": name} if schema.get("tz_constraint") is None else {}


def _inlined(schema: Any, definitions: Mapping[str, Any], place: str, depth: int) -> Any:
    """A schema as a small model reads it best: nothing referred to, no titles, no null.

    `X | None` is X: a tool's argument is left out rather than null.
    """
    if not isinstance(schema, dict):
        return schema
    if depth == 0:
        raise InvalidRequest(f"{place}: the type is nested too deeply")

    def inner(one: Any, name: str = "") -> Any:
        return _inlined(one, definitions, f"{place}{name}", depth - 1)

    found = dict(schema)
    if "$ref" in found:
        found = {**definitions[found.pop("$ref").rpartition("/")[2]], **found}
    found = {
        key: value
        for key, value in found.items()
        if key not in _DROPPED and (key not in _SAYS_NOTHING or value != _SAYS_NOTHING[key])
    }
    if "properties" in found:
        fields = found["properties"].items()
        found["properties"] = {name: inner(one, f".properties.{name}") for name, one in fields}
        found.setdefault("required", [])
    for key in ("items", "additionalProperties"):
        if key in found:
            found[key] = inner(found[key])
    if "prefixItems" in found:
        kinds = [inner(one, ".items") for one in found.pop("prefixItems")]
        found["items"] = _either([one for n, one in enumerate(kinds) if one not in kinds[:n]])
    for key in ("anyOf", "oneOf", "allOf"):
        options = [inner(one) for one in found.pop(key, ()) if one.get("type") != "null"]
        found = {**_either(options, key), **found}
    return found


def _either(options: list[Schema], key: str = "anyOf") -> Schema:
    return {key: options} if len(options) > 1 else dict(*options)


def _readable(hint: Any) -> Any:
    """A hint that pydantic reads on every Python: its TypedDicts remade, of iterables lists."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_typeddict(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        return TypedDict(  # type: ignore[operator]
            hint.__name__, {name: _field(hint, name, inner) for name, inner in hints.items()}
        )
    if origin is Annotated:
        told = [Field(description=words)] if (words := _note(hint)) else []
        return Annotated[(_readable(arguments[0]), *hint.__metadata__, *told)]
    if origin in (Union, types.UnionType):
        return functools.reduce(operator.or_, map(_readable, arguments))
    if origin in _READ_AS_LISTS:
        return list[_readable(arguments[0])]  # type: ignore[misc]
    if origin in (list, dict, set, frozenset, tuple):
        return origin[tuple(map(_readable, arguments))]
    return hint


def _field(holder: Any, name: str, hint: Any) -> Any:
    """Where annotations are text, a TypedDict's own list of required keys is wrong."""
    marked = get_origin(hint)
    inner = get_args(hint)[0] if marked in (Required, NotRequired) else hint
    needed = name in holder.__required_keys__ and marked is not NotRequired
    return (Required if needed or marked is Required else NotRequired)[_readable(inner)]


def _note(hint: Any) -> str:
    """What `Annotated` says of a hint: a string, or an object that carries a description."""
    for note in get_args(hint)[1:] if get_origin(hint) is Annotated else ():
        words = note if isinstance(note, str) else getattr(note, "description", None)
        words = words or getattr(note, "documentation", None)
        if isinstance(words, str) and words:
            return words
    return ""


def _default(value: Any) -> Schema:
    if isinstance(value, enum.Enum):
        value = value.value
    try:
        written = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return {}
    return {} if value is None else {"default": json.loads(written)}
