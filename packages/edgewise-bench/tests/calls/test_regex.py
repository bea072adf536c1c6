from __future__ import annotations

from typing import Any

import pytest

from edgewise.types.messages import Tool
from edgewise_bench.calls.regex import regex_calls

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def tool(name: str, description: str, *required: str, **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return Tool(name, description, schema)


KETTLE = tool("start_kettle", "Heat water in the kettle", "degrees", degrees=WHOLE)
TRAIN = tool("find_train", "Find a train to a city", "city", city=TEXT)
BLINDS = tool(
    "move_blinds",
    "Raise or lower the blinds",
    "direction",
    direction={"type": "string", "enum": ["up", "down"]},
)
BELL = tool("ring_at", "Ring the school bell", "hour", "minute", hour=WHOLE, minute=WHOLE)
TOOLS = (KETTLE, TRAIN, BLINDS, BELL)


@pytest.mark.parametrize(
    ("request_text", "calls"),
    [
        ("heat the kettle to 85 degrees", [("start_kettle", {"degrees": 85})]),
        ("is there a train to New Haven?", [("find_train", {"city": "New Haven"})]),
        ("blinds down please", [("move_blinds", {"direction": "down"})]),
        ("ring the bell at 3:40 pm", [("ring_at", {"hour": 15, "minute": 40})]),
        (
            "kettle to 90 and then a train to Delft",
            [("start_kettle", {"degrees": 90}), ("find_train", {"city": "Delft"})],
        ),
        ("heat the kettle", []),  # how hot is not said
        ("who wrote Ulysses?", []),
    ],
)
def test_patterns_find_what_looks_like_an_argument(request_text: str, calls: list[Any]) -> None:
    assert regex_calls(request_text, TOOLS) == calls


def test_a_tool_without_a_proper_schema_is_no_reason_to_fail() -> None:
    assert regex_calls("kettle", [Tool("kettle", "", {})]) == [("kettle", {})]
    assert regex_calls("", TOOLS) == []
