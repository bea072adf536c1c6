"""Moves a threshold for what the engine has found out: drift, and money that must last."""

from __future__ import annotations

from typing import NamedTuple

from edgewise.decide.drift import stricter
from edgewise.decide.fit import Misfit
from edgewise.decide.pacing import handoff_curve, pace
from edgewise.types.measured import Judged, Measured
from edgewise.types.steering import Steering


class Steered(NamedTuple):
    """`usual` is the threshold without pacing, where that differs."""

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
    """Drift first, which may only raise the threshold; then the pace, which may only lower it.

    `judged` is None where nothing is paced. A threshold of 0 was said to keep everything.
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
