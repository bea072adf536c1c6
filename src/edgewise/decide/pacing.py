"""Makes a budget last: of how many requests may leave to the threshold that lets so many leave."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.types.measured import Judged, Measured
from edgewise.types.steering import Money

Curve = Sequence[tuple[float, float]]  # threshold and share handed off, both rising
KEEPS_ALL = 0.0


def handoff_curve(measured: Measured, judged: Judged = "whole") -> Curve:
    """What share each threshold hands off: counted with the gate, else from the confidences."""
    table = measured.risk.get(judged, ())
    if table and measured.risk_rows:
        return [(row.threshold, 1 - row.kept / measured.risk_rows) for row in reversed(table)]
    steps = len(measured.quantiles) - 1
    return [(at, place / steps) for place, at in enumerate(measured.quantiles)]


def share_at(threshold: float, curve: Curve) -> float:
    """The share that a threshold hands off, at most: between two points, that of the higher."""
    if threshold <= KEEPS_ALL:
        return 0.0
    return next((share for at, share in curve if at >= threshold), 1.0)


def pace(usual: float, money: Money, curve: Curve) -> float:
    """The threshold at which the money is expected to last; the usual one where it lasts anyway.

    Never a stricter one. 0, which keeps everything, where no other threshold will do. Without a
    curve nothing is known, and the usual threshold stands: the budget's limit holds all the same.
    """
    allowed = money.allowed_share
    if not curve or share_at(usual, curve) <= allowed:
        return usual
    fitting = [at for at, share in curve if at <= usual and share <= allowed]
    return max(fitting, default=KEEPS_ALL)
