"""Watches for drift: now and then compares the ledger with the calibration.

Findings are noted in the ledger, logged once, and shown by `edgewise doctor`, `edgewise ledger` and
/metrics. An answer never waits for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

from edgewise.decide.drift import MOST_ROWS, Audited, Drift, Reference, Seen, find_drift
from edgewise.decide.drift import read_reference as parse_reference
from edgewise.errors import LedgerError
from edgewise.monitor.open_streams import OpenStreams
from edgewise.monitor.why import document_of
from edgewise.record.book import Book
from edgewise.record.recorder import (
    Every,
    Watcher,
)
from edgewise.settings import Settings
from edgewise.types.messages import Request
from edgewise.types.replies import Reply

_log = logging.getLogger("edgewise")

EVERY = 50  # answers between two checks
END_S = 2.0  # how long closing an engine waits for a running check
NOTE = "drift"
# For these tasks the ledger holds the confidence that the calibration's quantiles describe. A
# transcript's row is the mean of its segments, and hard function calls are never measured.
COMPARED = ("chat",)


def open_watch(settings: Settings, ledger: Book, streams: OpenStreams) -> DriftWatch:
    """A watch that ends with its engine."""
    watch = DriftWatch(settings, ledger)
    streams.add(watch)
    return watch


class DriftWatch:
    """Holds the latest findings, by calibration."""

    def __init__(self, settings: Settings, ledger: Book) -> None:
        self._settings = settings
        self._ledger = ledger
        self._checking: threading.Thread | None = None
        self.found: dict[str, Drift] = {}

    @property
    def watcher(self) -> Watcher:
        """For the request recorder: checks at the first answer, then at every EVERYth."""
        return Every(EVERY, self.begin)

    def begin(self, request: Request, reply: Reply) -> None:
        """Check on its own thread: no answer waits for it."""
        if self._checking is None or not self._checking.is_alive():
            self._checking = threading.Thread(
                target=self.look, args=(request, reply), name="edgewise-drift", daemon=True
            )
            self._checking.start()

    def close(self) -> None:
        """Wait for a running check."""
        if self._checking is not None:
            self._checking.join(END_S)

    def look(self, request: Request, reply: Reply) -> None:
        """Check the calibration of this answer."""
        if reply.decision.calibration:
            try:
                self.check(request.task, reply.decision.calibration)
            except LedgerError as error:
                _log.warning("drift cannot be checked: %s", error)

    def check(self, task: str, name: str) -> Drift:
        """Compare now; note and log what began or ended."""
        found = self.compare(task, name)
        self.found[name] = found
        # Log once over all processes, not at every question on the command line.
        if self._ledger.note(NOTE, name, found.words) and found.drifted:
            _log.warning("drift: calibration %s no longer fits: %s", name, found.words)
        return found

    def compare_all(self) -> Iterator[Drift]:
        """Every calibration in recent use. Nothing is noted."""
        for task, name in self._ledger.calibrations():
            yield self.compare(task, name)

    def compare(self, task: str, name: str) -> Drift:
        """Compare the ledger with what the calibration says of itself."""
        reference = read_reference(self._settings, task, name)
        if reference is None:  # an uncalibrated model promises nothing
            return Drift(calibration=name)
        rows = self._ledger.confidences(task, name, MOST_ROWS) if task in COMPARED else []
        seen = [Seen(row.confidence, row.threshold if row.gated else None) for row in rows]
        audited = [
            Audited(each.confidence, each.threshold, each.right)
            for each in self._ledger.audits(task=task, most=MOST_ROWS)
            if each.calibration == name
            and each.confidence is not None
            and each.threshold is not None
        ]
        return find_drift(name, reference, seen, audited)


def read_reference(settings: Settings, task: str, name: str) -> Reference | None:
    """What the calibration was measured on; None if it is missing or cannot be read."""
    data = document_of(settings, task, name)
    try:
        return None if data is None else parse_reference(data)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None


def in_figures(found: Drift) -> str:
    """The compared figures, in short."""
    told = []
    if found.distance is not None:
        told.append(f"distance {found.distance:.2f} of at most {found.bound:.2f}")
    if found.audited_error is not None:
        told.append(f"{found.audited_error:.0%} of {found.audits} audited answers wrong")
    return ", ".join(told)
