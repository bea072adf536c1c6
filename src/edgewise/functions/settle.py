"""The last hand on a call, whoever wrote it: brought to its schema and to the request's words."""

from __future__ import annotations

from dataclasses import replace

from edgewise.functions.coerce import coerce_call
from edgewise.functions.fill import as_said, drop_made_up, fill_missing, prefer_grounded
from edgewise.functions.ground import check_grounding
from edgewise.functions.heard import Heard
from edgewise.functions.validate import validate
from edgewise.types.messages import Tool, ToolCall

# What makes a call unfit to run, whatever its probability.
FATAL = frozenset(
    {"unknown_tool", "missing_argument", "wrong_type", "not_in_enum", "out_of_range", "empty_value"}
)


def settle(call: ToolCall, tool: Tool | None, heard: Heard) -> ToolCall:
    """The call as it will be run, with the codes of what was changed and what is still wrong.

    Device and cloud go through the same steps, so that their calls can be compared and merged.
    """
    if tool is None:
        return replace(call, complaints=("unknown_tool",))
    call, first = coerce_call(call, tool, heard.text)
    call, grounded = prefer_grounded(call, tool, heard)
    call, filled = fill_missing(call, tool, heard)
    call, spelled = as_said(call, tool, heard)
    call, dropped = drop_made_up(call, tool, heard)
    call, last = coerce_call(call, tool, heard.text)
    made = (*first, *grounded, *(f"filled:{name}" for name in filled), *spelled, *dropped, *last)
    complaints = (*validate(call, tool), *check_grounding(call, tool, heard))
    return replace(
        call,
        repairs=tuple(dict.fromkeys((*call.repairs, *made))),
        complaints=tuple(dict.fromkeys(complaint.code for complaint in complaints)),
    )


def same_call(one: ToolCall, other: ToolCall) -> bool:
    return one.name == other.name and dict(one.arguments) == dict(other.arguments)
