"""From an objective (a risk, a share, a budget, a deadline) to the threshold that applies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

from edgewise.decide.drift import stricter
from edgewise.decide.fit import Misfit
from edgewise.types.measured import (
    Judged,
    Measured,
    RiskTable,
)
from edgewise.types.messages import Request
from edgewise.types.objectives import Money, Steering, percent

# Testing starts at the first threshold that keeps one of these shares of the rows. The shares are
# fixed before any rows are seen, and each gets an eighth of the probability. Having eight of them
# leaves room for mistakes at the top and for noise in the rows.
STARTS = (1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
# The thresholds of a table, if nothing else decides them.
GRID = tuple(hundredth / 100 for hundredth in range(99, 0, -1))
_NEGLIGIBLE = 1e-17


Curve = Sequence[tuple[float, float]]  # threshold and share handed off, both rising
KEEPS_ALL = 0.0
TOLD_ERRORS = (0.01, 0.05, 0.10, 0.20)
ALL_LEAVE = 1.0  # no confidence is above it, and hardly any reaches it


@lru_cache(maxsize=256)
def find_threshold(table: RiskTable, rows: int, error: float, probability: float) -> float | None:
    """The lowest threshold at which at most `error` of the kept answers are wrong, or None.

    `rows` is how many rows the table was counted on. The returned threshold has a larger true error
    with at most this `probability`.
    """
    level = probability / len(STARTS)
    proven = [
        row.threshold for start in STARTS for row in _passed(table, start * rows, error, level)
    ]
    return min(proven, default=None)


def _passed(table: RiskTable, least_kept: float, error: float, level: float) -> RiskTable:
    """The rows from one start to the last that is proven."""
    start = next((at for at, row in enumerate(table) if row.kept >= least_kept), len(table))
    end = start
    while end < len(table) and tail(table[end].wrong, table[end].kept, error) <= level:
        end += 1
    return table[start:end]


def tail(wrong: int, kept: int, error: float) -> float:
    """The chance of at most this many wrong among the kept, if the true share is `error`."""
    if wrong >= kept or error <= 0.0:
        return 1.0
    if error >= 1.0:
        return 0.0
    if wrong < kept * error:
        return min(1.0, _sum(wrong, kept, error, -1))
    return max(0.0, 1.0 - _sum(wrong + 1, kept, error, 1))


def _sum(first: int, trials: int, chance: float, step: int) -> float:
    """Sum binomial terms from `first`, away from the middle, until they no longer matter."""
    odds = chance / (1.0 - chance)
    log_term = (
        math.lgamma(trials + 1)
        - math.lgamma(first + 1)
        - math.lgamma(trials - first + 1)
        + first * math.log(chance)
        + (trials - first) * math.log1p(-chance)
    )
    total, part, at = 1.0, 1.0, first
    while part > _NEGLIGIBLE * total and 0 <= at + step <= trials:
        part *= at / ((trials - at + 1) * odds) if step < 0 else (trials - at) * odds / (at + 1)
        total, at = total + part, at + step
    return total * math.exp(log_term)


def handoff_curve(measured: Measured, judged: Judged = "whole") -> Curve:
    """The share that each threshold hands off: counted with the gate, else from the confidences."""
    table = measured.risk.get(judged, ())
    if table and measured.risk_rows:
        return [(row.threshold, 1 - row.kept / measured.risk_rows) for row in reversed(table)]
    steps = len(measured.quantiles) - 1
    return [(at, place / steps) for place, at in enumerate(measured.quantiles)]


def share_at(threshold: float, curve: Curve) -> float:
    """At most this share is handed off. Between two points, the higher one counts."""
    if threshold <= KEEPS_ALL:
        return 0.0
    return next((share for at, share in curve if at >= threshold), 1.0)


def pace(usual: float, money: Money, curve: Curve) -> float:
    """The threshold at which the money should last; the usual one if it lasts anyway.

    Never a stricter one. It is 0, which keeps everything, if no other threshold will do. Without a
    curve the usual threshold applies; the budget's limit holds in any case.
    """
    allowed = money.allowed_share
    if not curve or share_at(usual, curve) <= allowed:
        return usual
    fitting = [at for at, share in curve if at <= usual and share <= allowed]
    return max(fitting, default=KEEPS_ALL)


class Steered(NamedTuple):
    """`usual` is the threshold without pacing, if that differs."""

    threshold: float
    words: str
    misfit: Misfit | None
    usual: float | None


def steer(
    threshold: float,
    words: str,
    steering: Steering,
    name: str,
    measured: Measured,
    judged: Judged | None,
) -> Steered:
    """Drift first, which can only raise the threshold; then pacing, which can only lower it.

    `judged` is None if nothing is paced. A threshold of 0 always keeps everything.
    """
    drift = steering.drifted.get(name, "")
    if drift and threshold > 0:
        if steering.on_drift == "cloud":
            reason = f"calibration {name} no longer fits: {drift}"
            return Steered(1.0, words, Misfit("drifted", reason, soft=True), None)
        if steering.on_drift == "widen":
            threshold = stricter(threshold, measured)
            words = _joined(words, "a calibration that no longer fits")
    if steering.money is None or judged is None:
        return Steered(threshold, words, None, None)
    paced = pace(threshold, steering.money, handoff_curve(measured, judged))
    if paced >= threshold:
        return Steered(threshold, words, None, None)
    return Steered(paced, _joined(words, f"pacing {steering.money.words}"), None, threshold)


def _joined(*parts: str) -> str:
    return " and ".join(part for part in parts if part)


class Fitted(Protocol):
    """A calibration of any task."""

    @property
    def name(self) -> str: ...
    @property
    def threshold(self) -> float: ...
    @property
    def measured(self) -> Measured: ...


@dataclass(frozen=True, slots=True)
class Objective:
    """The threshold of a request, what it is for, and why no threshold will do, if none does."""

    threshold: float
    words: str = ""
    misfit: Misfit | None = None
    usual: float | None = None  # the threshold without budget pacing, if that differs


def find_objective(
    request: Request, fitted: Fitted, judged: Judged = "whole", *, paced: bool = False
) -> Objective:
    """What applies to a request: its own objective, else the calibration's threshold.

    `judged` says which risk table counts: streamed answers are decided on less than whole ones.
    `paced`: whether the flow may keep doubtful answers so that a budget lasts.
    """
    stated = _stated(request, fitted, judged)
    if request.steering is None or stated.misfit is not None:
        return stated
    pace = judged if paced else None
    return Objective(
        *steer(stated.threshold, stated.words, request.steering, fitted.name, fitted.measured, pace)
    )


def _stated(request: Request, fitted: Fitted, judged: Judged) -> Objective:
    if request.max_error is not None:
        return _for_error(request, request.max_error, fitted, judged)
    if request.cloud_share is not None:
        return _for_share(request.cloud_share, fitted)
    return Objective(fitted.threshold if request.threshold is None else request.threshold)


def _for_error(request: Request, error: float, fitted: Fitted, judged: Judged) -> Objective:
    words = (
        f"an error of at most {percent(error)} "
        f"with probability {percent(1 - request.error_probability)}"
    )
    measured = fitted.measured
    table = measured.risk.get(judged, ())
    if not table:
        why = f"calibration {fitted.name} has no risk table for it"
        return _unreachable(f"{words} cannot be promised: {why}")
    threshold = find_threshold(table, measured.risk_rows, error, request.error_probability)
    if threshold is None:
        why = f"the {measured.risk_rows:,} rows of {fitted.name} prove no threshold"
        return _unreachable(f"{words} cannot be promised: {why}")
    return Objective(threshold, words)


def _unreachable(words: str) -> Objective:
    return Objective(ALL_LEAVE, words, Misfit("risk_unreachable", words, soft=True))


def _for_share(share: float, fitted: Fitted) -> Objective:
    words = f"a cloud share of about {percent(share)}"
    quantiles = fitted.measured.quantiles
    if share <= 0.0:
        return Objective(0.0, words)
    if share >= 1.0:
        return Objective(ALL_LEAVE, words)
    if not quantiles:
        unknown = f"calibration {fitted.name} has no quantiles, so its own threshold applies"
        return Objective(fitted.threshold, f"{words} ({unknown})")
    return Objective(_quantile(quantiles, share), words)


def _quantile(quantiles: Sequence[float], share: float) -> float:
    """Linear between the two nearest quantiles, which are evenly spaced."""
    place = share * (len(quantiles) - 1)
    below = int(place)
    low, high = quantiles[below], quantiles[below + 1]
    return low + (high - low) * (place - below)


def promises(fitted: Fitted, probability: float, judged: Judged = "whole") -> tuple[str, bool]:
    """What a calibration can promise, in words, and whether it is anything at all."""
    measured = fitted.measured
    table = measured.risk.get(judged, ())
    if not table:
        return "with max_error every answer goes to the cloud: it has no risk table", False
    keeps, sends = [], []
    for error in TOLD_ERRORS:
        threshold = find_threshold(table, measured.risk_rows, error, probability)
        kept = next((row.kept for row in table if row.threshold == threshold), 0)
        if kept:
            share = percent(round(kept / measured.risk_rows, 2))
            keeps.append(f"with max_error {percent(error)} it keeps {share} of the answers")
        else:
            sends.append(percent(error))
    if sends:
        keeps.append(f"with max_error {_either(sends)} every answer goes to the cloud")
    return ", ".join(keeps), len(sends) < len(TOLD_ERRORS)


def _either(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
