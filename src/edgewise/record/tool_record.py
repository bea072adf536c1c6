"""How the device's calls of each tool have turned out, counted in the ledger.

Only what was checked counts: the cloud made the same call or another one, or the call was run. A
tool's name, a hash of its schema and two counts are kept, never what a call said.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Sequence

from edgewise.errors import LedgerError
from edgewise.record.ledger import Ledger
from edgewise.record.tool_counts import Counts, ToolKey
from edgewise.types.messages import Tool

_log = logging.getLogger("edgewise")

# Two right and two wrong that never were: a first outcome moves a share from 0.5 to 0.6 or 0.4.
PRIOR = 2.0
MOST_REMEMBERED = 1_000


class ToolRecord:
    """Read once from the ledger, then kept in step with it. A ledger that fails costs only this.

    What other processes count is seen by the next engine.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._counts: dict[ToolKey, Counts] | None = None
        self._names: set[str] = set()
        self._keys: dict[int, tuple[Tool, ToolKey]] = {}  # each tool is held: its id stays its own

    def shares(self, tools: Sequence[Tool]) -> dict[str, float]:
        """By name, the share of right calls of each tool that has a record, smoothed."""
        with self._lock:
            counts = self._read()
            known = [tool for tool in tools if tool.name in self._names]
            found = {tool.name: counts.get(self._key(tool)) for tool in known}
        return {name: share_of(each) for name, each in found.items() if each is not None}

    def note(self, outcomes: Sequence[tuple[Tool, bool]]) -> None:
        """Calls of the device that turned out right, or not."""
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
        except LedgerError as error:  # the calls are worth more than their record
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
    """A tool that takes other arguments is another one, whatever its name."""
    try:
        schema = json.dumps(tool.parameters, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are no text, or a knot
        schema = repr(tool.parameters)
    return ToolKey(tool.name, hashlib.sha256(schema.encode("utf-8", "replace")).hexdigest()[:16])


def share_of(counts: Counts) -> float:
    return (counts.confirmed + PRIOR) / (counts.confirmed + counts.changed + 2 * PRIOR)
