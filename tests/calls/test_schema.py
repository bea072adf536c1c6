"""What a schema forbids, each fault by its name."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.calls.schema import validate
from edgewise.types.messages import Tool

TOOL = Tool(
    "book",
    "",
    {
        "properties": {
            "room": {"type": "string"},
            "people": {"type": "integer", "minimum": 1, "exclusiveMaximum": 9},
            "price": {"type": "number", "maximum": 50},
            "view": {"enum": ["sea", "park", 1]},
            "days": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "guest": {"properties": {"name": {"type": "string"}}, "required": ["name"]},
            "note": {"type": ["string", "null"], "maxLength": 5},
        },
        "required": ["room"],
    },
)


@pytest.mark.parametrize(
    "arguments",
    [
        {"room": "blue"},
        {"room": "blue", "people": 8, "price": 50, "view": 1, "days": ["Monday"]},
        {"room": "blue", "guest": {"name": "Ana"}, "note": None},
    ],
)
def test_a_valid_call_has_no_complaints(arguments: Any) -> None:
    assert validate("book", arguments, TOOL) == []


@pytest.mark.parametrize(
    ("arguments", "code", "argument"),
    [
        ({}, "missing_argument", "room"),
        ({"room": ""}, "empty_value", "room"),
        ({"room": 5}, "wrong_type", "room"),
        ({"room": None}, "wrong_type", "room"),
        ({"room": "blue", "pool": True}, "unknown_argument", "pool"),
        ({"room": "blue", "people": 0}, "out_of_range", "people"),
        ({"room": "blue", "people": 9}, "out_of_range", "people"),
        ({"room": "blue", "people": 2.0}, "wrong_type", "people"),
        ({"room": "blue", "people": True}, "wrong_type", "people"),
        ({"room": "blue", "price": float("nan")}, "wrong_type", "price"),
        ({"room": "blue", "view": "city"}, "not_in_enum", "view"),
        ({"room": "blue", "view": True}, "not_in_enum", "view"),
        ({"room": "blue", "days": []}, "out_of_range", "days"),
        ({"room": "blue", "days": [1]}, "wrong_type", "days"),
        ({"room": "blue", "guest": {}}, "missing_argument", "guest"),
        ({"room": "blue", "guest": {"name": "A", "age": 3}}, "unknown_argument", "guest"),
        ({"room": "blue", "note": "too long"}, "out_of_range", "note"),
    ],
)
def test_each_fault_is_named_with_its_argument(arguments: Any, code: str, argument: str) -> None:
    [complaint] = validate("book", arguments, TOOL)
    assert (complaint.code, complaint.argument) == (code, argument)
    assert argument in complaint.message


def test_a_call_of_another_tool_is_unknown() -> None:
    [complaint] = validate("fly", {}, TOOL)
    assert complaint.code == "unknown_tool"


def test_arguments_that_are_no_object_are_not_json() -> None:
    [complaint] = validate("book", ["blue"], TOOL)
    assert complaint.code == "not_json"
