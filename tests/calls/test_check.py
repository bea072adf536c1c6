"""Calls of a request checked together, and calls of several origins put together."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.check import (
    GATE,
    STRICT_GATE,
    asked_twice,
    check_calls,
    is_weak,
    merge,
    same_call,
    source_of,
)
from edgewise.calls.values.text import RequestText, read_request
from edgewise.types.messages import Source, Tool, ToolCall
from edgewise.types.replies import Complaint, ComplaintCode
from tests.flows.calling import MESSAGE, TIMER, TOOLS, WEATHER

DIE = Tool("roll_die", "Roll a die")
FIVE = ToolCall("set_timer", {"minutes": 5}, source="local")
LONDON = ToolCall("get_weather", {"location": "London"}, source="local")
ROLL = ToolCall("roll_die", {}, source="local")


def read(*texts: str) -> list[RequestText]:
    return [read_request(text) for text in texts]


def codes(found: tuple[Complaint, ...]) -> list[tuple[str, int | None]]:
    return [(one.code, one.intent) for one in found]


def test_a_call_of_a_tool_that_another_one_fits_better_than_is_weak() -> None:
    (words,) = read("Check the weather in London")
    checked = check_calls({0: [FIVE]}, [words], TOOLS)
    assert checked.calls[0][0].complaints == ("weak_fit",)
    assert check_calls({0: [LONDON]}, [words], TOOLS).calls[0][0].complaints == ()


def test_the_clouds_choice_of_a_tool_is_not_doubted_by_words() -> None:
    call = ToolCall("set_timer", {"minutes": 5}, source="cloud")
    assert not is_weak(call, read_request("Check the weather in London"), TOOLS)


def test_where_no_tool_says_anything_none_is_better() -> None:
    assert not is_weak(FIVE, read_request("Wie spät ist es?"), TOOLS)
    assert not is_weak(FIVE, read_request("anything"), [])


def test_the_same_call_for_different_parts_is_a_duplicate() -> None:
    words = read("Set a timer for 5 minutes", "tell Tom that dinner is ready")
    checked = check_calls({0: [FIVE], 1: [FIVE]}, words, TOOLS)
    assert "duplicate_call" not in checked.calls[0][0].complaints
    assert "duplicate_call" in checked.calls[1][0].complaints
    assert codes(checked.complaints) == [("duplicate_call", 1)]
    assert asked_twice({0: [FIVE], 1: [FIVE]}, words) == set()


@pytest.mark.parametrize("second", ["roll the die again", "roll another die", "Roll a die"])
def test_what_is_asked_for_twice_is_no_duplicate(second: str) -> None:
    words = read("Roll a die", second)
    by_intent = {0: [ROLL], 1: [ROLL]}
    assert check_calls(by_intent, words, [DIE]).complaints == ()
    assert asked_twice(by_intent, words) == {1}


def test_an_intent_without_a_call_is_uncovered_where_a_tool_fits() -> None:
    words = read("Set a timer for 5 minutes", "check the weather in London", "who wrote Faust")
    checked = check_calls({0: [FIVE]}, words, TOOLS)
    assert codes(checked.complaints) == [("uncovered_intent", 1)]
    assert "get_weather" in checked.complaints[0].message
    assert checked.of(1) == {"uncovered_intent"} and checked.of(2) == frozenset()


def test_what_was_said_in_place_of_calls_is_told_instead() -> None:
    words = read("check the weather in London", "set a timer for 5 minutes")
    declined = {0: Complaint("refusal", "it declined"), 1: None}
    assert codes(check_calls({}, words, TOOLS, declined=declined).complaints) == [("refusal", 0)]


def test_the_strict_gate_holds_every_complaint_but_those_that_are_only_told() -> None:
    told_only = {"unknown_argument", "question", "withheld", "in_words"}
    assert set(get_args(ComplaintCode)) - STRICT_GATE == told_only
    assert {"ungrounded", "duplicate_call", "uncovered_intent"} == STRICT_GATE - GATE


CALLS = st.builds(
    ToolCall,
    st.sampled_from([TIMER.name, WEATHER.name, MESSAGE.name, "strange"]),
    st.dictionaries(st.sampled_from("xy"), st.integers(0, 1), max_size=1),
    source=st.sampled_from(["local", "cloud"]),
    complaints=st.sampled_from([(), ("ungrounded",), ("missing_argument", "ungrounded")]),
)


@given(
    st.lists(st.text(max_size=30), max_size=4),
    st.dictionaries(st.integers(0, 3), st.lists(CALLS, max_size=3)),
    st.sampled_from([TOOLS, TOOLS[:1], ()]),
)
def test_a_check_changes_no_call_and_finds_the_same_again(
    texts: list[str], by_intent: dict[int, list[Any]], tools: tuple[Tool, ...]
) -> None:
    words = read(*texts)
    by_intent = {number: calls for number, calls in by_intent.items() if number < len(words)}
    checked = check_calls(by_intent, words, tools)
    for number, calls in by_intent.items():
        after = checked.calls[number]
        assert [(c.name, c.arguments) for c in after] == [(c.name, c.arguments) for c in calls]
        for before, call in zip(calls, after, strict=True):
            assert call.complaints[: len(before.complaints)] == before.complaints
    assert check_calls(checked.calls, words, tools) == checked
    assert all(one.intent is not None and one.message for one in checked.complaints)


ANY_CALLS = st.builds(
    ToolCall,
    st.sampled_from(["a", "b"]),
    st.dictionaries(st.sampled_from("xy"), st.integers(0, 2), max_size=2),
    source=st.sampled_from(["local", "cloud"]),
)


def test_calls_come_in_the_order_of_the_request_not_of_their_arrival() -> None:
    late, early = ToolCall("late", {}, source="local"), ToolCall("early", {}, source="cloud")
    assert merge({1: [late], 0: [early]}) == (early, late)


def test_the_same_tool_may_be_called_twice_but_not_the_same_call() -> None:
    five, six = ToolCall("timer", {"minutes": 5}), ToolCall("timer", {"minutes": 6})
    assert merge({0: [five], 1: [six], 2: [five]}) == (five, six)


def test_a_call_that_the_words_ask_for_again_is_made_again() -> None:
    roll = ToolCall("roll", {})
    assert merge({0: [roll], 1: [roll], 2: [roll]}, again={2}) == (roll, roll)


def test_calls_are_the_same_in_whatever_order_their_arguments_stand() -> None:
    assert not same_call(ToolCall("a", {"x": 1}), ToolCall("b", {"x": 1}))
    assert same_call(ToolCall("a", {"x": 1, "y": 2}), ToolCall("a", {"y": 2, "x": 1}))


@given(st.dictionaries(st.integers(0, 4), st.lists(ANY_CALLS, max_size=4), max_size=5))
def test_no_distinct_call_is_lost_and_the_order_is_kept(
    by_intent: dict[int, list[ToolCall]],
) -> None:
    merged = merge(by_intent)
    given_calls = [call for number in sorted(by_intent) for call in by_intent[number]]
    for call in given_calls:
        assert sum(same_call(call, other) for other in merged) == 1
    places = [next(n for n, call in enumerate(given_calls) if call is kept) for kept in merged]
    assert places == sorted(places)


@given(st.lists(ANY_CALLS, max_size=4), st.sampled_from(["local", "cloud"]))
def test_the_source_is_that_of_the_calls(calls: list[ToolCall], otherwise: Source) -> None:
    found = {call.source for call in calls}
    expected = "mixed" if len(found) == 2 else next(iter(found), otherwise)
    assert source_of(calls, otherwise) == expected


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "number", "minimum": 5, "maximum": 6, "multipleOf": 0.5}, 5.5, 5.2),
        ({"type": "string", "pattern": r"^\d{5}$"}, "12345", "ABCDE"),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, ["a"], ["a", "a"]),
    ],
    ids=["number", "pattern", "unique"],
)
def test_arguments_are_compared_with_all_that_their_schema_says(
    schema: Any, good: Any, bad: Any
) -> None:
    parameters = {"type": "object", "properties": {"value": schema}, "required": ["value"]}
    tool = Tool("give_value", "Give the value", parameters)
    words = read("Give the value")

    def complaints(value: Any) -> tuple[str, ...]:
        call = ToolCall("give_value", {"value": value}, source="local")
        once = check_calls({0: [call]}, words, [tool]).calls[0]
        (again,) = check_calls({0: once}, words, [tool]).calls[0]
        return again.complaints

    assert complaints(good) == ()
    assert complaints(bad) == ("out_of_range",)
