from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.confidence import (
    plain_values,
    unused_words,
    use_of_words,
)
from edgewise.calls.values.read import hear
from edgewise.types.messages import Tool, ToolCall

TRIP = Tool(
    "plan_trip",
    "Plan a journey between two towns",
    {
        "type": "object",
        "required": ["start", "goal"],
        "properties": {
            "start": {"type": "string"},
            "goal": {"type": "string"},
            "distance": {"type": "number"},
            "travellers": {"type": "integer"},
            "when": {"type": "string"},
            "mode": {"enum": ["night_train", "ferry", "coach"]},
        },
    },
)


def left(request: str, **arguments: Any) -> dict[str, float]:
    return unused_words([ToolCall("plan_trip", arguments)], {TRIP.name: TRIP}, hear(request))


def use(request: str, *calls: dict[str, Any]) -> dict[str, float]:
    made = [ToolCall("plan_trip", arguments) for arguments in calls]
    return use_of_words(made[0], made, TRIP, hear(request))


@pytest.mark.parametrize(
    ("request_text", "arguments"),
    [
        ("from Bergen to Oslo, 463 km", {"start": "Bergen", "goal": "Oslo", "distance": 463.0}),
        ("463 km", {"distance": 463_000}),  # in metres
        ("a share of 15 %", {"distance": 0.15}),
        ("in 2 hours", {"distance": 120}),
        ("on December 18th, 2024", {"when": "2024-12-18"}),
        ("at 6:49 pm", {"when": "18:49"}),
        ("at quarter past ten", {"when": "10:15"}),
        ("the parcel KX-4410", {"start": "kx 4410"}),
        ("for twelve people", {"travellers": 12}),
        ("two of 40 and 60", {"distance": [40, {"to": 60}], "travellers": 2}),
        ('say "all aboard"', {"start": "All aboard"}),
    ],
)
def test_what_is_used_in_any_form_is_not_left_over(
    request_text: str, arguments: dict[str, Any]
) -> None:
    assert left(request_text, **arguments) == {"left": 0.0, "left_names": 0.0, "left_counts": 0.0}


def test_numbers_codes_addresses_and_moments_are_left_over() -> None:
    assert left("from Bergen, 463 km", start="Bergen")["left"] == 1.0
    assert left("from Bergen with code KX-4410", start="Bergen")["left"] == 1.0
    assert left("from Bergen, tell ada@example.org", start="Bergen")["left"] == 1.0
    assert left("from Bergen at 6:49 pm", start="Bergen")["left"] == 1.0
    assert left("from Bergen 463 km at 6:49 pm", start="Bergen")["left"] == 2.0


def test_names_and_numbers_in_words_are_counted_apart() -> None:
    assert left("a trip from Bergen to Oslo", start="Bergen")["left_names"] == 1.0
    found = left("seven people from Bergen", start="Bergen")
    assert (found["left"], found["left_counts"]) == (0.0, 1.0)


def test_what_another_call_uses_is_not_left_over() -> None:
    calls = [ToolCall("plan_trip", {"distance": 463}), ToolCall("plan_trip", {"distance": 12})]
    assert unused_words(calls, {TRIP.name: TRIP}, hear("463 km, then 12 km"))["left"] == 0.0
    assert unused_words(calls[:1], {TRIP.name: TRIP}, hear("463 km, then 12 km"))["left"] == 1.0


def test_a_value_in_two_arguments_must_have_been_said_twice() -> None:
    assert use("from Bergen", {"start": "Bergen", "goal": "Bergen"})["twice"] == 1.0
    assert use("from Bergen to Bergen", {"start": "Bergen", "goal": "Bergen"})["twice"] == 0.0
    assert use("from Bergen to Oslo", {"start": "Bergen", "goal": "Oslo"})["twice"] == 0.0
    assert use("7 km, 7 people", {"distance": 7.0, "travellers": 7})["twice"] == 0.0
    assert use("7 people", {"distance": 7.0, "travellers": 7})["twice"] == 1.0


def test_a_value_of_two_calls_that_was_said_once_is_shared() -> None:
    both = ({"start": "Bergen", "distance": 6}, {"start": "Oslo", "distance": 6})
    assert use("Bergen and Oslo, 6 km", *both)["shared"] == 1.0
    assert use("Bergen 6 km and Oslo 6 km", *both)["shared"] == 0.0
    assert use("Bergen and Oslo, 6 km", both[0])["shared"] == 0.0


def test_a_parameter_that_is_named_but_not_given_is_a_cue() -> None:
    start = {"start": "Bergen"}
    assert use("from Bergen by night train", start)["cues"] == 1.0
    assert use("from Bergen, four travellers", start)["cues"] == 1.0
    assert use("from Bergen, four travellers", {**start, "travellers": 4})["cues"] == 0.0
    assert use("from Bergen", start)["cues"] == 0.0


def test_texts_and_numbers_are_found_at_any_depth_but_no_switches() -> None:
    assert list(plain_values({"a": [1, "x", True, None], "b": {"c": 2.5}})) == [1.0, "x", 2.5]
    deep: Any = "x"
    for _ in range(50):
        deep = [deep]
    assert list(plain_values(deep)) == []


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(request=st.text(max_size=80), arguments=st.dictionaries(st.text(max_size=8), values))
def test_whatever_is_said_and_called_is_survived(request: str, arguments: dict[str, Any]) -> None:
    call = ToolCall("plan_trip", arguments)
    heard = hear(request)
    found = unused_words([call], {TRIP.name: TRIP}, heard) | use_of_words(call, [call], TRIP, heard)
    assert all(value >= 0.0 for value in found.values())
