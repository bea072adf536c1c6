"""Takes the unit off an amount whose parameter is named after that unit: `minutes` of "5 minutes".

Only of parameters that take text; numbers have been made of the others by then.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from edgewise.functions.extract import find_all_numbers
from edgewise.functions.find_durations import unit_name
from edgewise.functions.fold import name_words
from edgewise.functions.heard import Heard
from edgewise.functions.number_words import whole
from edgewise.functions.revise import revise
from edgewise.types.messages import Tool, ToolCall

_LONGEST = 40
_AMOUNT = re.compile(r"(?P<number>\S.*?)[\s-]*(?P<unit>[A-Za-z]+)\.?")


def bare_amounts(call: ToolCall, tool: Tool, heard: Heard) -> tuple[ToolCall, tuple[str, ...]]:
    """`5` for `5 minutes` where the parameter is `minutes` and shows no unit: `bared:ARGUMENT`."""

    def better(name: str, schema: Mapping[str, Any], value: Any) -> Any:
        unit = unit_name((name_words(name) or [""])[-1])
        if not unit or not isinstance(value, str) or len(value) > _LONGEST:
            return None
        said = _AMOUNT.fullmatch(value.strip())
        if said is None or unit_name(said["unit"]) != unit or "enum" in schema:
            return None
        shown = re.search(r"\d\s*[a-z]+", str(schema.get("description", "")).lower())
        if shown and unit_name(shown.group().lstrip("0123456789 ")):
            return None  # its own example has the unit
        numbers = find_all_numbers(said["number"])
        if len(numbers) != 1 or numbers[0].text.strip() != said["number"]:
            return None
        return str(whole(numbers[0].value))

    return revise(call, tool, "bared", better)
