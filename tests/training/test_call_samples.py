from __future__ import annotations

from training.call_samples import read_tools

from edgewise.calls.prompt import render_tools
from edgewise.types.messages import Tool

LAMP = Tool(
    "lamp.set",
    "Set a lamp",
    {
        "type": "object",
        "required": ["room"],
        "properties": {
            "room": {"type": "string", "description": "Which room"},
            "mode": {"enum": ["warm", "cold"], "default": "warm"},
            "spots": {
                "type": "array",
                "items": {"type": "object", "properties": {"level": {"type": "integer"}}},
            },
            "when": {
                "type": "object",
                "required": ["hour"],
                "properties": {"hour": {"type": "integer"}},
            },
        },
    },
)


def test_tools_are_read_back_from_their_prompt() -> None:
    bare = Tool("bare", "", {"type": "object", "properties": {}})
    again = read_tools(render_tools([LAMP, bare]))
    assert [tool.name for tool in again] == ["lamp.set", "bare"]
    assert render_tools(again) == render_tools([LAMP, bare])
