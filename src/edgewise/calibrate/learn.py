"""From labels of one question to what answers it: a head on the words, and one on the vector.

Both are fitted, and each label is predicted by heads that did not see it. The head that does better
there is kept. What the options are called is told to the second: a vector near an option's own
words speaks for it, as much as held-out labels allow. From the same held-out predictions come what
its chances are worth and the table of risks, so a stated error is promised only as far as the
labels prove it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise.calibrate.metrics import auroc
from edgewise.decide.calibration import RiskRow, Score
from edgewise.decide.decisions import (
    LearntQuestion,
    Reads,
    features_of,
    key_of,
    learnt_calibration,
    terms_of,
)
from edgewise.decide.policy import GRID
from edgewise.errors import InvalidRequest
from edgewise.types.answers import LabelReading
from edgewise.types.messages import Choice, Question, text_of

Numbers = npt.NDArray[np.float64]
FOLDS = 10
LEAST_LABELS = 12
SEED = 7
STEPS = 400
SHARPNESS = {"words": 12.0, "vector": 12.0}  # what vectors of length 1 are multiplied by
DECAY = 0.01
MEANT = (0.0, 2.0, 4.0, 6.0, 8.0, 12.0)  # what nearness to an option's words may count
FEATURE = "margin"  # what the chance of being right is fitted to
STRANGEST = 0.02  # of the labelled states themselves so many would be called strangers
MOST_TERMS = 4_000
THRESHOLD = 0.5


@dataclass(frozen=True, slots=True)
class _Fold:
    """Held-out predictions of one way to read: the chances of each option, row by row."""

    reads: Reads
    chances: Numbers

    def loss(self, labels: npt.NDArray[np.int64]) -> float:
        told = self.chances[np.arange(len(labels)), labels]
        return float(-np.log(np.maximum(told, 1e-9)).mean())

    def right(self, labels: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = self.chances.argmax(axis=1) == labels
        return found


def meanings_of(question: Question) -> tuple[str, ...]:
    """What each option is called, in their order; none where one of them says nothing by itself."""
    told = [text_of(each) for each in question.described]
    if isinstance(question, Choice):
        named = zip(question.options, told, strict=True)
        return tuple(f"{name}: {text}" if text else name for name, text in named)
    return tuple(told) if all(told) else ()


def learn_question(
    name: str,
    question: Question,
    states: Sequence[str],
    labels: Sequence[str],
    vectors: Sequence[Sequence[float]] = (),
    space: str = "",
    meanings: Sequence[Sequence[float]] = (),
) -> LearntQuestion:
    """`labels` are names of options. Without vectors only words are read.

    `meanings` are the vectors of `meanings_of(question)`.
    """
    options = question.options
    _check(options, labels)
    targets = np.array([options.index(label) for label in labels])
    folds = _folds(targets)
    tried = [_held_out("words", states, targets, folds, len(options))]
    if len(vectors):
        plain = _held_out("vector", vectors, targets, folds, len(options))
        near = np.asarray(vectors) @ np.asarray(meanings).T if len(meanings) else None
        tried.append(_meant(plain, near, targets, folds) if near is not None else plain)
    best = min(tried, key=lambda each: each.loss(targets))
    right = best.right(targets)
    margins = _margins(question, options, best.chances)
    # The confidence of a row is that of a line fitted without its fold, as its answer is.
    sure = np.zeros(len(right))
    for fold in range(folds.max() + 1):
        line = _line(margins[folds != fold], right[folds != fold])
        sure[folds == fold] = [line.of({FEATURE: each}) for each in margins[folds == fold]]
    table = tuple(
        RiskRow(at, int((sure >= at).sum()), int((~right[sure >= at]).sum())) for at in GRID
    )
    quantiles = [float(each) for each in np.quantile(sure, np.linspace(0, 1, 21))]
    given: dict[str, Any] = {"space": space if best.reads == "vector" else ""}
    if best.reads == "vector":
        matrix = np.asarray(vectors, np.float64)
        weights, biases = _fit("vector", matrix, targets, len(options))
        if near is not None:
            weights = weights + _worth(plain.chances, near, targets) * np.asarray(meanings)
        given |= {"weights": tuple(map(list, weights.tolist())), **_centres(matrix, targets, folds)}
    else:
        terms, matrix = _weigh(states)
        weights, biases = _fit("words", matrix, targets, len(options))
        kept = [dict(zip(terms, map(float, each), strict=True)) for each in weights]
        given |= {"weights": tuple(kept), "terms": terms}
    return LearntQuestion(
        name=name,
        key=key_of(question),
        reads=best.reads,
        options=options,
        biases=tuple(map(float, biases)),
        calibration=learnt_calibration(
            name, _line(margins, right), THRESHOLD, table, len(right), quantiles
        ),
        report={
            "labels": len(right),
            "held_out_accuracy": float(right.mean()),
            "auroc": auroc(sure.tolist(), right.tolist()),
            **{f"held_out_{each.reads}": float(each.right(targets).mean()) for each in tried},
        },
        **given,
    )


def _check(options: Sequence[str], labels: Sequence[str]) -> None:
    if len(labels) < LEAST_LABELS:
        raise InvalidRequest(f"{len(labels)} labels: at least {LEAST_LABELS} are needed")
    if unknown := sorted(set(labels) - set(options)):
        raise InvalidRequest(f"the label {unknown[0]!r} is no option: {', '.join(options)}")
    counts = Counter(labels)
    if len(counts) < 2:
        raise InvalidRequest("all labels are the same: there is nothing to learn")


def _folds(targets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Every label in every fold as evenly as can be, always the same."""
    folds = np.zeros(len(targets), np.int64)
    draw = np.random.default_rng(SEED)
    begun = 0
    for target in np.unique(targets):
        places = draw.permutation(np.flatnonzero(targets == target))
        folds[places] = (np.arange(len(places)) + begun) % FOLDS
        begun += len(places)
    return folds


def _held_out(
    reads: Reads,
    rows: Sequence[Any],
    targets: npt.NDArray[np.int64],
    folds: npt.NDArray[np.int64],
    count: int,
) -> _Fold:
    chances = np.zeros((len(targets), count))
    for fold in range(folds.max() + 1):
        seen, unseen = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        if reads == "words":
            terms, matrix = _weigh([rows[int(at)] for at in seen])
            tested = _rows([rows[int(at)] for at in unseen], terms)
        else:
            whole = np.asarray(rows, np.float64)
            matrix, tested = whole[seen], whole[unseen]
        weights, biases = _fit(reads, matrix, targets[seen], count)
        chances[unseen] = _softmax(tested @ weights.T + biases)
    return _Fold(reads, chances)


def _meant(
    plain: _Fold, near: Numbers, targets: npt.NDArray[np.int64], folds: npt.NDArray[np.int64]
) -> _Fold:
    """With nearness to the options' words. What it counts is chosen without the fold it is for."""
    chances = np.zeros_like(plain.chances)
    for fold in range(folds.max() + 1):
        seen, unseen = folds != fold, folds == fold
        much = _worth(plain.chances[seen], near[seen], targets[seen])
        chances[unseen] = _with_meanings(plain.chances[unseen], near[unseen], much)
    return _Fold(plain.reads, chances)


def _worth(chances: Numbers, near: Numbers, targets: npt.NDArray[np.int64]) -> float:
    """What nearness to an option's words counts, by labels that the chances have not seen."""

    def loss(much: float) -> float:
        return _Fold("vector", _with_meanings(chances, near, much)).loss(targets)

    return min(MEANT, key=loss)


def _with_meanings(chances: Numbers, near: Numbers, much: float) -> Numbers:
    return _softmax(np.log(np.maximum(chances, 1e-12)) + much * near)


def _fit(
    reads: Reads, matrix: Numbers, targets: npt.NDArray[np.int64], count: int
) -> tuple[Numbers, Numbers]:
    """A logistic head with weight decay, by accelerated descent: a few hundred small products.

    Weights of more columns than rows lie in the space of the rows, so they are found there.
    """
    sharpness = SHARPNESS[reads]
    left, sizes, turned = np.linalg.svd(matrix, full_matrices=False)
    rows = np.hstack([left * sizes * sharpness, np.ones((len(matrix), 1))])
    wanted = np.eye(count)[targets]
    step = 1.0 / (0.5 * (sharpness**2 + 1) / 2 + DECAY)
    heads = ahead = np.zeros((count, rows.shape[1]))
    for turn in range(STEPS):
        slope = (_softmax(rows @ ahead.T) - wanted).T @ rows / len(rows)
        slope[:, :-1] += DECAY * ahead[:, :-1]
        nearer = ahead - step * slope
        ahead = nearer + turn / (turn + 3) * (nearer - heads)
        heads = nearer
    return heads[:, :-1] @ turned * sharpness, heads[:, -1]


def _softmax(totals: Numbers) -> Numbers:
    powers = np.exp(totals - totals.max(axis=1, keepdims=True))
    shares: Numbers = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _weigh(states: Sequence[str]) -> tuple[dict[str, float], Numbers]:
    """The terms of these states by their rarity, and the states as rows of them."""
    known = Counter(term for state in states for term in terms_of(state))
    most = [term for term, _ in known.most_common(MOST_TERMS)]
    terms = {term: math.log((1 + len(states)) / (1 + known[term])) + 1 for term in most}
    return terms, _rows(states, terms)


def _rows(states: Sequence[str], terms: dict[str, float]) -> Numbers:
    places = {term: at for at, term in enumerate(terms)}
    matrix = np.zeros((len(states), len(terms)))
    for row, state in zip(matrix, states, strict=True):
        for term, count in terms_of(state).items():
            if term in places:
                row[places[term]] = (1 + math.log(count)) * terms[term]
        row /= np.linalg.norm(row) or 1.0
    return matrix


def _margins(question: Question, options: Sequence[str], chances: Numbers) -> Numbers:
    found = []
    for row in chances:
        told = dict(zip(options, map(float, row), strict=True))
        read = LabelReading(chances=told, one_way=(told,), mass=1.0)
        found.append(features_of(question, read)[FEATURE])
    return np.array(found)


def _line(margins: Numbers, right: npt.NDArray[np.bool_]) -> Score:
    """A chance that rises with the margin, by Newton's method; one more right and wrong row at
    either end keep it finite where all rows are right."""
    x = np.concatenate([margins, [0.0, 0.0, 1.0, 1.0]])
    y = np.concatenate([right.astype(float), [0.0, 1.0, 1.0, 1.0]])
    rows = np.stack([x, np.ones(len(x))], axis=1)
    at = np.zeros(2)
    decay = np.diag([0.05, 0.0])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-np.clip(rows @ at, -30, 30)))
        slope = rows.T @ (chance - y) + decay @ at
        curve = (rows * (chance * (1 - chance))[:, None]).T @ rows + decay + 1e-9 * np.eye(2)
        at = at - np.linalg.solve(curve, slope)
    if at[0] < 0:  # a larger margin that says less would order answers the wrong way round
        share = (float(y.sum()) + 1) / (len(y) + 2)
        return Score({FEATURE: 0.0}, math.log(share / (1 - share)))
    return Score({FEATURE: float(at[0])}, float(at[1]))


def _centres(
    matrix: Numbers, targets: npt.NDArray[np.int64], folds: npt.NDArray[np.int64]
) -> dict[str, Any]:
    """The mean of each option, and how near to one a state must be that the means did not see."""
    near = np.zeros(len(matrix))
    for fold in range(folds.max() + 1):
        means = _means(matrix[folds != fold], targets[folds != fold])
        near[folds == fold] = (matrix[folds == fold] @ means.T).max(axis=1)
    centres = _means(matrix, targets)
    return {
        "centres": tuple(map(list, centres.tolist())),
        "least": float(np.quantile(near, STRANGEST)),
    }


def _means(matrix: Numbers, targets: npt.NDArray[np.int64]) -> Numbers:
    means: Numbers = np.stack([matrix[targets == each].mean(axis=0) for each in np.unique(targets)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return means
