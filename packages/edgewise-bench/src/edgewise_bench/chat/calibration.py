"""Fits the calibration that is shipped: some of the rows fit it, and the others measure it.

Which row does what is told by its name alone, so that `edgewise bench routing` can judge a shipped
calibration by rows that it was not fitted on, and more rows change nothing for those there are.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from edgewise.calibrate.fit import FittedCalibration, document_of, fit_calibration
from edgewise.calibrate.own import calibration_name
from edgewise.calibrate.report import count_risks, measure
from edgewise.calibrate.traces import MAX_TOKENS, Sample
from edgewise.decide.calibration import parse_calibration
from edgewise.decide.gate import decided_after
from edgewise.local.store import InstalledModel
from edgewise.settings import Settings
from edgewise_bench.chat.traces import Origin, Recorded, TraceSet

MEASURING = 0.4  # share of the rows


def measures(reference: str) -> bool:
    """Whether a row measures the calibration; the others fit it."""
    return zlib.crc32(reference.encode()) % 100 < 100 * MEASURING


def make_sample(row: Recorded) -> Sample:
    told = decided_after([token.text for token in row.tokens])
    return Sample(row.kind, row.right, tuple(row.readings()), told)


def split_rows(rows: Sequence[Recorded]) -> tuple[list[Sample], list[Sample]]:
    """Those that fit, and those that measure; an answer without evidence does neither."""
    told = [(measures(row.reference), make_sample(row)) for row in rows if row.tokens]
    return (
        [sample for measuring, sample in told if not measuring],
        [sample for measuring, sample in told if measuring],
    )


def fit_shipped(
    traces: TraceSet, command: str, seed: int = 0, progress: Callable[[], None] = lambda: None
) -> tuple[FittedCalibration, dict[str, Any]]:
    """The fit, and the contents of its file."""
    fitting, measuring = split_rows(traces.rows)
    name = f"{traces.origin.model}-{traces.origin.quantisation}".lower()
    fitted = fit_calibration(fitting, name, seed, progress, measuring)
    count = len(fitting) + len(measuring)
    document = shipped_document(fitted, traces.origin, command, seed, count)
    calibration = parse_calibration(document, name)
    tables = count_risks(calibration, measuring)
    return fitted, document | measure(calibration, measuring, tables)


def traces_path(settings: Settings, model: InstalledModel) -> Path:
    """Traces belong to exact weights, a runtime and a system prompt: each has its own file."""
    unique = f"{model.sha256} {version('xllamacpp')} {MAX_TOKENS} {own_system(model)}"
    digest = hashlib.sha256(unique.encode()).hexdigest()[:12]
    return settings.cache_dir / "bench" / f"answers-{calibration_name(model)}-{digest}.jsonl"


def judged_path(settings: Settings, model: InstalledModel) -> Path:
    """Answers judged by held-out heads; the same weights and the same runtime share a file."""
    digest = hashlib.sha256(f"{model.sha256} {version('xllamacpp')}".encode()).hexdigest()[:12]
    return settings.cache_dir / "bench" / f"judged-{calibration_name(model)}-{digest}.jsonl"


def own_system(model: InstalledModel) -> str:
    return model.row.default_system if model.row else ""


def shipped_document(
    fitted: FittedCalibration, origin: Origin, command: str, seed: int, questions: int
) -> dict[str, Any]:
    """The calibration file: what `parse_calibration` reads, and where it comes from."""
    return document_of(
        fitted,
        {
            "model": origin.model,
            "quantisation": origin.quantisation,
            "sha256": origin.sha256,
            "runtime": dict(origin.runtime),
        },
        {
            "description": "questions with checkable answers: ours (edgewise_bench.questions) "
            "and, where so many, public ones by reference (results/traces of edgewise-bench); "
            "greedy answers of the model itself",
            "command": command,
            "seed": seed,
            "questions": questions,
            "max_tokens": origin.max_tokens,
            "system": origin.system,
        },
    )
