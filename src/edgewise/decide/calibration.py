"""From a reading to the chance of being right, and the thresholds that go with it.

A calibration belongs to one model, quantisation and runtime: the same weights in another format
give other log-probabilities. It is a JSON file; `docs/confidence.md` describes how the shipped
ones were fitted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgewise.decide.meter import Reading
from edgewise.errors import SettingsError
from edgewise.types.measured import (
    NO_BOUNDARIES,
    UNMAPPED,
    UNMEASURED,
    Boundaries,
    Measured,
    ScoreMap,
    read_boundaries,
    read_measured,
)

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Score:
    """A logistic score, 1 / (1 + exp(-(bias + sum of weight x feature))), and the map after it."""

    weights: Mapping[str, float]
    bias: float
    map: ScoreMap = UNMAPPED

    def probability(self, reading: Reading) -> float:
        total = self.bias
        for name, weight in self.weights.items():
            total += weight * getattr(reading, name)
        return self.map.of(1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, total)))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What the gate needs to know about one model.

    early        the score while text is held back
    final        the score of a whole answer: the confidence a caller sees
    hold_tokens  how long text may be held before the gate must decide
    threshold    the chance of being right below which an answer is handed off
    keep_above, drop_below   early scores so clear that waiting longer would change little
    boundaries   the same by threshold and tokens seen; where there are any, they count instead
    measured     what is known of it from other rows: maps, risk tables (types/measured.py)
    """

    name: str
    early: Score
    final: Score
    hold_tokens: int = 16
    threshold: float = 0.5
    keep_above: float = 0.9
    drop_below: float = 0.1
    boundaries: Boundaries = NO_BOUNDARIES
    report: Mapping[str, Any] = field(default_factory=dict)
    measured: Measured = UNMEASURED

    @property
    def fitted(self) -> bool:
        return bool(self.report)


# For models nobody has calibrated: a plain reading of the mean log-probability. Its numbers are
# an ordering, not chances; replies carry the name so that nobody mistakes one for the other.
UNCALIBRATED = Calibration(
    name="uncalibrated",
    early=Score({"mean_logprob": 3.0}, 2.5),
    final=Score({"mean_logprob": 3.0}, 2.5),
)


def parse_calibration(data: Mapping[str, Any], origin: str) -> Calibration:
    """Read a calibration file's contents; `origin` names it in errors."""
    if data.get("format") != FORMAT:
        raise SettingsError(
            f"{origin}: calibration format {data.get('format')!r} is not {FORMAT}; fit it again"
        )
    try:
        measured = read_measured(data)
        calibration = Calibration(
            name=str(data["name"]),
            early=_parse_score(data["early"], measured.map_of("early")),
            final=_parse_score(data["final"], measured.map_of("final")),
            hold_tokens=int(data["hold_tokens"]),
            threshold=float(data["threshold"]),
            keep_above=float(data["keep_above"]),
            drop_below=float(data["drop_below"]),
            boundaries=read_boundaries(data.get("boundaries", ())),
            report=dict(data.get("report", {})),
            measured=measured,
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise SettingsError(f"{origin}: not a calibration: {error!r}") from error
    if not 1 <= calibration.hold_tokens <= 256:
        raise SettingsError(f"{origin}: hold_tokens must be 1 to 256")
    return calibration


def _parse_score(data: Mapping[str, Any], after: ScoreMap) -> Score:
    weights = {str(name): float(weight) for name, weight in data["weights"].items()}
    unknown = set(weights) - set(Reading.__dataclass_fields__)
    if unknown:
        raise ValueError(f"unknown features {sorted(unknown)}")
    return Score(weights, float(data["bias"]), after)
