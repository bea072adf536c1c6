"""Takes from a place the state or country that nobody named and nobody asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from edgewise.functions.fold import spaced, stem
from edgewise.functions.heard import Heard
from edgewise.functions.parameter import wanted
from edgewise.functions.revise import revise
from edgewise.types.messages import Tool, ToolCall

# "City and state", "City, Country", or an example that is written so.
_ASKS_MORE = re.compile(
    r"\b(?i:state|country|province|region|county|full address)\b|[A-Z]\w+, ?[A-Z]\w"
)
_LONGEST_PLACE = 60


def without_invented_region(
    call: ToolCall, tool: Tool, heard: Heard
) -> tuple[ToolCall, tuple[str, ...]]:
    """`Seattle` for `Seattle, WA` where the request says no more. Named `shortened:ARGUMENT`."""

    def better(name: str, schema: Mapping[str, Any], value: Any) -> Any:
        if not isinstance(value, str) or len(value) > _LONGEST_PLACE or "enum" in schema:
            return None
        city, comma, rest = value.partition(", ")
        described = schema.get("description")
        if not comma or not city.strip() or wanted(name, schema).role != "place":
            return None
        if isinstance(described, str) and _ASKS_MORE.search(described):
            return None
        return city.strip() if _only_city_said(city, rest, heard) else None

    return revise(call, tool, "shortened", better)


def _only_city_said(city: str, rest: str, heard: Heard) -> bool:
    """Not where any word of the rest is said too, in any form: it is not invented then."""
    said = spaced(rest).split()
    return (
        spaced(city).strip() != ""
        and spaced(city) in heard.spaced
        and bool(said)
        and not any(stem(word) in heard.stems or f" {word[:4]}" in heard.spaced for word in said)
    )
