from __future__ import annotations

from typing import Any

import pytest

from edgewise.errors import InvalidRequest
from edgewise.local.held_schema import check_held

EMPTY_PLANE = "\U00050000"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 5, "maximum": 3}, "no number is from 5 to 3"),
        ({"type": "integer", "minimum": 2.5, "maximum": 2.7}, "no whole number"),
        ({"type": "integer", "exclusiveMinimum": 2, "exclusiveMaximum": 3}, "no whole number"),
        ({"type": "number", "minimum": 1, "exclusiveMaximum": 1}, "no number"),
        ({"type": "string", "minLength": 5, "maxLength": 2}, "minLength"),
        ({"type": "string", "minLength": 100_000}, "minLength"),
        ({"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 1}, "minItems"),
        ({"enum": []}, "enum"),
        ({"anyOf": []}, "anyOf"),
        ({"allOf": [{"enum": ["a"]}, {"enum": ["b"]}]}, "nothing in common"),
        ({"enum": [EMPTY_PLANE]}, "no model writes"),
        ({"type": "object", "properties": {EMPTY_PLANE: {}}}, "no model writes"),
        ({"type": "string", "pattern": r"^[^\x00-\U0010ffff]$"}, "leaves no character"),
        ({"type": "string", "pattern": "^[b-a]$"}, "cannot be read"),
        ({"type": "string", "pattern": "^a{3,1}$"}, "upside down"),
        ({"type": "string", "pattern": "^a{9999}$"}, "repeats more"),
    ],
    ids=str,
)
def test_what_no_answer_can_fulfil_is_refused_wherever_it_stands(
    schema: dict[str, Any], words: str
) -> None:
    for whole in (schema, {"type": "object", "properties": {"x": schema}, "required": ["x"]}):
        with pytest.raises(InvalidRequest, match="cannot be held to") as caught:
            check_held(whole)
        assert words in str(caught.value)


def test_one_nested_without_end_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(200):
        schema = {"items": schema}
    with pytest.raises(InvalidRequest, match="nested"):
        check_held(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 3, "maximum": 3},
        {"type": "integer", "exclusiveMinimum": 2, "maximum": 3},
        {"type": "string", "minLength": 2, "maxLength": 2, "pattern": r"^[^\]a-z]\d{1,3}[é]$"},
        {"type": "object", "properties": {"minimum": {"type": "integer"}, "enum": {"enum": [1]}}},
        {"allOf": [{"enum": ["a", "b"]}, {"enum": ["b"]}]},
        {"enum": ["città", "中", "😀"]},
    ],
    ids=str,
)
def test_what_an_answer_can_fulfil_is_left_alone(schema: dict[str, Any]) -> None:
    check_held(schema)
