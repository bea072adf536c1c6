"""Which tools a request's words point to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.rank_tools import (
    fit_scores,
    rank_tools,
    stem,
    words_of,
)
from edgewise.types.messages import Tool


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
TOOLS = st.lists(
    st.builds(
        Tool,
        st.text(max_size=12),
        st.text(max_size=30),
        st.dictionaries(st.sampled_from(["properties", "type", "x"]), ODD, max_size=2),
    ),
    max_size=6,
)


@given(st.text(max_size=60), TOOLS, st.integers(0, 7))
def test_any_tools_get_scores_between_nothing_and_one(
    request_text: str, tools: list[Tool], limit: int
) -> None:
    scores = fit_scores(request_text, tools)
    assert len(scores) == len(tools) and all(0.0 <= score <= 1.0 for score in scores)
    kept = rank_tools(request_text, tools, limit)
    assert len(kept) == min(limit, len(tools))
    places = [next(n for n, t in enumerate(tools) if t is one) for one in kept]
    assert places == sorted(places)
