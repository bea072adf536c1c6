"""The grammar of a tool list: what a model held to it can and cannot say."""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.calls.prompt import TOOL_LIMIT, parse_answer, render_answer, render_prompt
from edgewise.errors import InvalidRequest
from edgewise.grammar.check import validate
from edgewise.grammar.tools import (
    MOST_CALLS,
    MOST_CHOICES,
    MOST_WRITTEN,
    check_tools,
    compile_grammar,
)
from edgewise.local.backend import Channel
from edgewise.local.decoder import Decoder, Dice, Job
from edgewise.local.llama_cpp import LlamaLoop
from edgewise.local.store import InstalledModel
from edgewise.types.messages import Tool, ToolCall
from edgewise.types.replies import Finish, Token
from tests.calls.schemas import tools, valid_calls
from tests.campaigns import rounds
from tests.grammar.gbnf_walker import Grammar

FORECAST = Tool(
    "weather.forecast",
    "Forecast for a place",
    {
        "properties": {
            "place": {"type": "string"},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
            "units": {"type": "string", "enum": ["metric", "imperial"]},
        },
        "required": ["place"],
    },
)
LAMP = Tool(
    "lights.set",
    "Switch a lamp",
    {
        "type": "dict",
        "properties": {
            "lamp": {
                "type": "dict",
                "properties": {"room": {"type": "str"}, "index": {"type": "int"}},
                "required": ["room"],
            },
            "colours": {"type": "tuple", "items": {"type": "string"}, "maxItems": 2},
            "level": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        },
        "required": ["level"],
    },
)


def one(schema: Any, **rest: Any) -> Grammar:
    """The grammar of `t {"x":…}`, where x must be there."""
    parameters = {"properties": {"x": schema}, "required": ["x"], **rest}
    return Grammar(compile_grammar([Tool("t", "", parameters)]))


def accepted(grammar: Grammar, *values: str) -> list[bool]:
    return [grammar.accepts(f't {{"x":{value}}}') for value in values]


@pytest.mark.parametrize(
    "answer",
    [
        "none",
        'weather.forecast {"place":"Oslo"}',
        'weather.forecast {"place":"Oslo","days":14,"units":"metric"}',
        'weather.forecast {"place":"São \\"Paulo\\"","units":"imperial"}',
        'weather.forecast {"place":"Oslo"}\nweather.forecast {"place":"Rome"}',
        'lights.set {"level":5}',
        'lights.set {"lamp":{"room":"hall","index":-2},"colours":["red","blue"],"level":0.5}',
        'lights.set {"colours":[],"level":null}',
    ],
)
def test_answers_in_the_format_are_accepted(answer: str) -> None:
    assert Grammar(compile_grammar([FORECAST, LAMP])).accepts(answer)
    assert render_answer(parse_answer(answer)) == answer


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "None",
        "none\n",
        "I cannot do that.",
        'weather.forecast {"place": "Oslo"}',
        'weather.forecast {"days":3}',
        'weather.forecast {"place":""}',
        'weather.forecast {"place":"Oslo","days":15}',
        'weather.forecast {"place":"Oslo","days":0}',
        'weather.forecast {"place":"Oslo","units":"kelvin"}',
        'weather.forecast {"days":3,"place":"Oslo"}',
        'weather.forecast {"place":"Oslo","wind":true}',
        'weather {"place":"Oslo"}',
        'weather.forecast {"place":"Oslo"}\n',
        'lights.set {"lamp":{"index":1},"level":1}',
        'lights.set {"colours":["a","b","c"],"level":1}',
        'lights.set {"level":NaN}',
        'lights.set {"level":1e999}',
    ],
)
def test_everything_else_is_not(answer: str) -> None:
    assert not Grammar(compile_grammar([FORECAST, LAMP])).accepts(answer)


def test_without_tools_only_none_can_be_said() -> None:
    assert compile_grammar([]) == 'root ::= "none"\n'


def test_an_answer_has_an_end() -> None:
    grammar = Grammar(compile_grammar([FORECAST]))
    line = 'weather.forecast {"place":"Oslo"}'
    assert grammar.accepts("\n".join([line] * MOST_CALLS))
    assert not grammar.accepts("\n".join([line] * (MOST_CALLS + 1)))
    assert not grammar.accepts(line.replace("Oslo", "x" * 401))


@pytest.mark.parametrize(
    ("schema", "yes", "no"),
    [
        ({"type": "integer"}, ["0", "-7", "123456789"], ["007", "-0", "1.0", '"5"', "true"]),
        ({"type": "float"}, ["5", "0.25", "-1e-07", "5.0"], [".5", "5.", "+1", "null"]),
        ({"type": "boolean"}, ["true", "false"], ["True", '"true"', "1"]),
        ({"enum": ["a", 1, None]}, ['"a"', "1", "null"], ['"b"', '"1"', "2"]),
        ({"enum": [1, 10, 100]}, ["1", "10", "100"], ["", "0", "1000", "11"]),
        ({"const": {"k": [1]}}, ['{"k":[1]}'], ['{"k":[2]}', "{}"]),
        ({"type": ["string", "null"]}, ['"a"', "null"], ["1", '""']),
        ({"type": "List[int]"}, ["[]", "[1,2]"], ['["a"]', "1"]),
        ({"type": "array", "enum": ["a", "b"]}, ['["a","b"]'], ['"a"', '["c"]']),
        ({"type": "string", "maxLength": 2}, ['"ab"', '"\\n\\""'], ['"abc"']),
        ({}, ["1", '"a"', '{"a":[null,{"b":1}]}'], ["x", "{a:1}"]),
        ({"type": "object", "additionalProperties": {"type": "integer"}},
         ["{}", '{"a":1,"b":2}'], ['{"a":"b"}', "[]"]),
        ({"$ref": "#/$defs/Level"}, ['"low"'], ['"mid"']),
        ({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}, ["1", "true"], ['"a"', "null"]),
        ({"type": "number", "minimum": 0, "exclusiveMaximum": 1},
         ["0", "0.5", "0.999"], ["1", "-0.1", "1.0", "2"]),
        ({"type": "number", "exclusiveMinimum": 0}, ["0.05", "7", "12.5"], ["0", "-1", "0.0"]),
        ({"type": "number", "minimum": -2.25, "maximum": -0.5},
         ["-2.25", "-1", "-0.5", "-0.75"], ["-2.26", "-0.49", "0", "1", "-3"]),
        ({"type": "integer", "exclusiveMinimum": -3, "maximum": 120},
         ["-2", "0", "99", "120"], ["-3", "121", "999"]),
        ({"type": "integer", "minimum": 5, "maximum": 1}, ["0", "9"], []),
    ],
)  # fmt: skip
def test_types_choices_and_ranges_hold(schema: Any, yes: list[str], no: list[str]) -> None:
    grammar = one(schema, **{"$defs": {"Level": {"enum": ["low", "high"]}}})
    assert accepted(grammar, *yes) == [True] * len(yes)
    assert accepted(grammar, *no) == [False] * len(no)


@given(st.integers(-3000, 3000), st.integers(0, 3000), st.data())
def test_integer_ranges_are_exact(low: int, width: int, data: st.DataObject) -> None:
    grammar = one({"type": "integer", "minimum": low, "maximum": low + width})
    value = data.draw(st.integers(low - 20, low + width + 20))
    assert accepted(grammar, str(value)) == [low <= value <= low + width]


@given(
    st.decimals(-30, 30, places=2).map(float),
    st.decimals(0, 20, places=2).map(float),
    st.decimals(-55, 55, places=3).map(float),
    st.booleans(),
)
def test_decimal_ranges_are_exact(low: float, width: float, value: float, open_: bool) -> None:
    high = round(low + width, 2)
    schema = {"type": "number", "minimum": low, "exclusiveMaximum" if open_ else "maximum": high}
    if open_ and low == high:
        return
    inside = low <= value < high if open_ else low <= value <= high
    assert accepted(one(schema), json.dumps(value)) == [inside]


@settings(max_examples=rounds(150), deadline=None)
@given(tools(), st.integers())
def test_whatever_the_grammar_lets_through_is_valid(given: list[Tool], seed: int) -> None:
    grammar = Grammar(compile_grammar(given))
    by_name = {tool.name: tool for tool in given}
    rng = random.Random(seed)
    for _ in range(4):
        answer = grammar.draw(rng)
        for call in parse_answer(answer):
            assert validate(call.name, call.arguments, by_name[call.name]) == [], answer


@settings(max_examples=rounds(150), deadline=None)
@given(st.data())
def test_whatever_is_valid_the_grammar_lets_through(data: st.DataObject) -> None:
    offered = data.draw(tools())
    calls = data.draw(valid_calls(offered))
    answer = render_answer(calls)
    assert Grammar(compile_grammar(offered)).accepts(answer), answer


REQUEST = 'Text Ana "the boat\'s late" and dim the São lamp'


def test_copied_strings_are_words_that_follow_each_other_in_the_request() -> None:
    tool = Tool("say", "", {"properties": {"x": {"type": "string", "default": "en"}}})
    grammar = Grammar(compile_grammar([tool], REQUEST, copy=True))

    def may(text: str) -> bool:
        return grammar.accepts(render_answer([ToolCall("say", {"x": text})]))

    assert all(map(may, ["Ana", "the boat's late", "São lamp", "ana", "Lamp", "boat", "en"]))
    assert not any(map(may, ["Anna", "boat Ana", "Sao", "Text dim", "LAMP", "", "boa"]))


def test_copying_leaves_choices_formats_and_lengths_alone() -> None:
    properties = {
        "day": {"type": "string", "format": "date"},
        "unit": {"enum": ["c", "f"]},
        "code": {"type": "string", "maxLength": 4},
        "n": {"type": "integer"},
    }
    grammar = Grammar(compile_grammar([Tool("t", "", {"properties": properties})], "hi", copy=True))
    assert grammar.accepts('t {"day":"2026-01-02","unit":"f","code":"X1","n":5}')


def test_a_request_without_words_or_with_too_many_does_not_limit_strings() -> None:
    for request in ("", "  ", "word " * 500):
        grammar = Grammar(compile_grammar([FORECAST], request, copy=True))
        assert grammar.accepts('weather.forecast {"place":"Oslo"}')


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ([Tool("a"), Tool("a")], "'a'"),
        ([Tool("")], "''"),
        ([Tool(" a")], "' a'"),
        ([Tool("a\nb")], r"'a\nb'"),
        ([Tool("a{b")], "'a{b'"),
        ([Tool("a\ud800")], "tool"),
        ([Tool("t", "", [])], "'t'"),  # type: ignore[arg-type]
        ([Tool("t", "", {"properties": ["x"]})], "'t'"),
        ([Tool("t", "", {"properties": {"x": "string"}})], "field 'x'"),
        ([Tool("t", "", {"properties": {"x": {"properties": {"y": 5}}}})], r"field 'x\.y'"),
        ([Tool("t", "", {"properties": {"x\ud800": {}}})], "'t'"),
        ([Tool("t", "", {"properties": {"x": {}}, "required": [["x"]]})], "required"),
    ],
)
def test_a_schema_without_sense_is_refused_by_name(given: list[Tool], named: str) -> None:
    with pytest.raises(InvalidRequest, match=named.replace("\\n", r"\\n")):
        compile_grammar(given)


def test_hundreds_of_tools_deep_nesting_and_loops_compile_at_once() -> None:
    many = [Tool(f"group{n % 7}.tool_{n}", "", FORECAST.parameters) for n in range(500)]
    deep: dict[str, Any] = {}
    for _ in range(3000):
        deep = {"properties": {"x": deep}, "items": deep, "type": "object"}
    names = [f"n{number}" for number in range(30)]
    loop = {"properties": {name: {"$ref": "#/$defs/Loop", "title": name} for name in names}}
    knot = Tool(
        "knot", "", {"properties": {"x": {"$ref": "#/$defs/Loop"}}, "$defs": {"Loop": loop}}
    )
    started = time.process_time()
    grammar = compile_grammar([*many, Tool("deep", "", deep), knot])
    assert time.process_time() - started < 15  # milliseconds; never minutes
    assert len(grammar) < 3_000_000
    assert Grammar(grammar).accepts('group3.tool_73 {"place":"Oslo"}')


def test_thousands_of_choices_are_written_once_where_they_begin_alike() -> None:
    choices = [f"airport_{number}" for number in range(3000)]
    text = compile_grammar([Tool("t", "", {"properties": {"x": {"enum": choices}}})])
    assert text.count("airport_") == 1
    assert Grammar(text).accepts('t {"x":"airport_2999"}')


@pytest.fixture(scope="module")
def decoder(default_model: InstalledModel) -> Iterator[Decoder]:
    backend = LlamaLoop(default_model, threads=1, context_tokens=2048)
    yield backend.load()
    backend.close()


@pytest.mark.real_model
@settings(max_examples=rounds(8), deadline=None, derandomize=True)
@given(offered=tools())
def test_the_real_model_can_only_say_valid_calls(decoder: Decoder, offered: list[Tool]) -> None:
    by_name = {tool.name: tool for tool in offered}
    request = "Tell Ana the boat is late, twice"
    for copy in (False, True):
        grammar = compile_grammar(offered, request, copy=copy)
        for call in generate(decoder, render_prompt(offered, request), grammar):
            assert validate(call.name, call.arguments, by_name[call.name]) == []


@pytest.mark.real_model
def test_the_real_model_copies_what_it_is_held_to(decoder: Decoder) -> None:
    """Untrained and at a high temperature it says anything, but in our format and our words."""
    request = "Dim the lamp in Älvsjö, then the weather in Ouagadougou"
    prompt = render_prompt([FORECAST, LAMP], request)
    grammar = compile_grammar([FORECAST, LAMP], request, copy=True)
    by_name = {tool.name: tool for tool in (FORECAST, LAMP)}
    calls = [call for seed in range(10) for call in generate(decoder, prompt, grammar, seed)]
    assert len(calls) > 5
    for call in calls:
        assert validate(call.name, call.arguments, by_name[call.name]) == []
        if "place" in call.arguments:
            assert call.arguments["place"].casefold() in request.casefold()


def generate(decoder: Decoder, prompt: str, grammar: str, seed: int = 7) -> list[ToolCall]:
    """The calls of a hot answer; where it was cut after 96 tokens, those of its whole lines."""
    weights = decoder.vocabulary
    job = Job(
        prompt=weights.tokenize(prompt),
        answer=Channel(),
        max_tokens=96,
        grammar=weights.grammar(grammar),
        dice=Dice(1.5, seed),
    )
    decoder.submit(job)
    *items, finish = job.items()
    answer = "".join(item.text for item in items if isinstance(item, Token))
    assert isinstance(finish, Finish)
    whole = answer if finish.reason == "stop" else answer.rpartition("\n")[0]
    return parse_answer(whole) if whole else []


@pytest.mark.parametrize("value", ["\x04", "\x7f", ["\U00050000"], {"\U00050000": "\U0010ffff"}])
def test_what_a_vocabulary_may_not_have_is_spelt_in_ascii(value: Any) -> None:
    text = compile_grammar([Tool("t", "", {"properties": {"x": {"enum": [value]}}})])
    assert all(" " <= letter <= "~" or letter == "\n" for letter in text)


def test_more_choices_than_a_runtime_can_follow_leave_the_value_free() -> None:
    many = {"enum": [chr(0x4E00 + number) for number in range(MOST_CHOICES + 1)]}
    grammar = one(many)
    assert grammar.accepts('t {"x":"anything"}') and not grammar.accepts('t {"x":[]}')


def test_arguments_that_can_be_read_in_too_many_ways_are_refused() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(3):
        below = schema
        options = [
            {"type": "object", "properties": {"x": below, f"y{n}": {}}, "required": ["x"]}
            for n in range(6)
        ]
        schema = {"anyOf": options}
    tool = Tool("t", "", {"properties": {"x": schema}})
    for work in (check_tools, compile_grammar):
        with pytest.raises(InvalidRequest, match="more than 200 ways at once"):
            work([tool])
    few = {"anyOf": options[:2]}
    check_tools([Tool("t", "", {"properties": {"x": few}})])


def test_options_that_are_told_apart_by_their_first_name_do_not_add_up() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(3):
        schema = {
            "anyOf": [
                {"type": "object", "properties": {f"y{n}": schema}, "required": [f"y{n}"]}
                for n in range(8)
            ]
        }
    check_tools([Tool("t", "", {"properties": {"x": schema}})])


def test_a_grammar_that_gets_long_holds_values_to_their_type_alone() -> None:
    tools = []
    for number in range(60):
        share = {"type": "number", "minimum": number / 7, "maximum": number + 1e5 / 3}
        level = {"type": "integer", "minimum": 3, "maximum": 4}
        fields = {f"p{n}": share | {"minimum": number / 7 + n} for n in range(10)}
        tools.append(Tool(f"t{number}", "", {"properties": {"x": level, **fields}}))
    text = compile_grammar(tools)
    assert len(text) < 2 * MOST_WRITTEN
    grammar = Grammar(text)
    for name, held in (("t0", True), ("t59", False)):
        assert grammar.accepts(name + ' {"x":4,"p9":60.5}')
        assert grammar.accepts(name + ' {"x":77}') is not held
        assert grammar.accepts(name + ' {"p9":-1}') is not held
        assert not grammar.accepts(name + ' {"x":"a"}')


NAMES = [f"a{number}" for number in range(3900)]


@pytest.mark.parametrize(
    "target",
    [
        {"enum": NAMES},
        {"enum": ["x" * 100_000]},
        {"type": "object", "properties": {}, "required": NAMES},
        {"type": "object", "properties": {name: {} for name in NAMES}},
    ],
    ids=["choices", "a long choice", "required", "properties"],
)
def test_what_many_fields_refer_to_is_not_read_without_end(target: dict[str, Any]) -> None:
    fields = {f"p{n}": {"$ref": "#/$defs/a", "description": "x"} for n in range(1900)}
    tool = Tool("t", "", {"properties": fields, "$defs": {"a": target}})
    tracemalloc.start()
    try:
        check_tools([tool])
        grammar = compile_grammar([tool])
        prompt = render_prompt((tool,), "do it")
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()
    assert len(grammar) < 5 * MOST_WRITTEN and len(prompt) < 2 * TOOL_LIMIT


@pytest.mark.parametrize("target", [{"anyOf": [{}] * 201}, {name: 1 for name in NAMES}])
def test_a_definition_with_too_many_parts_is_refused(target: dict[str, Any]) -> None:
    parameters = {"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": target}}
    with pytest.raises(InvalidRequest, match="more than 200 keywords or options"):
        check_tools([Tool("t", "", parameters)])
