"""Fits the map from a score to a chance: none, a logistic one, or an isotonic one.

The log-loss on rows that did not fit it decides which. A map never falls, so it changes what the
numbers promise but never their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from edgewise.calibrate.logistic import Numbers, fit_logistic, sigmoid
from edgewise.types.measured import UNMAPPED, ScoreMap

Form = Literal["none", "logistic", "isotonic"]
FOLDS = 5
LEAST_GAIN = 0.002  # nats per row that a map must save on rows it was not fitted on
LEAST_OF_EACH = 5  # right and wrong rows needed to fit a map
LEAST_BLOCK, MOST_BLOCKS = 15, 15  # of the isotonic map: rows per block, and number of blocks
_EDGE = 0.001  # nothing is certain
_GRID, _WIDEST = 29, 7.0  # points of a logistic map, and the log-odds they span
_DIGITS = 4


def choose_map(
    scores: Sequence[float], right: Sequence[bool], seed: int = 0
) -> tuple[ScoreMap, Form]:
    """The map that does best on held-out rows, fitted to all of them, and its name."""
    if min(sum(right), len(right) - sum(right)) < LEAST_OF_EACH:
        return UNMAPPED, "none"
    losses: dict[Form, float] = {
        form: held_out_loss(scores, right, fit, seed) for form, fit in _FORMS.items()
    }
    best = min(_FORMS, key=lambda form: losses[form])
    if losses[best] > losses["none"] - LEAST_GAIN:
        return UNMAPPED, "none"
    return _FORMS[best](scores, right), best


def held_out_loss(
    scores: Sequence[float],
    right: Sequence[bool],
    fit: Callable[[Sequence[float], Sequence[bool]], ScoreMap],
    seed: int = 0,
) -> float:
    """Log-loss per row, each judged by a map fitted without it."""
    fold = np.random.default_rng(seed).permutation(len(scores)) % FOLDS
    chances = np.zeros(len(scores))
    for number in range(FOLDS):
        others = np.flatnonzero(fold != number).tolist()
        fitted = fit([scores[at] for at in others], [right[at] for at in others])
        for at in np.flatnonzero(fold == number).tolist():
            chances[at] = fitted.of(scores[at])
    return log_loss(chances.tolist(), right)


def log_loss(chances: Sequence[float], right: Sequence[bool]) -> float:
    kept = np.clip(np.array(chances), 1e-6, 1 - 1e-6)
    return -float(np.mean(np.log(np.where(np.array(right, dtype=bool), kept, 1 - kept))))


def logistic_map(scores: Sequence[float], right: Sequence[bool]) -> ScoreMap:
    """A slope and a shift of the score's log-odds, as a few points."""
    fitted = fit_logistic(_log_odds(scores), np.array(right, dtype=np.float64))
    if fitted.weights[0] <= 0:  # the score says nothing here, or the opposite: one chance for all
        level = round(float(np.clip(np.mean(right), _EDGE, 1 - _EDGE)), _DIGITS)
        return ScoreMap(((0.0, level), (1.0, level)))
    # Even steps of log-odds: near 0 and 1, where strict thresholds are, a chance moves fastest.
    grid = sigmoid(np.linspace(-_WIDEST, _WIDEST, _GRID))
    return _points(grid, fitted.chances(_log_odds(grid.tolist())))


def isotonic_map(scores: Sequence[float], right: Sequence[bool]) -> ScoreMap:
    """Blocks of neighbouring rows, pooled until their shares of right ones never fall."""
    order = np.argsort(scores, kind="stable")
    count = max(1, min(MOST_BLOCKS, len(order) // LEAST_BLOCK))
    pooled: list[tuple[float, float, int]] = []  # sum of scores, number right, rows
    for rows in np.array_split(order, count):
        block = (
            float(sum(scores[at] for at in rows)),
            float(sum(right[at] for at in rows)),
            len(rows),
        )
        while pooled and pooled[-1][1] / pooled[-1][2] >= block[1] / block[2]:
            last = pooled.pop()
            block = (last[0] + block[0], last[1] + block[1], last[2] + block[2])
        pooled.append(block)
    # One right and one wrong row more per block: ten right rows are no certainty.
    return _points(
        np.array([total / rows for total, _, rows in pooled]),
        np.array([(good + 1) / (rows + 2) for _, good, rows in pooled]),
    )


def compose(first: ScoreMap, second: ScoreMap) -> ScoreMap:
    """One map for both, applied one after the other, accurate to a hundredth."""
    if not first.points or not second.points:
        return second if second.points else first
    grid = {at / 100 for at in range(101)} | {x for x, _ in first.points}
    return ScoreMap(tuple((x, second.of(first.of(x))) for x in sorted(grid)))


def _points(scores: Numbers, chances: Numbers) -> ScoreMap:
    found: list[tuple[float, float]] = []
    for score, chance in zip(scores.tolist(), chances.tolist(), strict=True):
        x, y = round(score, _DIGITS), round(min(1 - _EDGE, max(_EDGE, chance)), _DIGITS)
        if found and x <= found[-1][0]:
            continue
        found.append((x, max(y, found[-1][1] if found else 0.0)))
    return ScoreMap(tuple(found))


def _log_odds(scores: Sequence[float]) -> Numbers:
    kept = np.clip(np.array(scores, dtype=np.float64), _EDGE, 1 - _EDGE)
    odds: Numbers = np.log(kept / (1 - kept))[:, None]
    return odds


_FORMS: dict[Form, Callable[[Sequence[float], Sequence[bool]], ScoreMap]] = {
    "none": lambda _, __: UNMAPPED,
    "logistic": logistic_map,
    "isotonic": isotonic_map,
}
