"""Calls as a table of numbers, folds of whole tools and sources, and a score fitted to them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgewise.calibrate.fit import fit_logistic
from edgewise.calls.check import FALLING, RISING
from edgewise.decide.calibration import Score
from training.call_samples import Sample

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

RIDGE = 3.0
# The words may count only the way that makes sense; the others may count either way.
_UP = RISING | {"fit_margin", "ground_min", "ground_mean"}
_DOWN = FALLING | {
    "ungrounded", "weak", "absent", "missing", "extra", "left", "left_names", "left_counts",
    "twice", "shared", "cues",
}  # fmt: skip


def tool_folds(samples: Sequence[Sample], count: int, seed: str) -> list[tuple[Flags, Flags]]:
    """Pairs (fit on, judge): no case that is fitted on is about a tool of those judged.

    A case belongs to the fold of its alphabetically first tool.
    """
    owner = [min(sample.tools, default="") for sample in samples]
    fold = np.array([zlib.crc32((seed + name).encode()) % count for name in owner])
    pairs = []
    for number in range(count):
        held = {name for name, own in zip(owner, fold, strict=True) if own == number}
        touched = np.array([bool(sample.tools & held) for sample in samples])
        pairs.append((~touched, fold == number))
    return pairs


def source_folds(samples: Sequence[Sample]) -> list[tuple[Flags, Flags]]:
    """Each source of sentences in turn; cases mixed from several are one more."""
    sources = np.array([sample.group for sample in samples])
    return [(sources != source, sources == source) for source in sorted(set(sources))]


@dataclass(frozen=True, slots=True)
class Table:
    """The calls (or the `none`s) of samples as numbers; `case` says which sample each is of."""

    names: tuple[str, ...]
    values: Floats
    right: Floats
    case: npt.NDArray[np.int64]

    @classmethod
    def of(cls, samples: Sequence[Sample], *, none: bool, names: Sequence[str]) -> Table:
        rows = [
            ([features.get(name, 0.0) for name in names], right, number)
            for number, sample in enumerate(samples)
            for features, right in zip(sample.features, sample.right, strict=True)
            if bool(features.get("none")) == none
        ]
        values, right, case = zip(*rows, strict=True)
        return cls(tuple(names), np.array(values), np.array(right, float), np.array(case))

    def varies(self, name: str) -> bool:
        """What is the same of every call, or was not measured, can have no weight."""
        return name in self.names and float(np.ptp(self.values[:, self.names.index(name)])) > 0

    def fit(self, names: Sequence[str], chosen: Flags | None = None) -> Score:
        """Features whose weight would have the wrong sign are left out, the worst first."""
        rows = slice(None) if chosen is None else chosen[self.case]
        live = list(names)
        while True:
            columns = [self.names.index(name) for name in live]
            values = self.values[rows][:, columns]
            model = fit_logistic(values, self.right[rows], ridge=RIDGE)
            wrong = {
                name: abs(weight) * float(spread)
                for name, weight, spread in zip(live, model.weights, values.std(0), strict=True)
                if (name in _UP and weight < 0) or (name in _DOWN and weight > 0)
            }
            if not wrong:
                return Score(dict(zip(live, model.weights, strict=True)), model.bias)
            live.remove(max(wrong, key=wrong.__getitem__))

    def chances(self, score: Score) -> Floats:
        weights = np.array([score.weights.get(name, 0.0) for name in self.names])
        total = np.clip(self.values @ weights + score.bias, -60.0, 60.0)
        return np.asarray(1.0 / (1.0 + np.exp(-total)))

    def loss(self, names: Sequence[str], folds: Sequence[tuple[Flags, Flags]]) -> float:
        """Log-loss per row, each row judged by a score that was fitted without it."""
        chances = np.full(len(self.right), 0.5)
        for fitted, judged in folds:
            rows = judged[self.case]
            seen = self.right[fitted[self.case]]
            if rows.any() and 0 < seen.sum() < len(seen):
                chances[rows] = self.chances(self.fit(names, fitted))[rows]
        chances = np.clip(chances, 1e-9, 1 - 1e-9)
        return -float(np.mean(np.log(np.where(self.right > 0, chances, 1 - chances))))
