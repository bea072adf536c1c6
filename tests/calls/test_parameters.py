"""What a parameter wants, in what form, and going through arguments."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.schema import (
    Template,
    listed_choice,
    means_on,
    moment_form,
    parameters,
    required,
    revise,
    wanted,
    written_date,
)
from edgewise.grammar.tools import read_parameters
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


@pytest.mark.parametrize(
    ("name", "description", "switch"),
    [
        ("power", "", True),
        ("quiet_hours", "Set to true to enable, false to disable", True),
        ("loud", "Whether it hums", False),
        ("status", "True to turn off the fan", False),
    ],
)
def test_a_boolean_is_a_switch_where_true_means_on(
    name: str, description: str, switch: bool
) -> None:
    assert means_on(name, {"type": "boolean", "description": description}) is switch
    assert not means_on(name, {"type": "string", "description": description})


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
    assert wanted("level", parameters(schema)["level"]).type == "int"
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


TOOL = Tool(
    "sow",
    parameters={
        "properties": {
            "seed": {"type": "string"},
            "bed": {"$ref": "#/$defs/bed"},
            "notes": {"type": "array"},
        },
        "$defs": {"bed": {"properties": {"row": {"type": "string", "description": "Row"}}}},
    },
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def test_objects_and_texts_in_lists_are_gone_through_with_their_schemas() -> None:
    seen = []

    def better(name: str, schema: Mapping[str, Any], value: Any) -> Any:
        seen.append((name, schema.get("description")))
        return value.upper() if isinstance(value, str) else None

    given = {"seed": "rye", "bed": {"row": "north"}, "notes": ["deep"]}
    changed, changes = revise(given, TOOL, "loud", better)
    assert changed == {"seed": "RYE", "bed": {"row": "NORTH"}, "notes": ["DEEP"]}
    assert changes == ("loud:seed", "loud:bed", "loud:notes")
    assert seen == [("seed", None), ("row", "Row"), ("notes", "")]


@given(st.dictionaries(st.sampled_from(["seed", "bed", "notes", "other"]), JSON))
def test_a_step_that_knows_nothing_better_returns_the_very_same_arguments(
    arguments: dict[str, Any],
) -> None:
    changed, changes = revise(arguments, TOOL, "code", lambda name, schema, value: None)
    assert changed is arguments
    assert changes == ()


@pytest.mark.parametrize(
    ("name", "schema", "written"),
    [
        ("at", {"description": "When, as YYYY-MM-DD HH:MM"}, "2026-03-01 14:05"),
        ("at", {"description": "YYYY-MM-DDTHH:MM:SS"}, "2026-03-01T14:05:00"),
        ("at", {"description": "in YYYY-MM-DD'T'HH:MM:SSZ form"}, "2026-03-01T14:05:00Z"),
        ("at", {"format": "date-time"}, "2026-03-01T14:05:00"),
        ("start", {"description": "ISO 8601 datetime"}, "2026-03-01T14:05:00"),
        ("timestamp", {"description": "ISO 8601"}, "2026-03-01T14:05:00"),
        ("start", {"description": "ISO datetime, e.g. 2025-01-31T09:00"}, "2026-03-01T14:05"),
        ("start", {"description": "Start, e.g. '2025-01-31 09:00'"}, "2026-03-01 14:05"),
        ("start", {"examples": ["2025-01-31 09:00"]}, "2026-03-01 14:05"),
        ("pickup", {"description": "For example 'now' or '2025-01-31 09:00'"}, "2026-03-01 14:05"),
        ("day", {"description": "DD.MM.YYYY"}, "01.03.2026"),
        ("day", {"description": "mm/dd/yyyy please"}, "03/01/2026"),
        ("day", {"format": "date"}, "2026-03-01"),
        ("day", {"description": "ISO date"}, "2026-03-01"),
        ("time", {"description": "HH:MM"}, "14:05"),
        ("time", {"description": "24-hour clock"}, "14:05"),
        ("time", {"description": "HH:MM AM/PM"}, "2:05 PM"),
        ("time", {"description": "in 12-hour format"}, "2:05 PM"),
        ("time", {"description": "Like so, e.g. 3:00 PM"}, "2:05 PM"),
    ],
)
def test_a_moment_is_written_as_the_schema_says(
    name: str, schema: dict[str, Any], written: str
) -> None:
    form = moment_form(name, {"type": "string", **schema})
    assert form is not None
    assert form.write("2026-03-01", "14:05") == written
    assert form.holds(written)


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("time", {"type": "string", "description": "Time of day"}),
        ("at", {"type": "string", "description": "e.g. 2025-01-31 or 3:00 PM"}),
        ("day", {"type": "string", "enum": ["2025-01-31"], "description": "YYYY-MM-DD"}),
        ("hour", {"type": "integer", "description": "24-hour"}),
        ("when", {"type": "string", "description": "ISO 8601"}),
        ("length", {"type": "string", "description": "24-hour pass or not"}),
    ],
)
def test_where_the_form_is_in_doubt_there_is_none(name: str, schema: dict[str, Any]) -> None:
    assert moment_form(name, schema) is None


FORMS = st.builds(
    Template,
    st.sampled_from(["yyyy-mm-dd", "dd/mm/yyyy", "mm.dd.yyyy", "yyyymmdd", ""]),
    st.sampled_from(["hh:mm", "hh:mm:ss", "h:mm pm"]),
    st.sampled_from([" ", "T"]),
)


@given(FORMS, st.datetimes(min_value=datetime.datetime(1000, 1, 1)))
def test_what_a_form_writes_it_holds(form: Template, moment: datetime.datetime) -> None:
    assert form.holds(form.write(f"{moment:%Y-%m-%d}", f"{moment:%H:%M:%S}"))


@given(FORMS, st.text(max_size=12))
def test_a_form_does_not_hold_text_without_digits(form: Template, text: str) -> None:
    assert not form.holds("".join(letter for letter in text if not letter.isdigit()))
