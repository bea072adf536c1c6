"""From what a vision skill saw to the chance that the answer is right.

A calibration belongs to one skill's model. It is a JSON file; docs/vision.md says how the shipped
ones were fitted and on what."""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgewise.decide.calibration import Calibration, Kind
from edgewise.decide.score import Score
from edgewise.types.pictures import Sight, Thing
from edgewise.vision.reading_order import Row, rows_of, tilt

CLEAR_SCORE = 0.6  # mistakes are rare above it
SURE_HEIGHT = 24.0  # pixels; taller text is read no better


EMPTY = "empty"
# whole    all text of a picture is right, except one character in fifty
# row      one row of it is exactly right
# thing    an object is what it is called
# present  an object of the requested kind is there, by the best score of that kind
# empty    a number: the chance that there is no text if none was found
SIGHT = Kind(
    name="see",
    scores=dict.fromkeys(("whole", "row", "thing", "present"), ""),
    optional={"whole", "row", "thing", "present"},
    numbers={EMPTY: (0, 1)},
    # A simple rule on the models' own scores.
    uncalibrated=Calibration(
        name="uncalibrated",
        scores={
            "whole": Score({"doubt": -12.0}, 2.0),
            "row": Score({"doubt": -12.0}, 2.5),
            "thing": Score({"score": 8.0}, -4.0),
            "present": Score({"score": 8.0}, -4.0),
        },
        numbers={EMPTY: 0.5},
    ),
)


def row_features(row: Row, sight: Sight) -> dict[str, float]:
    """`doubt` is 1 minus the reader's score; small text and haze add to it."""
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
    """From an object finder's score: whether there is one, how high, how far above the usual."""
    return {"found": float(score > 0), "score": score, "clear": max(0.0, score - CLEAR_SCORE)}


def thing_chance(thing: Thing, calibration: Calibration) -> float:
    return calibration.chance("thing", score_features(thing.score))


def presence_chance(things: Sequence[Thing], name: str, calibration: Calibration) -> float:
    """The chance that an object of this kind is in the picture."""
    best = max((thing.score for thing in things if thing.name == name), default=0.0)
    return calibration.chance("present", score_features(best))
