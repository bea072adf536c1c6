"""The table of how calls of each tool turned out: read whole, added to in place."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from edgewise.record.rows import bindable


@dataclass(frozen=True, slots=True, order=True)
class ToolKey:
    """A tool's name, and a hash of the schema of its arguments."""

    name: str
    schema: str


@dataclass(frozen=True, slots=True)
class Counts:
    """Calls of the device that were confirmed, and that were changed or could not be run."""

    confirmed: int = 0
    changed: int = 0

    def plus(self, right: bool) -> Counts:
        return self + (Counts(1, 0) if right else Counts(0, 1))

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.confirmed + other.confirmed, self.changed + other.changed)


def read_counts(connection: sqlite3.Connection) -> dict[ToolKey, Counts]:
    rows = connection.execute("SELECT name, schema_hash, confirmed, changed FROM tool_record")
    return {ToolKey(name, schema): Counts(right, wrong) for name, schema, right, wrong in rows}


def add_counts(connection: sqlite3.Connection, changes: Mapping[ToolKey, Counts]) -> None:
    connection.executemany(
        "INSERT INTO tool_record VALUES (?, ?, ?, ?) ON CONFLICT (name, schema_hash) DO UPDATE SET"
        " confirmed = confirmed + excluded.confirmed, changed = changed + excluded.changed",
        [
            (bindable(key.name), key.schema, change.confirmed, change.changed)
            for key, change in changes.items()
        ],
    )
