"""What the grammars of JSON Schemas let a model write."""

from __future__ import annotations

import json
import random
import tracemalloc
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgewise.errors import InvalidRequest, SchemaUnsupported
from edgewise.grammar.answers import KNOWN, compile_answer
from tests.campaigns import rounds
from tests.grammar.gbnf_walker import Grammar

EMPTY_PLANE = "\U00050000"
LARGEST = 1_000_000  # characters of any grammar that is given to the runtime


def inside(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}, "required": ["x"]}


def accepts(schema: dict[str, Any], value: Any) -> bool:
    return Grammar(compile_answer(schema)).accepts(json.dumps(value, ensure_ascii=False))


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "born": {"type": "string", "format": "date"},
        "pets": {"type": "array", "items": {"$ref": "#/$defs/pet"}, "maxItems": 3},
        "friend": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
    "$defs": {"pet": {"enum": ["cat", "dog", "città"]}},
}


def test_a_pattern_is_written_once_however_many_fields_have_it() -> None:
    days = {f"day_{number}": {"type": "string", "format": "date"} for number in range(90)}
    schema = {"type": "object", "properties": days, "required": list(days)}
    assert len(compile_answer(schema)) < 10 * len(compile_answer({"format": "date"}))


def test_an_answer_may_be_spaced_as_models_do_and_leave_out_what_is_optional() -> None:
    grammar = Grammar(compile_answer(PERSON))
    for text in (
        '{"name":"Ada","age":36}',
        '{"name": "Ada", "age": 36, "pets": ["cat", "città"]}',
        '{\n  "name": "Ada",\n  "age": 36,\n  "born": "1815-12-10",\n  "pets": []\n}',
        '{"name": "Ada", "age": 36, "friend": {"name": "Mary", "age": 9, "friend": null}}',
    ):
        assert grammar.accepts(text), text
    for text in (
        '{"name": "", "age": 36}',
        '{"name": "Ada", "age": 131}',
        '{"name": "Ada"}',
        '{"age": 36, "name": "Ada"}',
        '{"name": "Ada", "age": 36, "other": 1}',
        '{"name": "Ada", "age": 36, "pets": ["cow"]}',
        '{"name": "Ada", "age": 36,}',
    ):
        assert not grammar.accepts(text), text


def test_an_empty_schema_is_any_object() -> None:
    grammar = Grammar(compile_answer({}))
    assert grammar.accepts('{"a": [1, -2.5, "b", {"c": null}], "d": true}')
    assert not grammar.accepts("[1]") and not grammar.accepts('"a"')


@pytest.mark.parametrize(
    ("schema", "yes", "no"),
    [
        ({"type": "number", "minimum": 5, "maximum": 6}, [5, 5.25, 6], [-1.1, 4.9, 6.1]),
        ({"type": "integer", "exclusiveMinimum": 2, "maximum": 3}, [3], [2, 4]),
        ({"type": "integer", "minimum": 2, "exclusiveMinimum": True}, [3], [2]),
        ({"type": ["string", "null"], "maxLength": 2}, ["ab", None], ["abc", 1]),
        ({"type": "string", "nullable": True}, ["ab", None], [1]),
        ({"const": {"a": [1, "é"]}}, [], [{"a": [1]}]),
        ({"enum": ["a", 1, None, True]}, ["a", 1, None, True], ["b", 2, False]),
        ({"type": "string", "enum": ["a", 1]}, ["a"], [1]),
        ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]},
         [[1, "a"]], [["a", 1]]),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [[1, 2], [1, 2, 3]],
         [[1]]),
        ({"type": "array", "maxItems": 0}, [[]], [[1]]),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, [{}, {"a": 1}],
         [{"a": "b"}]),
        ({"type": "object", "required": ["a"]}, [{"a": 1}], [{}]),
        ({"allOf": [inside({"type": "integer"}), {"properties": {"y": {"type": "null"}}}]},
         [{"x": 1}, {"x": 1, "y": None}], [{"y": None}]),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "boolean"}}}, [True], [1]),
        ({"$ref": "#/$defs/a%20b~1c", "$defs": {"a b/c": {"type": "boolean"}}}, [True], [1]),
        ({"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]},
         {"required": ["b"]}]}, [{"a": 1}, {"b": 1}, {"a": 1, "b": 2}], [{}]),
        ({"properties": {"a": False, "b": {"type": "null"}}}, [{}, {"b": None}], [{"a": 1}]),
        ({"allOf": [{"enum": ["a", "b"]}, {"enum": ["b"]}]}, ["b"], ["a"]),
        ({"type": "string", "format": "uuid"}, ["123e4567-e89b-12d3-a456-426614174000"], ["1"]),
        ({"type": "string", "format": "date"},
         ["2026-12-31", "2026-01-29", "2024-02-29", "2000-02-29"],
         ["2026-02-29", "1900-02-29", "2026-04-31", "2026-13-01", "2026-1-1", "5 December 2026"]),
        ({"type": "string", "format": "date-time"}, ["2026-11-16T01:45:00Z"], ["2026-11-16"]),
        ({"type": "string", "format": "email"}, ["no address"], []),
    ],
    ids=str,
)  # fmt: skip
def test_each_keyword_holds(schema: dict[str, Any], yes: list[Any], no: list[Any]) -> None:
    assert all(accepts(schema, value) for value in yes)
    assert not any(accepts(schema, value) for value in no)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "nonsense"}, "nonsense"),
        ({"type": []}, "type"),
        ({"type": "integer", "minimum": 5, "maximum": 3}, "no number is from 5 to 3"),
        ({"type": "integer", "minimum": 2.5, "maximum": 2.7}, "no whole number"),
        ({"type": "integer", "exclusiveMinimum": 2, "exclusiveMaximum": 3}, "no whole number"),
        ({"type": "number", "minimum": 1, "exclusiveMaximum": 1}, "no number"),
        ({"type": "number", "minimum": "1"}, "minimum is not a number"),
        ({"type": "string", "minLength": 5, "maxLength": 2}, "minLength"),
        ({"type": "string", "minLength": -1}, "minLength"),
        ({"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 1}, "minItems"),
        ({"type": "array", "items": False, "minItems": 1}, "minItems"),
        ({"enum": []}, "enum"),
        ({"enum": [float("nan")]}, "JSON cannot write"),
        ({"anyOf": []}, "anyOf"),
        ({"anyOf": [False]}, "anyOf"),
        ({"allOf": [{"enum": ["a"]}, {"enum": ["b"]}]}, "nothing in common"),
        ({"type": "string", "pattern": r"^[^\x00-\u{10ffff}]$"}, "no character"),
        ({"type": "string", "pattern": "^[b-a]$"}, "cannot be read"),
        ({"type": "string", "pattern": "^a{3,1}$"}, "upside down"),
        ({"properties": {"a": False}, "required": ["a"]}, "required and not allowed"),
        ({"properties": [1]}, "properties"),
        ({"properties": {"a": 7}}, "not a JSON object"),
        ({"$ref": "#/nowhere"}, "leads nowhere"),
        ({"$ref": "#/required/²", "required": ["a"]}, "leads nowhere"),
        ({"required": "a"}, "required"),
    ],
    ids=str,
)
def test_what_no_answer_can_fulfil_is_refused_wherever_it_stands(
    schema: dict[str, Any], words: str
) -> None:
    for whole in (schema, inside(schema), {"anyOf": [schema, schema]}):
        with pytest.raises(InvalidRequest, match="no answer can follow") as caught:
            compile_answer(whole)
        assert words in str(caught.value)


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


def doubling(levels: int) -> dict[str, Any]:
    """Each level chooses between two objects that begin alike: the ways double per level."""
    definitions: dict[str, Any] = {"0": {"type": "string"}}
    for level in range(1, levels + 1):
        below = {"$ref": f"#/$defs/{level - 1}"}
        definitions[str(level)] = {
            "anyOf": [
                {"properties": {"x": below, end: {}}, "required": ["x"]} for end in ("y", "z")
            ]
        }
    return {"$ref": f"#/$defs/{levels}", "$defs": definitions}


MANY = "[" + "".join(chr(0x4E00 + 3 * number) for number in range(150)) + "]"
SELF = {"$defs": {"a": {"anyOf": [
    {"properties": {"x": {"$ref": "#/$defs/a"}, "y": {}}, "required": ["x"]},
    {"properties": {"x": {"$ref": "#/$defs/a"}, "z": {}}, "required": ["x"]},
    {"type": "null"},
]}}, "$ref": "#/$defs/a"}  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 9223372036854775807}, "minimum has more than 15 digits"),
        ({"type": "number", "maximum": -1e300}, "maximum has more than 15 digits"),
        ({"type": "string", "minLength": 100_000}, "minLength is more than 2,000"),
        ({"type": "array", "minItems": 100_000}, "minItems is more than 2,000"),
        ({"properties": {f"p{n}": {"minLength": 2000 - n} for n in range(30)}},
         "50,000 repetitions"),
        ({"properties": {f"p{n}": {"type": "null"} for n in range(3000)}}, "1,000 schemas"),
        ({"properties": {f"p{n}": {"type": "null"} for n in range(101)}}, "in a row are optional"),
        ({"enum": [f"v{n}" for n in range(1001)]}, "1,000 values of enums"),
        ({"enum": [f"v{n}" for n in range(20_000)]}, "20,000 values"),
        ({"enum": ["v" * 100_001]}, "100,000 characters"),
        ({"anyOf": [{"const": n} for n in range(65)]}, "64 options"),
        ({"type": "string", "pattern": "^((a?){50}){50}b$"}, "600 states"),
        ({"properties": {f"p{n}": {"pattern": f"^a{{500}}{n}$"} for n in range(7)}},
         "3,000 states of patterns"),
        (nested(40), "more than 32 values in one another"),
        (nested(200), "nested more than 100 deep"),
        (doubling(8), "more than 200 ways"),
        (SELF, "more than 200 ways"),
        ({"type": "array", "uniqueItems": True}, "'uniqueItems' is not understood"),
        ({"not": {}}, "'not' is not understood"),
        ({"patternProperties": {}}, "'patternProperties' is not understood"),
        ({"enum": ["a"], "minLength": 1}, "'minLength' beside an enum"),
        ({"$ref": "https://example.com/schema.json"}, "another document"),
        ({"allOf": [{"pattern": "a"}, {"pattern": "b"}]}, "two different 'pattern'"),
        ({"$ref": "#" + "/a" * 300}, "longer than 500 characters"),
        ({"properties": {f"p{n}": {"minimum": -n - 1e5 / 3, "maximum": 1e6 / 7}
                         for n in range(500)}}, "1,000,000 characters of grammar"),
        ({"properties": {f"p{n}": {"pattern": f"^({MANY}{{1,3}})*{n}$"} for n in range(99)}},
         "too many ways"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_what_is_too_much_is_refused_by_the_name_of_its_limit(
    schema: dict[str, Any], words: str
) -> None:
    for whole in (schema, schema | {"title": "with a note"}):
        with pytest.raises(SchemaUnsupported) as caught:
            compile_answer(whole)
        assert words in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"anyOf": [{"$ref": "#"}, {"type": "string"}]},
        {"$ref": "#/$defs/a", "minLength": 1, "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"oneOf": [{"$ref": "#/$defs/b"}]},
                                         "b": {"allOf": [{"$ref": "#/$defs/a"}]}}},
    ],
    ids=str,
)  # fmt: skip
def test_a_schema_that_is_only_itself_is_refused(schema: dict[str, Any]) -> None:
    for whole in (schema, schema | {"title": "with a note"}):
        with pytest.raises(InvalidRequest, match="refers to itself"):
            compile_answer(whole)


NAMES = [f"a{number}" for number in range(6000)]
ONE = {"$ref": "#/$defs/one"}
OTHER = {"$ref": "#/$defs/other"}


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({"required": NAMES}, {}, "1,000 schemas"),
        ({"properties": dict.fromkeys(NAMES, True)}, {}, "1,000 schemas"),
        ({"properties": {name: {} for name in NAMES[:900]}},
         {"properties": {name: {"type": "null"} for name in NAMES[:900]}}, "1,000 schemas"),
        ({"required": NAMES[:900]}, {"required": NAMES[899:1799]}, "1,000 schemas"),
        ({"enum": NAMES[:30]}, {"enum": NAMES[:31]}, "1,000 pairs of joined enums"),
    ],
    ids=["required", "properties", "shared properties", "other names", "enums"],
)  # fmt: skip
def test_what_is_joined_many_times_does_not_grow(
    one: dict[str, Any], other: dict[str, Any], words: str
) -> None:
    definitions = {"one": one, "other": other}
    tracemalloc.start()
    try:
        with pytest.raises(SchemaUnsupported, match=words):
            compile_answer({"allOf": [ONE, OTHER] * 400, "$defs": definitions})
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_long_text_is_not_spelt_again_and_again() -> None:
    fields = {name: ONE | {"nullable": True} for name in NAMES[:90]}
    whole = {"properties": fields, "$defs": {"one": {"const": "x" * 50_000}}}
    with pytest.raises(SchemaUnsupported, match="100,000 characters of names and enums"):
        compile_answer(whole)


def test_odd_parts_of_a_join_are_refused_too() -> None:
    closed = {"properties": 7, "additionalProperties": False}
    with pytest.raises(SchemaUnsupported, match="two different 'properties'"):
        compile_answer({"allOf": [{"properties": {"a": {}}}, closed]})
    around = {"anyOf": [{"$ref": "#", "minLength": 1}, {"type": "null"}], "minLength": 2}
    with pytest.raises(SchemaUnsupported, match="32 values in one another"):
        compile_answer(around)


def test_a_few_levels_of_choice_are_no_harm() -> None:
    assert accepts(doubling(6), {"x": {"x": {"x": {"x": {"x": {"x": "a"}}}}}})


def test_a_tree_may_refer_to_itself() -> None:
    node = {"properties": {"left": {"$ref": "#/$defs/n"}, "right": {"$ref": "#/$defs/n"}}}
    tree = {"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [node, {"type": "integer"}]}}}
    assert accepts(tree, {"left": {"left": 1, "right": 2}, "right": 3})
    assert not accepts(tree, {"left": "leaf"})


def test_choices_that_are_told_apart_by_their_first_value_may_be_nested() -> None:
    kinds = [
        {"properties": {"op": {"const": name}, "of": {"$ref": "#"}}, "required": ["op", "of"]}
        for name in ("minus", "not", "abs")
    ]
    schema = {"anyOf": [*kinds, {"type": "number"}]}
    assert accepts(schema, {"op": "not", "of": {"op": "abs", "of": {"op": "minus", "of": 3}}})


def test_choices_whose_first_values_overlap_add_up() -> None:
    """A number may equal one that another option names."""
    kinds = [
        {"properties": {"op": op, "of": {"$ref": "#"}, end: {}}, "required": ["op", "of"]}
        for end, op in (("y", {"type": "integer"}), ("z", {"const": 1}))
    ]
    with pytest.raises(SchemaUnsupported, match="more than 200 ways"):
        compile_answer({"anyOf": [*kinds, {"type": "null"}]})


@pytest.mark.parametrize("text", ["\x04", "\x7f", EMPTY_PLANE, "\ud800", "a\U0010ffff\x1d"])
def test_what_a_vocabulary_may_not_have_is_spelt_in_ascii(text: str) -> None:
    for schema in ({"enum": [text]}, {"const": [text]}, inside({"const": {text: text}})):
        grammar = compile_answer(schema)
        assert all(" " <= letter <= "~" or letter == "\n" for letter in grammar)
    names = compile_answer({"properties": {text: {"type": "null"}}, "required": [text]})
    drawn = Grammar(names).draw(random.Random(0))
    assert json.loads(drawn) == {text: None}


TEXTS = st.text(max_size=4)
LEAVES: st.SearchStrategy[Any] = st.one_of(
    st.just({}),
    st.builds(
        lambda name: {"type": name}, st.sampled_from(["boolean", "null", "string", "number"])
    ),
    st.builds(
        lambda low, more: {"type": "integer", "minimum": low, "maximum": low + more},
        st.integers(-200, 200),
        st.integers(0, 5000),
    ),
    st.builds(
        lambda low, more: {"type": "number", "minimum": low, "exclusiveMaximum": low + more},
        st.floats(-99, 99).map(lambda value: round(value, 3)),
        st.floats(0.5, 900).map(lambda value: round(value, 2)),
    ),
    st.builds(
        lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more},
        st.integers(0, 5),
        st.integers(0, 5),
    ),
    st.builds(
        lambda pattern: {"type": "string", "pattern": pattern},
        st.sampled_from([r"^\d{3}-\w+$", "^(a|bb)*$", "x", "^[^a-z]+$", "^$", r"^[\x01é]{2}$"]),
    ),
    st.builds(
        lambda name: {"type": "string", "format": name},
        st.sampled_from(["date", "time", "date-time", "uuid"]),
    ),
    st.builds(
        lambda values: {"enum": values},
        st.lists(TEXTS | st.integers() | st.none() | st.booleans(), min_size=1, max_size=5),
    ),
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(TEXTS, inner, max_size=4)
    return st.one_of(
        st.tuples(named, st.randoms()).map(
            lambda two: {
                "type": "object",
                "properties": two[0],
                "required": [name for name in two[0] if two[1].random() < 0.5],
            }
        ),
        st.builds(
            lambda items, low, more: {
                "type": "array", "items": items, "minItems": low, "maxItems": low + more,
            },
            inner, st.integers(0, 3), st.integers(0, 3),
        ),
        st.builds(lambda first: {"type": "array", "prefixItems": first},
                  st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda value: {"type": "object", "additionalProperties": value}, inner),
        st.builds(lambda options: {"anyOf": options}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda part: {"allOf": [part, {"description": "a note"}]}, inner),
        st.builds(lambda part: {"anyOf": [{"$ref": "#/$defs/d"}, part]}, inner),
    )  # fmt: skip


SCHEMAS = st.recursive(LEAVES, containers, max_leaves=8)


@settings(max_examples=rounds(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(SCHEMAS, st.randoms())
def test_whatever_a_grammar_accepts_is_valid(schema: Any, rng: random.Random) -> None:
    # An address is one of the whole document.
    schema = {"$defs": {"d": {"type": "string"}}} | schema
    try:
        grammar = Grammar(compile_answer(schema))
    except (InvalidRequest, SchemaUnsupported):
        return
    validator = jsonschema_rs.validator_for(schema, validate_formats=True)
    for _ in range(5):
        text = grammar.draw(rng)
        assert grammar.accepts(text)
        value = json.loads(text)
        assert validator.is_valid(value), (text, schema)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)
ODD = st.recursive(
    JSON | LEAVES | st.just({"$ref": "#"}) | st.just({"$ref": "#/$defs/d"}),
    lambda inner: st.dictionaries(
        st.sampled_from(sorted(KNOWN)), inner | st.lists(inner, max_size=4), max_size=5
    ),
    max_leaves=15,
)


@settings(max_examples=rounds(400), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(st.sampled_from(sorted(KNOWN)), ODD | st.lists(ODD, max_size=4), max_size=6))
def test_any_json_for_a_schema_is_a_grammar_of_bounded_size_or_a_clear_error(schema: Any) -> None:
    try:
        text = compile_answer(schema)
    except (InvalidRequest, SchemaUnsupported):
        return
    assert len(text) <= LARGEST
    Grammar(text)
