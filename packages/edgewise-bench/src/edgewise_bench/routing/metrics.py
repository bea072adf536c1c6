"""What a routing score is worth: quality bought per call sent, over arrays and with intervals.

Every function takes arrays of one entry per request. Requests with the same score are one step:
any order of them is as likely, so the curves run straight through a tie and a constant score does
no better than chance, however the rows are sorted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[numpy.float64]


def deferral_curve(score: ArrayLike, weak: ArrayLike, strong: ArrayLike) -> tuple[Numbers, Numbers]:
    """(share sent, mean quality) as more is sent to the strong model, highest scores first."""
    cheap, gain = _array(weak), _array(strong) - _array(weak)
    sent, gained = _steps(_array(score), gain)
    return sent / len(cheap), cheap.mean() + gained / len(cheap)


def apgr(score: ArrayLike, weak: ArrayLike, strong: ArrayLike) -> float:
    """Average performance gap recovered: the area of PGR over the share sent; chance is 0.5.

    PGR is (quality - weak) / (strong - weak). It has no meaning, and is not a number, where the
    strong model is not the better one.
    """
    share, recovered = _recovered(score, weak, strong)
    return float(numpy.trapezoid(recovered, share))


def cpt(score: ArrayLike, weak: ArrayLike, strong: ArrayLike, quality: float) -> float:
    """Call-performance threshold: the least share sent that recovers this much of the gap."""
    share, recovered = _recovered(score, weak, strong)
    if numpy.isnan(recovered).any():
        return float("nan")
    there = int(numpy.argmax(recovered >= quality))
    if there == 0:
        return 0.0 if recovered[0] >= quality else float("nan")
    part = (quality - recovered[there - 1]) / (recovered[there] - recovered[there - 1])
    return float(share[there - 1] + part * (share[there] - share[there - 1]))


def auroc(score: ArrayLike, positive: ArrayLike) -> float:
    """As `metrics.auroc`, over arrays: an interval asks for it a thousand times."""
    scores, flags = _array(score), _array(positive)
    count = flags.sum()
    if count in (0, len(flags)):
        return 0.5
    _, group, sizes = numpy.unique(scores, return_inverse=True, return_counts=True)
    mean_rank = numpy.cumsum(sizes) - (sizes - 1) / 2  # of the tied ones, counted from 1
    ranks = float(mean_rank[group] @ flags)
    return float((ranks - count * (count + 1) / 2) / (count * (len(flags) - count)))


def aurc(confidence: ArrayLike, right: ArrayLike) -> float:
    """As `risk.aurc`, over arrays: the mean share wrong over all coverages; 0 is perfect."""
    kept, wrong = _steps(_array(confidence), 1 - _array(right))
    numbers = numpy.arange(1, len(_array(right)) + 1)
    return float((numpy.interp(numbers, kept, wrong) / numbers).mean())


def coverage_at_risk(confidence: ArrayLike, right: ArrayLike, risk: float) -> float:
    """The largest share, most confident first and ties whole, of which at most `risk` is wrong."""
    kept, wrong = _steps(_array(confidence), 1 - _array(right))
    fits = wrong <= risk * kept + 1e-9  # a float's rounding must not cost a whole step
    return float(kept[fits].max() / kept[-1])


def bootstrap(
    *values: ArrayLike,
    statistic: Callable[..., float],
    rounds: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[float, float]:
    """The interval between which `level` of the statistic lies when rows are drawn again.

    Draws for which the statistic is not a number are left out. Models are not fitted again: the
    interval is that of the rows, not of the training.
    """
    arrays = [_array(value) for value in values]
    generator = numpy.random.default_rng(seed)
    size = len(arrays[0])
    found = []
    for _ in range(rounds):
        rows = generator.integers(0, size, size)
        found.append(statistic(*(array[rows] for array in arrays)))
    finite = [value for value in found if not numpy.isnan(value)]
    if not finite:
        return float("nan"), float("nan")
    tail = 50 * (1 - level)
    low, high = numpy.percentile(finite, [tail, 100 - tail])
    return float(low), float(high)


def _recovered(score: ArrayLike, weak: ArrayLike, strong: ArrayLike) -> tuple[Numbers, Numbers]:
    share, quality = deferral_curve(score, weak, strong)
    gap = quality[-1] - quality[0]
    if gap <= 1e-12:
        return share, numpy.full_like(share, numpy.nan)
    return share, (quality - quality[0]) / gap


def _steps(score: Numbers, amount: Numbers) -> tuple[Numbers, Numbers]:
    """(rows, sum of their amounts) from nothing on and after each tie, highest scores first."""
    if len(score) != len(amount) or not len(score):
        raise ValueError(f"{len(score)} scores for {len(amount)} rows")
    order = numpy.argsort(-score, kind="stable")
    ends = numpy.flatnonzero(numpy.append(numpy.diff(score[order]) != 0, True))
    sums = numpy.cumsum(amount[order])[ends]
    return numpy.insert(ends + 1.0, 0, 0.0), numpy.insert(sums, 0, 0.0)


def _array(values: ArrayLike) -> Numbers:
    return numpy.asarray(values, dtype=numpy.float64)
