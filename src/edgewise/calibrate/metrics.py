"""How good a confidence is: in what order it puts answers, and how far it is from what was found.

Plain Python: the machine that trains has no numpy where it asks a peer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


def auroc(scores: Sequence[float], right: Sequence[bool]) -> float:
    """The chance that a right answer scores above a wrong one; ties count half."""
    order = sorted(range(len(scores)), key=lambda index: scores[index])
    positives = sum(right)
    negatives = len(right) - positives
    if not positives or not negatives:
        return 0.5
    rank_sum, start = 0.0, 0
    while start < len(order):
        end = start
        while end < len(order) and scores[order[end]] == scores[order[start]]:
            end += 1
        mean_rank = (start + 1 + end) / 2  # of the tied ones, counted from 1
        rank_sum += mean_rank * sum(right[index] for index in order[start:end])
        start = end
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


@dataclass(frozen=True, slots=True)
class Bin:
    """Answers with similar confidence: promised and found accuracy."""

    count: int
    confidence: float
    accuracy: float


def reliability(chances: Sequence[float], right: Sequence[bool], bins: int = 15) -> list[Bin]:
    """Bins with equal numbers of rows, from the least to the most confident; without empty ones."""
    order = sorted(range(len(chances)), key=lambda index: chances[index])
    edges = [round(number * len(order) / bins) for number in range(bins + 1)]
    found = []
    for start, end in pairwise(edges):
        members = order[start:end]
        if members:
            found.append(
                Bin(
                    len(members),
                    sum(chances[index] for index in members) / len(members),
                    sum(right[index] for index in members) / len(members),
                )
            )
    return found


def expected_calibration_error(
    chances: Sequence[float], right: Sequence[bool], bins: int = 15
) -> float:
    """The mean distance between promised and found accuracy, over equally large bins."""
    return sum(
        each.count * abs(each.confidence - each.accuracy)
        for each in reliability(chances, right, bins)
    ) / len(chances)


def share(flags: Sequence[bool]) -> float:
    """The share that is true; 0 if there are none."""
    return sum(flags) / len(flags) if flags else 0.0
