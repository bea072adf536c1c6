"""Filling what is absent, and replacing what is made up, from the words of the request."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.fill import (
    as_said,
    drop_made_up,
    fill_missing,
    prefer_grounded,
)
from edgewise.calls.ground import (
    UNGROUNDED,
    ground,
    hear,
)
from edgewise.types.messages import Tool, ToolCall

ALARM = Tool(
    "ring",
    parameters={
        "properties": {"hour": {"type": "integer"}, "minute": {"type": "integer"}},
        "required": ["hour", "minute"],
    },
)
TRIP = Tool(
    "trip",
    parameters={
        "properties": {
            "city": {"type": "string", "description": "City to visit"},
            "people": {"type": "integer"},
            "day": {"type": "string", "description": "YYYY-MM-DD"},
            "seat": {"type": "string", "enum": ["window", "aisle"]},
            "note": {"type": "string"},
            "stops": {"type": "array", "items": {"type": "string"}},
            "extra": {"type": "object", "properties": {"budget": {"type": "number"}}},
        },
        "required": ["city", "people"],
    },
)


@pytest.mark.parametrize(
    ("tool", "given_arguments", "request_text", "filled"),
    [
        (ALARM, {}, "wake me at 6:45 in the evening", {"hour": 18, "minute": 45}),
        (ALARM, {"hour": 6}, "wake me at 6:45", {"minute": 45}),
        (TRIP, {"people": 4}, "a trip to see Ana in Porto for 4", {"city": "Porto"}),
        (TRIP, {"city": "Porto"}, "take 3 people to Porto on 2026-05-01", {"people": 3}),
        (TRIP, {"city": "Porto"}, "a trip to Porto", {}),
        (TRIP, {"city": "Porto"}, "5 or 6 of us to Porto", {}),
        (TRIP, {}, "off we go", {}),
    ],
)
def test_what_is_required_and_absent_is_filled_where_the_words_say_one_thing(
    tool: Tool, given_arguments: dict[str, Any], request_text: str, filled: dict[str, Any]
) -> None:
    call, names = fill_missing(ToolCall(tool.name, given_arguments), tool, request_text)
    assert dict(call.arguments) == {**given_arguments, **filled}
    assert names == tuple(f"filled:{name}" for name in filled)


def test_filled_arguments_stand_in_the_order_of_the_schema() -> None:
    call, _ = fill_missing(ToolCall("ring", {"minute": 45}), ALARM, "at 6:45")
    assert list(call.arguments) == ["hour", "minute"]


@pytest.mark.parametrize(
    ("tool", "arguments", "request_text", "better"),
    [
        (TRIP, {"people": 500_000}, "move 5,000,000 people to Porto", {"people": 5_000_000}),
        (TRIP, {"city": "Tahit Lot"}, "how far is Tanah Lot from here", {"city": "Tanah Lot"}),
        (TRIP, {"day": "2026-03-02"}, "on the 3rd of February 2026", {"day": "2026-02-03"}),
        (
            TRIP,
            {"stops": ["Brno", "Olomuc"]},
            "via Brno and Olomouc",
            {"stops": ["Brno", "Olomouc"]},
        ),
        (TRIP, {"extra": {"budget": 1500}}, "up to 15,000 euros", {"extra": {"budget": 15_000}}),
        (ALARM, {"hour": 0, "minute": 30}, "at 7:30 AM", {"hour": 7, "minute": 30}),
        (ALARM, {"hour": 7, "minute": 30}, "at 7:30 pm", {"hour": 7, "minute": 30}),
    ],
)
def test_a_made_up_value_gives_way_to_the_one_said(
    tool: Tool, arguments: dict[str, Any], request_text: str, better: dict[str, Any]
) -> None:
    call, changes = prefer_grounded(ToolCall(tool.name, arguments), tool, request_text)
    assert dict(call.arguments) == better
    changed = [name for name in arguments if arguments[name] != better[name]]
    assert changes == tuple(f"grounded:{name}" for name in changed)


@pytest.mark.parametrize(
    ("arguments", "request_text"),
    [
        ({"city": "Rome"}, "how far is Tanah Lot"),
        ({"people": 9}, "4 adults or 6 children"),
        ({"seat": "aisle"}, "by the window please"),
        ({"city": "Lima"}, "is Lime or Limo nearer"),
        ({"note": "call ahead"}, "a trip to Porto with Ana"),
    ],
)
def test_a_made_up_value_stays_where_the_words_leave_doubt(
    arguments: dict[str, Any], request_text: str
) -> None:
    call = ToolCall("trip", arguments)
    assert prefer_grounded(call, TRIP, request_text) == (call, ())


def test_free_text_takes_the_spelling_of_the_request_but_choices_do_not() -> None:
    request = "Window seat to São Tomé, note it as URGENT stuff"
    call = ToolCall("trip", {"city": "sao tome", "seat": "window", "note": "Urgent Stuff"})
    said, changes = as_said(call, TRIP, request)
    assert said.arguments == {"city": "São Tomé", "seat": "window", "note": "URGENT stuff"}
    assert changes == ("as_said:city", "as_said:note")


@pytest.mark.parametrize(
    ("value", "request_text"),
    [
        ("mac n cheese", "add it to the mac  n cheese playlist"),
        ("carbon_monoxide", "is there any carbon monoxide?"),
    ],
)
def test_spaces_and_names_are_left_as_they_are(value: str, request_text: str) -> None:
    tool = Tool("look", "", {"type": "object", "properties": {"what": {"type": "string"}}})
    call = ToolCall("look", {"what": value})
    assert as_said(call, tool, request_text) == (call, ())


@pytest.mark.parametrize(("name", "description"), [("at", "e.g. 7:30 PM"), ("time", "")])
def test_a_moment_is_not_spelled_as_said(name: str, description: str) -> None:
    field = {"type": "string", "description": description}
    call = ToolCall("ring", {name: "2:40 AM"})
    tool = Tool("ring", parameters={"properties": {name: field}})
    assert as_said(call, tool, "ring at 2.40 am") == (call, ())


def test_optional_inventions_are_dropped_and_required_ones_kept() -> None:
    call = ToolCall("trip", {"city": "Rome", "people": 2, "note": "gluten free"})
    kept, changes = drop_made_up(call, TRIP, "to Lima for 2")
    assert kept.arguments == {"city": "Rome", "people": 2}
    assert changes == ("dropped:note",)


def test_what_another_part_of_the_request_says_is_not_made_up() -> None:
    part, whole = "4 of us to Porto", hear("4 of us to Porto, then 900 of us to Lima, note: vegan")
    call = ToolCall("trip", {"city": "Porto", "people": 900, "note": "vegan"})
    assert prefer_grounded(call, TRIP, part, whole) == (call, ())
    assert drop_made_up(call, TRIP, part, whole) == (call, ())
    assert prefer_grounded(call, TRIP, part)[1] == ("grounded:people",)
    assert drop_made_up(call, TRIP, part)[1] == ("dropped:note",)


PIECES = "Porto Prto Rome window aisle 4 7 500 5,000 at 7:30 pm March 3rd 2026 and the for"
WORDS = st.lists(st.sampled_from(PIECES.split()), max_size=14).map(" ".join)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "city": st.sampled_from(["Porto", "Prto", "rome", "Oslo"]) | st.text(max_size=8),
        "people": st.sampled_from([4, 7, 50, 500, 5000]) | st.integers(),
        "day": st.sampled_from(["2026-03-03", "2026-03-04"]),
        "seat": st.sampled_from(["window", "aisle"]),
        "stops": st.lists(st.sampled_from(["Porto", "Romme"]), max_size=2),
        "extra": st.fixed_dictionaries({"budget": st.integers() | st.floats()}),
    },
)


@given(ARGUMENTS, WORDS | st.text(max_size=80))
def test_filling_only_adds_what_is_absent_and_required(
    arguments: dict[str, Any], request: str
) -> None:
    call, changes = fill_missing(ToolCall("trip", arguments), TRIP, request)
    names = [change.removeprefix("filled:") for change in changes]
    assert set(call.arguments) == set(arguments) | set(names)
    assert set(names) <= {"city", "people"} - set(arguments)
    assert all(call.arguments[name] is value for name, value in arguments.items())
    assert fill_missing(call, TRIP, request) == (call, ())


@given(ARGUMENTS, WORDS | st.text(max_size=80))
def test_a_grounded_value_is_never_changed_and_a_change_is_always_for_the_better(
    arguments: dict[str, Any], request: str
) -> None:
    call = ToolCall("trip", arguments)
    before = ground(call, TRIP, request).arguments
    better, changes = prefer_grounded(call, TRIP, request)
    after = ground(better, TRIP, request).arguments
    for name in arguments:
        if f"grounded:{name}" in changes:
            assert before[name].score < UNGROUNDED
            assert after[name].score >= before[name].score
        else:
            assert better.arguments[name] is arguments[name]


@given(ARGUMENTS, WORDS)
def test_doing_it_twice_changes_nothing_more(arguments: dict[str, Any], request: str) -> None:
    for step in (prefer_grounded, as_said, drop_made_up):
        once, _ = step(ToolCall("trip", arguments), TRIP, request)
        assert step(once, TRIP, request) == (once, ())
