"""The last hand on a call, whoever wrote it: brought to its schema and to the request's words."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace

from edgewise.functions.bare_amounts import bare_amounts
from edgewise.functions.coerce import coerce_call
from edgewise.functions.currencies import code_currencies
from edgewise.functions.fill import as_said, drop_made_up, fill_missing, prefer_grounded
from edgewise.functions.ground import check_grounding
from edgewise.functions.heard import Heard
from edgewise.functions.moments import date_moments, write_moments
from edgewise.functions.places import without_invented_region
from edgewise.functions.plain_hours import plain_hours
from edgewise.functions.switches import set_switches
from edgewise.functions.unquote import unquote
from edgewise.functions.validate import validate
from edgewise.types.messages import Tool, ToolCall

_Step = Callable[[ToolCall, Tool, Heard], tuple[ToolCall, tuple[str, ...]]]
# What makes a call unfit to run, whatever its probability.
FATAL = frozenset(
    {"unknown_tool", "missing_argument", "wrong_type", "not_in_enum", "out_of_range", "empty_value"}
)


def settle(
    call: ToolCall,
    tool: Tool | None,
    heard: Heard,
    *,
    whole: Heard | None = None,
    today: datetime.date | None = None,
) -> ToolCall:
    """The call as it will be run, with the codes of what was changed and what is still wrong.

    `whole` is the request that `heard` is a part of: what it says elsewhere is not made up. Days
    named without a year are left as they are without `today`. Device and cloud are brought to the
    same forms, so that their calls can be compared and merged; only the device's values are
    doubted for what the request does not say, since a large model knows more than the words.
    """
    if tool is None:
        return replace(call, complaints=("unknown_tool",))
    made: list[str] = []
    for step in _steps(whole, today) if call.source != "cloud" else _FORMS:
        call, changes = step(call, tool, heard)
        made += changes
    complaints = (*validate(call, tool), *check_grounding(call, tool, heard))
    return replace(
        call,
        repairs=tuple(dict.fromkeys((*call.repairs, *made))),
        complaints=tuple(dict.fromkeys(complaint.code for complaint in complaints)),
    )


def _coerced(call: ToolCall, tool: Tool, heard: Heard) -> tuple[ToolCall, tuple[str, ...]]:
    return coerce_call(call, tool, heard.text)


_FORMS: tuple[_Step, ...] = (
    _coerced,
    unquote,
    write_moments,
    bare_amounts,
    as_said,
    code_currencies,
    _coerced,
)


def _steps(whole: Heard | None, today: datetime.date | None) -> tuple[_Step, ...]:
    """In this order: a value is brought to its form before it is judged, and dropped last."""
    return (
        _coerced,
        unquote,
        write_moments,
        lambda call, tool, heard: date_moments(call, tool, heard, today),
        bare_amounts,
        lambda call, tool, heard: prefer_grounded(call, tool, heard, whole),
        fill_missing,
        as_said,
        plain_hours,
        code_currencies,
        set_switches,
        without_invented_region,
        lambda call, tool, heard: drop_made_up(call, tool, heard, whole),
        _coerced,
    )


def same_call(one: ToolCall, other: ToolCall) -> bool:
    return one.name == other.name and dict(one.arguments) == dict(other.arguments)
