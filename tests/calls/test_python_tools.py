"""Plain functions as tools: their signatures become schemas, JSON becomes their arguments."""

from __future__ import annotations

import datetime
import enum
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NewType, NotRequired, Optional, TypedDict

import pytest

from edgewise.calls.tools import (
    as_toolbox,
    as_tools,
    tool_from_function,
)
from edgewise.errors import InvalidRequest


class Glaze(enum.Enum):
    ASH = "ash"
    SALT = "salt"


@dataclass
class Shelf:
    height: int
    label: str = "top"
    glaze: Glaze = field(default=Glaze.ASH, metadata={"description": "What is on it"})


class Firing(TypedDict):
    degrees: int
    slow: NotRequired[bool]


Cone = NewType("Cone", int)


def fire(
    shelf: Shelf,
    plan: Firing,
    cone: Cone,
    names: list[str],
    mode: Literal["wood", "gas"] = "wood",
    glaze: Glaze = Glaze.SALT,
    note: Annotated[str | None, "Said to the potter"] = None,
    when: Optional[datetime.date] = None,  # noqa: UP045 - the older spelling must be read too
    extra: dict[str, float] | None = None,
    size: tuple[int, int] = (1, 2),
    anything: Any = None,
    *args: int,
    odd: int | str = 3,
    **more: Any,
) -> str:
    """Fire the kiln.

    Args:
        cone: How hot.
        note: Not this one.
    """
    return f"{shelf.glaze.value} {glaze.name} {when!r} {size}"


def test_a_signature_becomes_a_schema() -> None:
    tool = tool_from_function(fire)
    assert (tool.name, tool.description) == ("fire", "Fire the kiln.")
    assert tool.parameters["required"] == ["shelf", "plan", "cone", "names"]
    assert tool.parameters["properties"] == {
        "shelf": {
            "type": "object",
            "properties": {
                "height": {"type": "integer"},
                "label": {"type": "string", "default": "top"},
                "glaze": {
                    "type": "string",
                    "enum": ["ash", "salt"],
                    "description": "What is on it",
                    "default": "ash",
                },
            },
            "required": ["height"],
        },
        "plan": {
            "type": "object",
            "properties": {"degrees": {"type": "integer"}, "slow": {"type": "boolean"}},
            "required": ["degrees"],
        },
        "cone": {"type": "integer", "description": "How hot."},
        "names": {"type": "array", "items": {"type": "string"}},
        "mode": {"type": "string", "enum": ["wood", "gas"], "default": "wood"},
        "glaze": {"type": "string", "enum": ["ash", "salt"], "default": "salt"},
        "note": {"type": "string", "description": "Said to the potter"},
        "when": {"type": "string", "format": "date"},
        "extra": {"type": "object", "additionalProperties": {"type": "number"}},
        "size": {
            "type": "array",
            "items": {"type": "integer"},
            "minItems": 2,
            "maxItems": 2,
            "default": [1, 2],
        },
        "anything": {},
        "odd": {"anyOf": [{"type": "integer"}, {"type": "string"}], "default": 3},
    }


def bell(times: int, /, tower: str = "north") -> str:
    return f"{times} {tower}"


class Mill:
    """Grinds."""

    def __init__(self, stones: int = 2) -> None:
        self.stones = stones

    def grind(self, grains: Sequence[str]) -> int:
        """Grind some grain."""
        return self.stones * len(grains)

    def __call__(self, grain: str) -> str:
        return grain


@pytest.mark.parametrize(
    ("item", "name", "properties"),
    [
        (Mill().grind, "grind", ["grains"]),
        (Mill(), "Mill", ["grain"]),
        (Mill, "Mill", ["stones"]),
        (functools.partial(bell, 3), "bell", ["tower"]),
        (len, "len", ["obj"]),
        (object, "object", []),
    ],
)
def test_whatever_can_be_called_is_a_tool(item: Any, name: str, properties: list[str]) -> None:
    tool = tool_from_function(item)
    assert tool.name == name and list(tool.parameters["properties"]) == properties
    assert as_tools([item]) == (tool,)


def test_the_functions_are_kept_beside_the_tools() -> None:
    mill = Mill(3)
    box = as_toolbox([mill.grind, {"name": "other"}])
    assert [tool.name for tool in box.tools] == ["grind", "other"]
    assert list(box.functions) == ["grind"]
    assert box.functions["grind"](["rye", "oat"]) == 6


class Endless:
    pass


def unknown_type(x: Endless) -> None: ...


def unreadable_hint(x: NoSuchThing) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@dataclass
class Nested:
    inner: Nested | None = None


def recursive(x: Nested) -> None: ...


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (unknown_type, r"tools\[0\].parameters.properties.x: cannot describe the type Endless"),
        (
            unreadable_hint,
            r"tools\[0\]: the type hints of unreadable_hint cannot be read: .*NoSuch",
        ),
        (recursive, r"tools\[0\].parameters.properties.x.*: the type is nested too deeply"),
        (lambda x: x, r"tools\[0\].name: a lambda has no name"),
    ],
)
def test_a_function_that_cannot_be_described_says_why(item: Any, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        as_tools([item])
