"""Regions that nobody named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.normalize import without_invented_region
from edgewise.calls.values.read import hear
from edgewise.types.messages import Tool, ToolCall


def tides(description: str, name: str = "city") -> Tool:
    return Tool(
        "tides", parameters={"properties": {name: {"type": "string", "description": description}}}
    )


@pytest.mark.parametrize(
    ("value", "request_text", "description", "expected"),
    [
        ("Dover, UK", "tides at Dover", "Name of the city", "Dover"),
        ("Dover, UK", "tides at Dover, UK", "Name of the city", "Dover, UK"),
        ("Dover, England", "tides at the English Dover", "Name of the city", "Dover, England"),
        ("Dover, DE", "tides at Dover in Delaware", "Name of the city", "Dover, DE"),
        ("Dover, UK", "tides at Dover", "City and country", "Dover, UK"),
        ("Dover, UK", "tides at Dover", "City, e.g. Cork, Ireland", "Dover, UK"),
        ("Dover, UK", "tides at Deal", "Name of the city", "Dover, UK"),
        ("Dover", "tides at Dover", "Name of the city", "Dover"),
    ],
)
def test_a_region_goes_where_neither_the_request_nor_the_schema_knows_it(
    value: str, request_text: str, description: str, expected: str
) -> None:
    call = ToolCall("tides", {"city": value})
    changed, changes = without_invented_region(call, tides(description), hear(request_text))
    assert changed.arguments == {"city": expected}
    assert changes == (("shortened:city",) if value != expected else ())


def test_a_comma_in_what_is_no_place_is_left() -> None:
    call = ToolCall("tides", {"note": "Milk, eggs"})
    tool = tides("What to write down", "note")
    assert without_invented_region(call, tool, hear("note down milk")) == (call, ())


@given(st.text(max_size=20), st.text(max_size=40))
def test_a_place_that_the_request_says_is_never_shortened(place: str, around: str) -> None:
    call = ToolCall("tides", {"city": place})
    heard = hear(f"{around} {place} {around}")
    assert without_invented_region(call, tides("Name of the city"), heard) == (call, ())
