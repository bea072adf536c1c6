"""From what a skill saw to the chance that an answer made of it is right.

A calibration belongs to one skill's model. It is a JSON file; docs/vision.md says how the shipped
ones were fitted and on what."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgewise.errors import SettingsError
from edgewise.types.measured import (
    UNMEASURED,
    Measured,
    read_measured,
)
from edgewise.types.pictures import (
    Sight,
    Thing,
)
from edgewise.vision.reading_order import Row, rows_of, tilt

FORMAT = 1
CLEAR_SCORE = 0.6  # mistakes become rare above it
SURE_HEIGHT = 24.0  # pixels; text that is taller is read no better


_CHANCES = ("whole", "row", "thing", "present")


@dataclass(frozen=True, slots=True)
class Chance:
    """A logistic score of features by name."""

    weights: Mapping[str, float]
    bias: float

    def of(self, features: Mapping[str, float]) -> float:
        total = self.bias + sum(
            weight * features.get(name, 0.0) for name, weight in self.weights.items()
        )
        return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, total))))


@dataclass(frozen=True, slots=True, kw_only=True)
class SightCalibration:
    """What is known of one skill.

    whole    all the text of a picture is right, to within one character in fifty
    row      one row of it is right to the letter
    thing    an object is what it is called
    present  an object of a kind that somebody asks for is there, by the best score of its kind
    empty    no text was found and there is none
    threshold  the chance below which an answer is handed off
    """

    name: str
    whole: Chance = Chance({}, 0.0)
    row: Chance = Chance({}, 0.0)
    thing: Chance = Chance({}, 0.0)
    present: Chance = Chance({}, 0.0)
    empty: float = 0.5
    threshold: float = 0.5
    report: Mapping[str, Any] = field(default_factory=dict)
    measured: Measured = UNMEASURED


# For models that nobody has calibrated: their own scores, by a plain rule. An ordering, no chances.
UNCALIBRATED_SIGHT = SightCalibration(
    name="uncalibrated",
    whole=Chance({"doubt": -12.0}, 2.0),
    row=Chance({"doubt": -12.0}, 2.5),
    thing=Chance({"score": 8.0}, -4.0),
    present=Chance({"score": 8.0}, -4.0),
)


def parse_sight_calibration(data: Mapping[str, Any], origin: str) -> SightCalibration:
    if data.get("format") != FORMAT:
        raise SettingsError(f"{origin}: calibration format {data.get('format')!r} is not {FORMAT}")
    try:
        return SightCalibration(
            name=str(data["name"]),
            empty=float(data["empty"]),
            threshold=float(data["threshold"]),
            report=dict(data.get("report", {})),
            measured=read_measured(data),
            **{name: _chance(data[name]) for name in _CHANCES if name in data},
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise SettingsError(f"{origin}: not a calibration: {error!r}") from error


def _chance(data: Mapping[str, Any]) -> Chance:
    weights = {str(name): float(weight) for name, weight in data["weights"].items()}
    return Chance(weights, float(data["bias"]))


def row_features(row: Row, sight: Sight) -> dict[str, float]:
    """`doubt` is how far the reader's score is from 1; small text and haze add to it."""
    return {
        "doubt": 1.0 - row.score,
        "small": max(0.0, 1.0 - row.height / SURE_HEIGHT),
        "length": math.log1p(len(row.text)),
        **_picture_features(sight),
    }


def text_features(sight: Sight) -> dict[str, float]:
    rows = rows_of(sight.lines)
    characters = sum(len(row.text) for row in rows) or 1
    return {
        "doubt": sum((1.0 - row.score) * len(row.text) for row in rows) / characters,
        "worst": max((1.0 - row.score for row in rows), default=1.0),
        "small": max((max(0.0, 1.0 - row.height / SURE_HEIGHT) for row in rows), default=1.0),
        "length": math.log1p(characters),
        **_picture_features(sight),
    }


def _picture_features(sight: Sight) -> dict[str, float]:
    quality = sight.quality
    return {
        "haze": 1.0 - min(1.0, quality.get("contrast", 1.0)),
        "blur": 1.0 - min(1.0, quality.get("sharpness", 1.0)),
        "noise": min(0.2, quality.get("noise", 0.0)),
        "tilt": min(0.3, abs(tilt(sight.lines))),
    }


def score_features(score: float) -> dict[str, float]:
    """Of an object finder's score: whether there is one, how high, and how far above the usual."""
    return {"found": float(score > 0), "score": score, "clear": max(0.0, score - CLEAR_SCORE)}


def thing_chance(thing: Thing, calibration: SightCalibration) -> float:
    return calibration.thing.of(score_features(thing.score))


def presence_chance(things: Sequence[Thing], name: str, calibration: SightCalibration) -> float:
    """The chance that an object of this kind is in the picture."""
    best = max((thing.score for thing in things if thing.name == name), default=0.0)
    return calibration.present.of(score_features(best))
