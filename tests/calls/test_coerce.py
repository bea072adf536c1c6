"""A call from the grammar brought to the types its schema means."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.calls.coerce import coerce_call
from edgewise.types.messages import Tool, ToolCall


def coerced(schema: Any, value: Any, request: str = "") -> tuple[Any, tuple[str, ...]]:
    tool = Tool("t", "", {"properties": {"x": schema}, "required": ["x"]})
    call, repairs = coerce_call(ToolCall("t", {"x": value}), tool, request)
    return call.arguments.get("x"), repairs


@pytest.mark.parametrize("kind", ["number", "float", "double"])
def test_whole_numbers_of_float_parameters_become_floats_silently(kind: str) -> None:
    value, repairs = coerced({"type": kind}, 5)
    assert (value, type(value), repairs) == (5.0, float, ())


def test_floats_inside_lists_and_objects_become_floats_too() -> None:
    value, repairs = coerced({"type": "array", "items": {"type": "number"}}, [1, 2.5])
    assert ([type(item) for item in value], repairs) == ([float, float], ())
    value, _ = coerced({"properties": {"lat": {"type": "number"}}}, {"lat": 3})
    assert type(value["lat"]) is float


def test_a_number_that_may_be_either_stays_as_it_is() -> None:
    value, _ = coerced({"type": ["integer", "number"]}, 5)
    assert type(value) is int


def test_a_whole_number_too_large_for_a_float_stays_whole() -> None:
    assert coerced({"type": "number"}, 10**400) == (10**400, ())


def test_arguments_come_in_the_order_of_the_schema() -> None:
    tool = Tool("t", "", {"properties": {"a": {}, "b": {}, "c": {}}})
    call, repairs = coerce_call(ToolCall("t", {"c": 1, "a": 2}), tool)
    assert (list(call.arguments), repairs) == (["a", "c"], ())


def test_unlisted_arguments_stay_where_the_schema_allows_them() -> None:
    tool = Tool("t", "", {"properties": {"a": {}}, "additionalProperties": {"type": "integer"}})
    call, repairs = coerce_call(ToolCall("t", {"more": "5"}), tool)
    assert (call.arguments, repairs) == ({"more": 5}, ("coerced:more",))


def test_a_range_without_its_ends_is_kept_off_them() -> None:
    schema = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
    low, _ = coerced(schema, -3)
    high, _ = coerced(schema, 7)
    assert 0 < low < 0.001 and 0.999 < high < 1


@pytest.mark.parametrize("choices", [["on", "off"], ["up", "down"], ["increase", "decrease"]])
def test_a_choice_is_not_snapped_to_its_opposite(choices: list[str]) -> None:
    value, repairs = coerced({"enum": choices[:1]}, choices[1])
    assert (value, repairs) == (choices[1], ())


def test_numbers_in_choices_are_not_misspelt() -> None:
    assert coerced({"enum": ["model-4", "other"]}, "model-5") == ("model-5", ())


def test_the_first_of_several_types_that_fits_is_taken() -> None:
    assert coerced({"type": ["string", "integer"]}, "5") == ("5", ())
    assert coerced({"type": ["integer", "boolean"]}, "5") == (5, ("coerced:x",))
