"""Going through the arguments of a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.parameters import revise
from edgewise.types.messages import Tool, ToolCall

TOOL = Tool(
    "sow",
    parameters={
        "properties": {
            "seed": {"type": "string"},
            "bed": {"$ref": "#/$defs/bed"},
            "notes": {"type": "array"},
        },
        "$defs": {"bed": {"properties": {"row": {"type": "string", "description": "Row"}}}},
    },
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def test_objects_are_gone_through_with_their_schemas_and_lists_are_left() -> None:
    seen = []

    def better(name: str, schema: Mapping[str, Any], value: Any) -> Any:
        seen.append((name, schema.get("description")))
        return value.upper() if isinstance(value, str) else None

    call = ToolCall("sow", {"seed": "rye", "bed": {"row": "north"}, "notes": ["deep"]})
    changed, changes = revise(call, TOOL, "loud", better)
    assert changed.arguments == {"seed": "RYE", "bed": {"row": "NORTH"}, "notes": ["deep"]}
    assert changes == ("loud:seed", "loud:bed")
    assert seen == [("seed", None), ("row", "Row"), ("notes", None)]


@given(st.dictionaries(st.sampled_from(["seed", "bed", "notes", "other"]), JSON))
def test_a_step_that_knows_nothing_better_returns_the_very_same_call(
    arguments: dict[str, Any],
) -> None:
    call = ToolCall("sow", arguments)
    changed, changes = revise(call, TOOL, "code", lambda name, schema, value: None)
    assert changed is call
    assert changes == ()
