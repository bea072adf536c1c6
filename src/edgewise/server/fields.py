"""Reads a JSON body field by field; what has the wrong type is refused by its name."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from edgewise.errors import InvalidRequest

# More is not written by hand, and recursion must end somewhere.
DEEPEST = 64


class BadField(InvalidRequest):
    """A field of a request has the wrong type or value."""

    def __init__(self, path: str, words: str) -> None:
        super().__init__(f"{path}: {words}" if path else words)
        self.path = path


def parse_body(body: bytes) -> Fields:
    """The object in a request's body. Fields that nobody asks for are ignored."""
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
        if b"\\ud" in body.lower():
            # Half a surrogate pair is legal JSON, but no text that can be stored or sent on.
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise BadField("", f"the body is not UTF-8: {error.reason}") from error
    except UnicodeEncodeError as error:
        raise BadField("", "the body has half a surrogate pair in a text") from error
    except RecursionError as error:
        raise BadField("", "the body is nested too deeply") from error
    except ValueError as error:
        raise BadField("", f"the body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadField("", f"the body must be a JSON object, not {_kind(value)}")
    _check_depth(value)
    return Fields(value)


class Fields:
    """One JSON object on its way in. `null` counts as not given."""

    def __init__(self, values: Mapping[str, Any], path: str = "") -> None:
        self.values = values
        self.path = path

    def name_of(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None

    def bad(self, name: str, words: str) -> BadField:
        return BadField(self.name_of(name), words)

    def text(self, name: str, default: str | None = None) -> str:
        value = self._given(name, default)
        if not isinstance(value, str):
            raise self.bad(name, f"expected text, got {_kind(value)}")
        return value

    def whole(self, name: str, default: int | None = None, *, low: int, high: int) -> int:
        value = self._given(name, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON knows one kind of number: 5.0 is 5
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.bad(name, f"expected a whole number, got {_kind(value)}")
        if not low <= value <= high:
            raise self.bad(name, f"expected {low} to {high}, got {value}")
        return value

    def number(self, name: str, default: float | None = None, *, low: float, high: float) -> float:
        value = self._given(name, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.bad(name, f"expected a number, got {_kind(value)}")
        if not low <= value <= high or not math.isfinite(value):
            raise self.bad(name, f"expected {low:g} to {high:g}, got {value}")
        return float(value)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self._given(name, default)
        if not isinstance(value, bool):
            raise self.bad(name, f"expected true or false, got {_kind(value)}")
        return value

    def choice(self, name: str, default: str, known: tuple[str, ...]) -> str:
        value = self.text(name, default)
        if value not in known:
            raise self.bad(name, f"expected one of {', '.join(known)}, got {value[:40]!r}")
        return value

    def inner(self, name: str) -> Fields:
        """An object; empty where there is none."""
        value = self._given(name, {})
        if not isinstance(value, dict):
            raise self.bad(name, f"expected an object, got {_kind(value)}")
        return Fields(value, self.name_of(name))

    def listed(self, name: str, *, required: bool = False) -> list[Any]:
        value = self._given(name, None if required else [])
        if not isinstance(value, list):
            raise self.bad(name, f"expected a list, got {_kind(value)}")
        return value

    def each(self, name: str, *, required: bool = False) -> Iterator[Fields]:
        """The objects of a list."""
        for number, value in enumerate(self.listed(name, required=required)):
            path = f"{self.name_of(name)}[{number}]"
            if not isinstance(value, dict):
                raise BadField(path, f"expected an object, got {_kind(value)}")
            yield Fields(value, path)

    def texts(self, name: str) -> tuple[str, ...]:
        """A text, or a list of texts."""
        value = self._given(name, [])
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
            raise self.bad(name, "expected text or a list of texts")
        return tuple(values)

    def _given(self, name: str, default: Any) -> Any:
        value = self.values.get(name)
        if value is not None:
            return value
        if default is None:
            raise self.bad(name, "is required")
        return default


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level:
        if depth > DEEPEST:
            raise BadField("", "the body is nested too deeply")
        inside = [each for each in level if isinstance(each, dict | list)]
        level = [
            below
            for each in inside
            for below in (each.values() if isinstance(each, dict) else each)
        ]
        depth += 1


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    return names.get(type(value), "a number")
