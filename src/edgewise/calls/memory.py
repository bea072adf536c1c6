"""Remembers what was worked out about tools: the same ones are offered again and again.

Tools cannot be hashed, so they are told apart by identity, and held so that no other can take it.
A tool that was offered must not be changed; one that is made anew is read anew. What is held is
bounded in number and in size: a stranger may offer tools of a megabyte, each time others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Generic, TypeVar

from edgewise.types.messages import Tool

Found = TypeVar("Found")
Key = TypeVar("Key")
MOST_TOOLS = 4_000
MOST_TOOLBOXES = 64
MOST_HELD = 4_000_000  # characters of the tools that one kind of work holds, and of their texts
VALUE_CHARS = 50  # that a value beside texts counts as


def per_tool(work: Callable[[Tool], Found]) -> Callable[[Tool], Found]:
    """`work`, done once for each tool. What raises is done again."""
    known = _Memory[int, tuple[Tool, Found]]()

    @wraps(work)
    def remembered(tool: Tool) -> Found:
        entry = known.get(id(tool))
        if entry is None:
            entry = (tool, work(tool))
            known.put(id(tool), entry, _size(tool), MOST_TOOLS)
        return entry[1]

    return remembered


def per_toolbox(
    work: Callable[[str, Sequence[Tool]], Found],
) -> Callable[[str, Sequence[Tool]], Found]:
    """`work` on a text and some tools in their order, done once while they are talked about."""
    known = _Memory[tuple[str, tuple[int, ...]], tuple[tuple[Tool, ...], Found]]()

    @wraps(work)
    def remembered(text: str, tools: Sequence[Tool]) -> Found:
        key = (text, tuple(map(id, tools)))
        entry = known.get(key)
        if entry is None:
            held = tuple(tools)
            entry = (held, work(text, held))
            known.put(key, entry, len(text) + sum(map(_size, held)), MOST_TOOLBOXES)
        return entry[1]

    return remembered


class _Memory(Generic[Key, Found]):
    """When it is full, all of it goes: that is rare, and what is still needed is soon back."""

    def __init__(self) -> None:
        self._known: dict[Key, Found] = {}
        self._held = 0

    def get(self, key: Key) -> Found | None:
        return self._known.get(key)

    def put(self, key: Key, found: Found, size: int, most: int) -> None:
        if len(self._known) >= most or self._held + size > MOST_HELD:
            self._known.clear()
            self._held = 0
        self._known[key] = found
        self._held += size


def _size(tool: Tool) -> int:
    size, waiting = len(tool.description), [tool.parameters]
    while waiting and size <= MOST_HELD:  # a schema made in Python may hold itself
        value: Any = waiting.pop()
        size += VALUE_CHARS
        if isinstance(value, Mapping):
            size += sum(len(name) for name in value if isinstance(name, str))
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value
        elif isinstance(value, str):
            size += len(value)
    return size
