"""Grounding of arguments in the words of the request."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.schema import UNGROUNDED, ground
from edgewise.types.messages import Tool


def support_of(value: Any, request: str, name: str = "x", **schema: Any) -> tuple[float, str]:
    tool = Tool("t", parameters={"type": "object", "properties": {name: schema}})
    found = ground({name: value}, tool, request).arguments[name]
    return found.score, found.kind


@pytest.mark.parametrize(
    ("value", "request_text", "kind", "schema"),
    [
        ("Oslo", "weather in Oslo", "verbatim", {}),
        ("oslo", "weather in Oslo", "folded", {}),
        ("Malmo", "weather in Malmö", "folded", {}),
        ("red apple", "two red apples", "folded", {}),
        ("F1", "the Formula 1 race", "derived", {}),
        ("USD", "200 bucks", "derived", {}),
        ("kg", "five kilos", "derived", {}),
        ("2026-03-22", "on March 22", "derived", {}),
        ("22.03.2026", "on March 22nd 2026", "derived", {}),
        ("20260322", "on March 22nd 2026", "derived", {}),
        ("19:30", "half past seven", "derived", {}),
        ("15", "fifteen of them", "derived", {}),
        (15, "fifteen of them", "verbatim", {"type": "integer"}),
        (0.15, "a 15% tip", "derived", {"type": "number"}),
        (3600, "for an hour", "derived", {"type": "integer"}),
        (12, "on the first of December", "derived", {"type": "integer"}),
        ("metric", "in metric units", "enum", {"enum": ["metric", "imperial"]}),
        ("low_fat", "a low-fat one", "enum", {"enum": ["low_fat", "full"]}),
        ("metric", "how tall is it", "default", {"type": "string", "default": "metric"}),
        (True, "play it loud", "boolean", {"type": "boolean"}),
        (["Ana", "Ben"], "with Ana and Ben", "verbatim", {"items": {"type": "string"}}),
        ({"city": "Rome"}, "in Rome", "verbatim", {"type": "object"}),
        (None, "anything", "default", {}),
    ],
)
def test_a_value_the_words_support_is_grounded(
    value: Any, request_text: str, kind: str, schema: dict[str, Any]
) -> None:
    score, how = support_of(value, request_text, **schema)
    assert score >= UNGROUNDED
    assert how == kind


@pytest.mark.parametrize(
    ("value", "request_text", "name", "schema"),
    [
        ("Paris", "weather in Oslo", "x", {}),
        (17, "for 4 people", "x", {"type": "integer"}),
        (500_000, "a town of 5,000,000", "x", {"type": "integer"}),
        ("20:30", "at half past seven", "x", {}),
        ("2026-03-23", "on March 22nd 2026", "x", {}),
        (["Ana", "Cleo"], "with Ana and Ben", "x", {"items": {"type": "string"}}),
        ({"city": "Rome", "days": 9}, "in Rome", "x", {"type": "object"}),
        (30, "an alarm at 7:30", "hour", {"type": "integer"}),
        (60, "sixty minutes for rice", "length", {"type": "integer", "description": "in seconds"}),
        (29, "growth 29 %", "rate", {"type": "number", "description": "between 0 and 1"}),
        ("03/22/2026", "on March 22nd 2026", "day", {"description": "DD/MM/YYYY"}),
    ],
)
def test_a_value_made_up_is_not(
    value: Any, request_text: str, name: str, schema: dict[str, Any]
) -> None:
    assert support_of(value, request_text, name, **schema)[0] < UNGROUNDED


def test_an_article_counts_things_and_no_time() -> None:
    minutes = {"type": "integer", "description": "Minutes"}
    assert support_of(1, "start a timer", "minutes", **minutes)[0] < UNGROUNDED
    assert support_of(1, "start a timer for a minute", "minutes", **minutes)[0] >= UNGROUNDED
    assert support_of(1, "one minute please", "minutes", **minutes)[0] >= UNGROUNDED
    assert support_of(1, "brew a cup of coffee", "cups", type="integer")[0] >= UNGROUNDED


def test_better_support_scores_higher() -> None:
    request = "Book the Grand Hotel in Oslo"
    verbatim, folded = support_of("Grand Hotel", request), support_of("grand hotels", request)
    apart, partly = support_of("Oslo Hotel", request), support_of("Oslo Airport", request)
    assert verbatim > folded > apart > partly


def test_a_choice_not_mentioned_is_weak_but_no_invention() -> None:
    score, kind = support_of("motor", "my car was hit", enum=["motor", "fire"])
    assert kind == "enum"
    assert UNGROUNDED <= score < 0.5


def test_a_switch_against_the_verb_is_worse_grounded_than_one_with_it() -> None:
    on, off = (
        support_of(state, "turn my fan off", "enabled", type="boolean")[0]
        for state in (True, False)
    )
    assert on < off


@pytest.mark.parametrize(
    ("name", "code"),
    [("rupiah", "IDR"), ("Thai baht", "THB"), ("Swedish kronor", "SEK"), ("naira", "NGN")],
)
def test_a_code_is_grounded_by_any_name_of_its_currency(name: str, code: str) -> None:
    assert support_of(code, f"how many {name} is that", "currency")[0] > UNGROUNDED
    assert support_of(code, "how much is that", "currency")[0] < UNGROUNDED


def test_each_ungrounded_argument_is_named() -> None:
    tool = Tool("t", parameters={"properties": {"city": {}, "days": {"type": "integer"}}})
    found = ground({"city": "Rome", "days": 9}, tool, "weather in Rome")
    assert found.ungrounded == ("days",)
    assert found.score == 0.0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=4), JSON, st.text(max_size=120))
def test_no_values_schema_or_text_break_it(
    arguments: dict[str, Any], schema: Any, request: str
) -> None:
    properties = {name: schema for name in arguments}
    tool = Tool("t", parameters={"properties": properties, "required": schema})
    for support in ground(arguments, tool, request).arguments.values():
        assert 0.0 <= support.score <= 1.0


@given(
    st.lists(st.sampled_from(["Oslo", "Rome", "7", "twenty", "15%", "Ana", "tomorrow"]), min_size=1)
)
def test_every_word_of_the_request_is_grounded_in_it(chosen: list[str]) -> None:
    for word in chosen:
        assert support_of(word, " ".join(chosen)) == (1.0, "verbatim")
