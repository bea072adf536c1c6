"""Folds of whole groups, such as kinds of questions. Light: heads are trained where little is."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

FOLDS = 5


def folds_of(groups: Sequence[Any], seed: int = 0) -> NDArray[np.int64]:
    """A fold for each row; rows of one group share it, and folds are about as large."""
    members: dict[Any, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    order = sorted(members, key=str)
    Random(seed).shuffle(order)
    order.sort(key=lambda group: -len(members[group]))
    sizes, folds = [0] * FOLDS, np.zeros(len(groups), np.int64)
    for group in order:
        fold = int(np.argmin(sizes))
        folds[members[group]] = fold
        sizes[fold] += len(members[group])
    return folds


def kept_share(scores: Numbers, right: Numbers, target: float) -> float:
    """The largest share of best-scored rows of which `target` are right."""
    share = np.cumsum(right[np.argsort(-scores, kind="stable")]) / np.arange(1, len(right) + 1)
    enough = np.flatnonzero(share >= target)
    return float((enough[-1] + 1) / len(right)) if len(enough) else 0.0
