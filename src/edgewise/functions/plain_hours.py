"""Takes an hour as it was said where the words leave the half of the day open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgewise.functions.find_numbers import Said
from edgewise.functions.fold import name_words
from edgewise.functions.heard import Heard
from edgewise.functions.revise import revise
from edgewise.types.messages import Tool, ToolCall

_DAY_PARTS = ("evening", "afternoon", "night", "tonight", "dinner", "pm")


def plain_hours(call: ToolCall, tool: Tool, heard: Heard) -> tuple[ToolCall, tuple[str, ...]]:
    """`6` for `18` where "half past six" is all that was said. Named `as_said:ARGUMENT`.

    Only whole numbers of a parameter that is named after hours; text keeps the model's reading.
    """
    open_hours = {
        int(one.value[:2])
        for one in heard.found
        if isinstance(one, Said) and one.kind == "time" and not one.unit
    }
    if not open_hours or any(f" {part} " in f" {heard.spaced} " for part in _DAY_PARTS):
        return call, ()
    certain = {
        int(one.value[:2])
        for one in heard.found
        if isinstance(one, Said) and one.kind == "time" and one.unit
    }

    def better(name: str, schema: Mapping[str, Any], value: Any) -> Any:
        whole_hour = isinstance(value, int) and not isinstance(value, bool) and 12 <= value <= 23
        if not whole_hour or "hour" not in {word.rstrip("s") for word in name_words(name)}:
            return None
        if value in certain or value - 12 not in open_hours:
            return None
        return value - 12

    return revise(call, tool, "as_said", better)
