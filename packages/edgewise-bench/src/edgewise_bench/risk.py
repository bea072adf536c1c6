"""What a confidence is worth: risk against coverage, and whether a stated risk is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from edgewise.calibrate.metrics import expected_calibration_error
from edgewise.decide.calibration import RiskRow, RiskTable
from edgewise.decide.policy import GRID, find_threshold

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike, NDArray

TARGETS = (0.01, 0.05, 0.10, 0.20)
DELTA = 0.10


def coverage_at(scores: Sequence[float], right: Sequence[bool], precision: float) -> float:
    """The largest share of answers, most confident first, that keeps this precision."""
    best = 0
    for kept, wrong in _steps(scores, right):
        if (kept - wrong) / kept >= precision:
            best = kept
    return best / len(scores) if scores else 0.0


def risk_coverage(scores: Sequence[float], right: Sequence[bool]) -> list[tuple[float, float]]:
    """(share kept, share wrong among the kept), most confident first; ties are kept together."""
    return [(kept / len(scores), wrong / kept) for kept, wrong in _steps(scores, right)]


def aurc(scores: Sequence[float], right: Sequence[bool]) -> float:
    """Area under the risk-coverage curve: the mean risk over all coverages; 0 is perfect.

    Within a tie the wrong ones are spread evenly, as any order of them is as likely.
    """
    total, before, wrong_before = 0.0, 0, 0
    for kept, wrong in _steps(scores, right):
        rate = (wrong - wrong_before) / (kept - before)
        total += sum(
            (wrong_before + rate * (number - before)) / number
            for number in range(before + 1, kept + 1)
        )
        before, wrong_before = kept, wrong
    return total / len(scores) if scores else 0.0


def _steps(scores: Sequence[float], right: Sequence[bool]) -> list[tuple[int, int]]:
    """(how many kept, how many of them wrong) after each tie, most confident first."""
    ordered = sorted(zip(scores, right, strict=True), key=lambda pair: -pair[0])
    kept = wrong = 0
    steps = []
    for _, tied in groupby(ordered, key=lambda pair: pair[0]):
        flags = [is_right for _, is_right in tied]
        kept += len(flags)
        wrong += len(flags) - sum(flags)
        steps.append((kept, wrong))
    return steps


class Kept(NamedTuple):
    """What came of one target over all splits.

    violations  share of splits whose kept test rows were wrong more often than the target allows;
                a split that keeps nothing breaks no word
    nothing     share of splits in which no threshold could be proven
    kept        mean share of the test rows that was kept, 0 where nothing could be
    error       share wrong among all kept test rows, over all splits
    """

    violations: float
    nothing: float
    kept: float
    error: float


def risk_table(confidences: ArrayLike, right: ArrayLike, grid: Sequence[float] = GRID) -> RiskTable:
    """How many rows are kept at each threshold, and how many of those are wrong."""
    import numpy  # noqa: PLC0415  # training scores calls without it

    scores = numpy.asarray(confidences, dtype=numpy.float64)
    order = numpy.argsort(-scores, kind="stable")
    wrong = numpy.cumsum(1 - numpy.asarray(right, dtype=numpy.int64)[order])
    kept = numpy.searchsorted(-scores[order], -numpy.asarray(grid), side="right")
    return tuple(
        RiskRow(threshold, int(count), int(wrong[count - 1]) if count else 0)
        for threshold, count in zip(grid, kept, strict=True)
    )


def ece_floor(chances: ArrayLike, seed: int = 0, draws: int = 200, bins: int = 15) -> float:
    """The calibration error that a perfect predictor with these chances would show by luck."""
    import numpy  # noqa: PLC0415  # as above

    told = numpy.asarray(chances, dtype=numpy.float64)
    generator = numpy.random.default_rng(seed)
    drawn = [
        expected_calibration_error(
            told.tolist(), (generator.random(len(told)) < told).tolist(), bins
        )
        for _ in range(draws)
    ]
    return float(numpy.mean(drawn))


def violations(
    scores: ArrayLike,
    right: ArrayLike,
    targets: Sequence[float] = TARGETS,
    delta: float = DELTA,
    splits: int = 200,
    seed: int = 0,
    grid: Sequence[float] = GRID,
) -> Mapping[float, Kept]:
    """By target, what random halvings of the rows show: one half chooses, the other tests.

    `scores` are confidences from 0 to 1 that were not fitted on these rows; a row is kept where its
    score is at least the threshold, as `Engine.complete` does.
    """
    import numpy  # noqa: PLC0415  # as above

    confidences = numpy.asarray(scores, dtype=numpy.float64)
    wrong = 1 - numpy.asarray(right, dtype=numpy.int64)
    generator = numpy.random.default_rng(seed)
    found: dict[float, list[tuple[int, int] | None]] = {target: [] for target in targets}
    for _ in range(splits):
        shuffled = generator.permutation(len(confidences))
        choosing, testing = numpy.split(shuffled, [len(shuffled) // 2])
        table = risk_table(confidences[choosing], 1 - wrong[choosing], grid)
        for target in targets:
            threshold = find_threshold(table, len(choosing), target, delta)
            found[target].append(
                None if threshold is None else _test(threshold, confidences, wrong, testing)
            )
    tested = len(confidences) - len(confidences) // 2
    return {target: _summary(outcomes, target, tested) for target, outcomes in found.items()}


def _test(
    threshold: float,
    scores: NDArray[numpy.float64],
    wrong: NDArray[numpy.int64],
    testing: NDArray[numpy.int64],
) -> tuple[int, int]:
    kept = testing[scores[testing] >= threshold]
    return len(kept), int(wrong[kept].sum())


def _summary(outcomes: Sequence[tuple[int, int] | None], target: float, tested: int) -> Kept:
    counts = [outcome or (0, 0) for outcome in outcomes]
    kept = sum(count for count, _ in counts)
    return Kept(
        violations=sum(wrong > target * count + 1e-9 for count, wrong in counts) / len(counts),
        nothing=outcomes.count(None) / len(outcomes),
        kept=kept / (tested * len(counts)),
        error=sum(wrong for _, wrong in counts) / kept if kept else 0.0,
    )
