"""Fits what a skill's evidence is worth: on drawn text, and on photographs that packages carry."""

from __future__ import annotations

import importlib
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgewise.calibrate.fit import Logistic, fit_logistic
from edgewise.decide.calibration import FORMAT
from edgewise.local.backend import VisionBackend
from edgewise.types.replies import Sight
from edgewise.vision.answers import (
    find_total,
    row_features,
    rows_of,
    score_features,
    sum_features,
    text_features,
)
from edgewise.vision.pictures import measure_quality
from edgewise_bench.vision.cases import (
    MOST_ERRORS,
    SeeCase,
    error_rate,
    is_right,
    spoil,
    text_cases,
)
from edgewise_bench.vision.photos import View, views
from edgewise_bench.vision.receipts import damaged, receipt_cases

if TYPE_CHECKING:
    from edgewise.local.backend import PictureArray

FIT_SEED = 1  # benches draw with others
WHOLE = ("doubt", "worst", "small", "length", "haze", "blur", "noise", "tilt")
SUM = ("doubt", "agree", "against", "repeated", "margin")
ROW = ("doubt", "small", "length", "haze", "blur", "noise", "tilt")
THING = ("score", "clear")
PRESENT = ("found", "score", "clear")
DAMAGED = 8  # readings as of worse receipts, for each that is drawn
TARGET = 0.95  # of the answers that are kept should be right
MARGIN = 0.015  # asked for on top: the fit has seen these pictures

Rows = list[tuple[Mapping[str, float], bool]]


@dataclass(slots=True)
class _Evidence:
    whole: Rows = field(default_factory=list)
    rows: Rows = field(default_factory=list)
    empty: list[bool] = field(default_factory=list)


def fit_reader(
    vision_skill: VisionBackend, count: int, step: Callable[[], None], seed: int = FIT_SEED
) -> dict[str, Any]:
    """A calibration document for what reads text."""
    evidence = _Evidence()
    for number, case in enumerate(text_cases(count, seed)):
        if case.asked == "all_text":
            _learn(vision_skill, case.draw(), case.truth[0], evidence)
        elif number % 3 == 0:  # a picture without text, so that "there is none" can be right
            blank = random.Random(number).choice(("white", "grey", "navy"))
            _learn(vision_skill, _plain(blank, number), "", evidence)
        step()
    return {
        "format": FORMAT,
        "name": vision_skill.facts().model,
        "whole": _document(_fit(evidence.whole, WHOLE), WHOLE),
        "row": _document(_fit(evidence.rows, ROW), ROW),
        "empty": (sum(evidence.empty) + 1) / (len(evidence.empty) + 2),
        "threshold": _threshold(evidence.whole, WHOLE),
        "report": {
            "texts": len(evidence.whole),
            "texts_right": sum(right for _, right in evidence.whole),
            "rows": len(evidence.rows),
            "rows_right": sum(right for _, right in evidence.rows),
            "without_text": len(evidence.empty),
            "seed": seed,
        },
    }


def fit_sums(
    vision_skill: VisionBackend, count: int, step: Callable[[], None], seed: int = FIT_SEED
) -> dict[str, Any]:
    """What belongs into the document of what reads text: how sure a total of a receipt is."""
    found: Rows = []
    for case in receipt_cases(count, seed, "fit"):
        sight = see(vision_skill, case.draw())
        learn_sum(sight, case, found)
        for number in range(DAMAGED):
            worse = damaged(sight, random.Random(f"{case.name}/{number}"))
            learn_sum(worse, case, found)
        step()
    return {
        "sum": _document(_fit(found, SUM), SUM),
        "report": {"sums": len(found), "sums_right": sum(right for _, right in found)},
    }


def learn_sum(sight: Sight, case: SeeCase, found: Rows) -> None:
    rows = rows_of(sight.lines)
    total = find_total([row.text for row in rows])
    if total is not None:
        found.append((sum_features(total, rows, sight), is_right(case, total.written)))


def _learn(vision_skill: VisionBackend, pixels: Any, truth: str, evidence: _Evidence) -> None:
    sight = see(vision_skill, pixels)
    rows = rows_of(sight.lines)
    if not rows:
        evidence.empty.append(not truth)
        return
    drawn = {"".join(row.split()) for row in truth.split("\n")}
    said = "\n".join(row.text for row in rows)
    evidence.whole.append((text_features(sight), error_rate(truth, said) <= MOST_ERRORS))
    for row in rows:
        evidence.rows.append((row_features(row, sight), "".join(row.text.split()) in drawn))


def fit_finder(
    vision_skill: VisionBackend,
    folder: Path,
    count: int,
    step: Callable[[], None],
    seed: int = FIT_SEED,
) -> dict[str, Any]:
    """A calibration document for what names objects."""
    things: Rows = []
    present: Rows = []
    for number, view in enumerate(views(folder, "fit", count, seed)):
        sight = see(vision_skill, view.draw())
        # The best of each kind: twenty coins that look like clocks are one mistake, not twenty.
        for name, score in _best(sight).items():
            if name not in view.unclear:
                things.append((score_features(score), name in view.holds))
        present += _asked(view, sight, random.Random(f"{seed}/{number}"))
        step()
    return {
        "format": FORMAT,
        "name": vision_skill.facts().model,
        "thing": _document(_fit(things, THING), THING),
        "present": _document(_fit(present, PRESENT), PRESENT),
        "empty": 0.5,
        "threshold": _yes_no_threshold(present),
        "report": {
            "views": count,
            "things": len(things),
            "things_right": sum(right for _, right in things),
            "asked": len(present),
            "asked_present": sum(right for _, right in present),
            "seed": seed,
        },
    }


def _asked(view: View, sight: Sight, chance: random.Random) -> Rows:
    """Kinds somebody might ask for: those there, and as many that are not, the likeliest first."""
    best = _best(sight)
    absent = sorted(view.absent, key=lambda name: -best.get(name, 0.0))
    others = [absent[0], *chance.sample(absent[1:], max(2, len(set(view.holds))))]
    asked = [(name, True) for name in dict.fromkeys(view.holds)]
    asked += [(name, False) for name in others]
    return [(score_features(best.get(name, 0.0)), there) for name, there in asked]


def _best(sight: Sight) -> dict[str, float]:
    """The highest score of each kind; things come best first."""
    return {thing.name: thing.score for thing in reversed(sight.things)}


def see(vision_skill: VisionBackend, pixels: Any) -> Sight:
    """As the engine does it."""
    array: PictureArray = np.asarray(pixels.convert("RGB"), dtype=np.uint8)
    return replace(vision_skill.look(array), quality=measure_quality(array))


def _plain(colour: str, seed: int) -> Any:
    pixels = importlib.import_module("PIL.Image").new("RGB", (300, 160), colour)
    return spoil(pixels, random.Random(seed))


def _fit(rows: Rows, names: Sequence[str]) -> Logistic:
    features = np.array([[one[name] for name in names] for one, _ in rows], dtype=np.float64)
    right = np.array([float(good) for _, good in rows])
    return fit_logistic(features, right)


def _document(fitted: Logistic, names: Sequence[str]) -> dict[str, Any]:
    weights = {name: round(w, 4) for name, w in zip(names, fitted.weights, strict=True)}
    return {"weights": weights, "bias": round(fitted.bias, 4)}


def _threshold(rows: Rows, names: Sequence[str]) -> float:
    """The lowest chance at which what is kept is right often enough, on the data of the fit."""
    return _lowest([(chance, good) for chance, good in _chances(rows, names)])


def _yes_no_threshold(rows: Rows) -> float:
    """The same for answers that say yes above one half, and no below."""
    answers = [(max(c, 1 - c), (c >= 0.5) == there) for c, there in _chances(rows, PRESENT)]
    return _lowest(answers)


def _chances(rows: Rows, names: Sequence[str]) -> list[tuple[float, bool]]:
    table = np.array([[one[name] for name in names] for one, _ in rows], dtype=np.float64)
    chances = [float(chance) for chance in _fit(rows, names).chances(table)]
    return list(zip(chances, (good for _, good in rows), strict=True))


def _lowest(answers: Sequence[tuple[float, bool]]) -> float:
    best, right = 0.9, 0
    for kept, (chance, good) in enumerate(sorted(answers, reverse=True), 1):
        right += good
        if right / kept >= TARGET + MARGIN:
            best = chance
    return math.floor(1000 * max(0.5, best)) / 1000
