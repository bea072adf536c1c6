"""Python functions as tools: their schemas, their docstrings, and how one is called."""

from __future__ import annotations

import datetime
import decimal
import enum
import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NewType, NotRequired, Optional, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from edgewise.calls.python_tools import call_function, read_docstring, tool_from_function
from edgewise.calls.tools import as_toolbox, as_tools
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


class Lustre(enum.Enum):
    ASH = "ash"
    SALT = "salt"


@dataclass
class Rack:
    height: int
    glaze: Lustre = Lustre.ASH


class Label(str):
    pass


class Oven(BaseModel):
    """What fires."""

    degrees: int = Field(ge=0, le=1400, description="How hot")
    racks: list[Rack] = []


def warm(
    oven: Annotated[Oven, "Which one"],
    label: Label,
    price: decimal.Decimal,
    pause: datetime.timedelta,
    steps: Iterable[int],
    plans: list[Firing],
) -> Any:
    return oven, price, pause, steps, plans


def test_models_and_what_is_nested_in_them_are_described_in_place() -> None:
    schema = tool_from_function(warm).parameters
    assert schema["properties"]["oven"]["properties"] == {
        "degrees": {"type": "integer", "minimum": 0, "maximum": 1400, "description": "How hot"},
        "racks": {
            "type": "array",
            "default": [],
            "items": {
                "type": "object",
                "properties": {
                    "height": {"type": "integer"},
                    "glaze": {"type": "string", "enum": ["ash", "salt"], "default": "ash"},
                },
                "required": ["height"],
            },
        },
    }
    assert schema["properties"]["oven"]["description"] == "Which one"
    assert schema["properties"]["label"] == {"type": "string"}
    assert schema["properties"]["price"] == {"type": "number"}
    assert schema["properties"]["pause"] == {"type": "string", "format": "duration"}
    assert schema["properties"]["steps"] == {"type": "array", "items": {"type": "integer"}}
    assert schema["properties"]["plans"]["items"]["required"] == ["degrees"]
    assert "$ref" not in json.dumps(schema)


def test_models_are_made_when_a_function_is_called() -> None:
    given_values = {
        "oven": {"degrees": 900, "racks": [{"height": 2}]},
        "label": "a",
        "price": 2.5,
        "pause": "PT5M",
        "steps": [1, 2],
        "plans": [{"degrees": 3}],
    }
    oven, price, pause, steps, plans = call_function(warm, given_values)
    assert (oven.degrees, oven.racks) == (900, [Rack(2)])
    assert (price, pause) == (decimal.Decimal("2.5"), datetime.timedelta(minutes=5))
    assert (steps, plans) == ([1, 2], [{"degrees": 3}])


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


GOOGLE = """Ring the bell
    of the tower.

    Loud, so think twice.

    Args:
        times (int): How often,
            at the least.
        bell: Which bell: the big one or the small one.
        *rest: Ignored.

    Returns:
        result: Not a parameter.
    """
NUMPY = """Ring the bell of the tower.

    Parameters
    ----------
    times : int, optional
        How often,
        at the least.
    bell, other : str
        Which bell.

    Returns
    -------
    int
        Not a parameter.
    """
SPHINX = """Ring the bell of the tower.

    :param int times: How often,
        at the least.
    :param bell: Which bell.
    :type bell: str
    :returns: nothing
    """


@pytest.mark.parametrize(
    ("text", "described"),
    [
        (
            GOOGLE,
            {
                "times": "How often, at the least.",
                "bell": "Which bell: the big one or the small one.",
                "rest": "Ignored.",
            },
        ),
        (
            NUMPY,
            {"times": "How often, at the least.", "bell": "Which bell.", "other": "Which bell."},
        ),
        (SPHINX, {"times": "How often, at the least.", "bell": "Which bell."}),
    ],
)
def test_each_style_gives_summary_and_parameters(text: str, described: dict[str, str]) -> None:
    assert read_docstring(text) == ("Ring the bell of the tower.", described)


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (None, ""),
        ("", ""),
        ("One line.", "One line."),
        ("Do it.\nArgs:\n  x: y", "Do it."),
        ("Args:\n  x: y", ""),
        ("Do it.\n:param x: y", "Do it."),
        ("Notes on the weather of a day", "Notes on the weather of a day"),
    ],
)
def test_the_summary_ends_where_the_parameters_begin(text: str | None, summary: str) -> None:
    assert read_docstring(text)[0] == summary


@pytest.mark.parametrize(
    "text",
    [
        "Do it.\n\nKeyword Args:\n    x: y",
        "Do it.\n\nOther Parameters:\n    x: y",
        "Do it.\n\nArgs:\n    **x: y",
        "Do it.\n\n@param x: y",
    ],
)
def test_less_common_sections_are_read_too(text: str) -> None:
    assert read_docstring(text) == ("Do it.", {"x": "y"})


LINES = st.sampled_from(
    ["Args:", "Parameters", "----", "  x: y", "x : int", "    deep", "", ":param x: y", "Returns:"]
)


@given(st.lists(LINES | st.text(max_size=10), max_size=12).map("\n".join))
def test_any_text_is_read(text: str) -> None:
    summary, described = read_docstring(text)
    assert "\n" not in summary
    assert all(name and words for name, words in described.items())


def bake(
    shelf: Rack,
    glazes: list[Lustre] | None = None,
    when: datetime.date | None = None,
    size: tuple[int, ...] = (),
    marks: set[str] | None = None,
) -> tuple[Any, ...]:
    return shelf, glazes, when, size, marks


def ring(times: int, tower: str = "north", /, loud: bool = False) -> str:
    return f"{times} {tower} {loud}"


def anything(**given: Any) -> dict[str, Any]:
    return given


def test_values_are_made_into_what_the_hints_say() -> None:
    made = call_function(
        bake,
        {
            "shelf": {"height": 2, "glaze": "salt"},
            "glazes": ["ash", "salt"],
            "when": "2026-03-01",
            "size": [3, 4],
            "marks": ["x", "x"],
        },
    )
    day = datetime.date(2026, 3, 1)
    assert made == (
        Rack(2, Lustre.SALT),
        [Lustre.ASH, Lustre.SALT],
        day,
        (3, 4),
        {"x"},
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shelf": "top"}, "bake: shelf: "),
        ({"shelf": {"height": 2}, "glazes": ["mud"]}, r"bake: glazes\.0: .*'ash' or 'salt'"),
        ({"shelf": {"height": 2}, "when": "soon"}, "bake: when: .*date"),
    ],
)
def test_what_does_not_fit_its_hint_is_refused_with_its_place(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        call_function(bake, arguments)


def test_positional_only_parameters_are_given_by_position_in_any_order() -> None:
    assert call_function(ring, {"loud": True, "tower": "south", "times": 3}) == "3 south True"


def test_a_function_that_takes_everything_gets_everything() -> None:
    assert call_function(anything, {"a": 1, "b": [2]}) == {"a": 1, "b": [2]}


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (ring, {}, "ring: missing a required .*'times'"),
        (
            ring,
            {"times": 1, "colour": "red"},
            "ring: .*unexpected keyword argument 'colour'",
        ),
        (bake, {"shelf": {"width": 3}}, "bake: shelf.height: Field required"),
        (bake, {"shelf": {"height": 1}, "marks": [{}]}, r"bake: marks\.0: "),
    ],
)
def test_arguments_that_cannot_be_given_are_named(
    function: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        call_function(function, arguments)


def test_what_the_function_raises_is_passed_on() -> None:
    def refuse() -> None:
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        call_function(refuse, {})
