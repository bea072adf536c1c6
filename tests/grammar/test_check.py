"""Every answer is compared with its schema, in bounded time, and what was not checked is named."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgewise.grammar.check import DEEPEST, LONGEST_ANSWER, CheckedText, check_answer, validate
from edgewise.types.messages import Tool
from tests.campaigns import rounds

BETWEEN = {"type": "number", "minimum": 5, "maximum": 6}
FIVE_DIGITS = {"type": "string", "pattern": r"^\d{5}$"}
DIFFERENT = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}


def fault(text: str, schema: dict[str, Any]) -> str:
    checked = check_answer(text, schema)
    assert checked.unchecked == ""
    return checked.fault


@pytest.mark.parametrize(
    ("schema", "right", "wrong", "why"),
    [
        (BETWEEN, "5.5", "-1.10", "$: -1.1 is less than 5"),
        (FIVE_DIGITS, '"12345"', '"abcde"', "$: 'abcde' does not match '^\\\\d{5}$'"),
        (DIFFERENT, '["a","b"]', '["a","a"]', "$: two of its items are the same"),
        ({}, "{}", "[]", "$: [] is not object"),
        ({"type": "integer"}, "5.0", "true", "$: True is not integer"),
        ({"multipleOf": 0.1}, "0.3", "0.35", "$: 0.35 is no multiple of 0.1"),
        ({"enum": [1, "a"]}, "1.0", "true", "$: True is not one of the choices"),
        ({"oneOf": [{"minimum": 1}, {"minimum": 2}]}, "1", "3", "$: 3 fits 2 options of oneOf"),
        ({"required": ["a"]}, '{"a":1}', "{}", "$: 'a' is missing"),
        (
            {"properties": {"a": {"items": BETWEEN}}},
            '{"a":[5]}',
            '{"a":[5,7]}',
            "$.a[1]: 7 is more than 6",
        ),
        ({"type": "string"}, '""', '"cut', "it is not JSON"),
        ({"type": "number"}, "1e3", "NaN", "it is not JSON"),
    ],
)
def test_an_answer_follows_its_schema_or_the_fault_is_named(
    schema: dict[str, Any], right: str, wrong: str, why: str
) -> None:
    assert fault(right, schema) == ""
    assert fault(wrong, schema) == why


@pytest.mark.parametrize(
    ("schema", "text", "why"),
    [
        ({"pattern": "^(?=a)b"}, '"a"', "looks ahead or behind"),
        ({"pattern": "^(a{500}){500}$"}, '"a"', "states"),
        ({"$ref": "#"}, "1", f"more than {DEEPEST} schemas in one another"),
        ({"items": {"$ref": "#"}}, "[" * 300 + "]" * 300, f"more than {DEEPEST} schemas"),
        ({"$ref": "https://example.com/schema"}, "1", "to another document"),
        ({"unevaluatedProperties": False}, "{}", "'unevaluatedProperties' is not understood"),
        ({"not": {"pattern": "^(?=a)b"}}, '"a"', "looks ahead or behind"),
        ({"pattern": "^(a|aa)+(a|aa)+$"}, json.dumps("a" * 200_000), "too"),
        ({"type": "string"}, json.dumps("a" * LONGEST_ANSWER), "characters"),
    ],
)
def test_what_cannot_be_checked_is_named_and_is_no_fault(
    schema: dict[str, Any], text: str, why: str
) -> None:
    checked = check_answer(text, schema)
    assert checked.fault == "" and why in checked.unchecked


def test_a_fault_counts_beside_what_cannot_be_checked() -> None:
    schema = {"properties": {"a": {"pattern": "(?=a)"}, "b": BETWEEN}}
    checked = check_answer('{"a": "a", "b": 9}', schema)
    assert checked.fault == "$.b: 9 is more than 6" and "$.a" in checked.unchecked


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"pattern": "^(a+)+b$"}, json.dumps("a" * 2_000)),
        ({"pattern": "^((a?){20}){20}b$"}, json.dumps("a" * 2_000)),
        ({"pattern": "(x+x+)+y"}, json.dumps("x" * 2_000)),
    ],
)
def test_no_pattern_takes_more_than_a_bounded_number_of_steps(
    schema: dict[str, Any], text: str
) -> None:
    """A backtracking engine would need longer than the universe has."""
    checked = check_answer(text, schema)
    assert checked.fault or checked.unchecked


def test_choices_within_choices_end() -> None:
    schema: dict[str, Any] = {"anyOf": [{"$ref": "#"}, {"allOf": [{"$ref": "#"}] * 9}] * 9}
    assert check_answer("1", schema).unchecked


@pytest.mark.parametrize("step", ["9", "9" * 5_000, "-1", "²"])
def test_an_address_beyond_a_list_leads_nowhere(step: str) -> None:
    checked = check_answer("1", {"$ref": f"#/examples/{step}", "examples": [{}]})
    assert "leads nowhere" in checked.unchecked


def test_json_that_is_nested_too_deep_for_anybody_is_a_fault() -> None:
    assert check_answer("[" * 200_000, {"type": "array"}) == CheckedText(fault="it is not JSON")


NAMES = st.sampled_from(["a", "b", "ab"])
SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, "", "a", "ab"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
COUNTS = st.integers(0, 3)
LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["object", "array", "string", "number", "integer", "boolean"])
        | st.just(["null", "string"]),
        "enum": st.lists(VALUES, min_size=1, max_size=3, unique_by=json.dumps),
        "const": SCALARS,
        "minimum": st.integers(-2, 2),
        "exclusiveMaximum": st.integers(-2, 2),
        "multipleOf": st.sampled_from([0.5, 1, 2]),
        "minLength": COUNTS,
        "maxLength": COUNTS,
        "pattern": st.sampled_from(["^a", "b$", "^(a|b)+$", "a"]),
        "minItems": COUNTS,
        "maxItems": COUNTS,
        "uniqueItems": st.booleans(),
        "minProperties": COUNTS,
        "maxProperties": COUNTS,
        "required": st.lists(NAMES, max_size=2, unique=True),
        "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True)),
    },
)


def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner),
            "additionalProperties": inner,
            "propertyNames": inner,
            "prefixItems": several,
            "items": inner,
            "contains": inner,
            "minContains": COUNTS,
            "maxContains": COUNTS,
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "dependentSchemas": st.dictionaries(NAMES, inner, max_size=2),
            "$ref": st.just("#/$defs/d"),
        },
    )


SCHEMAS = st.recursive(LEAVES | st.booleans(), around, max_leaves=8)


@settings(max_examples=rounds(2000), deadline=None, suppress_health_check=list(HealthCheck))
@given(SCHEMAS.filter(lambda schema: isinstance(schema, dict)), LEAVES, VALUES)
def test_it_judges_like_a_validator_of_the_standard(
    schema: dict[str, Any], shared: dict[str, Any], value: Any
) -> None:
    whole = schema | {"$defs": {"d": shared}}
    assert (fault(json.dumps(value), whole) == "") == jsonschema_rs.is_valid(whole, value)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
ODD = st.recursive(
    ANY_JSON | LEAVES | st.just({"$ref": "#"}),
    lambda inner: st.dictionaries(
        st.sampled_from(["$ref", "properties", "items", "required", "enum", "type", "pattern",
                         "not", "if", "then", "allOf", "anyOf", "oneOf", "contains", "multipleOf",
                         "dependencies", "additionalProperties", "minimum", "const"]),
        inner | st.lists(inner, max_size=3), max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=rounds(1000), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    ODD.filter(lambda schema: isinstance(schema, dict)),
    st.text(max_size=9) | VALUES.map(json.dumps),
)
def test_any_json_for_a_schema_and_any_text_for_an_answer_have_a_verdict(
    schema: dict[str, Any], text: str
) -> None:
    assert isinstance(check_answer(text, schema), CheckedText)


# -- the arguments of a call -----------------------------------------------------------------------

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
