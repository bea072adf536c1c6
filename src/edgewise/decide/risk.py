"""The loosest threshold that keeps a stated risk, proven on counted rows: Learn then Test.

For each threshold of a table the hypothesis "more than `error` of what is kept is wrong" is tested
by the exact binomial tail. Testing goes from strict to loose and ends at the first threshold that
is not proven; it begins anew at a few fixed places, so that one early mistake does not end it all,
and each place gets its part of the probability of being wrong. See docs/risk.md.
"""

from __future__ import annotations

import math
from functools import lru_cache

from edgewise.types.measured import RiskTable

# Where testing begins: at the first threshold that keeps this share of the rows. They are fixed
# before any rows are seen, and each has an eighth of the probability. So many are more than the
# mistakes at the top need: they also make room for the noise of the rows it is tested on.
STARTS = (1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
# The thresholds of a table, where nothing else decides them.
GRID = tuple(hundredth / 100 for hundredth in range(99, 0, -1))
_NEGLIGIBLE = 1e-17


@lru_cache(maxsize=256)
def find_threshold(table: RiskTable, rows: int, error: float, probability: float) -> float | None:
    """The loosest threshold at which at most `error` of what is kept is wrong, or None.

    `rows` is how many the table was counted on. Over many tables, that of a threshold whose true
    error is larger is returned with at most this `probability`.
    """
    level = probability / len(STARTS)
    proven = [
        row.threshold for start in STARTS for row in _passed(table, start * rows, error, level)
    ]
    return min(proven, default=None)


def _passed(table: RiskTable, least_kept: float, error: float, level: float) -> RiskTable:
    """The rows from one start to before the first that is not proven."""
    start = next((at for at, row in enumerate(table) if row.kept >= least_kept), len(table))
    end = start
    while end < len(table) and tail(table[end].wrong, table[end].kept, error) <= level:
        end += 1
    return table[start:end]


def tail(wrong: int, kept: int, error: float) -> float:
    """The chance of at most so many wrong of those kept, if `error` of all such are."""
    if wrong >= kept or error <= 0.0:
        return 1.0
    if error >= 1.0:
        return 0.0
    if wrong < kept * error:
        return min(1.0, _sum(wrong, kept, error, -1))
    return max(0.0, 1.0 - _sum(wrong + 1, kept, error, 1))


def _sum(first: int, trials: int, chance: float, step: int) -> float:
    """Binomial terms from `first` on, away from the middle, until they no longer matter."""
    odds = chance / (1.0 - chance)
    log_term = (
        math.lgamma(trials + 1)
        - math.lgamma(first + 1)
        - math.lgamma(trials - first + 1)
        + first * math.log(chance)
        + (trials - first) * math.log1p(-chance)
    )
    total, part, at = 1.0, 1.0, first
    while part > _NEGLIGIBLE * total and 0 <= at + step <= trials:
        part *= at / ((trials - at + 1) * odds) if step < 0 else (trials - at) * odds / (at + 1)
        total, at = total + part, at + step
    return total * math.exp(log_term)
