"""JSON arguments as the Python values that a function asks for."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from typing import Any

import pytest

from edgewise.calls.tools import call_function
from edgewise.errors import InvalidRequest


class Glaze(enum.Enum):
    ASH = "ash"
    SALT = "salt"


@dataclass
class Shelf:
    height: int
    glaze: Glaze = Glaze.ASH


def fire(
    shelf: Shelf,
    glazes: list[Glaze] | None = None,
    when: datetime.date | None = None,
    size: tuple[int, ...] = (),
    marks: set[str] | None = None,
) -> tuple[Any, ...]:
    return shelf, glazes, when, size, marks


def bell(times: int, tower: str = "north", /, loud: bool = False) -> str:
    return f"{times} {tower} {loud}"


def anything(**given: Any) -> dict[str, Any]:
    return given


def test_values_are_made_into_what_the_hints_say() -> None:
    made = call_function(
        fire,
        {
            "shelf": {"height": 2, "glaze": "salt"},
            "glazes": ["ash", "salt"],
            "when": "2026-03-01",
            "size": [3, 4],
            "marks": ["x", "x"],
        },
    )
    day = datetime.date(2026, 3, 1)
    assert made == (Shelf(2, Glaze.SALT), [Glaze.ASH, Glaze.SALT], day, (3, 4), {"x"})


def test_what_does_not_fit_is_left_as_it_is() -> None:
    assert call_function(fire, {"shelf": "top", "glazes": ["mud"], "when": "soon"}) == (
        "top", ["mud"], "soon", (), None,
    )  # fmt: skip


def test_positional_only_parameters_are_given_by_position_in_any_order() -> None:
    assert call_function(bell, {"loud": True, "tower": "south", "times": 3}) == "3 south True"


def test_a_function_that_takes_everything_gets_everything() -> None:
    assert call_function(anything, {"a": 1, "b": [2]}) == {"a": 1, "b": [2]}


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (bell, {}, "bell: missing a required .*'times'"),
        (bell, {"times": 1, "colour": "red"}, "bell: .*unexpected keyword argument 'colour'"),
        (fire, {"shelf": {"width": 3}}, "fire: .*unexpected keyword argument 'width'"),
        (fire, {"shelf": 1, "marks": [{}]}, "fire: .*unhashable"),
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
