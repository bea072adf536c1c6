"""Call a Python function with the JSON arguments a model gives."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import inspect
import pathlib
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Union, get_args, get_origin

from edgewise.errors import InvalidRequest
from edgewise.functions.python_tools import LISTS, bare_hint, hints_of, name_of

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
