"""What the engine has found out that moves a threshold: money that must last, and drift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

OnDrift = Literal["report", "widen", "cloud"]


@dataclass(frozen=True, slots=True)
class Money:
    """What is left of a budget, and what is to be expected of the rest of its window.

    requests_left  that are still to come, this one included
    handoff_microdollars   what one that is handed off costs on average
    words          the budget, for reasons
    """

    left_microdollars: int
    requests_left: float
    handoff_microdollars: float
    words: str

    @property
    def allowed_share(self) -> float:
        """The share of requests that may be handed off so that the money lasts."""
        expected = self.requests_left * self.handoff_microdollars
        return self.left_microdollars / expected if expected > 0 else float("inf")


@dataclass(frozen=True, slots=True)
class Steering:
    """Travels with a request; most have none. `drifted`: why, by the calibration's name."""

    money: Money | None = None
    on_drift: OnDrift = "report"
    drifted: Mapping[str, str] = field(default_factory=dict)
