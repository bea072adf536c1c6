"""Tools in every form users have them, and what is said of those that cannot be read."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from random import Random
from typing import Any

import pytest

from edgewise.calls.intents import split
from edgewise.calls.prompt import render_tools
from edgewise.calls.rank_tools import rank_tools
from edgewise.calls.tools import Toolbox, as_toolbox, as_tools, parse_tools_file
from edgewise.errors import InvalidRequest
from edgewise.types.messages import Tool

SCHEMA = {
    "type": "object",
    "properties": {
        "hour": {"type": "integer", "minimum": 0, "maximum": 23, "description": "24 h"},
        "days": {"type": "array", "items": {"enum": ["mon", "tue"]}, "minItems": 1},
        "sound": {
            "type": ["object", "null"],
            "properties": {"name": {"type": "string", "default": "bell"}},
            "required": ["name"],
        },
        "who": {"anyOf": [{"$ref": "#/$defs/person"}, {"type": "null"}]},
    },
    "required": ["hour"],
    "$defs": {"person": {"type": "string", "minLength": 1}},
    "additionalProperties": False,
}
PLAIN = {"name": "wake", "description": "Wake somebody", "parameters": SCHEMA}
WAKE = Tool("wake", "Wake somebody", SCHEMA)


@pytest.mark.parametrize(
    "item",
    [
        WAKE,
        PLAIN,
        {"type": "function", "function": PLAIN},
        {"name": "wake", "description": "Wake somebody", "input_schema": SCHEMA},
        {"name": "wake", "description": "Wake somebody", "inputSchema": SCHEMA, "title": "Wake"},
        {"name": "wake", "description": "Wake somebody", "parameters": None, "inputSchema": SCHEMA},
    ],
)
def test_every_common_form_is_the_same_tool(item: Any) -> None:
    assert as_tools([item]) == (WAKE,)


def test_what_is_left_out_is_empty() -> None:
    (tool,) = as_tools([{"name": "ping"}])
    assert tool == Tool("ping", "", {"type": "object", "properties": {}})
    assert as_tools([]) == ()


def test_a_toolbox_is_taken_as_it_is() -> None:
    box = as_toolbox([WAKE])
    assert as_toolbox(box) is box and as_tools(box)[0] is WAKE
    assert Toolbox().tools == ()


def changed(*path: str | int, to: Any) -> dict[str, Any]:
    """PLAIN with the value at a path replaced."""
    item = copy.deepcopy(PLAIN)
    place: Any = item
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return item


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


FIELDS = ("parameters", "properties")


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (7, "tools[1]: expected a tool, an object or a function, got a number"),
        ("wake", "tools[1]: expected a tool, an object or a function, got text"),
        ({}, "tools[1].name: expected a name, got nothing"),
        ({"name": " "}, "tools[1].name: expected a name, got text"),
        ({"name": "a{"}, "tools[1].name: 'a{' cannot be the name of a tool"),
        ({"name": "a" * 300}, f"tools[1].name: '{'a' * 40}' cannot be the name of a tool"),
        ({"name": "first"}, "tools[1].name: 'first' is the name of tools[0] too"),
        ({"type": "function", "function": []}, "tools[1].function: expected an object, got"),
        ({"function": {"name": 3}}, "tools[1].function.name: expected a name, got a number"),
        (changed("description", to=3), "tools[1].description: expected text, got a number"),
        (changed("parameters", to=[]), "tools[1].parameters: expected an object, got an empty"),
        (
            {"name": "a", "input_schema": "x"},
            "tools[1].input_schema: expected an object, got text",
        ),
        (changed("parameters", "type", to="array"), 'tools[1].parameters.type: expected "object"'),
        (changed("parameters", "type", to=None), "tools[1].parameters.type: expected the name of"),
        (
            changed(*FIELDS, to=["hour"]),
            "tools[1].parameters.properties: expected an object, got a list",
        ),
        (
            changed(*FIELDS, "hour", to="integer"),
            "tools[1].parameters.properties.hour: expected an object, got text",
        ),
        (
            changed(*FIELDS, "hour", "minimum", to="0"),
            "tools[1].parameters.properties.hour.minimum: expected a number, got text",
        ),
        (
            changed(*FIELDS, "hour", "type", to=[]),
            "tools[1].parameters.properties.hour.type: expected the name of a type, got an empty",
        ),
        (
            changed(*FIELDS, "days", "items", "enum", to=[]),
            "tools[1].parameters.properties.days.items.enum: expected a list with something in it",
        ),
        (
            changed(*FIELDS, "days", "items", "enum", to=[{1}]),
            "tools[1].parameters.properties.days.items.enum[0]: set is not JSON",
        ),
        (
            changed(*FIELDS, "days", "minItems", to=-1),
            "tools[1].parameters.properties.days.minItems: expected a whole number from 0",
        ),
        (
            changed(*FIELDS, "sound", "required", to="name"),
            "tools[1].parameters.properties.sound.required: expected a list, got text",
        ),
        (
            changed(*FIELDS, "sound", "properties", "name", "default", to=float("nan")),
            "tools[1].parameters.properties.sound.properties.name.default: a number is not JSON",
        ),
        (
            changed(*FIELDS, "who", "anyOf", 0, to=True),
            "tools[1].parameters.properties.who.anyOf[0]: expected an object, got true or false",
        ),
        (
            changed("parameters", "required", to=[3]),
            "tools[1].parameters.required[0]: expected text",
        ),
        (
            changed("parameters", "properties", to={3: {}}),
            "tools[1].parameters.properties.3: names",
        ),
        (changed("parameters", 3, to={}), "tools[1].parameters.3: names must be text"),
        (changed("parameters", to=deep(40)), "tools[1].parameters.properties.a.properties.a."),
    ],
)
def test_the_bad_field_is_named(item: Any, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        as_tools([{"name": "first"}, item])
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("items", ["wake", b"wake", None, 3, {"name": "wake"}, iter([])])
def test_tools_are_a_list(items: Any) -> None:
    with pytest.raises(InvalidRequest, match="tools: expected a list"):
        as_tools(items)


@pytest.mark.parametrize(
    "text", [json.dumps([PLAIN]), json.dumps({"tools": [PLAIN]}), f"  {json.dumps([PLAIN])}\n"]
)
def test_a_file_is_a_list_or_holds_one(text: str) -> None:
    assert parse_tools_file(text) == (WAKE,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "tools: not JSON: Expecting value at line 1, column 1"),
        ('[\n {"name" 3}]', "tools: not JSON: Expecting ':' delimiter at line 2, column 10"),
        ("[NaN]", "tools: not JSON: NaN is not a JSON number"),
        ("[" * 200_000, "tools: nested too deeply"),
        ("[" + "9" * 5_000 + "]", "tools: not JSON: Exceeds the limit"),
        ("3", "tools: expected a list, got a number"),
        ('{"a": 1}', 'tools: expected a list, or an object with "tools"'),
        ('{"tools": {}}', "tools: expected a list, got an object"),
        ('[{"name": ""}]', "tools[0].name: expected a name, got empty text"),
    ],
)
def test_a_bad_file_says_what_is_wrong_and_where(text: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_tools_file(text)
    assert str(caught.value).startswith(message)


KEYS = (
    "type properties required items enum anyOf allOf $ref $defs description default name function "
    "parameters input_schema object string integer array null #/$defs/a minimum format const a"
)
WORDS = KEYS.split()
SCALARS: list[Any] = [None, True, 0, -1, 10**400, 1.5, float("inf"), "", " ", "\n{", "é\ud800"]


def any_value(random: Random, depth: int = 0) -> Any:
    kind = random.random()
    if depth > 5 or kind < 0.3:
        return random.choice([*SCALARS, *WORDS])
    if kind < 0.5:
        return [any_value(random, depth + 1) for _ in range(random.randrange(4))]
    return {random.choice(WORDS): any_value(random, depth + 1) for _ in range(random.randrange(5))}


def spoil(random: Random, value: Any) -> Any:
    """The value with something in it replaced, now and then more than one thing."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        key = random.choice(list(value))
        return {**value, key: spoil(random, value[key])}
    if isinstance(value, list) and value and random.random() < 0.85:
        place = random.randrange(len(value))
        return [*value[:place], spoil(random, value[place]), *value[place + 1 :]]
    return any_value(random)


def spoil_text(random: Random, text: str) -> str:
    place, length = random.randrange(len(text)), random.randrange(6)
    return (
        text[:place]
        + random.choice(["", "]", '"', ",", "{", "\\u", "1e9"])
        + text[place + length :]
    )


def test_ten_thousand_spoilt_tools_are_read_or_refused_by_name() -> None:
    random = Random(20_26)
    whole = json.dumps([PLAIN, {"type": "function", "function": {"name": "b"}}])
    refused = 0
    for number in range(10_000):
        try:
            if number % 3 == 0:
                tools = parse_tools_file(spoil_text(random, whole))
            elif number % 3 == 1:
                tools = as_tools([spoil(random, PLAIN)])
            else:
                tools = as_tools([any_value(random), changed(*FIELDS, "x", to=any_value(random))])
        except InvalidRequest as error:
            assert str(error).startswith("tools")
            refused += 1
            continue
        # What is accepted must not break those who read it next.
        render_tools(tools)
        asked = "wake Ana at 7 and then a bell"
        assert len(rank_tools(asked, tools, 1)) == min(1, len(tools))
        assert split(asked, tools)
    assert 2_000 < refused < 9_500


def test_pydantic_is_loaded_for_python_functions_only() -> None:
    code = (
        "import sys\n"
        "from edgewise.calls.tools import as_tools\n"
        "as_tools([{'name': 'wake'}])\n"
        "assert 'pydantic' not in sys.modules\n"
        "as_tools([len])\n"
        "assert 'pydantic' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_same_descriptions_sent_again_are_the_same_tools() -> None:
    sent = '[{"name": "set_timer", "parameters": {"properties": {"minutes": {"type": "integer"}}}}]'
    (first,), (again,) = as_tools(json.loads(sent)), as_tools(json.loads(sent))
    assert first is again
    changed = json.loads(sent)
    changed[0]["description"] = "A countdown"
    assert as_tools(changed)[0].description == "A countdown"
    changed[0]["parameters"]["properties"]["minutes"]["type"] = "string"  # after it was read
    again = as_tools(
        json.loads(sent.replace('"set_timer",', '"set_timer", "description": "A countdown",'))
    )[0]
    assert again.parameters["properties"]["minutes"] == {"type": "integer"}


def test_what_is_no_json_is_still_refused_after_its_like_was_taken() -> None:
    good = [{"name": "a", "parameters": {"properties": {"1": {"type": "string"}}}}]
    assert as_tools(good)[0].name == "a"
    with pytest.raises(InvalidRequest, match="names must be text"):
        as_tools([{"name": "a", "parameters": {"properties": {1: {"type": "string"}}}}])


def test_tools_of_an_agents_size_are_read_once() -> None:
    def sent() -> list[dict[str, Any]]:
        return [{"name": f"tool_{n}", "description": "x" * 3_000} for n in range(25)]

    tools = as_tools(sent())
    assert as_tools(sent()) is tools
    assert as_tools(tools) is tools  # the engine looks at what the server has read
