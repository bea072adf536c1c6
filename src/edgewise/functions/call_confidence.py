"""How likely each call of an answer is right, from what the model said and what the words support.

`call_features.py` says what is known of a call; `training/fit_calls.py` fits the weights. No weight
lets a call that the model was less sure of score higher.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgewise.errors import SettingsError
from edgewise.types.measured import UNMEASURED, Measured, read_measured

FORMAT = 2  # 1 knew fewer features; what they mean has not changed
_READ = (1, FORMAT)
_WIDEST = 60.0

# Features that rise with the model's own sureness: their weights are at least 0.
RISING = frozenset(
    {
        "call_sum", "call_surety", "call_min", "call_mean", "name_surety", "value_surety",
        "shape_surety", "end_surety", "answer_surety", "margin", "name_margin",
    }
)  # fmt: skip
FALLING = frozenset({"entropy"})
# What needs no token: grounding in the words, fit of the tool, what was asked for.
WORDED = frozenset(
    {
        "fit", "fit_margin", "ground_min", "ground_mean", "ungrounded", "absent", "optional",
        "parameters", "tools", "calls", "missing", "extra", "weak", "left", "left_names",
        "left_counts", "twice", "shared", "cues",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CallScore:
    """A logistic score: 1 / (1 + exp(-(bias + sum of weight x feature)))."""

    weights: Mapping[str, float]
    bias: float

    def probability(self, features: Mapping[str, float]) -> float:
        total = self.bias + sum(
            weight * features.get(name, 0.0) for name, weight in self.weights.items()
        )
        return 1.0 / (1.0 + math.exp(-max(-_WIDEST, min(_WIDEST, total))))

    def suits(self, features: Mapping[str, float]) -> bool:
        """Whether all it asks for is known: the runtime may have reported no evidence."""
        return all(name in features for name in self.weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCalibration:
    """From features to the chance that a call is right, for one model and quantisation.

    call, none       the scores of a call and of the answer that no tool serves
    worded_call, worded_none   the same where the runtime gave no evidence: from the words alone
    threshold        the chance below which an answer is not to be trusted
    report           how it was fitted; empty for one that was not
    """

    name: str
    call: CallScore
    none: CallScore
    worded_call: CallScore
    worded_none: CallScore
    threshold: float = 0.5
    report: Mapping[str, Any] = field(default_factory=dict)
    measured: Measured = UNMEASURED

    @property
    def fitted(self) -> bool:
        return bool(self.report)

    def confidence(self, features: Mapping[str, float]) -> float:
        """The chance that one call, or `none`, is right."""
        if features.get("none"):
            score = self.none if self.none.suits(features) else self.worded_none
        else:
            score = self.call if self.call.suits(features) else self.worded_call
        return self.measured.map_of("final").of(score.probability(features))

    def answer_confidence(self, features: Iterable[Mapping[str, float]]) -> float:
        """The chance that the whole answer is right: that of its worst call.

        Calls of one answer are right or wrong together, and each knows how sure the whole was:
        their product is no better ordered, and too low.
        """
        return min((self.confidence(one) for one in features), default=0.0)


# For models nobody has calibrated: an ordering, not chances. Replies carry its name.
UNCALIBRATED_CALLS = CallCalibration(
    name="uncalibrated",
    call=CallScore({"call_surety": 1.0, "ground_min": 1.0, "ungrounded": -2.0}, -2.0),
    none=CallScore({"call_surety": 1.0}, -2.0),
    worded_call=CallScore({"ground_min": 2.0, "ungrounded": -2.0, "absent": -2.0}, -1.0),
    worded_none=CallScore({"fit": -1.0}, 0.0),
)


def answer_confidence(
    features: Iterable[Mapping[str, float]], calibration: CallCalibration
) -> float:
    """The chance that an answer with these calls is right."""
    return calibration.answer_confidence(features)


def parse_call_calibration(data: Mapping[str, Any], origin: str) -> CallCalibration:
    """Read a calibration file's contents; `origin` names it in errors."""
    if data.get("format") not in _READ:
        raise SettingsError(
            f"{origin}: call calibration format {data.get('format')!r} is not {FORMAT};"
            " fit it again"
        )
    try:
        calibration = CallCalibration(
            name=str(data["name"]),
            call=_parse_score(data["call"], RISING | FALLING | WORDED),
            none=_parse_score(data["none"], RISING | FALLING | WORDED),
            worded_call=_parse_score(data["worded_call"], WORDED),
            worded_none=_parse_score(data["worded_none"], WORDED),
            threshold=float(data["threshold"]),
            report=dict(data.get("report", {})),
            measured=read_measured(data),
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise SettingsError(f"{origin}: not a call calibration: {error!r}") from error
    if not 0.0 <= calibration.threshold <= 1.0:
        raise SettingsError(f"{origin}: threshold must be 0 to 1")
    return calibration


def _parse_score(data: Mapping[str, Any], known: frozenset[str]) -> CallScore:
    score = CallScore(
        {str(name): float(weight) for name, weight in data["weights"].items()}, float(data["bias"])
    )
    for name, weight in score.weights.items():
        if name not in known:
            raise ValueError(f"unknown feature {name!r}")
        if (name in RISING and weight < 0) or (name in FALLING and weight > 0):
            raise ValueError(f"{name!r} would score a less sure answer higher")
    if not all(map(math.isfinite, (score.bias, *score.weights.values()))):
        raise ValueError("a weight is not a finite number")
    return score
