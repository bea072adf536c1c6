"""Units that the parameter's name has said already."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.normalize import bare_amounts, normalize
from edgewise.calls.values.read import hear
from edgewise.types.messages import Tool, ToolCall

WORDS = hear("boil the eggs for 5 minutes")


def boil(**properties: object) -> Tool:
    return Tool("boil", "Boils eggs", {"type": "object", "properties": properties})


TEXT = {"type": "string", "description": "How long"}
BOIL = boil(minutes=TEXT, cook_seconds=TEXT, note=TEXT)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("minutes", "5 minutes", "5"),
        ("minutes", "5 min", "5"),
        ("minutes", "five minutes", "5"),
        ("minutes", "2.5 minutes", "2.5"),
        ("cook_seconds", "30 seconds", "30"),
        ("minutes", "5", "5"),
        ("minutes", "5 hours", "5 hours"),
        ("minutes", "5 to 6 minutes", "5 to 6 minutes"),
        ("minutes", "a few minutes", "a few minutes"),
        ("minutes", "minutes", "minutes"),
        ("note", "5 minutes", "5 minutes"),
    ],
)
def test_a_unit_that_the_name_says_is_taken_off(name: str, value: str, expected: str) -> None:
    call, made = bare_amounts(ToolCall("boil", {name: value}), BOIL, WORDS)
    assert call.arguments[name] == expected
    assert made == ((f"bared:{name}",) if value != expected else ())


def test_a_unit_that_the_schema_shows_stays() -> None:
    shown = boil(minutes={"type": "string", "description": "How long, e.g. '10 minutes'"})
    listed = boil(minutes={"type": "string", "enum": ["5 minutes"]})
    call = ToolCall("boil", {"minutes": "5 minutes"})
    assert bare_amounts(call, shown, WORDS) == (call, ())
    assert bare_amounts(call, listed, WORDS) == (call, ())


def test_it_is_part_of_settling_and_counts_as_said() -> None:
    call = normalize(ToolCall("boil", {"minutes": "5 minutes"}, source="local"), BOIL, WORDS)
    assert (dict(call.arguments), call.complaints) == ({"minutes": "5"}, ())
    assert "bared:minutes" in call.repairs


@given(st.text(max_size=50), st.sampled_from(["minutes", "cook_seconds", "note"]))
def test_nothing_is_left_to_do_the_second_time(value: str, name: str) -> None:
    call, _ = bare_amounts(ToolCall("boil", {name: value}), BOIL, WORDS)
    assert bare_amounts(call, BOIL, WORDS) == (call, ())
