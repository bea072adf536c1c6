"""Calls of several origins, put together: in order, none lost, none twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.check import (
    merge,
    source_of,
)
from edgewise.calls.normalize import same_call
from edgewise.types.messages import Source, ToolCall

CALLS = st.builds(
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


@given(st.dictionaries(st.integers(0, 4), st.lists(CALLS, max_size=4), max_size=5))
def test_no_distinct_call_is_lost_and_the_order_is_kept(
    by_intent: dict[int, list[ToolCall]],
) -> None:
    merged = merge(by_intent)
    given_calls = [call for number in sorted(by_intent) for call in by_intent[number]]
    for call in given_calls:
        assert sum(same_call(call, other) for other in merged) == 1
    places = [next(n for n, call in enumerate(given_calls) if call is kept) for kept in merged]
    assert places == sorted(places)


@given(st.lists(CALLS, max_size=4), st.sampled_from(["local", "cloud"]))
def test_the_source_is_that_of_the_calls(calls: list[ToolCall], otherwise: Source) -> None:
    found = {call.source for call in calls}
    expected = "mixed" if len(found) == 2 else next(iter(found), otherwise)
    assert source_of(calls, otherwise) == expected
