"""How sure a typed question was answered: from what a device read to the chance of being right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from edgewise.decide.calibration import Calibration, Kind, Score
from edgewise.types.answers import LabelReading
from edgewise.types.messages import Choice, Question, YesNo
from edgewise.types.replies import UNCALIBRATED

ANSWER = "answer"  # the one score
FEATURES = frozenset(
    {"top", "margin", "entropy", "agreement", "same", "mass", "options", "choice", "yes_no"}
)
DECIDE = Kind(
    name="decide",
    scores={ANSWER: ANSWER},
    features={ANSWER: FEATURES},
    # Orders answers by the likeliest option's chance. None
    # is kept by it unless a request names its own threshold: what was measured is not good enough
    # (docs/decisions/0049-decisions-by-labels.md).
    uncalibrated=Calibration(
        name=UNCALIBRATED,
        scores={ANSWER: Score({"top": 8.0}, -5.0)},
        threshold=1.0,
    ),
)


class Read(Protocol):
    @property
    def chances(self) -> Mapping[str, float]: ...
    @property
    def one_way(self) -> tuple[Mapping[str, float], ...]: ...
    @property
    def mass(self) -> float: ...


def features_of(question: Question, read: Read) -> dict[str, float]:
    """What is known of an answer before anybody says whether it is right.

    top, margin  the likeliest option's chance, and how far the second one is behind
    entropy      of the chances; 1: all options are alike
    agreement    how much both orders of the options have in common; 1: they say the same
    same         whether both orders prefer the same option
    mass         how much of its probability the model gave to the options
    options      the logarithm of their number
    choice, yes_no   the type of the question; 0 for both: a score
    """
    ordered = sorted(read.chances.values(), reverse=True)
    count = len(ordered)
    entropy = -math.fsum(chance * math.log(chance) for chance in ordered if chance > 0)
    one, other = read.one_way[0], read.one_way[-1]
    return {
        "top": ordered[0],
        "margin": ordered[0] - ordered[1] if count > 1 else 1.0,
        "entropy": entropy / math.log(count) if count > 1 else 0.0,
        "agreement": math.fsum(min(one[name], other[name]) for name in one),
        "same": float(max(one, key=lambda n: one[n]) == max(other, key=lambda n: other[n])),
        "mass": read.mass,
        "options": math.log(count),
        "choice": float(isinstance(question, Choice)),
        "yes_no": float(isinstance(question, YesNo)),
    }


def confidence_of(question: Question, read: LabelReading, calibration: Calibration) -> float:
    """The chance that the likeliest option is right. A question with one option is certain."""
    if len(question.options) == 1:
        return 1.0
    return calibration.chance(ANSWER, features_of(question, read))
