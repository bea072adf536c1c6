"""Watches for drift: now and then compares the ledger with the calibration.

Findings are noted in the ledger, logged once, and shown by `edgewise doctor`, `edgewise ledger` and
/metrics. An answer never waits for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from edgewise.decide.drift import MOST_ROWS, Audited, Drift, Reference, SeenConfidence, find_drift
from edgewise.decide.drift import read_reference as parse_reference
from edgewise.errors import LedgerError
from edgewise.monitor.verdicts import Verdicts
from edgewise.monitor.why import document_of
from edgewise.record.ledger import Book, Every, Watcher
from edgewise.record.report import Traffic
from edgewise.record.rows import Budget, BudgetState, Payer
from edgewise.settings import Settings
from edgewise.types.messages import Money, Request, Steering
from edgewise.types.replies import TYPED, UNTYPED, Reply

_log = logging.getLogger("edgewise")

EVERY = 50  # answers between two checks
END_S = 2.0  # how long closing an engine waits for a running check
NOTE = "drift"
TO_DO = "`edgewise doctor` says what to do, and this is not said again"
# For these tasks the ledger holds the confidence that the calibration's quantiles describe. A
# transcript's row is the mean of its segments, and hard function calls are never measured.
COMPARED = ("chat",)


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
            _log.warning("drift: calibration %s no longer fits: %s; %s", name, found.words, TO_DO)
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
        seen = [
            SeenConfidence(row.confidence, row.threshold if row.gated else None) for row in rows
        ]
        audited = [
            Audited(each.confidence, each.threshold, each.right)
            for each in self._ledger.audits(task=task, most=MOST_ROWS)
            if each.calibration == name
            and each.confidence is not None
            and each.threshold is not None
        ]
        return find_drift(name, reference, seen, audited)


def read_reference(settings: Settings, task: str, name: str) -> Reference | None:
    """What the calibration was measured on; None if it is missing or cannot be read, and for typed
    answers: the quantiles of a file are those of answers in words."""
    if name.endswith((TYPED, UNTYPED)):
        return None
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


# -- budgets that last -----------------------------------------------------------------------------


FRESH_S = 60.0  # how long an expectation is valid; what is left is read every time


class Steer:
    """Adds to a request what moves its threshold. If the ledger fails, nothing is moved."""

    def __init__(
        self,
        settings: Settings,
        ledger: Book,
        watch: DriftWatch,
        verdicts: Verdicts,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._watch = watch
        self._verdicts = verdicts
        self._clock = clock
        self._looked = False
        self._expected: dict[Budget, tuple[float, Traffic]] = {}

    def __call__(self, request: Request) -> Request:
        try:
            drifted, money = self._drifted(request), self._money(request.budget_key)
            learnt = self._verdicts.learnt(request)
        except LedgerError as error:
            _log.warning("nothing is paced, and no drift or verdict is acted on: %s", error)
            return request
        if not drifted and money is None and not learnt:
            return request
        on_drift = self._settings.on_drift
        steering = Steering(money=money, on_drift=on_drift, drifted=drifted, learnt=learnt)
        return replace(request, steering=steering)

    def _drifted(self, request: Request) -> dict[str, str]:
        told = self._settings.on_drift
        if told == "report" or (told == "risk" and request.max_error is None):
            return {}
        if not self._looked:  # what an earlier process has seen counts from the first request on
            self._looked = True
            for task, name in self._ledger.calibrations():
                self._watch.check(task, name)
        found = list(self._watch.found.items())
        return {name: drift.words for name, drift in found if drift.drifted}

    def _money(self, key: str) -> Money | None:
        """Of the budget that allows the least."""
        if not self._settings.pace_budget:
            return None
        payer = Payer(key)
        states = [each for each in self._ledger.remaining() if each.budget.applies_to(payer)]
        return min(map(self._left, states), key=lambda one: one.allowed_share, default=None)

    def _left(self, state: BudgetState) -> Money:
        now = self._clock()
        since, expected = self._expected.get(state.budget, (-FRESH_S, Traffic(0.0, 0.0)))
        if state.budget not in self._expected or now - since >= FRESH_S:
            expected = self._ledger.traffic(state)
            self._expected[state.budget] = (now, expected)
        return Money(
            state.remaining,
            1 + expected.requests_left,
            expected.handoff_microdollars,
            f"a budget of {state.budget.in_words()}",
        )
