"""Objectives that a user may state instead of a threshold, and what moves a threshold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

# One place (a request, the settings) states at most one of these.
OBJECTIVES = ("threshold", "max_error", "cloud_share")
ERROR_PROBABILITY = 0.10  # that more than `max_error` of the kept answers are wrong after all


OnDrift = Literal["report", "widen", "cloud"]


class Objectives(Protocol):
    """Settings, or a request."""

    @property
    def threshold(self) -> float | None: ...
    @property
    def max_error(self) -> float | None: ...
    @property
    def cloud_share(self) -> float | None: ...
    @property
    def error_probability(self) -> float: ...


def find_complaint(stated: Objectives) -> str:
    """What is wrong with the objectives of a request or of settings; empty if nothing is."""
    several = [name for name in OBJECTIVES if getattr(stated, name) is not None]
    checks = (
        (
            stated.threshold is None or 0 <= stated.threshold <= 1,
            f"threshold = {stated.threshold}: must be between 0 and 1",
        ),
        (
            stated.max_error is None or 0 < stated.max_error < 1,
            f"max_error = {stated.max_error}: must be more than 0 and less than 1 (0.05 is 5 %)",
        ),
        (
            stated.cloud_share is None or 0 <= stated.cloud_share <= 1,
            f"cloud_share = {stated.cloud_share}: must be between 0 and 1",
        ),
        (
            0 < stated.error_probability < 1,
            f"error_probability = {stated.error_probability}: must be more than 0 and less than 1",
        ),
        (len(several) <= 1, f"{' and '.join(several)}: state one of them"),
    )
    return next((words for good, words in checks if not good), "")


def as_share(text: str) -> float:
    """`5%`, `5 %` and `0.05` are the same. Raises ValueError if it is not a number."""
    plain = text.strip()
    return float(plain[:-1]) / 100 if plain.endswith("%") else float(plain)


def percent(share: float) -> str:
    return f"{round(100 * share, 6):g} %"


def high_enough(objective: str) -> str:
    return f"high enough for {objective}" if objective else "high enough"


def is_below(confidence: float, threshold: float, objective: str = "") -> str:
    """Both with as many digits as tell them apart: 0.996 is below 1.000."""
    digits = next(
        (each for each in range(2, 7) if f"{confidence:.{each}f}" != f"{threshold:.{each}f}"), 6
    )
    why = f", which {objective} needs" if objective else ""
    return f"{confidence:.{digits}f} is below {threshold:.{digits}f}{why}"


def needed(threshold: float, objective: str) -> str:
    return f"{threshold:.2f}, which {objective} needs" if objective else f"{threshold:.2f}"


@dataclass(frozen=True, slots=True)
class Money:
    """What is left of a budget, and what to expect until it resets.

    requests_left          requests still to come, this one included
    handoff_microdollars   the average cost of a handoff
    words                  the budget in words, for reasons
    """

    left_microdollars: int
    requests_left: float
    handoff_microdollars: float
    words: str

    @property
    def allowed_share(self) -> float:
        """The share of requests that may be handed off if the money is to last."""
        expected = self.requests_left * self.handoff_microdollars
        return self.left_microdollars / expected if expected > 0 else float("inf")


@dataclass(frozen=True, slots=True)
class Steering:
    """What moves a request's threshold; most have none. `drifted`: reasons by calibration."""

    money: Money | None = None
    on_drift: OnDrift = "report"
    drifted: Mapping[str, str] = field(default_factory=dict)
