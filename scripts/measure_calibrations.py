"""Write the shipped calibrations of speech, and what published rows say of that of calls.

    python scripts/measure_calibrations.py [--check]

Risk tables, quantiles and the features' means: on answers to requests that the calibration of calls
was not fitted on, and on segments as fits without their voice judge them. The scores of speech are
fitted here; those of calls by training/fit_calls.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgewise.calibrate.report import measured_keys
from edgewise_bench.risk import risk_table
from edgewise_bench.routing.rows import (
    FUNCTION_MODEL,
    TRANSCRIBERS,
    Rows,
    call_rows,
    read_calls,
    read_speech,
    speech_rows,
)
from edgewise_bench.speech.fit import fit_speech

ROOT = Path(__file__).parents[1]
TRACES = ROOT / "benchmarks" / "traces"
SHIPPED = ROOT / "src" / "edgewise" / "calibrations"
CALLS = f"{FUNCTION_MODEL}-q8_0.calls.json"


def measured(rows: Rows, features: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    names = sorted({name for row in features for name in row})
    columns = {name: [row.get(name, 0.0) for row in features] for name in names}
    table = risk_table(rows.confidence, rows.right)
    return measured_keys(rows.confidence.tolist(), {"whole": table}, columns)


def documents() -> dict[str, dict[str, Any]]:
    """File names, and what should be in them."""
    calls = TRACES / f"{FUNCTION_MODEL}.jsonl.gz"
    each_call = [one for row in read_calls(calls) if not row.fitted for one in row.features]
    found = {CALLS: _read(CALLS) | measured(call_rows(calls), each_call)}
    return found | {f"{model}-int8.speech.json": speech(model) for model in TRANSCRIBERS}


def speech(model: str) -> dict[str, Any]:
    """The whole calibration of a speech model, from its published traces alone."""
    path = TRACES / f"{model}.jsonl.gz"
    traces = read_speech(path)
    fitted, _ = fit_speech(traces, f"{model}-int8")
    segments = [one.features for trace in traces for one in trace.segments]
    return fitted | measured(speech_rows(path), segments)


def _read(name: str) -> dict[str, Any]:
    path = SHIPPED / name
    data: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return data


def main() -> None:
    stale = {name: told for name, told in documents().items() if told != _read(name)}
    if "--check" in sys.argv:
        sys.exit(f"stale: {', '.join(stale)}" if stale else 0)
    for name, told in stale.items():
        (SHIPPED / name).write_text(json.dumps(told, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
