"""Whether recent requests still look like the rows that the calibration was measured on.

Two questions: do the confidences come from the same distribution, and is the audited error no
higher than promised? Each alarm is false in at most one check in a hundred. docs/guide/calibrate.md
says where the bounds come from, and what the comparison leaves out.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgewise.decide.calibration import (
    QUANTILES,
    Calibration,
    Measured,
    Reading,
    RiskRow,
    read_measured,
)
from edgewise.decide.gate import Gate, Verdict

ALARM = 0.01  # the chance of a false alarm, per question and check
LEAST_ROWS, MOST_ROWS = 50, 500
LEAST_AUDITS = 20
SAME_THRESHOLD = 1e-6
NEAR = 0.025 + SAME_THRESHOLD  # a threshold is compared with references this near
EQUAL = 1e-4  # files hold rounded quantiles
_STEPS = QUANTILES - 1
WATCHED = tuple(step / 40 for step in range(1, 40))  # the thresholds of a file's `watched`


@dataclass(frozen=True, slots=True)
class SeenConfidence:
    """One request's confidence. `threshold` is None if no gate could stop the answer early."""

    confidence: float
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Audited:
    """One kept answer that the cloud was also asked for."""

    confidence: float
    threshold: float
    right: bool


@dataclass(frozen=True, slots=True)
class Reference:
    """What a calibration was measured on.

    whole  21 quantiles of the confidences of whole answers
    gated  the same for what a gate records, by its threshold, rising: a gate that stops an answer
           half way records the confidence of its beginning
    """

    rows: int = 0
    whole: Sequence[float] = ()
    gated: Sequence[tuple[float, Sequence[float]]] = ()
    measured: Measured = field(default_factory=Measured)

    def references(self, seen: SeenConfidence) -> tuple[Sequence[float], Sequence[float]] | None:
        """The references of the nearest thresholds below and above; None: nothing to compare."""
        at = seen.threshold
        if at is None:
            return (self.whole, self.whole) if self.whole else None
        near = [pair for pair in self.gated if abs(pair[0] - at) <= NEAR]
        below = [quantiles for threshold, quantiles in near if threshold <= at + SAME_THRESHOLD]
        above = [quantiles for threshold, quantiles in near if threshold >= at - SAME_THRESHOLD]
        if not near:
            return None
        return below[-1] if below else above[0], above[0] if above else below[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What a check found. `reasons` is empty if nothing has drifted."""

    calibration: str
    rows: int = 0
    left_out: int = 0
    distance: float | None = None
    bound: float | None = None
    audits: int = 0
    audited_error: float | None = None
    promised_error: float | None = None
    chance: float | None = None  # of this many audited errors if the promise were kept
    reasons: tuple[str, ...] = ()

    @property
    def drifted(self) -> bool:
        return bool(self.reasons)

    @property
    def words(self) -> str:
        return "; ".join(self.reasons)


def read_reference(data: Mapping[str, Any]) -> Reference:
    """From the contents of a calibration file. Raises ValueError or TypeError for bad values."""
    measured = read_measured(data)
    gated = sorted(
        (float(threshold), tuple(map(float, quantiles)))
        for threshold, quantiles in data.get("watched", ())
    )
    if any(len(quantiles) != QUANTILES for _, quantiles in gated):
        raise ValueError(f"watched: not {QUANTILES} quantiles")
    return Reference(measured.risk_rows, measured.quantiles, gated, measured)


def find_drift(
    name: str, reference: Reference, seen: Sequence[SeenConfidence], audited: Sequence[Audited]
) -> Drift:
    """Ask both questions, each only if there is enough data."""
    compared = [(each.confidence, reference.references(each)) for each in seen[:MOST_ROWS]]
    usable = [(confidence, both) for confidence, both in compared if both is not None]
    found: dict[str, Any] = {"rows": len(usable), "left_out": len(compared) - len(usable)}
    reasons = []
    if len(usable) >= LEAST_ROWS and reference.rows:
        # Between two thresholds a gate may act like either: the one less like drift counts.
        distance = min(
            distance_of([(sure, both[side]) for sure, both in usable]) for side in (0, 1)
        )
        bound = distance_bound(len(usable), reference.rows)
        found |= {"distance": distance, "bound": bound}
        if distance > bound:
            reasons.append(
                f"the last {len(usable)} confidences lie {distance:.2f} from the calibration's "
                f"(at most {bound:.2f} is chance)"
            )
    if len(audited) >= LEAST_AUDITS:
        found |= _audit(reference.measured, audited)
        if found["chance"] < ALARM:
            reasons.append(
                f"{found['audited_error']:.0%} of {len(audited)} audited answers were wrong, "
                f"where {found['promised_error']:.0%} was promised"
            )
    return Drift(calibration=name, reasons=tuple(reasons), **found)


def distance_of(rows: Sequence[tuple[float, Sequence[float]]]) -> float:
    """The largest gap between the share of rows up to a quantile and the expected share.

    This is the Kolmogorov-Smirnov distance at the quantiles; each row is compared with its own
    reference. Of equal confidences it takes what speaks least for drift.
    """
    # A row counts for every quantile from the first that it does not exceed; and for one less if it
    # only equals some.
    at_most, below = [0] * (QUANTILES + 1), [0] * (QUANTILES + 1)
    for confidence, quantiles in rows:
        at_most[bisect_left(quantiles, confidence - EQUAL)] += 1
        below[bisect_right(quantiles, confidence + EQUAL)] += 1
    largest, up_to, under = 0.0, 0, 0
    for step in range(QUANTILES):
        up_to, under = up_to + at_most[step], under + below[step]
        if 0 < step < _STEPS:
            share = step / _STEPS
            largest = max(largest, share - up_to / len(rows), under / len(rows) - share)
    return largest


def distance_bound(rows: int, reference_rows: int) -> float:
    """Two samples of one distribution exceed this distance with a chance of at most ALARM."""
    return math.sqrt(math.log(2 / ALARM) / 2 * (1 / rows + 1 / reference_rows))


def _audit(measured: Measured, audited: Sequence[Audited]) -> dict[str, float]:
    wrong = sum(not each.right for each in audited)
    row = _promise(measured, min(each.threshold for each in audited))
    if row is None:
        promised = sum(1 - each.confidence for each in audited) / len(audited)
        chance = binomial_tail(wrong, len(audited), promised)
    else:
        promised = row.wrong / row.kept
        chance = fisher_tail(wrong, len(audited), row.wrong, row.kept)
    return {
        "audits": len(audited),
        "audited_error": wrong / len(audited),
        "promised_error": promised,
        "chance": chance,
    }


def _promise(measured: Measured, threshold: float) -> RiskRow | None:
    """The counted errors at the strictest threshold that keeps all of these answers."""
    rows = []
    for table in measured.risk.values():
        fitting = [row for row in table if row.threshold <= threshold + SAME_THRESHOLD]
        row = fitting[0] if fitting else (table[-1] if table else None)
        if row is not None and row.kept:
            rows.append(row)
    # How an answer was judged is unknown: take the worse of the two promises.
    return max(rows, key=lambda row: row.wrong / row.kept, default=None)


def binomial_tail(wrong: int, count: int, share: float) -> float:
    """The chance that this many or more are wrong, if each is wrong with this chance."""
    if share <= 0 or share >= 1:
        return 1.0 if wrong == 0 or share >= 1 else 0.0
    logs = (math.log(share), math.log1p(-share))
    return min(
        1.0,
        sum(
            math.exp(_choose(count, each) + each * logs[0] + (count - each) * logs[1])
            for each in range(wrong, count + 1)
        ),
    )


def fisher_tail(wrong: int, count: int, reference_wrong: int, reference_count: int) -> float:
    """The chance that this many or more are wrong, if both samples come from one distribution."""
    all_wrong, everything = wrong + reference_wrong, count + reference_count
    whole = _choose(everything, count)
    return min(
        1.0,
        sum(
            math.exp(
                _choose(all_wrong, each) + _choose(everything - all_wrong, count - each) - whole
            )
            for each in range(wrong, min(count, all_wrong) + 1)
        ),
    )


def _choose(count: int, chosen: int) -> float:
    """The logarithm of the number of ways; minus infinity if there is none."""
    if not 0 <= chosen <= count:
        return -math.inf
    return math.lgamma(count + 1) - math.lgamma(chosen + 1) - math.lgamma(count - chosen + 1)


def stricter(threshold: float, measured: Measured) -> float:
    """The threshold that keeps the surer half of what this one keeps."""
    quantiles = measured.quantiles
    if not quantiles:
        return (1 + threshold) / 2
    below = min(1.0, bisect_left(quantiles, threshold) / _STEPS)
    place = (below + 1) / 2 * _STEPS
    low = quantiles[int(place)]
    high = quantiles[min(_STEPS, int(place) + 1)]
    return max(threshold, low + (high - low) * (place - int(place)))


def watched_quantiles(
    calibration: Calibration,
    answers: Iterable[Sequence[Reading]],
    thresholds: Iterable[float] = WATCHED,
) -> list[list[Any]]:
    """The key `watched` of a calibration file: what a gate would have recorded of each answer.

    An answer is its readings, token by token. The calibration's own threshold is always included.
    """
    readings = [answer for answer in answers if answer]
    return [
        [threshold, quantiles_of([noted(Gate(calibration, threshold), each) for each in readings])]
        for threshold in sorted({*thresholds, calibration.threshold})
    ]


def noted(gate: Gate, readings: Sequence[Reading]) -> float:
    """The confidence that the ledger would record for this answer."""
    verdict = Verdict.HOLD
    for count, reading in enumerate(readings, start=1):
        if verdict is Verdict.HOLD:
            verdict = gate.judge(reading, count)
        if verdict is Verdict.HAND_OFF:
            return gate.confidence(reading)
    return gate.confidence(readings[-1])


def quantiles_of(values: Iterable[float]) -> list[float]:
    """At 0, 5, ... 100 %, linear between neighbours."""
    ordered = sorted(values)
    places = [step / _STEPS * (len(ordered) - 1) for step in range(QUANTILES)]
    return [
        round(
            ordered[int(place)]
            + (ordered[min(len(ordered) - 1, int(place) + 1)] - ordered[int(place)])
            * (place - int(place)),
            4,
        )
        for place in places
    ]
