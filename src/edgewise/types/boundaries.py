"""How clear an early score must be for waiting to end, by threshold and tokens seen.

A calibration may hold such tables; `docs/confidence.md` says how they are found.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

NOTHING_CLEAR = (0.0, 1.0)  # no score is below the one, or above the other

Stops = Mapping[int, tuple[float, float]]  # tokens seen: (drop_below, keep_above)


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Tables by the threshold they were found at, the lowest first.

    An answer that is clearly below 0.5 is clearly below 0.6 as well: what a table says about
    dropping holds for higher thresholds, and what it says about keeping for lower ones. So each
    side is read from the nearest table that may speak.
    """

    thresholds: tuple[float, ...] = ()
    tables: tuple[Stops, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tables)

    def at(self, threshold: float, tokens: int) -> tuple[float, float]:
        """(drop_below, keep_above) after so many tokens; between two stops nothing is clear."""
        drop_below, keep_above = NOTHING_CLEAR
        below = bisect_right(self.thresholds, threshold)
        if below:
            drop_below = self.tables[below - 1].get(tokens, NOTHING_CLEAR)[0]
        above = bisect_left(self.thresholds, threshold)
        if above < len(self.tables):
            keep_above = self.tables[above].get(tokens, NOTHING_CLEAR)[1]
        return drop_below, keep_above


NO_BOUNDARIES = Boundaries()


def read_boundaries(rows: Sequence[Mapping[str, Any]]) -> Boundaries:
    """The key `boundaries` of a calibration. Raises ValueError or TypeError for what cannot be."""
    thresholds = tuple(float(row["threshold"]) for row in rows)
    if any(left >= right for left, right in pairwise(thresholds)):
        raise ValueError("boundaries begin with their lowest threshold")
    tables = (_stops(row["stops"], at) for row, at in zip(rows, thresholds, strict=True))
    return Boundaries(thresholds, tuple(tables))


def write_boundaries(boundaries: Boundaries) -> list[dict[str, Any]]:
    """What `read_boundaries` reads."""
    return [
        {"threshold": threshold, "stops": [[tokens, *cuts] for tokens, cuts in stops.items()]}
        for threshold, stops in zip(boundaries.thresholds, boundaries.tables, strict=True)
    ]


def _stops(rows: Sequence[Sequence[float]], threshold: float) -> Stops:
    stops = {int(tokens): (float(drop), float(keep)) for tokens, drop, keep in rows}
    if any(not 0.0 <= drop <= threshold <= keep <= 1.0 for drop, keep in stops.values()):
        raise ValueError("a boundary must drop below its threshold and keep above it")
    return stops
