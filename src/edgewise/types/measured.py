"""What was measured of a score, on rows that it was not fitted on."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, NamedTuple

# How an answer is judged: as a whole before it is shown, or while it is streamed.
Judged = Literal["whole", "stream"]
QUANTILES = 21  # 0, 5, ... 100 %

# Calibrations that were not measured on the model that answers: a plain order of answers, and what
# other models showed. Their numbers are called unverified wherever they are shown.
UNCALIBRATED, TRANSFER = "uncalibrated", "transfer"
BORROWED = ":borrowed"  # behind the name of one that was measured on the same bits, run elsewhere

NOTHING_CLEAR = (0.0, 1.0)  # no score is below the first or above the second
Stops = Mapping[int, tuple[float, float]]  # tokens seen: (drop_below, keep_above)


@dataclass(frozen=True, slots=True)
class ScoreMap:
    """A non-decreasing, piecewise-linear map from a score to a chance. No points: no change."""

    points: tuple[tuple[float, float], ...] = ()

    def of(self, score: float) -> float:
        if not self.points:
            return score
        after = bisect_right(self.points, score, key=lambda point: point[0])
        if after == 0:
            return self.points[0][1]
        if after == len(self.points):
            return self.points[-1][1]
        (left, low), (right, high) = self.points[after - 1], self.points[after]
        return low + (high - low) * (score - left) / (right - left)


class RiskRow(NamedTuple):
    """How many rows the gate kept at this threshold, and how many of them were wrong."""

    threshold: float
    kept: int
    wrong: int


RiskTable = tuple[RiskRow, ...]  # strictest threshold first


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The optional part of a calibration.

    maps       from the score to the chance: "early" and "final"
    risk       one table for answers judged "whole", one for those that "stream"
    risk_rows  how many rows the tables were counted on, kept or not; 0: unknown
    quantiles  of the final confidence on those rows, at 0, 5, ... 100 %
    feature_means, feature_deviations   of the features on those rows
    agreement  what a second sample is worth, if anything
    """

    maps: Mapping[str, ScoreMap] = field(default_factory=dict)
    risk: Mapping[str, RiskTable] = field(default_factory=dict)
    risk_rows: int = 0
    quantiles: tuple[float, ...] = ()
    feature_means: Mapping[str, float] = field(default_factory=dict)
    feature_deviations: Mapping[str, float] = field(default_factory=dict)
    agreement: Mapping[str, Any] = field(default_factory=dict)

    def map_of(self, score: str) -> ScoreMap:
        return self.maps.get(score, UNMAPPED)


def is_verified(calibration: str) -> bool:
    """Whether the confidences of a calibration were measured on answers of the same model."""
    told = bool(calibration) and calibration not in (UNCALIBRATED, TRANSFER)
    return told and not is_borrowed(calibration)


def is_borrowed(calibration: str) -> bool:
    """Whether it was measured on the same bits in another runtime. Nothing is promised then."""
    return calibration.endswith(BORROWED)


def doubt_of(calibration: str) -> str:
    """The word before a confidence that is not verified; empty: it is."""
    if is_verified(calibration):
        return ""
    return "borrowed" if is_borrowed(calibration) else "unverified"


UNMAPPED = ScoreMap()
UNMEASURED = Measured()


def read_measured(data: Mapping[str, Any]) -> Measured:
    """The optional keys of a calibration. Raises ValueError or TypeError for bad values."""
    risk = {str(judged): _table(rows) for judged, rows in data.get("risk", {}).items()}
    largest = max((row.kept for table in risk.values() for row in table), default=0)
    rows = _count(data.get("risk_rows", largest), "risk_rows")
    if rows < largest:
        raise ValueError(f"risk_rows = {rows}, but {largest} rows were kept")
    if unknown := sorted(set(risk) - {"whole", "stream"}):
        raise ValueError(f"unknown risk table {unknown[0]!r}")
    return Measured(
        maps={str(score): _map(points) for score, points in data.get("map", {}).items()},
        risk=risk,
        risk_rows=rows,
        quantiles=_quantiles(data.get("quantiles", ())),
        feature_means=_numbers(data.get("feature_means", {})),
        feature_deviations=_numbers(data.get("feature_deviations", {})),
        agreement=dict(data.get("agreement", {})),
    )


def _map(points: Sequence[Sequence[float]]) -> ScoreMap:
    read = tuple((_share(x, "map"), _share(y, "map")) for x, y in points)
    if any(left[0] >= right[0] or left[1] > right[1] for left, right in pairwise(read)):
        raise ValueError("a map must rise: x sorted, y never falling")
    return ScoreMap(read)


def _table(rows: Sequence[Sequence[float]]) -> RiskTable:
    read = tuple(
        RiskRow(_share(threshold, "risk"), _count(kept, "risk"), _count(wrong, "risk"))
        for threshold, kept, wrong in rows
    )
    if any(row.wrong > row.kept for row in read):
        raise ValueError("a risk table with more wrong than kept")
    if any(above.threshold <= below.threshold for above, below in pairwise(read)):
        raise ValueError("a risk table begins with its strictest threshold")
    return read


def _quantiles(values: Sequence[float]) -> tuple[float, ...]:
    read = tuple(_share(value, "quantiles") for value in values)
    if read and len(read) != QUANTILES:
        raise ValueError(f"{len(read)} quantiles: must be {QUANTILES}")
    if any(left > right for left, right in pairwise(read)):
        raise ValueError("quantiles must not fall")
    return read


def _numbers(values: Mapping[str, float]) -> dict[str, float]:
    read = {str(name): float(value) for name, value in values.items()}
    if not all(map(math.isfinite, read.values())):
        raise ValueError("a feature's mean or deviation is not a finite number")
    return read


def _share(value: float, name: str) -> float:
    number = float(value)
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"{name}: {value!r} is not between 0 and 1")
    return number


def _count(value: float, name: str) -> int:
    if isinstance(value, bool) or int(value) != value or value < 0:
        raise ValueError(f"{name}: {value!r} is not a count")
    return int(value)


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Tables by the threshold they were computed for, lowest first.

    An answer clearly below 0.5 is clearly below 0.6 too. So what a table says about dropping also
    holds for higher thresholds, and what it says about keeping for lower ones. Each side is
    read from the nearest table that applies.
    """

    thresholds: tuple[float, ...] = ()
    tables: tuple[Stops, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tables)

    def at(self, threshold: float, tokens: int) -> tuple[float, float]:
        """(drop_below, keep_above) after this many tokens. Between two stops nothing is clear."""
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
    """The key `boundaries` of a calibration. Raises ValueError or TypeError for bad values."""
    thresholds = tuple(float(row["threshold"]) for row in rows)
    if any(left >= right for left, right in pairwise(thresholds)):
        raise ValueError("boundaries begin with their lowest threshold")
    tables = (_stops(row["stops"], at) for row, at in zip(rows, thresholds, strict=True))
    return Boundaries(thresholds, tuple(tables))


def write_boundaries(boundaries: Boundaries) -> list[dict[str, Any]]:
    """The inverse of `read_boundaries`."""
    return [
        {"threshold": threshold, "stops": [[tokens, *cuts] for tokens, cuts in stops.items()]}
        for threshold, stops in zip(boundaries.thresholds, boundaries.tables, strict=True)
    ]


def _stops(rows: Sequence[Sequence[float]], threshold: float) -> Stops:
    stops = {int(tokens): (float(drop), float(keep)) for tokens, drop, keep in rows}
    if any(not 0.0 <= drop <= threshold <= keep <= 1.0 for drop, keep in stops.values()):
        raise ValueError("a boundary must drop below its threshold and keep above it")
    return stops
