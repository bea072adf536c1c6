"""Answers brought to the schemas of their tools, also of models that nobody held to a grammar."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.calls.parse import Repaired, clean_text, coerce, is_refusal, repair
from edgewise.errors import InvalidRequest
from edgewise.grammar.tools import compile_grammar
from edgewise.types.messages import Tool, ToolCall
from tests.campaigns import rounds

from .schemas import tools


def tool(name: str, required: list[str], **properties: Any) -> Tool:
    return Tool(name, "", {"properties": properties, "required": required})


TEXT = {"type": "string"}
TOOLS = [
    tool(
        "weather.forecast",
        ["place"],
        place=TEXT,
        days={"type": "integer", "minimum": 1, "maximum": 14},
        units={"enum": ["metric", "imperial"]},
    ),
    tool("send_message", ["recipient", "message"], recipient=TEXT, message=TEXT),
    tool("set_timer", ["minutes"], minutes={"type": "integer", "minimum": 1}),
    tool("turn_off", []),
]
OSLO = ("weather.forecast", {"place": "Oslo"})
TIMER = ("set_timer", {"minutes": 5})


def made(result: Repaired) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in result.calls]


VALUES = tool(
    "t",
    [],
    whole={"type": "integer"},
    level={"type": "integer", "minimum": 0, "maximum": 100},
    share={"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    on={"type": "boolean"},
    tags={"type": "array", "items": {"type": "string"}},
    numbers={"type": "array", "items": {"type": "integer"}},
    unit={"enum": ["celsius", "fahrenheit"]},
    size={"enum": [1, 2, 5]},
    place=TEXT,
    spot={"type": "object", "properties": {"row": {"type": "integer"}}, "required": ["row"]},
    maybe={"type": ["integer", "null"]},
)


@pytest.mark.parametrize(
    ("argument", "given", "wanted", "code"),
    [
        ("whole", "5", 5, "coerced"),
        ("whole", " 1,250 ", 1250, "coerced"),
        ("whole", 5.0, 5, "coerced"),
        ("whole", 5.6, 6, "rounded"),
        ("whole", {"whole": 15}, 15, "coerced"),
        ("level", -5, 5, "sign"),
        ("level", 250, 100, "clamped"),
        ("level", -250, 0, "clamped"),
        ("on", "true", True, "coerced"),
        ("on", "Off", False, "coerced"),
        ("on", 1, True, "coerced"),
        ("tags", "red", ["red"], "coerced"),
        ("tags", '["red", "blue"]', ["red", "blue"], "coerced"),
        ("tags", "Paris, France", ["Paris, France"], "coerced"),
        ("numbers", ["1", 2.0], [1, 2], "coerced"),
        ("unit", "Celsius", "celsius", "snapped"),
        ("unit", "farenheit", "fahrenheit", "snapped"),
        ("size", "5", 5, "snapped"),
        ("place", '"Oslo"', "Oslo", "cleaned"),
        ("place", " Oslo ", "Oslo", "cleaned"),
        ("place", 5, "5", "coerced"),
        ("place", ["Oslo"], "Oslo", "coerced"),
        ("spot", {"row": "4"}, {"row": 4}, "coerced"),
        ("spot", '{"row": 4}', {"row": 4}, "coerced"),
        ("spot", {"Row": 4, "seat": 2}, {"row": 4}, "dropped"),
        ("maybe", "null", None, "coerced"),
    ],
)
def test_values_are_brought_to_their_types(
    argument: str, given: Any, wanted: Any, code: str
) -> None:
    result = repair([ToolCall("t", {argument: given})], [VALUES])
    [call] = result.calls
    assert call.arguments == {argument: wanted}
    assert type(call.arguments[argument]) is type(wanted)
    assert f"{code}:{argument}" in result.repairs
    assert result.complaints == ()


@pytest.mark.parametrize(
    ("argument", "given", "code"),
    [
        ("whole", "five", "wrong_type"),
        ("whole", True, "wrong_type"),
        ("on", "maybe", "wrong_type"),
        ("unit", "kelvin", "not_in_enum"),
        ("size", 3, "not_in_enum"),
        ("spot", {}, "missing_argument"),
        ("tags", [["a", "b"]], "wrong_type"),
    ],
)
def test_what_cannot_be_put_right_is_left_and_named(argument: str, given: Any, code: str) -> None:
    result = repair([ToolCall("t", {argument: given})], [VALUES])
    assert result.calls[0].arguments == {argument: given}
    [complaint] = result.complaints
    assert (complaint.code, complaint.argument, complaint.call) == (code, argument, 0)


def test_arguments_that_nobody_asked_for_are_dropped_and_misspelt_ones_renamed() -> None:
    call = ToolCall("weather.forecast", {"Place": "Oslo", "dayz": 3, "mood": "good", "units": None})
    result = repair([call], TOOLS)
    assert made(result) == [("weather.forecast", {"place": "Oslo", "days": 3})]
    assert set(result.repairs) == {"renamed:place", "renamed:days", "dropped:mood", "dropped:units"}


@pytest.mark.parametrize(
    ("request_text", "said", "kept"),
    [
        ("Play A Hard Day's Night.", "A Hard Day's Night.", "A Hard Day's Night"),
        ("Play A Hard Day's Night", "A Hard Day's Night", "A Hard Day's Night"),
        ("Ask Tom: are you coming?", "are you coming?", "are you coming?"),
        ("Tell Ana to wait...", "wait...", "wait..."),
        ("Meet at 5 p.m.", "5 p.m.", "5 p.m."),
        ("Write: Stop. Then go", "Stop.", "Stop."),
        ("Join with a comma", ",", ","),
        ("Join with a space", " ", " "),
        ("Say 'tis the Night's end", "'tis the Night's end", "'tis the Night's end"),
        ("Say rock 'n' roll", "'rock 'n' roll'", "'rock 'n' roll'"),
        ("Look up the word", "“word”", "word"),
    ],
)
def test_cleaning_does_not_eat_content(request_text: str, said: str, kept: str) -> None:
    song = [tool("say", ["text"], text=TEXT)]
    result = repair([ToolCall("say", {"text": said})], song, request_text)
    assert result.calls[0].arguments == {"text": kept}


def test_given_calls_keep_who_made_them() -> None:
    [call] = repair([ToolCall("SetTimer", {"minutes": "5"}, id="c7", source="cloud")], TOOLS).calls
    assert call == ToolCall("set_timer", {"minutes": 5}, id="c7", source="cloud")
    [read] = repair("set_timer(5)", TOOLS, source="cloud").calls
    assert read.source == "cloud"


def test_each_call_has_its_own_repairs() -> None:
    result = repair('set_timer {"minutes":"5"}\nweather.forecast {"place":"Oslo"}', TOOLS)
    assert result.by_call == (("coerced:minutes",), ())


@pytest.mark.parametrize(
    "text", ["none", "None.", "[]", "{}", "```json\n[]\n```", "null", "`none`", " none\n"]
)
def test_no_call_is_an_answer(text: str) -> None:
    assert repair(text, TOOLS) == Repaired((), (), ())


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("I'm sorry, I cannot help with that.", "refusal"),
        ("I don’t have access to your contacts", "refusal"),  # noqa: RUF001
        ("There is no suitable tool for this.", "refusal"),
        ("The capital of France is Paris.", "not_json"),
        ("", "not_json"),
        ("{{{{", "not_json"),
        ('fly {"to":"Mars"}', "unknown_tool"),
    ],
)
def test_prose_is_a_refusal_or_unreadable(text: str, code: str) -> None:
    result = repair(text, TOOLS)
    assert [complaint.code for complaint in result.complaints] == [code]


def test_a_call_beside_an_apology_is_no_refusal() -> None:
    text = 'Sorry, one moment. {"name":"set_timer","arguments":{"minutes":5}}'
    assert is_refusal(text)
    result = repair(text, TOOLS)
    assert (made(result), result.complaints) == ([TIMER], ())


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text("ab1 '\".-[]{}:,", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab1'", max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(max_examples=rounds(300), deadline=None)
@given(st.data())
def test_repairing_twice_is_repairing_once(data: st.DataObject) -> None:
    offered = data.draw(tools())
    calls = []
    for one in data.draw(st.lists(st.sampled_from(offered), max_size=3)):
        names = st.sampled_from([*one.parameters["properties"], "x", "Name"])
        calls.append(ToolCall(one.name, data.draw(st.dictionaries(names, JSON, max_size=3))))
    request = data.draw(st.text("ab. ", max_size=5))
    once = repair(calls, offered, request)
    twice = repair(once.calls, offered, request)
    assert repr(twice.calls) == repr(once.calls)  # NaN is not equal to itself
    assert (twice.repairs, twice.complaints) == ((), once.complaints)


PIECES: list[Any] = [
    None, True, 0, -1, 1.5, float("nan"), float("inf"), 10**400, "", "string", "int", "object", [],
    {}, ["string", "null"], [[]], {"type": "string"}, {"type": "integer", "minimum": 3}, "\ud800",
    {"$ref": "#/$defs/A"}, {"enum": [1, "a", None, {}]}, {"enum": {}}, {"const": float("nan")},
]  # fmt: skip
KEYS = [
    "type", "properties", "items", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "required",
    "minimum", "maximum", "exclusiveMinimum", "minLength", "maxLength", "minItems", "maxItems",
    "additionalProperties", "default", "format", "examples", "$defs", "definitions", "nullable",
]  # fmt: skip


def fuzzed(rng: random.Random, depth: int = 0) -> Any:
    if depth > 4 or rng.random() < 0.3:
        return rng.choice(PIECES)
    if rng.random() < 0.2:
        return [fuzzed(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    if rng.random() < 0.4:
        return {name: fuzzed(rng, depth + 1) for name in rng.sample(["A", "b", "c"], 2)}
    return {key: fuzzed(rng, depth + 1) for key in rng.sample(KEYS, rng.randint(0, 5))}


def test_thousands_of_broken_schemas_work_or_are_refused_by_name() -> None:
    rng = random.Random(5)
    refused = 0
    for _ in range(4000):
        schema = {"properties": {"x": fuzzed(rng), "y": fuzzed(rng)}, "$defs": {"A": fuzzed(rng)}}
        given = [Tool("t", "", schema), Tool("u", "", fuzzed(rng))]
        try:
            compile_grammar(given, "some words", copy=rng.random() < 0.5)
            result = repair([ToolCall("t", {"x": fuzzed(rng), "y": "5"})], given)
            assert [call.name for call in result.calls] == ["t"]
        except InvalidRequest as error:
            refused += 1
            assert "tool 't'" in str(error) or "tool 'u'" in str(error)
    assert 0 < refused < 4000


def coerced(schema: Any, value: Any, request: str = "") -> tuple[Any, tuple[str, ...]]:
    tool = Tool("t", "", {"properties": {"x": schema}, "required": ["x"]})
    found, repairs = coerce({"x": value}, tool, request)
    return found.get("x"), repairs


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
    found, repairs = coerce({"c": 1, "a": 2}, tool)
    assert (list(found), repairs) == (["a", "c"], ())


def test_unlisted_arguments_stay_where_the_schema_allows_them() -> None:
    tool = Tool("t", "", {"properties": {"a": {}}, "additionalProperties": {"type": "integer"}})
    found, repairs = coerce({"more": "5"}, tool)
    assert (found, repairs) == ({"more": 5}, ("coerced:more",))


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


def test_an_optional_text_that_becomes_empty_is_dropped_at_once() -> None:
    tool = Tool("t", "", {"properties": {"x": {"type": "string"}}})
    assert coerce({"x": [""]}, tool) == ({}, ("coerced:x", "dropped:x"))


def test_the_first_of_several_types_that_fits_is_taken() -> None:
    assert coerced({"type": ["string", "integer"]}, "5") == ("5", ())
    assert coerced({"type": ["integer", "boolean"]}, "5") == (5, ("coerced:x",))


@pytest.mark.parametrize(
    ("text", "request_text", "clean"),
    [
        ("back at 5.", "write that I am back at 5.", "back at 5"),
        ("back at 5 p.m.", "write that I am back at 5 p.m.", "back at 5 p.m."),
        ("see Ann J.", "say see Ann J.", "see Ann J."),
        ("wait...", "say wait...", "wait..."),
        ("'fine'", "say 'fine'", "fine"),
        ("done.", "say done. Then stop", "done."),
    ],
)
def test_the_full_stop_of_the_request_goes_and_that_of_a_word_stays(
    text: str, request_text: str, clean: str
) -> None:
    assert clean_text(text, request_text) == clean
