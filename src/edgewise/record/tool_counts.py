"""How the device's calls of each tool have turned out, counted in the ledger."""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from edgewise.errors import LedgerError
from edgewise.record.rows import bindable
from edgewise.types.messages import Tool

_log = logging.getLogger("edgewise")
# Two imaginary right and two wrong calls: the first real one moves a share from 0.5 to 0.6 or 0.4.
PRIOR = 2.0
MOST_REMEMBERED = 1_000


@dataclass(frozen=True, slots=True, order=True)
class ToolKey:
    """A tool's name, and a hash of the schema of its arguments."""

    name: str
    schema: str


@dataclass(frozen=True, slots=True)
class Counts:
    """The device's calls that were confirmed, and those that were changed or could not run."""

    confirmed: int = 0
    changed: int = 0

    def plus(self, right: bool) -> Counts:
        return self + (Counts(1, 0) if right else Counts(0, 1))

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.confirmed + other.confirmed, self.changed + other.changed)


class CountsTable(Protocol):
    """What is needed of the ledger."""

    def tool_counts(self) -> dict[ToolKey, Counts]: ...

    def count_calls(self, changes: Mapping[ToolKey, Counts]) -> None: ...


class ToolRecord:
    """Read once from the ledger, then kept in step with it. If the ledger fails, only this is lost.

    Counts of other processes are seen by the next engine.
    """

    def __init__(self, ledger: CountsTable) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._counts: dict[ToolKey, Counts] | None = None
        self._names: set[str] = set()
        self._keys: dict[int, tuple[Tool, ToolKey]] = {}  # the tool too: its id() must stay unique

    def shares(self, tools: Sequence[Tool]) -> dict[str, float]:
        """By name, the smoothed share of right calls of each tool with a record."""
        with self._lock:
            counts = self._read()
            known = [tool for tool in tools if tool.name in self._names]
            found = {tool.name: counts.get(self._key(tool)) for tool in known}
        return {name: share_of(each) for name, each in found.items() if each is not None}

    def note(self, outcomes: Sequence[tuple[Tool, bool]]) -> None:
        """Count calls of the device as right or wrong."""
        if not outcomes:
            return
        with self._lock:
            counts = self._read()
            changes: dict[ToolKey, Counts] = {}
            for tool, right in outcomes:
                key = self._key(tool)
                changes[key] = changes.get(key, Counts()).plus(right)
            for key, change in changes.items():
                counts[key] = counts.get(key, Counts()) + change
                self._names.add(key.name)
        try:
            self._ledger.count_calls(changes)
        except LedgerError as error:  # the calls matter more than their record
            _log.warning("the record of tools is not in the ledger: %s", error)

    def _read(self) -> dict[ToolKey, Counts]:
        if self._counts is None:
            try:
                self._counts = self._ledger.tool_counts()
            except LedgerError as error:
                _log.warning("the record of tools cannot be read: %s", error)
                self._counts = {}
            self._names = {key.name for key in self._counts}
        return self._counts

    def _key(self, tool: Tool) -> ToolKey:
        known = self._keys.get(id(tool))
        if known is None:
            if len(self._keys) >= MOST_REMEMBERED:
                self._keys.clear()
            known = self._keys[id(tool)] = (tool, key_of(tool))
        return known[1]


def key_of(tool: Tool) -> ToolKey:
    """A tool with other arguments is another tool, even under the same name."""
    try:
        schema = json.dumps(tool.parameters, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are not text, or a loop
        schema = repr(tool.parameters)
    return ToolKey(tool.name, hashlib.sha256(schema.encode("utf-8", "replace")).hexdigest()[:16])


def share_of(counts: Counts) -> float:
    return (counts.confirmed + PRIOR) / (counts.confirmed + counts.changed + 2 * PRIOR)


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
