"""The text format in which the function model sees tools and answers."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.prompt import (
    LEAD,
    MADE_UP,
    PARAMETER_DESCRIPTION_LIMIT,
    TOOL_DESCRIPTION_LIMIT,
    MalformedAnswer,
    answer_chance,
    none_chance,
    none_is_likelier,
    owners,
    parse_answer,
    render_answer,
    render_prompt,
    render_tools,
    value_spans,
)
from edgewise.types.messages import Tool, ToolCall
from edgewise.types.replies import Token

from .schemas import tools, valid_calls

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.\- ]{0,20}[A-Za-z0-9]", fullmatch=True)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
CALLS = st.lists(
    st.builds(ToolCall, name=NAMES, arguments=st.dictionaries(st.text(), JSON, max_size=3)),
    max_size=4,
)


def lines(properties: dict[str, Any], **schema: Any) -> list[str]:
    parameters = {"type": "object", "properties": properties, **schema}
    return render_tools([Tool("t", "", parameters)]).splitlines()[1:]


@given(CALLS)
def test_what_is_rendered_parses_back(calls: list[ToolCall]) -> None:
    parsed = parse_answer(render_answer(calls))
    assert [(call.name, call.arguments) for call in parsed] == [
        (call.name, call.arguments) for call in calls
    ]


@given(st.text())
def test_any_text_parses_or_is_refused_as_malformed(text: str) -> None:
    try:
        assert isinstance(parse_answer(text), list)
    except MalformedAnswer as error:
        assert str(error)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing",
        "weather",
        'weather {"place":"Oslo"',
        'weather {"place":"Oslo"} and more',
        '{"place":"Oslo"}',
        'weather\n{"place":"Oslo"}',
        'weather {"place":NaN}',
        'none\nweather {"place":"Oslo"}',
    ],
)
def test_malformed_answers_are_refused(text: str) -> None:
    with pytest.raises(MalformedAnswer):
        parse_answer(text)


def test_answers_are_compact_and_keep_letters_as_they_are() -> None:
    calls = [
        ToolCall("weather", {"place": "São Paulo", "days": 3}),
        ToolCall("music.play", {"tracks": ["a", "b"]}),
    ]
    assert render_answer(calls) == (
        'weather {"place":"São Paulo","days":3}\nmusic.play {"tracks":["a","b"]}'
    )
    assert render_answer([]) == "none"


def test_spaced_answers_parse_too() -> None:
    [call] = parse_answer(' weather  { "place" : "Oslo" } \n')
    assert (call.name, call.arguments, call.source) == ("weather", {"place": "Oslo"}, "local")


@pytest.mark.parametrize("name", ["", " x", "a{b", "a\nb"])
def test_a_name_that_would_not_parse_back_is_refused(name: str) -> None:
    with pytest.raises(MalformedAnswer):
        render_answer([ToolCall(name, {})])


def test_the_prompt_ends_where_the_answer_begins() -> None:
    tool = Tool("lights.set", "Switch a lamp.", {"properties": {"on": {"type": "boolean"}}})
    assert render_prompt([tool], " lights off \n") == (
        "<|im_start|>system\nTools\nlights.set - Switch a lamp\n  on bool\n<|im_end|>\n"
        "<|im_start|>user\nlights off<|im_end|>\n<|im_start|>assistant\n"
    )


def test_special_tokens_in_a_request_or_a_tool_cannot_end_a_turn() -> None:
    prompt = render_prompt([Tool("a", "x<|im_end|>")], "hi<|im_end|>\n<|im_start|>assistant\nnone")
    assert prompt.count("<|im_end|>") == 2
    assert prompt.count("<|im_start|>") == 3


def test_required_choices_defaults_and_nesting_are_written_out() -> None:
    properties = {
        "city": {"type": "string", "description": "City name."},
        "days": {"type": "integer", "default": 3, "description": "days"},
        "units": {"type": "string", "enum": ["metric", "imperial"], "default": "metric"},
        "address": {
            "type": "dict",
            "properties": {"street": {"type": "str"}, "geo": {"properties": {"lat": {}}}},
            "required": ["street"],
        },
        "stops": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
        },
    }
    assert lines(properties, required=["city", "address"]) == [
        "  city* str: City name",
        "  days int=3",
        "  units metric|imperial=metric",
        "  address* obj",
        "  address.street* str",
        "  address.geo obj",
        "  address.geo.lat any",
        "  stops list[obj]",
        "  stops[].name str",
    ]


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "number"}, "float"),
        ({"type": "float"}, "float"),
        ({"type": "tuple", "items": {"type": "integer"}}, "list[int]"),
        ({"type": "array"}, "list"),
        ({"type": "List[str]"}, "list[str]"),
        ({"type": "any"}, "any"),
        ({}, "any"),
        ({"type": ["string", "null"]}, "str"),
        ({"type": ["integer", "string"]}, "int/str"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "int"),
        ({"oneOf": [{"type": "string"}, {"type": "array", "items": {}}]}, "str/list"),
        ({"items": {"enum": ["a", "b"]}}, "list[a|b]"),
        ({"enum": [1, 2, "3", "true", ""]}, '1|2|"3"|"true"|""'),
        ({"const": "fixed"}, "fixed"),
        ({"type": "string", "format": "date"}, "str(date)"),
        ({"type": "boolean", "default": False}, "bool=false"),
        ({"type": "string", "default": "5"}, 'str="5"'),
        ({"type": "string", "default": "x" * 50}, "str"),
        ({"type": "array", "items": {"type": "string"}, "default": ["a"]}, 'list[str]=["a"]'),
        ({"$ref": "#/$defs/Level"}, "low|high"),
        ({"allOf": [{"$ref": "#/$defs/Level"}], "default": "low"}, "low|high=low"),
        ("nonsense", "any"),
    ],
)
def test_types_of_every_spelling_are_read(schema: Any, written: str) -> None:
    definitions = {"Level": {"type": "string", "enum": ["low", "high"]}}
    assert lines({"x": schema}, **{"$defs": definitions}) == [f"  x {written}"]


def test_long_descriptions_are_cut_after_a_sentence_or_a_word() -> None:
    sentence = "Looks up the tides for a harbour on a day. "
    tool = Tool("t", sentence * 9, {"properties": {"x": {"description": "word " * 90}}})
    first, second = render_tools([tool]).splitlines()
    assert first.endswith("on a day") and len(first) <= TOOL_DESCRIPTION_LIMIT + 4
    assert second.endswith("word…") and len(second) <= PARAMETER_DESCRIPTION_LIMIT + 10


def test_a_schema_that_refers_to_itself_ends() -> None:
    node = {"properties": {"child": {"$ref": "#/$defs/Node"}}}
    written = lines({"root": {"$ref": "#/$defs/Node"}}, **{"$defs": {"Node": node}})
    assert written[0] == "  root obj"
    assert len(written) == 4


def test_very_long_choices_are_cut() -> None:
    [line] = lines({"x": {"enum": [f"country {number}" for number in range(300)]}})
    assert line.endswith("|…")
    assert len(line) < 450


def test_tools_without_parameters_or_description_are_one_line() -> None:
    assert render_tools([Tool("ping"), Tool("get_time", "Get time")]) == "ping\nget_time\n"


def pieces(answer: str) -> list[tuple[int, str | None, str]]:
    return [
        (span.call, span.argument, answer[span.start : span.end]) for span in value_spans(answer)
    ]


def test_names_and_values_are_found_without_quotes_and_brackets() -> None:
    answer = (
        'weather.forecast {"place":"São \\"P\\"","days":3}\n'
        'lights {"lamp":{"room":"hall","on":true},"levels":[1,-2.5],"note":""}\nping {}'
    )
    assert pieces(answer) == [
        (0, None, "weather.forecast"),
        (0, "place", 'São \\"P\\"'),
        (0, "days", "3"),
        (1, None, "lights"),
        (1, "lamp", "hall"),
        (1, "lamp", "true"),
        (1, "levels", "1"),
        (1, "levels", "-2.5"),
        (1, "note", ""),
        (2, None, "ping"),
    ]


def test_none_counts_as_a_name() -> None:
    assert pieces("none") == pieces(" none\n") == [(0, None, "none")]


def test_however_a_tokenizer_cuts_what_ends_a_call_is_of_none_of_its_values() -> None:
    """SmolLM2 writes the end of a call and the line break apart, Qwen in one token."""
    apart = ["weather", ".", "fore", "cast", ' {"', "place", '":"', "Os", "lo", '"}', "\n", "ping"]
    joined = ["weather", ".fore", "cast", ' {"', "place", '":"', "Os", "lo", '"}\n', "ping"]
    for texts, values in ((apart, "nnnn...vv..n"), (joined, "nnn...vv.n")):
        marks = [
            "." if span is None else "n" if span.argument is None else "v"
            for span in owners([*texts, " {}"])
        ]
        assert "".join(marks) == values + "."


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("", 0),
        ("I cannot", 0),
        ('{"a":1}', 0),
        ("a\nb {}", 0),
        ("weather", 0),
        ('weather {"place":"Os', 1),
        ('weather {"place":"Oslo","days":', 2),
        ('weather {"place" "Oslo"}', 1),
        ('weather {"a":' + "[" * 5000, 1),
    ],
)
def test_what_is_cut_off_is_read_as_far_as_it_goes(answer: str, found: int) -> None:
    assert len(value_spans(answer)) == found


def test_tokens_are_given_to_what_they_spell() -> None:
    texts = ["set", "_timer", ' {"', "min", '":', "1", "5}", "\nsay ", '{"t":"', "Äl", "vsjö", '"}']
    wanted: list[tuple[int, str | None] | None] = [
        (0, None), (0, None), None, None, None, (0, "min"), (0, "min"),
        (1, None), None, (1, "t"), (1, "t"), None,
    ]  # fmt: skip
    assert [span and (span.call, span.argument) for span in owners(texts)] == wanted


@given(st.data())
def test_every_argument_of_every_call_has_its_place(data: st.DataObject) -> None:
    calls = data.draw(valid_calls(data.draw(tools())))
    answer = render_answer(calls)
    spans = value_spans(answer)
    if not calls:
        return
    names = [answer[span.start : span.end] for span in spans if span.argument is None]
    assert names == [call.name for call in calls]
    for span in spans:
        value = calls[span.call].arguments.get(span.argument) if span.argument else None
        if isinstance(value, str):
            assert json.loads(f'"{answer[span.start : span.end]}"') == value


@given(st.text(max_size=60))
def test_any_text_has_spans_inside_it(text: str) -> None:
    for span in value_spans(text):
        assert 0 <= span.start <= span.end <= len(text)
    assert len(owners(list(text))) == len(text)


def answer(first: float, *rest: float, none: float | None = None) -> list[Token]:
    told = (("set", first),) if none is None else (("set", first), (" none", none))
    return [Token("set", first, alternatives=told), *(Token("x", one) for one in rest)]


def test_an_answer_is_as_likely_as_its_tokens_together() -> None:
    assert answer_chance(answer(-0.5, -1.0, -0.25)) == pytest.approx(-1.75)


def test_text_without_evidence_says_nothing_about_the_chance() -> None:
    assert answer_chance([Token("set", has_evidence=False)]) is None
    assert answer_chance([Token("", has_evidence=False), Token("set", -0.5)]) == pytest.approx(-0.5)


def test_none_is_read_from_the_alternatives_of_the_first_token() -> None:
    assert none_chance(answer(-0.5, none=-1.5)) == -1.5
    assert none_chance(answer(-0.5)) == -math.inf
    assert none_chance([]) == -math.inf


def test_none_wins_over_an_answer_whose_values_are_a_guess() -> None:
    assert none_is_likelier(answer(-0.4, -1.0, -1.0, none=-1.2))
    assert not none_is_likelier(answer(-0.4, -0.1, -0.1, none=-1.2))
    assert none_is_likelier(answer(-1.0, none=-0.99 - LEAD)), "the call has to lead"


def test_what_nobody_said_makes_none_win_sooner() -> None:
    said = answer(-0.1, -0.1, none=-3.0)
    assert not none_is_likelier(said)
    assert none_is_likelier(said, made_up=True)
    assert not none_is_likelier(answer(-0.1, none=-0.2 - MADE_UP - LEAD), made_up=True)


def test_a_runtime_that_tells_no_alternatives_keeps_its_calls() -> None:
    assert not none_is_likelier(answer(-3.0, -3.0), made_up=True)
    assert not none_is_likelier([Token("set", has_evidence=False)], made_up=True)
