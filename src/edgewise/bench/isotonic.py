"""A rising map from a score to the chance it really has: pooled neighbours, few points."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from edgewise.types.measured import ScoreMap

BINS = 20  # of equal mass, before neighbours are pooled
_DIGITS = 4

_Block = tuple[float, float, int]  # sum of the scores, sum of those right, how many


def fit_map(scores: Sequence[float], right: Sequence[bool], bins: int = BINS) -> ScoreMap:
    """Through the mean score and the share right of each block, from (0, 0) to (1, 1).

    Bins are pooled until the share right never falls (pool adjacent violators). Lines join the
    blocks, so that two scores keep their order: a step would make ties of them, at the top as well,
    where a strict threshold has to choose. `scores` must come from fits without their rows.
    """
    blocks: list[_Block] = []
    for each in _bins(scores, right, bins):
        block = each
        while blocks and blocks[-1][1] * block[2] >= block[1] * blocks[-1][2]:
            before = blocks.pop()
            block = before[0] + block[0], before[1] + block[1], before[2] + block[2]
        blocks.append(block)
    points = [(0.0, 0.0), *(_point(block) for block in blocks), (1.0, 1.0)]
    rising = [points[0]]
    for x, y in points[1:-1]:
        if x > rising[-1][0] and y > rising[-1][1] and x < 1.0 and y < 1.0:
            rising.append((x, y))
    return ScoreMap((*rising, points[-1]))


def _bins(scores: Sequence[float], right: Sequence[bool], bins: int) -> list[_Block]:
    order = sorted(range(len(scores)), key=lambda index: scores[index])
    edges = [round(number * len(order) / bins) for number in range(bins + 1)]
    members = [order[start:end] for start, end in pairwise(edges)]
    return [
        (sum(scores[at] for at in each), float(sum(right[at] for at in each)), len(each))
        for each in members
        if each
    ]


def _point(block: _Block) -> tuple[float, float]:
    score, right, count = block
    return round(score / count, _DIGITS), round(right / count, _DIGITS)
