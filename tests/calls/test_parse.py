"""Calls in answers of models that nobody held to a grammar, read however they are written."""

from __future__ import annotations

import random
import string
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.calls.parse import Repaired, repair
from edgewise.calls.prompt import render_answer
from edgewise.types.messages import Tool, ToolCall
from tests.campaigns import rounds

from .schemas import tools, valid_calls


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


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "weather.forecast", "arguments": {"place": "Oslo"}}',
        '[{"name": "weather.forecast", "arguments": {"place": "Oslo"}}]',
        '{"function": {"name": "weather.forecast", "arguments": {"place": "Oslo"}}}',
        '{"tool_calls":[{"id":"c1","type":"function","function":'
        '{"name":"weather.forecast","arguments":"{\\"place\\": \\"Oslo\\"}"}}]}',
        '{"tool": "weather.forecast", "parameters": {"place": "Oslo"}}',
        '{"name": "weather.forecast", "place": "Oslo"}',
        '{"weather.forecast": {"place": "Oslo"}}',
        '<tool_call>\n{"name": "weather.forecast", "arguments": {"place": "Oslo"}}\n</tool_call>',
        '```json\n{"name": "weather.forecast", "arguments": {"place": "Oslo"}}\n```',
        'Sure, I will look: {"name": "weather.forecast", "arguments": {"place": "Oslo"}} Done!',
        "{'name': 'weather.forecast', 'arguments': {'place': 'Oslo'},}",
        "{name: weather.forecast, arguments: {place: Oslo}}",
        "weather.forecast(place='Oslo')",
        '[weather.forecast(place="Oslo")]',
        'weather.forecast("Oslo")',
        'weather.forecast: {"place": "Oslo"}',
        '1. weather.forecast {"place": "Oslo"} to begin with',
        '{"name": "weather.forecast", "arguments": {"place": "Oslo"',
        '{"name": "weather.forecast", "arguments": {"place": "Oslo}}',
        '{"name": "weather.forecast", "arguments": {"place": "Oslo", "days": ',
        "{“name”: “weather.forecast”, “arguments”: {“place”: “Oslo”}}",
    ],
)
def test_a_call_is_found_in_whatever_shape_it_comes(text: str) -> None:
    result = repair(text, TOOLS)
    assert made(result) == [OSLO]
    assert result.repairs
    assert result.complaints == ()


def test_several_calls_keep_their_order() -> None:
    for text in (
        'set_timer {"minutes":5}\nweather.forecast {"place":"Oslo"}',
        "set_timer(minutes=5)\nweather.forecast(place='Oslo')",
        '[{"name":"set_timer","arguments":{"minutes":5}},'
        '{"name":"weather.forecast","arguments":{"place":"Oslo"}}]',
        '<tool_call>{"name":"set_timer","arguments":{"minutes":5}}</tool_call>\n'
        '<tool_call>{"name":"weather.forecast","arguments":{"place":"Oslo"}}</tool_call>',
    ):
        assert made(repair(text, TOOLS)) == [TIMER, OSLO]


def test_the_format_itself_needs_no_repair() -> None:
    result = repair('weather.forecast {"place":"Oslo","days":3}', TOOLS)
    assert made(result) == [("weather.forecast", {"place": "Oslo", "days": 3})]
    assert (result.repairs, result.complaints) == ((), ())


def test_a_broken_off_answer_says_so() -> None:
    result = repair('send_message {"recipient":"Tom","message":"I will be la', TOOLS)
    assert made(result) == [("send_message", {"recipient": "Tom", "message": "I will be la"})]
    assert result.repairs == ("recovered_json", "truncated")


def test_only_the_named_argument_is_taken_from_a_tool_that_is_alone() -> None:
    assert made(repair('{"minutes": 5}', TOOLS[2:3])) == [TIMER]
    assert made(repair('{"weather": "fine"}', TOOLS[2:3])) == []


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Set_Timer", "set_timer"),
        ("setTimer", "set_timer"),
        ("set-timer", "set_timer"),
        ("set_timmer", "set_timer"),
        ("functions.set_timer", "set_timer"),
        ("forecast", "weather.forecast"),
        ("weather_forcast", "weather.forecast"),
        ("sendMesage", "send_message"),
        ("turn_on", None),
        ("unset_timer", None),
        ("get_timer", None),
        ("fly", None),
    ],
)
def test_tool_names_are_matched_by_spelling_not_by_guess(written: str, meant: str | None) -> None:
    result = repair([ToolCall(written, {})], TOOLS)
    assert [call.name for call in result.calls] == [meant or written]
    assert ("renamed_tool" in result.repairs) == (meant is not None)
    assert ("unknown_tool" in [complaint.code for complaint in result.complaints]) == (not meant)


def test_two_names_that_are_equally_near_are_none() -> None:
    twins = [tool("get_item_a", []), tool("get_item_b", [])]
    assert repair([ToolCall("get_item_c", {})], twins).complaints[0].code == "unknown_tool"


@settings(max_examples=rounds(200), deadline=None)
@given(st.data())
def test_what_is_rendered_is_read_back_unchanged(data: st.DataObject) -> None:
    offered = data.draw(tools())
    calls = data.draw(valid_calls(offered))
    result = repair(render_answer(calls), offered)
    assert made(result) == [(call.name, call.arguments) for call in calls]
    assert result.repairs == ()


FRAGMENTS = [
    *'{}[]()<>"\'`:,=.\\/ \n\t', *string.ascii_letters[:8], "“", "‘", "\ud83d", "🙂", "\x00",  # noqa: RUF001
    '{"name":', '"arguments":', "set_timer", "send_message", "weather.forecast(", "```json\n",
    "<tool_call>", "</tool_call>", "none", "null", "True", "NaN", "1e999", "9" * 50, "-", "\\u12",
    '"\\', "minutes", "I cannot", "[[", "{{", '{"a":', "set_timer {", "x=" ,
]  # fmt: skip


def test_thousands_of_broken_texts_neither_crash_nor_hang() -> None:
    rng = random.Random(4)
    started = time.process_time()
    for _ in range(4000):
        text = "".join(rng.choices(FRAGMENTS, k=rng.randint(0, 40)))
        result = repair(text, TOOLS, text)
        assert repair(result.calls, TOOLS, text).calls == result.calls, text
    assert time.process_time() - started < 60


@pytest.mark.parametrize(
    "text",
    [
        "{" * 50_000,
        "[" * 50_000,
        '{"a":' * 20_000,
        '"' * 50_000,
        "'\\" * 30_000,
        "set_timer(" * 8_000,
        '{"name":"set_timer","arguments":' * 3_000,
        'set_timer {"minutes":' * 5_000,
        "a" * 200_000 + "(",
        '{"' + "'x' " * 20_000,
        '" ' * 40_000 + "{" + ' "' * 20_000,
    ],
)
def test_long_hostile_texts_end(text: str) -> None:
    started = time.process_time()
    repair(text, TOOLS)
    assert time.process_time() - started < 10
