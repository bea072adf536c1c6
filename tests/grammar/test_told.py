"""What a model on the device is told of a schema."""

from __future__ import annotations

import datetime
from typing import Any

from pydantic import BaseModel, Field

from edgewise.grammar.answers import compile_answer
from edgewise.grammar.check import LEAD, MOST_CHARACTERS, tell


class Leg(BaseModel):
    to: str = Field(description="a town,\nas on a map")
    day: datetime.date


class Trip(BaseModel):
    legs: list[Leg]
    people: int = Field(ge=1, le=9)
    price: float | None = None


def test_a_model_is_told_fields_kinds_bounds_and_descriptions() -> None:
    assert tell(Trip.model_json_schema()) == (
        f"{LEAD}\n"
        "{\n"
        '  "legs": [{\n'
        '    "to": string,  // a town, as on a map\n'
        '    "day": "YYYY-MM-DD"\n'
        "  }, ...],\n"
        '  "people": integer,  // 1 or more; at most 9\n'
        '  "price": number | null  // may be left out\n'
        "}"
    )


def test_choices_are_told_as_json_writes_them() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": ["x", 1, None]}, "b": {"const": "é"}}}
    told = tell(schema)
    assert '"a": "x" | 1 | null,' in told and '"b": "é"' in told


def test_any_object_is_asked_for_in_a_line() -> None:
    assert tell({}) == "Answer in JSON: one object, and nothing else."


def test_what_would_fill_the_context_is_not_told() -> None:
    fields: dict[str, Any] = {f"field_{number}": {"type": "string"} for number in range(500)}
    assert tell({"type": "object", "properties": fields}) == ""


def test_a_schema_that_refers_to_itself_is_told_to_a_depth() -> None:
    node = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    told = tell(node)
    assert len(told) <= MOST_CHARACTERS + len(LEAD) + 1
    compile_answer(node)


def test_whatever_a_schema_holds_it_is_told_or_left() -> None:
    schemas: tuple[dict[str, Any], ...] = (
        {"type": 5},
        {"properties": []},
        {"type": "object", "properties": {"a": True, "b": {"type": []}}},
        {"anyOf": []},
        {"$ref": "https://example.org"},
        {"$ref": "#/a/b"},
        {"enum": []},
        {"allOf": [{"type": "integer"}]},
    )
    for odd in schemas:
        assert isinstance(tell(odd), str)
