"""Fits scores that are judged by kinds of questions they have not seen, and the gate with them.

Every kind belongs to one fold. What is reported, and what a risk table counts, comes from scores
that were fitted without the fold of the row. `edgewise calibrate --builtin` and the training of
our own heads share this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgewise.calibrate.fit import FEATURES, SURETIES, boundaries_of
from edgewise.calibrate.folds import FOLDS
from edgewise.calibrate.logistic import Logistic, Numbers, fit_logistic
from edgewise.calibrate.report import measured_keys
from edgewise.decide.objective import GRID
from edgewise.types.measured import Boundaries, RiskRow, write_boundaries

EARLY = (1, 4, 8)  # tokens after which a beginning is judged
THRESHOLD = 0.5
HOLD_TOKENS = EARLY[-1] + 1
MOST_SKIPPED = 0.01  # share of the answers kept in the end that may be skipped before they begin
LEAST_SKIPPED = 20  # with fewer skipped at a threshold, nothing is
LEAST_LONG = 20  # answers of more than EARLY tokens that an early score is fitted to


@dataclass(frozen=True, slots=True)
class Early:
    """Answers after `count` tokens: which rows, what a head reads there, and the meter."""

    rows: Any
    state: Numbers | None  # None: no state of so early was kept
    words: Numbers


@dataclass(frozen=True, slots=True)
class Rows:
    """All that is known of some answers, by heads that saw none of their kinds."""

    folds: Any
    right: Numbers
    words: Numbers  # the meter's features at the end
    state: Numbers | None
    before: Numbers | None
    early: dict[int, Early]
    names: tuple[str, ...] = FEATURES  # of the columns of `words`


# -- scores of a few features ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fitted:
    """A score, and the same fitted without each fold."""

    names: tuple[str, ...]
    columns: list[int]
    whole: Logistic
    by_fold: list[Logistic]

    def chances(self, features: Numbers, folds: Any) -> Numbers:
        found = np.zeros(len(features))
        for fold, model in enumerate(self.by_fold):
            held = folds == fold
            found[held] = model.chances(features[held][:, self.columns])
        return found

    def document(self, fold: int | None = None) -> dict[str, Any]:
        """The whole score, or the one fitted without a fold."""
        model = self.whole if fold is None else self.by_fold[fold]
        weights = dict(zip(self.names, model.weights, strict=True))
        return {
            "weights": {name: float(f"{weight:.5g}") for name, weight in weights.items()},
            "bias": float(f"{model.bias:.5g}"),
        }


def fit_sound(names: Sequence[str], features: Numbers, targets: Numbers, folds: Any) -> Fitted:
    """A score in which no weight speaks for an answer that the model was less sure of."""
    columns = list(range(len(names)))
    while True:
        fitted = fit_logistic(features[:, columns], targets)
        spread = features[:, columns].std(axis=0)
        against = [
            (_sign(names[column]) * weight * wide, column)
            for column, weight, wide in zip(columns, fitted.weights, spread, strict=True)
        ]
        worst, column = min(against)
        if worst >= 0:
            break
        columns.remove(column)
    by_fold = [
        fit_logistic(features[folds != fold][:, columns], targets[folds != fold])
        for fold in range(FOLDS)
    ]
    return Fitted(tuple(names[column] for column in columns), columns, fitted, by_fold)


def _sign(name: str) -> int:
    if "entropy" in name:
        return -1
    return 1 if name.endswith(SURETIES) or name in ("state", "before", "engine") else 0


# -- the gate --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Course:
    """The chances of each row at the end, at the beginnings, and before: what the gate sees."""

    right: Numbers
    final: Numbers
    early: dict[int, tuple[Any, Numbers]]  # tokens seen: the rows that got so far, their chances
    before: Numbers | None

    def stops(self) -> list[tuple[dict[int, float], float]]:
        found: list[dict[int, float]] = [{} for _ in self.final]
        for tokens, (rows, chances) in self.early.items():
            if tokens < HOLD_TOKENS:
                for row, chance in zip(rows, chances, strict=True):
                    found[row][tokens] = float(chance)
        return list(zip(found, map(float, self.final), strict=True))

    def kept(self, boundaries: Boundaries, threshold: float) -> tuple[Any, Any]:
        """Who is kept while it is streamed, and who as a whole."""
        waiting = np.ones(len(self.final), bool)
        if self.before is not None:
            waiting &= self.before >= boundaries.at(threshold, 0)[0]
        stream = np.zeros(len(self.final), bool)
        for tokens, (rows, chances) in sorted(self.early.items()):
            drop, keep = boundaries.at(threshold, tokens)
            if tokens >= HOLD_TOKENS:
                drop = keep = threshold
            here = waiting[rows]
            stream[rows[here & (chances >= max(keep, threshold))]] = True
            waiting[rows[here & ((chances >= max(keep, threshold)) | (chances < drop))]] = False
        stream |= waiting & (self.final >= threshold)
        return stream, stream & (self.final >= threshold)


def add_skips(boundaries: Boundaries, course: Course) -> Boundaries:
    """Stop 0: the highest chance before the answer that at most a hundredth of the kept is below.

    Beyond the last table, what it drops is dropped as well.
    """
    if course.before is None:
        return boundaries
    tables = dict(zip(boundaries.thresholds, boundaries.tables, strict=True))
    last = boundaries.tables[-1] if boundaries else {}
    beyond = {stop: (drop, 1.0) for stop, (drop, _) in last.items()}
    for threshold in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        kept = np.sort(course.before[course.final >= threshold])
        if len(kept) < 100:
            continue
        cut = float(np.floor(min(kept[int(MOST_SKIPPED * len(kept))], threshold) * 1e4) / 1e4)
        if (course.before < cut).sum() >= LEAST_SKIPPED:
            above = not boundaries or threshold > boundaries.thresholds[-1]
            tables[threshold] = {0: (cut, 1.0), **tables.get(threshold, beyond if above else {})}
    ordered = sorted(tables)
    return Boundaries(tuple(ordered), tuple(tables[at] for at in ordered))


# -- a calibration ---------------------------------------------------------------------------------


def part(rows: Rows, *, with_state: bool) -> dict[str, Any]:
    """One of the two calibrations of a file: by words, or by hidden states and words."""

    def columns(words: Numbers, state: Numbers | None) -> Numbers:
        if not with_state or state is None:
            return words
        return np.column_stack([state, words])

    words = list(rows.names)
    names = ["state", *words] if with_state else words
    final = fit_sound(names, columns(rows.words, rows.state), rows.right, rows.folds)
    ended = final.chances(columns(rows.words, rows.state), rows.folds)
    last = rows.early[EARLY[-1]]
    if len(last.rows) < LEAST_LONG:  # a model of few words: its whole answers are beginnings
        last = Early(np.arange(len(rows.right)), rows.state, rows.words)
    if last.state is None:
        names = words
    design, there = columns(last.words, last.state), rows.folds[last.rows]
    early = fit_sound(names, design, ended[last.rows], there)
    course_early = {
        count + 1: (
            each.rows,
            early.chances(columns(each.words, each.state), rows.folds[each.rows]),
        )
        for count, each in rows.early.items()
    }
    document: dict[str, Any] = {"early": early.document(), "final": final.document()}
    before = None
    if with_state and rows.before is not None:
        told = fit_sound(["before"], rows.before[:, None], rows.right, rows.folds)
        document["before"] = told.document()
        before = told.chances(rows.before[:, None], rows.folds)
    course = Course(rows.right, ended, course_early, before)
    boundaries = add_skips(boundaries_of(course.stops()), course)
    risk: dict[str, list[RiskRow]] = {"whole": [], "stream": []}
    for threshold in GRID:
        stream, whole = course.kept(boundaries, threshold)
        for name, kept in (("stream", stream), ("whole", whole)):
            wrong = int((1 - rows.right[kept]).sum())
            risk[name].append(RiskRow(threshold, int(kept.sum()), wrong))
    tables = {name: tuple(table) for name, table in risk.items()}
    features: dict[str, Any] = {name: rows.words[:, at] for at, name in enumerate(rows.names)}
    if with_state:
        features["state"] = rows.state
        if rows.before is not None:
            features["before"] = rows.before
    return document | {
        "hold_tokens": HOLD_TOKENS,
        "threshold": THRESHOLD,
        "keep_above": 1.0,
        "drop_below": 0.0,
        "boundaries": write_boundaries(boundaries),
        **measured_keys(list(map(float, ended)), tables, features),
        "report": gate_report(course, boundaries),
    }


def gate_report(course: Course, boundaries: Boundaries) -> dict[str, Any]:
    """What the gate does at the threshold, with whole kinds held out."""
    stream, whole = course.kept(boundaries, THRESHOLD)
    found = {"threshold": THRESHOLD, "gate_rows": len(course.final), "hold_tokens": HOLD_TOKENS}
    for name, kept in (("kept", whole), ("streamed", stream)):
        found[f"{name}_share"] = round(float(kept.mean()), 4)
        found[f"{name}_accuracy"] = round(float(course.right[kept].mean()) if kept.any() else 0, 4)
    if course.before is not None:
        skipped = course.before < boundaries.at(THRESHOLD, 0)[0]
        good = course.final >= THRESHOLD
        found["skipped_share"] = round(float(skipped.mean()), 4)
        found["skipped_of_kept"] = round(float(skipped[good].mean()) if good.any() else 0.0, 4)
    return found
