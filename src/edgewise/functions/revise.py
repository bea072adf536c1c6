"""Walks the arguments of a call and puts a better value where a step has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from edgewise.functions.parameter import parameters
from edgewise.types.messages import Tool, ToolCall

# What a step has for one value: name, schema and value go in, None leaves the value as it is.
Better = Callable[[str, Mapping[str, Any], Any], Any]
_DEEPEST = 4


def revise(
    call: ToolCall, tool: Tool, code: str, better: Better
) -> tuple[ToolCall, tuple[str, ...]]:
    """The call with each value that `better` knows better, named `code:ARGUMENT`.

    Objects are gone through, and named by the argument that holds them. Lists are left alone.
    """
    changed = _revised(call.arguments, tool.parameters, tool.parameters, better, 0)
    names = [name for name, value in call.arguments.items() if changed[name] is not value]
    if not names:
        return call, ()
    return replace(call, arguments=changed), tuple(f"{code}:{name}" for name in names)


def _revised(
    given: Mapping[str, Any],
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    better: Better,
    depth: int,
) -> dict[str, Any]:
    fields = parameters({**root, "properties": schema.get("properties") or {}})
    found = dict(given)
    for name, value in given.items():
        field = fields.get(str(name), {})
        if isinstance(value, Mapping):
            inner = _revised(value, field, root, better, depth + 1) if depth < _DEEPEST else value
            same = all(inner[key] is value[key] for key in value)
            found[name] = value if same else inner
            continue
        instead = better(str(name), field, value)
        if instead is not None and (type(instead) is not type(value) or instead != value):
            found[name] = instead
    return found
