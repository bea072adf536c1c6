"""Names as a list of known things spells them: "the bedroom fan" is the row `Ceiling Fan`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgewise.calls.values.words import fold, stem, words
from edgewise.types.messages import Context, ToolCall

Row = Mapping[str, Any]


def as_listed(call: ToolCall, context: Context) -> ToolCall:
    """The call with texts taken from the tables of the context, where these have a column so named.

    A text that stands in the column gets its spelling. One that does not is exchanged if its words
    describe exactly one row. Every change is a repair `listed:ARGUMENT`.
    """
    changed: dict[str, str] = {}
    for name, value in call.arguments.items():
        if isinstance(value, str) and (listed := _listed(value, name, context)) not in ("", value):
            changed[name] = listed
    if not changed:
        return call
    repairs = (*call.repairs, *(f"listed:{name}" for name in changed))
    return replace(call, arguments={**call.arguments, **changed}, repairs=repairs)


def _listed(value: str, column: str, context: Context) -> str:
    """What the tables call this; "" if they have no such column, or nothing in it fits."""
    rows = [row for table in _tables(context) for row in table if isinstance(row.get(column), str)]
    same = {row[column] for row in rows if fold(row[column]) == fold(value)}
    if same:
        return str(value if value in same else min(same))
    wanted = {stem(word) for word in words(value)} - _LITTLE
    meant = {row[column] for row in rows if wanted and wanted <= _described(row)}
    return str(meant.pop()) if len(meant) == 1 else ""


_LITTLE = frozenset(map(stem, ("the", "a", "an", "my", "our", "in", "on", "at", "of")))


def _described(row: Row) -> set[str]:
    return {stem(word) for cell in row.values() if isinstance(cell, str) for word in words(cell)}


def _tables(context: Context) -> Iterator[Sequence[Row]]:
    for value in context.values():
        if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
            yield [row for row in value if isinstance(row, Mapping)]
