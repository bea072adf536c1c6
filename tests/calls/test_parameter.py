"""What a parameter wants."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.calls.parameters import (
    listed_choice,
    parameters,
    required,
    wanted,
    written_date,
)
from edgewise.calls.schema import read_parameters
from edgewise.types.messages import Tool


@pytest.mark.parametrize(
    ("name", "schema", "role", "unit", "form"),
    [
        ("hour", {"type": "integer", "description": "Hour of the day"}, "hour", "hour", ""),
        ("hours", {"type": "integer", "description": "Number of hours"}, "duration", "hour", ""),
        ("timeout", {"type": "number", "description": "in seconds"}, "duration", "second", ""),
        ("durationMins", {"type": "integer"}, "duration", "minute", ""),
        ("when", {"type": "string", "format": "date"}, "date", "", "yyyy-mm-dd"),
        (
            "start_date",
            {"type": "string", "description": "as DD.MM.YYYY"},
            "date",
            "",
            "dd.mm.yyyy",
        ),
        ("time", {"type": "string", "description": "24-hour clock"}, "time", "hour", "hh:mm"),
        ("growth_rate", {"type": "number", "description": "as a fraction"}, "share", "", ""),
        ("discount", {"type": "number"}, "percent", "", ""),
        ("budget", {"type": "number"}, "money", "", ""),
        ("recipient", {"type": "string"}, "person", "", ""),
        ("to", {"type": "string", "description": "City to fly to"}, "place", "", ""),
        ("body", {"type": "string"}, "message", "", ""),
        ("mode", {"type": "string", "enum": ["a", "b"]}, "choice", "", ""),
        ("loud", {"type": ["boolean", "null"]}, "switch", "", ""),
        ("tags", {"items": {"type": "string"}}, "list", "", ""),
        ("x", {}, "text", "", ""),
    ],
)
def test_the_role_is_read_from_type_name_and_description(
    name: str, schema: dict[str, Any], role: str, unit: str, form: str
) -> None:
    found = wanted(name, schema)
    assert (found.role, found.unit, found.form) == (role, unit, form)


def test_references_and_optional_types_are_followed() -> None:
    schema = {
        "properties": {
            "room": {"$ref": "#/$defs/Room"},
            "level": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["level"],
        "$defs": {"Room": {"type": "string", "enum": ["kitchen"], "required": True}},
    }
    assert wanted("room", parameters(schema)["room"]).choices == ("kitchen",)
    assert wanted("level", parameters(schema)["level"]).type == "integer"
    assert required(schema) == ["room", "level"]


@pytest.mark.parametrize("schema", [{}, {"properties": []}, {"properties": {"a": 3}}])
def test_a_broken_schema_has_no_fields_to_speak_of(schema: dict[str, Any]) -> None:
    assert all(not field for field in parameters(schema).values())
    assert required(schema) == []


def test_an_example_is_not_a_listed_choice() -> None:
    assert listed_choice("metric", {"description": "One of metric, imperial"})
    assert not listed_choice("Oslo", {"description": "City, e.g. Oslo"})
    assert not listed_choice("Oslo", {"description": 7})


def test_a_date_is_written_by_its_template() -> None:
    assert written_date("2026-03-01", "dd/mm/yyyy") == "01/03/2026"
    assert written_date("2026-03-01", "yyyymmdd") == "20260301"
    assert written_date("2026-03-01", "hh:mm") == "2026-03-01"


@pytest.mark.parametrize(
    "field",
    [
        {"$ref": "#/$defs/Seat"},
        {"$ref": "#/definitions/Seat"},
        {"allOf": [{"$ref": "#/$defs/Seat"}]},
        {"anyOf": [{"$ref": "#/$defs/Seat"}, {"type": "null"}]},
        {"oneOf": [{"type": "null"}, {"type": "string", "enum": ["aisle"]}]},
        {"allOf": [{"type": "string", "enum": ["aisle"]}]},
        {"type": "string", "enum": ["aisle"]},
    ],
)
def test_the_checks_and_the_grammar_read_a_schema_alike(field: dict[str, Any]) -> None:
    seat = {"type": "string", "enum": ["aisle"]}
    schema = {"$defs": {"Seat": seat}, "definitions": {"Seat": seat}, "properties": {"seat": field}}
    found = parameters(schema)["seat"]
    assert (found["type"], found["enum"]) == ("string", ["aisle"])
    (read,) = read_parameters(Tool("book", "", schema)).fields or ()
    assert {shape.kind for shape in read.shapes} - {"null"} == {"choice"}
