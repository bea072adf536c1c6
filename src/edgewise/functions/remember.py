"""Remembers what was worked out about tools: the same ones are offered again and again.

Tools cannot be hashed, so they are told apart by identity, and held so that no other can take it.
A tool that was offered must not be changed; one that is made anew is read anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TypeVar

from edgewise.types.messages import Tool

Found = TypeVar("Found")
MOST_TOOLS = 4_000
MOST_TOOLBOXES = 64


def per_tool(work: Callable[[Tool], Found]) -> Callable[[Tool], Found]:
    """`work`, done once for each tool. What raises is done again."""
    known: dict[int, tuple[Tool, Found]] = {}

    @wraps(work)
    def remembered(tool: Tool) -> Found:
        entry = known.get(id(tool))
        if entry is None:
            entry = (tool, work(tool))
            if len(known) >= MOST_TOOLS:  # rare, and what is still needed is soon back
                known.clear()
            known[id(tool)] = entry
        return entry[1]

    return remembered


def per_toolbox(
    work: Callable[[str, Sequence[Tool]], Found],
) -> Callable[[str, Sequence[Tool]], Found]:
    """`work` on a text and some tools in their order, done once while they are talked about."""
    known: dict[tuple[str, tuple[int, ...]], tuple[tuple[Tool, ...], Found]] = {}

    @wraps(work)
    def remembered(text: str, tools: Sequence[Tool]) -> Found:
        key = (text, tuple(map(id, tools)))
        entry = known.get(key)
        if entry is None:
            held = tuple(tools)
            entry = (held, work(text, held))
            if len(known) >= MOST_TOOLBOXES:
                known.clear()
            known[key] = entry
        return entry[1]

    return remembered
