"""Tools ranked by the words of a request, and calls put to the intents they answer."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.calls.rank_tools import (
    _score,
    assign,
    fit_scores,
    rank_tools,
    stem,
    unanswered,
    words_of,
)
from edgewise.calls.values.text import RequestText, read_request
from edgewise.types.messages import Tool, ToolCall
from tests.campaigns import rounds
from tests.flows.calling import FIVE, LONDON, TOOLS


def tool(name: str, description: str = "", **properties: Any) -> Tool:
    return Tool(name, description, {"type": "object", "properties": properties})


OFFERED = [
    tool("get_tide", "Height of the tide at a beach", beach={"type": "string"}),
    tool("bookSauna", "Reserve the sauna", hours={"type": "integer", "description": "How long"}),
    tool("lamp.set", "", mode={"enum": ["candle", "daylight"]}),
    tool("x17", "", inner={"type": "object", "properties": {"violin": {"type": "string"}}}),
    tool("get_moon", "Phase of the moon on a date", date={"type": "string"}),
]


@pytest.mark.parametrize(
    ("request_text", "best"),
    [
        ("how high is the tide in Faro", "get_tide"),
        ("is the sauna free", "bookSauna"),
        ("saunas please", "bookSauna"),
        ("the suana for two hours", "bookSauna"),
        ("I want daylight", "lamp.set"),
        ("tune my violins", "x17"),
        ("moon phases", "get_moon"),
        ("reserving something", "bookSauna"),
    ],
)
def test_the_tool_that_says_the_words_fits_best(request_text: str, best: str) -> None:
    scores = fit_scores(request_text, OFFERED)
    assert OFFERED[scores.index(max(scores))].name == best
    assert sorted(scores)[-2] < max(scores) <= 1.0


def test_words_that_many_tools_have_count_little() -> None:
    offered = [tool(f"get_{word}", f"Get the {word} of a city") for word in ("tax", "mayor", "map")]
    tax, mayor, _ = fit_scores("get the mayor of the city", offered)
    assert mayor > 2 * tax


def test_nothing_said_fits_nothing() -> None:
    assert fit_scores("", OFFERED) == (0.0,) * 5
    assert fit_scores("quark soup", OFFERED) == (0.0,) * 5
    assert fit_scores("tide", []) == ()


def test_the_kept_tools_stay_in_their_order() -> None:
    kept = rank_tools("the moon over the sauna at high tide", OFFERED, 3)
    assert [t.name for t in kept] == ["get_tide", "bookSauna", "get_moon"]
    assert rank_tools("tide", OFFERED, 9) == OFFERED
    assert rank_tools("tide", OFFERED, 0) == []


def test_the_right_one_of_hundreds_is_kept() -> None:
    many = [tool(f"get_{n}_report", f"Report number {n} about things") for n in range(600)]
    many[417] = OFFERED[1]
    assert OFFERED[1] in rank_tools("book the sauna for one hour and report", many, 8)


def test_a_tool_is_read_once_but_equal_tools_are_not_confused() -> None:
    first, second = tool("a_b", "violin"), tool("a_b", "cello")
    assert words_of(first) is words_of(first)
    assert "cello" not in words_of(first).weights and "cello" in words_of(second).weights


@pytest.mark.parametrize(
    "forms",
    [
        ("remind", "reminder", "reminders", "reminding"),
        ("calculate", "compute", "calculation"),
        ("city", "cities"),
        ("stop", "stopping", "stopped"),
        ("message", "messages"),
    ],
)
def test_forms_of_a_word_have_one_stem(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


ODD = st.recursive(
    st.none() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["properties", "items", "enum", "description", "a"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)

ANY_TOOLS = st.lists(
    st.builds(
        Tool,
        st.text(max_size=12),
        st.text(max_size=30),
        st.dictionaries(st.sampled_from(["properties", "type", "x"]), ODD, max_size=2),
    ),
    max_size=6,
)


@given(st.text(max_size=60), ANY_TOOLS, st.integers(0, 7))
def test_any_tools_get_scores_between_nothing_and_one(
    request_text: str, tools: list[Tool], limit: int
) -> None:
    scores = fit_scores(request_text, tools)
    assert len(scores) == len(tools) and all(0.0 <= score <= 1.0 for score in scores)
    kept = rank_tools(request_text, tools, limit)
    assert len(kept) == min(limit, len(tools))
    places = [next(n for n, t in enumerate(tools) if t is one) for one in kept]
    assert places == sorted(places)


BY_NAME = {each.name: each for each in TOOLS}


def read(*texts: str) -> list[RequestText]:
    return [read_request(text) for text in texts]


def test_each_call_goes_to_the_words_that_say_its_arguments() -> None:
    tea = ToolCall("set_timer", {"minutes": 3})
    words = read("Set a timer for 5 minutes", "check the weather in London", "a timer for 3")
    assert assign([FIVE, LONDON, tea], BY_NAME, words) == (0, 1, 2)
    assert assign([LONDON, tea], BY_NAME, words) == (1, 2)
    assert assign([LONDON], BY_NAME, words) == (1,)


def test_two_calls_may_answer_one_intent() -> None:
    paris = ToolCall("get_weather", {"location": "Paris"})
    words = read("set a timer for 5 minutes", "the weather in London and in Paris")
    assert assign([FIVE, LONDON, paris], BY_NAME, words) == (0, 1, 1)


def test_one_intent_takes_all_and_no_call_takes_none() -> None:
    assert assign([FIVE, LONDON], BY_NAME, read("anything")) == (0, 0)
    assert assign([FIVE], BY_NAME, []) == (0,)
    assert assign([], BY_NAME, read("one", "two")) == ()


def test_unanswered_intents_are_named_in_order() -> None:
    assert unanswered((1, 1, 3), 5) == (0, 2, 4)
    assert unanswered((), 0) == ()


SAID = ["set", "timer", "5", "minutes", "weather", "London", "Paris", "message", "Tom", "7", "and"]
WORDS = st.lists(st.sampled_from(SAID), max_size=6).map(" ".join)
CALLS = st.one_of(
    st.builds(lambda n: ToolCall("set_timer", {"minutes": n}), st.integers(-1, 9)),
    st.builds(
        lambda place: ToolCall("get_weather", {"location": place}),
        st.sampled_from(["London", "Paris", "Rome", ""]),
    ),
    st.just(ToolCall("nobody_knows_this", {"x": [1, {"y": None}]})),
)


@settings(max_examples=rounds(150), deadline=None)
@given(st.lists(CALLS, max_size=6), st.lists(WORDS, min_size=1, max_size=5))
def test_every_call_has_an_intent_and_the_order_never_goes_back(
    calls: list[ToolCall], texts: list[str]
) -> None:
    owners = assign(calls, BY_NAME, read(*texts))
    assert len(owners) == len(calls)
    assert all(0 <= owner < len(texts) for owner in owners)
    assert all(before <= after for before, after in pairwise(owners))
    rest = unanswered(owners, len(texts))
    assert set(rest) | set(owners) == set(range(len(texts)))
    assert not set(rest) & set(owners)


def test_the_best_sum_is_found_not_the_first() -> None:
    """By trying every alignment."""

    words = read("timer for 7 minutes", "timer for 5 minutes", "London weather", "timer 7")
    calls: list[Any] = [FIVE, LONDON, ToolCall("set_timer", {"minutes": 7})]
    scores = [[_score(call, BY_NAME[call.name], one) for one in words] for call in calls]

    def total(path: tuple[int, ...]) -> float:
        return sum(scores[row][column] for row, column in enumerate(path))

    paths = [p for p in product(range(len(words)), repeat=3) if list(p) == sorted(p)]
    assert total(assign(calls, BY_NAME, words)) == max(map(total, paths))
