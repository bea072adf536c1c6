"""What holds for this workload: verdicts on its answers, drift, and budgets that last.

Now and then the ledger is compared with the calibration. Findings are noted in the ledger, logged
once, and shown by `edgewise doctor`, `edgewise ledger` and /metrics. An answer never waits for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from typing_extensions import override

from edgewise.decide.drift import MOST_ROWS, Audited, Drift, Reference, SeenConfidence, find_drift
from edgewise.decide.drift import read_reference as parse_reference
from edgewise.decide.families import Evidence, Verdict
from edgewise.errors import InvalidRequest, LedgerError
from edgewise.monitor.why import document_of
from edgewise.record.ledger import Answer, Book, Every, Watcher
from edgewise.record.report import Judge, Said, Traffic, Workload
from edgewise.record.rows import Budget, BudgetState, Payer
from edgewise.settings import Settings
from edgewise.types.messages import Learnt, Money, Request, Steering, percent
from edgewise.types.replies import TYPED, UNTYPED, Reply, is_verified

_log = logging.getLogger("edgewise")


# -- verdicts on answers ---------------------------------------------------------------------------
#
# A workload is the requests of one budget key: an app's key at the server, or the `budget_key` that
# a request names. Requests without one are a workload too. Each calibration is judged for itself:
# another model, or one that was fitted again, begins anew. One that was not measured on the model
# that answers is shared by several: its confidences promise nothing, whatever verdicts say.


HEARD_S = 5.0  # how old what is known may be; other processes write to the same ledger
MOST_WORKLOADS = 256  # in memory: clients of a server without keys name what they like
MOST_ERRORS = 16  # stated ones, of one workload
TASKS = ("chat", "call")  # those whose answers are judged as a whole
USUAL_ERROR = 0.10  # what an outlook is about if the settings state no risk


@dataclass(slots=True)
class _Known:
    """What was read of one workload, and what it proves: by calibration and stated error."""

    read_at: float
    said: list[Said] = field(default_factory=list)
    proven: dict[tuple[str, float], tuple[int, Evidence]] = field(default_factory=dict)

    def take(self, said: list[Said], now: float) -> None:
        """Newer rows. What was only added to, goes on; a verdict that was changed begins anew."""
        self.read_at = now
        start = next((at for at, each in enumerate(self.said) if said[:1] == [each]), None)
        if start is None or self.said[start:] != said[: len(self.said) - start]:
            self.proven.clear()
            self.said = said
        else:
            self.said += said[len(self.said) - start :]

    def evidence(self, calibration: str, error: float) -> Evidence:
        done, evidence = self.proven.get((calibration, error)) or (0, Evidence(error))
        for each in self.said[done:]:
            # Without these it is the cloud's answer, or one that was shown before it was judged.
            if each.calibration != calibration or each.confidence is None or each.above is None:
                continue
            evidence.add(Verdict(each.confidence, each.right, each.above))
        if len(self.proven) >= MOST_ERRORS:
            self.proven.clear()
        self.proven[(calibration, error)] = len(self.said), evidence
        return evidence


@dataclass(frozen=True, slots=True)
class Outlook:
    """What can be promised to one workload, and what is missing."""

    workload: Workload
    wrong: int
    error: float
    learnt: Learnt
    worth_judging: float  # the confidence from which on a verdict teaches most

    @property
    def kept(self) -> float:
        return self.workload.kept / self.workload.requests

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "workload": self.workload.name,
            "task": self.workload.task,
            "calibration": self.workload.calibration,
            "requests": self.workload.requests,
            "kept": self.kept,
            "verdicts": self.learnt.verdicts,
            "wrong": self.wrong,
            "max_error": self.error,
            "threshold": self.learnt.threshold,
            "missing": self.learnt.missing,
            "judged_from": self.learnt.judged_from,
            "worth_judging": self.worth_judging,
            "words": str(self),
        }

    @override
    def __str__(self) -> str:
        """As `doctor`, `why`, `ledger` and the dashboard say it."""
        share, learnt = percent(self.error), self.learnt
        today = f"today {percent(round(self.kept, 2))} of these requests stay on the device"
        if learnt.threshold is not None:
            proof = f"{learnt.verdicts:,} verdicts prove it from {learnt.threshold:.2f} on"
            return f"{share} can be promised here: {proof}; {today}"
        if learnt.refuted:
            return (
                f"{share} is not promised here: of {learnt.verdicts:,} verdicts {self.wrong:,} say "
                f"wrong; {today}"
            )
        verdicts = "verdict" if learnt.missing == 1 else "verdicts"
        return (
            f"with {learnt.missing:,} more right {verdicts} {share} can be promised here "
            f"(on answers from {learnt.judged_from:.2f} on; others do not count yet); {today}"
        )


class Verdicts:
    """Takes verdicts into the ledger, and says what those of a workload prove at this moment."""

    def __init__(
        self, settings: Settings, ledger: Book, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}

    def say(
        self, request_id: str, right: bool, judged_by: Judge = "person", *, above: float = 0.0
    ) -> Said:
        """Record a verdict on an answer. `above`: only answers from this confidence on are judged.

        Raises InvalidRequest if there is no such answer, LedgerError if nothing was recorded.
        """
        if not isinstance(right, bool):
            raise InvalidRequest("right: expected True or False")
        if not isinstance(request_id, str) or (row := self._ledger.get(request_id)) is None:
            raise InvalidRequest("id: no such request")
        if row["source"] == "none":
            raise InvalidRequest("id: this request has no answer")
        if row["private"] and not self._settings.learn_from_private:
            raise InvalidRequest(
                "id: this request is private, and nothing is learnt from those "
                "(learn_from_private = true allows it)"
            )
        measured = row["source"] == "local" and row["task"] in TASKS
        if not 0 <= above <= 1 or above > (row["confidence"] or 0.0):
            raise InvalidRequest("above: expected 0 to 1, and no more than the answer's confidence")
        said = Said(
            id=request_id,
            workload=row["budget_key"],
            task=row["task"],
            calibration=row["calibration"],
            confidence=row["confidence"] if measured else None,
            above=None if row["kept_from"] is None else max(row["kept_from"], above),
            right=right,
            judged_by=judged_by,
        )
        return self._record(said)

    def say_of_drawn(
        self, request: Request, reply: Reply, right: bool, *, left: bool = False
    ) -> None:
        """What an audit found of a request drawn by chance from all that state a risk, whether
        they stayed or left: it counts at every threshold.

        `left`: the reply is the device's; the user has another one, on which verdicts are given.
        """
        if request.private and not self._settings.learn_from_private:
            return
        said = Said(
            id=f"{request.id}/device" if left else request.id,
            workload=request.budget_key,
            task=request.task,
            calibration=reply.decision.calibration,
            confidence=reply.confidence,
            above=0.0,
            right=right,
            judged_by="audit",
        )
        self._record(said)

    def _record(self, said: Said) -> Said:
        self._ledger.record_verdict(said)
        with self._lock:
            if said.workload in self._known:
                self._known[said.workload].read_at = -HEARD_S
        return said

    def check(self, request: Request, reply: Answer, check: Callable[[Reply], bool]) -> Answer:
        """The reply, after a program of the application has judged it.

        The answer matters more than the verdict: what could not be recorded is said in the reply.
        """
        if reply.source == "none" or (request.private and not self._settings.learn_from_private):
            return reply
        right = check(reply)
        if not isinstance(right, bool):
            raise InvalidRequest("check: must return True or False")
        if reply.unrecorded:
            return reply
        try:
            self.say(reply.id, right, "check")
        except LedgerError as error:
            return replace(reply, unrecorded=f"the verdict: {error}")
        return reply

    def learnt(self, request: Request) -> Mapping[str, Learnt]:
        """What holds for a request's workload and stated error, by calibration."""
        error = request.max_error
        if error is None or not 0 < error < 1:
            return {}
        known = self._read(request.budget_key)
        with self._lock:
            names = {each.calibration for each in known.said if is_verified(each.calibration)}
            found = {name: known.evidence(name, error) for name in names}
            return {
                name: evidence.learnt(request.error_probability)
                for name, evidence in found.items()
                if evidence.verdicts
            }

    def outlooks(self) -> list[Outlook]:
        """Of the workloads of the latest requests, the largest first."""
        found = self._ledger.workloads()
        return [self._outlook(each) for each in found if is_verified(each.calibration)]

    def outlook(self, key: str, calibration: str) -> Outlook | None:
        """Of the workload that a request is of."""
        found = self.outlooks()
        wanted = (key, calibration)
        return next((e for e in found if (e.workload.name, e.workload.calibration) == wanted), None)

    def _outlook(self, workload: Workload) -> Outlook:
        error = self._settings.max_error or USUAL_ERROR
        known = self._read(workload.name)
        with self._lock:
            evidence = known.evidence(workload.calibration, error)
            probability = self._settings.error_probability
            learnt, worth = evidence.learnt(probability), evidence.worth_judging(probability)
            return Outlook(workload, evidence.wrong, error, learnt, worth)

    def _read(self, workload: str) -> _Known:
        """If the ledger fails, what was known holds: a refuted promise must not come back."""
        now = self._clock()
        with self._lock:
            known = self._known.get(workload)
            if known is not None and now - known.read_at < HEARD_S:
                return known
        try:
            said = self._ledger.verdicts(workload)
        except LedgerError as error:
            if known is None:
                raise
            _log.warning("verdicts of other processes are not read: %s", error)
            said = known.said
        with self._lock:
            if len(self._known) >= MOST_WORKLOADS:
                self._known.clear()
            known = self._known.setdefault(workload, _Known(now))
            known.take(said, now)
            return known


def in_words(found: Outlook) -> str:
    """With whose requests they are."""
    return f"{found.workload.name or 'requests without a key'}, {found.workload.task}: {found}"


# -- drift -----------------------------------------------------------------------------------------


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
