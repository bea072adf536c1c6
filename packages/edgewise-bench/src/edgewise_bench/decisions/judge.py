"""What measured decisions are worth: right, calibrated, kept at a stated error, learnt.

Every confidence is fitted on other suites than the row's own. Every threshold is chosen on other
rows than it is reported on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise.calibrate.learn import learn_question, meanings_of
from edgewise.calibrate.metrics import auroc, expected_calibration_error, share
from edgewise.decide.calibration import RiskRow, Score
from edgewise.decide.decisions import ANSWER, FEATURES, features_of, nearness
from edgewise.decide.policy import GRID, find_threshold
from edgewise.types.answers import LabelReading
from edgewise.types.messages import Question
from edgewise_bench.decisions.suites import PUBLIC, SEED, STRANGER, Suite, public_suite

Floats = npt.NDArray[np.float64]
NAMES = tuple(sorted(FEATURES))
DECAY = 0.3  # of the fit, on features in units of their spread
MAX_ERROR, PROBABILITY = 0.10, 0.10
SPLITS = 100
LABELS, TESTED = 50, 100
LONGEST_LEARNT = 1_500  # characters: a learnt question reads a vector, which is cheap


@dataclass(frozen=True, slots=True)
class Judged:
    """One decision: what the model said, and whether it was right."""

    suite: str
    features: Mapping[str, float]
    right: bool
    one_way: bool  # right in one order of the options
    differs: bool  # the two orders prefer different options
    stranger: bool
    cpu_s: float


def judged_rows(rows: Sequence[Mapping[str, Any]], suites: Sequence[Suite]) -> list[Judged]:
    """The rows of `measure`, judged. Suites that are not among these are left out."""
    asked = {suite.name: suite.question for suite in suites}
    return [_judged(row, asked[row["suite"]]) for row in rows if row["suite"] in asked]


def _judged(row: Mapping[str, Any], question: Question) -> Judged:
    one, other = row["one_way"]
    chances = {name: (one[name] + other[name]) / 2 for name in question.options}
    read = LabelReading(chances=chances, one_way=(one, other), mass=row["mass"])
    best, first, second = (max(each, key=lambda n: each[n]) for each in (chances, one, other))
    return Judged(
        row["suite"],
        features_of(question, read),
        best == row["label"],
        first == row["label"],
        first != second,
        row["label"] == STRANGER,
        row["cpu_s"],
    )


def fit(rows: Sequence[Judged]) -> Score:
    """The chance of being right, by a logistic with weight decay on standardised features."""
    table = np.array([[row.features[name] for name in NAMES] for row in rows])
    right = np.array([row.right for row in rows], float)
    middle, spread = table.mean(axis=0), table.std(axis=0)
    spread[spread < 1e-6] = np.inf
    columns = np.hstack([(table - middle) / spread, np.ones((len(table), 1))])
    decay = DECAY * np.eye(columns.shape[1])
    decay[-1, -1] = 1e-3
    at = np.zeros(columns.shape[1])
    for _ in range(40):
        chance = 1 / (1 + np.exp(-np.clip(columns @ at, -30, 30)))
        slope = columns.T @ (chance - right) + decay @ at
        curve = (columns * (chance * (1 - chance))[:, None]).T @ columns + decay
        at = at - np.linalg.solve(curve, slope)
    weights = at[:-1] / spread
    bias = float(at[-1] - (weights * middle).sum())
    return Score({n: float(w) for n, w in zip(NAMES, weights, strict=True) if w}, bias)


def held_out(rows: Sequence[Judged]) -> Floats:
    """The confidence of each row, fitted on the other suites."""
    sure = np.zeros(len(rows))
    for suite in {row.suite for row in rows}:
        score = fit([row for row in rows if row.suite != suite])
        for at, row in enumerate(rows):
            if row.suite == suite:
                sure[at] = score.of(row.features)
    return sure


def risk_table(sure: Floats, right: npt.NDArray[np.bool_]) -> tuple[RiskRow, ...]:
    return tuple(
        RiskRow(at, int((sure >= at).sum()), int((~right[sure >= at]).sum())) for at in GRID
    )


def judge(rows: Sequence[Judged]) -> dict[str, float]:
    """The figures of all suites together, and of each."""
    own = [row for row in rows if not row.stranger]
    sure, right = held_out(own), np.array([row.right for row in own])
    found = {
        "decisions": len(own),
        "suites": len({row.suite for row in own}),
        "accuracy": float(right.mean()),
        "accuracy_one_order": share([row.one_way for row in own]),
        "orders_differ": share([row.differs for row in own]),
        "ece": expected_calibration_error(sure.tolist(), right.tolist()),
        "ece_uncalibrated": expected_calibration_error(
            [row.features["top"] for row in own], right.tolist()
        ),
        "auroc": auroc(sure.tolist(), right.tolist()),
        "auroc_uncalibrated": auroc([row.features["top"] for row in own], right.tolist()),
        "cpu_s": float(np.mean([row.cpu_s for row in own])),
    }
    found |= _splits(own) | _by_suite(own)
    for suite in sorted({row.suite for row in own}):
        found[f"accuracy.{suite}"] = share([row.right for row in own if row.suite == suite])
    strangers = [row for row in rows if row.stranger]
    if strangers:
        near = {"assistant"}
        known = [row.features["top"] for row in own if row.suite in near]
        found["stranger_auroc_unlearnt"] = auroc(
            known + [row.features["top"] for row in strangers],
            [True] * len(known) + [False] * len(strangers),
        )
    return found


def _splits(rows: Sequence[Judged]) -> dict[str, float]:
    """A hundred halves: fit and threshold on one, kept and wrong on the other."""
    draw, kept, broken = random.Random(SEED), [], 0
    for _ in range(SPLITS):
        mixed = list(rows)
        draw.shuffle(mixed)
        seen, unseen = mixed[: len(mixed) // 2], mixed[len(mixed) // 2 :]
        one, wrong = _kept(seen, unseen)
        kept.append(one / len(unseen))
        broken += wrong > MAX_ERROR * one
    return {"kept": float(np.mean(kept)), "splits_broken": broken}


def _kept(seen: Sequence[Judged], unseen: Sequence[Judged]) -> tuple[int, int]:
    """Of the unseen rows: how many are kept at the stated error, and how many of them are wrong."""
    half = len(seen) // 2
    score = fit(seen[:half])
    sure = np.array([score.of(row.features) for row in seen[half:]])
    right = np.array([row.right for row in seen[half:]])
    table = risk_table(sure, right)
    threshold = find_threshold(table, len(sure), MAX_ERROR, PROBABILITY)
    if threshold is None:
        return 0, 0
    kept = [row for row in unseen if score.of(row.features) >= threshold]
    return len(kept), sum(not row.right for row in kept)


def _by_suite(rows: Sequence[Judged]) -> dict[str, float]:
    """The same with a whole suite unseen: what a promise to unmeasured questions would be worth."""
    kept = broken = 0
    names = sorted({row.suite for row in rows})
    for name in names:
        seen = [row for row in rows if row.suite != name]
        random.Random(SEED).shuffle(seen)
        one, wrong = _kept(seen, [row for row in rows if row.suite == name])
        kept += one
        broken += wrong > MAX_ERROR * one
    return {"kept_by_suite": kept / len(rows), "suites_broken": broken}


# -- learnt questions ------------------------------------------------------------------------------


Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]


def judge_learnt(folder: Path, embed: Embed, space: str) -> dict[str, float]:
    """Fifty labels of each public question, and a hundred other rows of it."""
    found: dict[str, float] = {}
    accuracies, promised = [], []
    for name in PUBLIC:
        each = -(-(LABELS + TESTED) // len(PUBLIC[name].question.options))
        suite = public_suite(name, folder, each, strangers=60, longest=LONGEST_LEARNT)
        told = judge_one(suite, embed, space)
        accuracies.append(told["accuracy"])
        promised.append((told["kept"], told["wrong"]))
        found[f"learnt_accuracy.{name}"] = told["accuracy"]
        if "stranger_auroc" in told:
            found["stranger_auroc"] = told["stranger_auroc"]
    kept, wrong = (sum(each) for each in zip(*promised, strict=True))
    return {
        "learnt_accuracy": float(np.mean(accuracies)),
        "learnt_kept": kept / (TESTED * len(accuracies)),
        "learnt_wrong_of_kept": wrong / kept if kept else 0.0,
        **found,
    }


def judge_one(suite: Suite, embed: Embed, space: str) -> dict[str, float]:
    """One question, learnt from its first rows and judged on the next ones."""
    rows = [row for row in suite.rows if row[1] != STRANGER]
    random.Random(SEED).shuffle(rows)
    seen, unseen = rows[:LABELS], rows[LABELS : LABELS + TESTED]
    states, labels = [s for s, _ in seen], [a for _, a in seen]
    vectors = embed([*states, *meanings_of(suite.question)])
    known, meant = vectors[: len(states)], vectors[len(states) :]
    learnt = learn_question(suite.name, suite.question, states, labels, known, space, meant)
    right, sure = [], []
    for (state, label), vector in zip(unseen, embed([s for s, _ in unseen]), strict=True):
        told = learnt.chances(state, vector)
        read = LabelReading(chances=told, one_way=(told,), mass=1.0)
        right.append(max(told, key=lambda name: told[name]) == label)
        sure.append(learnt.calibration.chance(ANSWER, features_of(suite.question, read)))
    measured = learnt.calibration.measured
    at = find_threshold(measured.risk["whole"], measured.risk_rows, MAX_ERROR, PROBABILITY)
    kept = [good for good, one in zip(right, sure, strict=True) if at is not None and one >= at]
    found = {"accuracy": share(right), "kept": len(kept), "wrong": sum(not good for good in kept)}
    odd = [state for state, label in suite.rows if label == STRANGER]
    if odd and learnt.centres:
        near = [nearness(each, learnt.centres) for each in embed([s for s, _ in unseen])]
        far = [nearness(each, learnt.centres) for each in embed(odd)]
        found["stranger_auroc"] = auroc(near + far, [True] * len(near) + [False] * len(far))
    return found
