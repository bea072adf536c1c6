"""Fits the calibration that is shipped: some of the rows fit it, and the others measure it.

Which row does what is told by its name alone, so that `edgewise bench routing` can judge a shipped
calibration by rows that it was not fitted on, and more rows change nothing for those there are.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgewise.bench import fit
from edgewise.bench.calibrate import Fitted, document_of, fit_calibration
from edgewise.bench.calibration_report import measured_keys, risk_table
from edgewise.bench.fit import Judged, Sample
from edgewise.bench.trace_set import Recorded, TraceSet
from edgewise.decide.calibration import Calibration, parse_calibration
from edgewise.decide.drift import watched_quantiles
from edgewise.decide.gate import Gate, Verdict
from edgewise.types.measured import RiskTable

MEASURING = 0.4  # share of the rows


def measures(reference: str) -> bool:
    """Whether a row measures the calibration; the others fit it."""
    return zlib.crc32(reference.encode()) % 100 < 100 * MEASURING


def make_sample(row: Recorded) -> Sample:
    return Sample(row.kind, row.right, tuple(row.readings()))


def split_rows(rows: Sequence[Recorded]) -> tuple[list[Sample], list[Sample]]:
    """Those that fit, and those that measure; an answer without evidence does neither."""
    told = [(measures(row.reference), make_sample(row)) for row in rows if row.tokens]
    return (
        [sample for measuring, sample in told if not measuring],
        [sample for measuring, sample in told if measuring],
    )


def fit_shipped(
    traces: TraceSet, command: str, seed: int = 0, progress: Callable[[], None] = lambda: None
) -> tuple[Fitted, dict[str, Any]]:
    """The fit, and the contents of its file."""
    fitting, measuring = split_rows(traces.rows)
    name = f"{traces.origin.model}-{traces.origin.quantisation}".lower()
    fitted = fit_calibration(fitting, name, seed, progress, measuring)
    document = document_of(fitted, traces.origin, command, seed, len(fitting) + len(measuring))
    calibration = parse_calibration(document, name)
    tables = count_risks(calibration, measuring)
    return fitted, document | measure(calibration, measuring, tables)


def count_risks(calibration: Calibration, samples: Sequence[Sample]) -> dict[str, RiskTable]:
    """What the gate keeps of rows that did not fit it, and how much of that is wrong."""
    return {
        "whole": risk_table(samples, lambda at: [kept_whole(s, calibration, at) for s in samples]),
        "stream": risk_table(samples, lambda at: [kept_live(s, calibration, at) for s in samples]),
    }


def measure(
    calibration: Calibration, samples: Sequence[Sample], tables: Mapping[str, RiskTable]
) -> dict[str, Any]:
    """What the engine wants to know of the confidence on rows that did not fit it."""
    confidences = [calibration.final.probability(sample.at(None)) for sample in samples]
    features = {name: [getattr(s.at(None), name) for s in samples] for name in fit.FEATURES}
    watched = watched_quantiles(calibration, [sample.readings for sample in samples])
    return measured_keys(confidences, tables, features) | {"watched": watched}


def kept_whole(sample: Sample, calibration: Calibration, threshold: float) -> bool:
    """As `Engine.complete` decides: the gate may stop early, and the whole answer is judged."""
    gate = Gate(calibration, threshold)
    for count, reading in enumerate(sample.readings, start=1):
        verdict = gate.judge(reading, count)
        if verdict is Verdict.HAND_OFF:
            return False
        if verdict is Verdict.KEEP:
            break
    return gate.judge_whole(sample.at(None)) is Verdict.KEEP


def kept_live(sample: Sample, calibration: Calibration, threshold: float) -> bool:
    """As a stream decides: what is shown stays shown."""
    clear = calibration.keep_above, calibration.drop_below
    return Judged(sample, calibration).decide(*clear, threshold)[0] is Verdict.KEEP
