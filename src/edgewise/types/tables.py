"""Rows of a TOML file as dataclasses: read when first needed, every field checked."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, cached_property
from importlib import resources
from types import UnionType
from typing import Any, Literal, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

from typing_extensions import override


class Named(Protocol):
    @property
    def name(self) -> str: ...


_WORDS: dict[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number with a point",
    bool: "true or false",
    tuple: "a list",
}

Row = TypeVar("Row", bound=Named)
Value = TypeVar("Value")


class Table(Mapping[str, Row]):
    """The `[[kind]]` tables of a file in a package, by name and in order; read once.

    `read` makes a row of a table; its second argument begins the messages of its errors.
    """

    def __init__(
        self, package: str, file: str, kind: str, read: Callable[[dict[str, Any], str], Row]
    ) -> None:
        self._package = package
        self._file = file
        self._kind = kind
        self._read = read

    @cached_property
    def _rows(self) -> dict[str, Row]:
        rows: dict[str, Row] = {}
        text = resources.files(self._package).joinpath(self._file).read_text("utf-8")
        for number, table in enumerate(tomllib.loads(text)[self._kind], start=1):
            where = f"{self._file}, {self._kind} {table.get('name', number)!r}"
            row = self._read(table, where)
            if row.name in rows:
                raise ValueError(f"{where}: there are two of this name")
            rows[row.name] = row
        return rows

    @override
    def __getitem__(self, name: str) -> Row:
        return self._rows[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    @override
    def __len__(self) -> int:
        return len(self._rows)


def read_row(kind: type[Value], table: Mapping[str, Any], where: str) -> Value:
    """A table as a dataclass. Raises ValueError that names the place, the field and the mistake."""
    types, required = _fields(kind)  # type: ignore[arg-type]
    for name in table.keys() - types.keys():
        raise ValueError(f"{where}: there is no field {name!r}")
    for name in required:
        if name not in table:
            raise ValueError(f"{where}: the field {name!r} is missing")
    return kind(
        **{name: _checked(types[name], value, f"{where}, {name}") for name, value in table.items()}
    )


@cache
def _fields(kind: type[Any]) -> tuple[dict[str, Any], list[str]]:
    """The types of a dataclass's fields, and the fields that have no default."""
    required = [field.name for field in fields(kind) if field.default is MISSING]
    return get_type_hints(kind), required


def _checked(wanted: Any, value: Any, where: str) -> Any:
    """The value, checked against the type of the dataclass's field. Rows stay as they are."""
    if is_dataclass(value):
        return value
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):  # with None, which TOML does not have
        return _checked(arguments[0], value, where)
    if origin is Literal:
        if value in arguments:
            return value
        raise ValueError(f"{where}: {value!r} is none of {', '.join(map(repr, arguments))}")
    if origin is tuple and isinstance(value, list):
        return tuple(_checked(arguments[0], one, where) for one in value)
    if isinstance(wanted, type) and is_dataclass(wanted) and isinstance(value, dict):
        return read_row(wanted, value, where)
    if type(value) is wanted:
        return value
    raise ValueError(f"{where}: {value!r} is not {_WORDS.get(origin or wanted, 'a table')}")
