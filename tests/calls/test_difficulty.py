"""How hard a request looks before any model has seen it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.difficulty import DEFAULT, Difficulty, Weights, difficulty, features, tier
from edgewise.types.messages import Tool


def tool(name: str, description: str = "", required: tuple[str, ...] = (), **given: Any) -> Tool:
    return Tool(
        name,
        description,
        {"type": "object", "properties": given, "required": list(required)},
    )


TIDE = tool("get_tide", "Height of the tide at a beach", ("beach",), beach={"type": "string"})
SAUNA = tool("book_sauna", "Book the sauna", ("hours",), hours={"type": "integer"})
REPORT = tool(
    "file_report",
    "File a report",
    ("form",),
    form={
        "type": "object",
        "required": ["title", "rank"],
        "properties": {
            "title": {"type": "string"},
            "rank": {"enum": ["low", "high"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "pages": {"type": "integer"},
            "author": {"type": "string"},
            "year": {"type": "integer"},
            "lines": {
                "type": "array",
                "items": {"type": "object", "properties": {"text": {"type": "string"}}},
            },
        },
    },
)


def score(text: str, *tools: Tool, **options: Any) -> float:
    return difficulty(text, tools, **options).score


def test_one_clear_request_for_one_small_tool_starts_on_the_device() -> None:
    assert tier(score("tide at Faro beach", TIDE)) == "local"


@pytest.mark.parametrize(
    ("easier", "harder"),
    [
        (score("tide at Faro beach", TIDE), score("tide at Faro beach", TIDE, intents=3)),
        (score("tide at Faro", TIDE), score("tide at Faro", TIDE, *[SAUNA] * 20)),
        (score("tide at Faro beach", TIDE), score("how wet will my feet get", TIDE)),
        (score("tide at Faro", TIDE), score("tide at Faro, Albufeira, Lagos and Tavira", TIDE)),
        (score("book the sauna for 2 hours", SAUNA), score("file a report for 2 hours", REPORT)),
    ],
)
def test_more_of_what_makes_it_hard_is_harder(easier: float, harder: float) -> None:
    assert easier < harder


def test_the_record_of_the_likely_tool_moves_the_score() -> None:
    good, none, bad = (
        score("tide at Faro", TIDE, SAUNA, record=record)
        for record in ({"get_tide": 1.0}, {"book_sauna": 0.0}, {"get_tide": 0.0})
    )
    assert good < none < bad


@pytest.mark.parametrize(
    ("text", "one", "ungrounded"),
    [
        ("book the sauna for 2 hours", SAUNA, 0.0),
        ("book the sauna for two hours", SAUNA, 0.0),
        ("book the sauna", SAUNA, 1.0),
        ("tide at Faro", TIDE, 0.0),
        ("the tide", TIDE, 1.0),
        ("file a high report on eels", REPORT, 0.0),
        ("file a report on eels", REPORT, 0.5),
        ("anything", tool("free", "Free of wishes"), 0.0),
    ],
)
def test_required_arguments_need_words_of_their_kind(
    text: str, one: Tool, ungrounded: float
) -> None:
    assert features(text, [one])["ungrounded"] == ungrounded


def test_tools_that_are_alike_are_told() -> None:
    twin = tool("get_tide_table", "Table of the tide at a beach")
    assert (
        features("tide", [TIDE, twin])["similarity"] > features("tide", [TIDE, SAUNA])["similarity"]
    )


def test_weights_decide_alone() -> None:
    nothing = Weights(**{field.name: 0.0 for field in fields(Weights)})
    assert difficulty("anything", [TIDE], weights=nothing).score == 0.5
    assert difficulty("anything", [TIDE], weights=replace(nothing, bias=-50)).score < 1e-9


@pytest.mark.parametrize(
    ("value", "name"),
    [(0.0, "local"), (0.3, "local"), (0.31, "guarded"), (0.6, "guarded"), (0.61, "cloud_first")],
)
def test_tiers_include_their_upper_limit(value: float, name: str) -> None:
    assert tier(value) == name
    assert tier(value, (1.0, 1.0)) == "local"


ODD = st.recursive(
    st.none() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(
        st.sampled_from(["properties", "items", "enum", "type", "required", "a"]),
        inner,
        max_size=4,
    ),
    max_leaves=10,
)
SCHEMAS = st.dictionaries(st.sampled_from(["properties", "required", "type"]), ODD, max_size=3)


@given(st.text(max_size=40), st.lists(SCHEMAS, max_size=4), st.integers(-2, 50))
def test_any_request_and_tools_have_a_score(
    text: str, schemas: list[dict[str, Any]], intents: int
) -> None:
    offered = [Tool(f"t{number}", "", schema) for number, schema in enumerate(schemas)]
    found = difficulty(text, offered, intents=intents, weights=DEFAULT)
    assert isinstance(found, Difficulty) and 0.0 <= found.score <= 1.0
    assert {"bias", *found.features} == {field.name for field in fields(Weights)}
