"""What a calibration file says about itself: figures, a risk table, and what it can promise."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from edgewise.calibrate import fit
from edgewise.calibrate.fit import kept_share, log_loss
from edgewise.calibrate.metrics import auroc, expected_calibration_error, reliability, share
from edgewise.calibrate.traces import Sample
from edgewise.decide.calibration import (
    QUANTILES,
    Calibration,
    Measured,
    RiskRow,
    RiskTable,
    ScoreMap,
)
from edgewise.decide.drift import watched_quantiles
from edgewise.decide.gate import Gate, Verdict
from edgewise.decide.policy import GRID, STARTS, find_threshold, promised_share
from edgewise.errors import InvalidRequest

LEAST_ROWS = 40  # half fit the score, half measure it
ERRORS = (0.01, 0.05, 0.10, 0.20)  # shares of errors for which a promise is sought
PROBABILITY = 0.10  # the chance that a promise is broken
LEAST_IN_BIN = 20
NOTEWORTHY = 0.005  # a smaller difference is a rounding

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Worth:
    """What confidences are worth on rows that did not fit them."""

    auroc: float
    ece: float
    log_loss: float
    kept_at_90: float  # the largest share of surest answers of which 90 % are right

    def beats(self, other: Worth, least: float) -> bool:
        """It orders better, and its numbers mean more: by so many nats a row, to be sure."""
        return self.auroc > other.auroc and self.log_loss < other.log_loss - least

    def to_dict(self) -> dict[str, float]:
        found = {name: round(value, 4) for name, value in asdict(self).items()}
        found["kept_share_at_0.90"] = found.pop("kept_at_90")
        return found

    @classmethod
    def read(cls, report: Mapping[str, Any]) -> Worth:
        """From a report of a calibration file."""
        names = ("auroc", "ece", "log_loss", "kept_share_at_0.90")
        return cls(*(float(report[name]) for name in names))


@dataclass(frozen=True, slots=True)
class Comparison:
    """The calibration in force and a new one, on the same rows."""

    before: Worth
    after: Worth

    @classmethod
    def read(cls, report: Mapping[str, Any]) -> Comparison:
        """From the report of a new calibration file."""
        return cls(Worth.read(report["in_use"]), Worth.read(report))

    def better(self) -> list[str]:
        return [words for good, words in self._told() if good > 0]

    def worse(self) -> list[str]:
        return [words for good, words in self._told() if good < 0]

    def _told(self) -> list[tuple[float, str]]:
        """What changed by more than a rounding, in words; above 0 is better."""
        old, new = self.before, self.after
        kept = f"kept at 90 % right {old.kept_at_90:.0%} → {new.kept_at_90:.0%}"
        found = [
            (new.auroc - old.auroc, f"AUROC {old.auroc:.3f} → {new.auroc:.3f}"),
            (old.ece - new.ece, f"calibration error {old.ece:.3f} → {new.ece:.3f}"),
            (new.kept_at_90 - old.kept_at_90, kept),
        ]
        return [(good, words) for good, words in found if abs(good) >= NOTEWORTHY]


def compare_confidences(
    before: Sequence[float], after: Sequence[float], right: Sequence[bool]
) -> Comparison:
    return Comparison(_worth(before, right), _worth(after, right))


def _worth(confidences: Sequence[float], right: Sequence[bool]) -> Worth:
    return Worth(
        auroc(confidences, right),
        expected_calibration_error(confidences, right, bin_count(len(right))),
        log_loss(confidences, right),
        kept_share(np.asarray(confidences), np.asarray(right, float), 0.9),
    )


class RatedRow(Protocol):
    """A row whose answer is right or wrong."""

    @property
    def right(self) -> bool: ...


def rows_needed(error: float, probability: float = PROBABILITY) -> int:
    """Kept rows without a single error that prove it: n >= ln(level) / ln(1 - error)."""
    return math.ceil(math.log(probability / len(STARTS)) / math.log1p(-error))


def refuse_few(rows: int) -> None:
    if rows >= LEAST_ROWS:
        return
    needs = ", ".join(f"{error:.0%}: {rows_needed(error)}" for error in reversed(ERRORS))
    raise InvalidRequest(
        f"{rows} rows are too few: at least {LEAST_ROWS} are needed; half fit the score and half "
        f"measure it. To promise a share of errors (with {1 - PROBABILITY:.0%} probability), the "
        f"measuring half must keep this many rows without an error: {needs}"
    )


def risk_table(rows: Sequence[RatedRow], kept_at: Callable[[float], Sequence[bool]]) -> RiskTable:
    """How many rows each threshold keeps, strictest first, and how many of them are wrong."""
    table = []
    for threshold in GRID:
        kept = [row.right for row, keeps in zip(rows, kept_at(threshold), strict=True) if keeps]
        table.append(RiskRow(threshold, len(kept), len(kept) - sum(kept)))
    return tuple(table)


def map_keys(maps: Mapping[str, ScoreMap]) -> Document:
    kept = {name: [list(point) for point in each.points] for name, each in maps.items()}
    kept = {name: points for name, points in kept.items() if points}
    return {"map": kept} if kept else {}


def measured_keys(
    confidences: Sequence[float],
    tables: Mapping[str, RiskTable],
    features: Mapping[str, Sequence[float]],
) -> Document:
    places = np.linspace(0, 1, QUANTILES)
    return {
        "risk": {name: [list(row) for row in table] for name, table in tables.items()},
        "risk_rows": len(confidences),
        "quantiles": [round(float(value), 4) for value in np.quantile(confidences, places)],
        "feature_means": {name: round(float(np.mean(v)), 5) for name, v in features.items()},
        "feature_deviations": {name: round(float(np.std(v)), 5) for name, v in features.items()},
    }


def bin_count(rows: int) -> int:
    """Bins with few rows measure only chance."""
    return max(2, min(15, rows // LEAST_IN_BIN))


def figures(
    rows: int, after: Sequence[float], before: Sequence[float], right: Sequence[bool]
) -> Document:
    """What the new confidences are worth, and those in use until now (`in_use`)."""
    told = compare_confidences(before, after, right)
    return {
        "rows": rows,
        "measured_on": len(right),
        "ece_bins": bin_count(len(right)),
        "accuracy": round(share(right), 4),
        **told.after.to_dict(),
        "in_use": told.before.to_dict(),
    }


def promises(table: RiskTable, rows: int) -> Document:
    """For each share of errors, the threshold that is proven to keep it, and what it keeps."""
    found = []
    for error in ERRORS:
        threshold = find_threshold(table, rows, error, PROBABILITY)
        kept = next((row.kept for row in table if row.threshold == threshold), 0)
        found.append(
            {
                "max_error": error,
                "threshold": threshold,
                "kept_share": round(kept / rows, 4) if rows else 0.0,
                "rows_needed": rows_needed(error),
            }
        )
    return {"promises": found, "probability": PROBABILITY}


def promises_of(measured: Measured) -> Document:
    """The same of a calibration, as `edgewise doctor` says it; empty: it promises nothing."""
    table = measured.risk.get("whole", ())
    if measured.families is None:
        return promises(table, measured.risk_rows) if table else {}
    found = [
        {
            "max_error": error,
            "threshold": None,
            "kept_share": round(promised_share(measured, error, PROBABILITY), 4),
            "rows_needed": rows_needed(error),
        }
        for error in ERRORS
    ]
    return {"promises": found, "probability": PROBABILITY}


def bins(confidences: Sequence[float], right: Sequence[bool]) -> list[dict[str, float]]:
    return [
        {name: round(value, 4) for name, value in asdict(each).items()}
        for each in reliability(confidences, right, bin_count(len(right)))
    ]


def curve(table: RiskTable, rows: int) -> list[dict[str, float]]:
    return [
        {
            "threshold": row.threshold,
            "kept_share": round(row.kept / rows, 4),
            "kept_accuracy": round(1 - row.wrong / row.kept, 4) if row.kept else 0.0,
        }
        for row in reversed(table)
        if round(row.threshold * 100) % 10 == 0
    ]


def count_risks(calibration: Calibration, samples: Sequence[Sample]) -> dict[str, RiskTable]:
    """What the gate keeps of rows that did not fit it, and how much of that is wrong."""
    return {
        "whole": risk_table(samples, lambda at: [kept_whole(s, calibration, at) for s in samples]),
        "stream": risk_table(samples, lambda at: [kept_live(s, calibration, at) for s in samples]),
    }


def measure(
    calibration: Calibration, samples: Sequence[Sample], tables: Mapping[str, RiskTable]
) -> dict[str, Any]:
    """What the engine needs to know about the confidence, on rows that did not fit it."""
    confidences = [calibration.final.of(sample.at(None).features()) for sample in samples]
    features = {name: [getattr(s.at(None), name) for s in samples] for name in fit.FEATURES}
    watched = watched_quantiles(calibration, [sample.readings for sample in samples])
    return measured_keys(confidences, tables, features) | {"watched": watched}


def kept_whole(sample: Sample, calibration: Calibration, threshold: float) -> bool:
    """As `Engine.complete` decides: a long answer may be stopped, else the whole one is judged."""
    gate = Gate(calibration, threshold)
    return kept_live(sample, calibration, threshold) and not gate.doubts(
        gate.confidence(sample.at(None))
    )


def kept_live(sample: Sample, calibration: Calibration, threshold: float) -> bool:
    """As a stream decides: what is shown stays shown."""
    gate = Gate(calibration, threshold)
    return gate.judge_whole(sample.at(sample.decided_after)) is Verdict.KEEP
