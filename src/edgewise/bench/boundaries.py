"""Chooses the boundaries of the gate: after how many tokens which early scores are clear.

It is a sequential test with a bound on both of its errors. Of the answers that would be kept in the
end, at most `MOST_CHANGED` may be dropped early, all stops together; and at most as many others may
be kept early. Agreement would not do: where one answer in ten is kept, dropping all of them at the
first token agrees with nine decisions in ten.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from edgewise.bench.fit import LEAST_CLEAR, Judged
from edgewise.types.measured import (
    NOTHING_CLEAR,
    Boundaries,
    Stops,
)

STOPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20)
THRESHOLDS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
MOST_CHANGED = 0.05  # of the answers that are kept in the end, on either side
ENOUGH = 60  # answers on both sides of a threshold, without which it gets no table
_DIGITS = 4

# An answer's early scores at the stops it reached, and its confidence in the end.
Course = tuple[dict[int, float], float]


def choose_boundaries(judged: Sequence[Judged], most_changed: float = MOST_CHANGED) -> Boundaries:
    """Tables for the thresholds that have enough answers on both sides; maybe none."""
    return _choose([_course(each) for each in judged], most_changed)


def give_boundaries(judged: Sequence[Judged], most_changed: float = MOST_CHANGED) -> list[Judged]:
    """The same answers under calibrations with boundaries, found without the fold they judge."""
    folds = {id(each.calibration): each.calibration for each in judged}
    courses = [(id(each.calibration), _course(each)) for each in judged]
    bounded = {
        fold: replace(
            calibration,
            boundaries=_choose([each for at, each in courses if at != fold], most_changed),
        )
        for fold, calibration in folds.items()
    }
    return [Judged(each.sample, bounded[id(each.calibration)]) for each in judged]


def _choose(courses: Sequence[Course], most_changed: float) -> Boundaries:
    stops = sorted({stop for scores, _ in courses for stop in scores})
    found = {at: _table(courses, stops, at, most_changed) for at in THRESHOLDS}
    told = {at: table for at, table in found.items() if table}
    return Boundaries(tuple(told), tuple(told.values()))


def _course(judged: Judged) -> Course:
    last = min(judged.calibration.hold_tokens - 1, len(judged.sample.readings))
    return {stop: judged.early(stop) for stop in STOPS if stop <= last}, judged.confidence


def _table(
    courses: Sequence[Course], stops: Sequence[int], threshold: float, most_changed: float
) -> Stops:
    kept = sum(confidence >= threshold for _, confidence in courses)
    if min(kept, len(courses) - kept) < ENOUGH:
        return {}
    table: dict[int, tuple[float, float]] = {}
    held = list(courses)
    drop_below, keep_above = NOTHING_CLEAR
    lost = slipped = 0
    for stop in stops:
        spent = int(most_changed * kept * stop / stops[-1])  # most of it late, when more is known
        here = [(scores[stop], end >= threshold) for scores, end in held if stop in scores]
        drop_below = _drop_below(here, threshold, spent - lost, drop_below)
        keep_above = _keep_above(here, threshold, spent - slipped, keep_above)
        table[stop] = drop_below, keep_above
        lost += sum(score < drop_below and keeps for score, keeps in here)
        slipped += sum(score >= keep_above and not keeps for score, keeps in here)
        held = [
            (scores, end)
            for scores, end in held
            if stop not in scores or drop_below <= scores[stop] < keep_above
        ]
    return table


def _drop_below(
    here: Sequence[tuple[float, bool]], threshold: float, may_lose: int, before: float
) -> float:
    """The highest score below which at most so many are that would be kept.

    The stop before counts where no higher score is clear here: what crosses it later is clear, too.
    """
    would_keep = sorted(score for score, keeps in here if keeps)
    highest = would_keep[may_lose] if 0 <= may_lose < len(would_keep) else 0.0
    cut = math.floor(min(highest, threshold) * 10**_DIGITS) / 10**_DIGITS
    clear = sum(score < cut for score, _ in here)
    return max(cut, before) if clear >= LEAST_CLEAR else before


def _keep_above(
    here: Sequence[tuple[float, bool]], threshold: float, may_slip: int, before: float
) -> float:
    """The lowest score from which on at most so many are that would be dropped."""
    would_drop = sorted((score for score, keeps in here if not keeps), reverse=True)
    lowest = would_drop[may_slip] if 0 <= may_slip < len(would_drop) else 1.0
    cut = (math.floor(max(lowest, threshold) * 10**_DIGITS) + 1) / 10**_DIGITS
    clear = sum(score >= cut for score, _ in here)
    return min(cut, before) if clear >= LEAST_CLEAR else before
