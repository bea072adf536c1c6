"""Calibrations of vision skills: shipped ones are complete, broken ones are named."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import pytest

from edgewise.decide.calibration import Calibration, parse_calibration
from edgewise.errors import SettingsError
from edgewise.types.replies import (
    Line,
    Sight,
    Thing,
)
from edgewise.vision.answers import SIGHT, presence_chance, text_features, thing_chance

GOOD: dict[str, Any] = {
    "format": 1,
    "name": "x",
    "empty": 0.5,
    "threshold": 0.9,
    "thing": {"weights": {"score": 2.0}, "bias": 0.0},
}


def shipped(name: str) -> Calibration:
    file = resources.files("edgewise.calibrations") / f"{name}.see.json"
    return parse_calibration(json.loads(file.read_text("utf-8")), name, SIGHT)


def test_a_higher_score_is_a_higher_chance() -> None:
    finder = shipped("ssd-mobilenet-v3-coco")
    chances = [thing_chance(Thing("cat", score), finder) for score in (0.3, 0.5, 0.7, 0.9)]
    assert chances == sorted(chances)
    assert presence_chance((Thing("cat", 0.9),), "cat", finder) > 0.9
    assert presence_chance((Thing("cat", 0.9),), "dog", finder) < 0.2
    assert 0.5 <= finder.threshold < 1


def test_text_that_the_reader_doubts_is_less_likely_right() -> None:
    reader = shipped("pp-ocrv6-small")
    box = ((0.0, 0.0), (300.0, 0.0), (300.0, 30.0), (0.0, 30.0))

    def chance(score: float) -> float:
        quality = {"contrast": 0.9, "sharpness": 0.8, "noise": 0.0}
        sight = Sight(lines=(Line("Keep left", score, box),), quality=quality)
        return reader.chance("whole", text_features(sight))

    chances = [chance(score) for score in (0.5, 0.8, 0.95, 0.999)]
    assert chances == sorted(chances)
    assert chances[-1] > reader.threshold > chances[1]


@pytest.mark.parametrize(
    "change",
    [{"format": 2}, {"empty": "x"}, {"thing": {"weights": 3}}, {"threshold": None}],
    ids=["format", "number", "weights", "threshold"],
)
def test_what_is_no_calibration_is_refused_by_name(change: dict[str, Any]) -> None:
    assert parse_calibration(GOOD, "mine", SIGHT).name == "x"
    with pytest.raises(SettingsError, match="mine"):
        parse_calibration(GOOD | change, "mine", SIGHT)


def test_what_was_measured_comes_with_it() -> None:
    risk = {"whole": [[0.9, 10, 1]]}
    assert parse_calibration(GOOD | {"risk": risk}, "file", SIGHT).measured.risk_rows == 10
    with pytest.raises(SettingsError, match="file"):
        parse_calibration(GOOD | {"risk": {"whole": [[0.9, 1, 10]]}}, "file", SIGHT)
