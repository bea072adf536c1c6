"""From what a caller aims at to the threshold that applies, and how to say it.

A share of errors becomes the loosest threshold that is proven on the rows behind a calibration;
where none is, everything is to be handed off. A share of the cloud becomes a quantile of the
confidences on those rows. See docs/risk.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edgewise.decide.fit import Misfit
from edgewise.decide.risk import find_threshold
from edgewise.decide.steer import steer
from edgewise.types.aims import percent
from edgewise.types.measured import Judged, Measured
from edgewise.types.messages import Request

TOLD_ERRORS = (0.01, 0.05, 0.10, 0.20)
ALL_LEAVE = 1.0  # no confidence is above it, and hardly any reaches it


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
    """The threshold of a request, what it is for, and why none will do, where that is so."""

    threshold: float
    words: str = ""
    misfit: Misfit | None = None
    usual: float | None = None  # the threshold if no budget were paced, where that differs


def find_objective(
    request: Request, fitted: Fitted, judged: Judged = "whole", *, paced: bool = False
) -> Objective:
    """What applies to a request: its own aim, else the calibration's threshold.

    `judged` says which risk table counts: answers that stream are decided on less than whole ones.
    `paced`: whether the flow can keep answers in doubt so that a budget lasts.
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
    """Straight between the two nearest: they are evenly spaced from the least to the largest."""
    place = share * (len(quantiles) - 1)
    below = int(place)
    low, high = quantiles[below], quantiles[below + 1]
    return low + (high - low) * (place - below)


def promises(fitted: Fitted, probability: float, judged: Judged = "whole") -> str:
    """What a calibration can promise, in words: `max_error 1 %: nothing, 5 %: keeps 12 %`."""
    measured = fitted.measured
    table = measured.risk.get(judged, ())
    if not table:
        return "no risk table, so max_error sends everything to the cloud"
    told = []
    for error in TOLD_ERRORS:
        threshold = find_threshold(table, measured.risk_rows, error, probability)
        kept = next((row.kept for row in table if row.threshold == threshold), 0)
        keeps = f"keeps {percent(round(kept / measured.risk_rows, 2))}" if kept else "nothing"
        told.append(f"{percent(error)}: {keeps}")
    return f"max_error {', '.join(told)}"
