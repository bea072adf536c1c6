"""Takes the inside of a quotation where a value has kept one of its quotes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgewise.functions.fold import fold
from edgewise.functions.heard import Heard
from edgewise.functions.revise import revise
from edgewise.types.messages import Tool, ToolCall

_QUOTES = "'\"`\u2018\u2019\u201c\u201d\u00ab\u00bb"
_MARKS = _QUOTES + " .,;:!?"


def unquote(call: ToolCall, tool: Tool, heard: Heard) -> tuple[ToolCall, tuple[str, ...]]:
    """`joining in 5` for `joining in 5'` where the request quotes that: `unquoted:ARGUMENT`."""
    inside = {_bare(str(one.value)): one.value for one in heard.found if one.kind == "quoted"}

    def better(name: str, schema: Mapping[str, Any], value: Any) -> Any:
        if not isinstance(value, str) or not inside or "enum" in schema:
            return None
        text = value.strip()
        if not text or not (text[0] in _QUOTES or text[-1] in _QUOTES):
            return None
        return inside.get(_bare(text))

    return revise(call, tool, "unquoted", better)


def _bare(text: str) -> str:
    return fold(text.strip(_MARKS))
