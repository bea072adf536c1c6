"""Calls of several origins put together in the order of the request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from edgewise.functions.settle import same_call
from edgewise.types.messages import Source, ToolCall


def merge(
    by_intent: Mapping[int, Sequence[ToolCall]], *, again: Set[int] = frozenset()
) -> tuple[ToolCall, ...]:
    """Intent after intent; a call that another intent made is not made twice, but for `again`."""
    merged: list[ToolCall] = []
    for number in sorted(by_intent):
        for call in by_intent[number]:
            if number in again or all(not same_call(call, other) for other in merged):
                merged.append(call)
    return tuple(merged)


def source_of(calls: Iterable[ToolCall], otherwise: Source) -> Source:
    """Where the calls came from together; `otherwise` where there are none."""
    found = {call.source for call in calls}
    if len(found) > 1:
        return "mixed"
    return found.pop() if found else otherwise
