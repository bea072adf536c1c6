"""Write into the shipped calibrations of calls and of speech what published rows say of them.

    python scripts/measure_calibrations.py [--check]

Risk tables, quantiles and the features' means: on answers to requests that the calibration of calls
was not fitted on, and on segments as fits without their voice judge them.
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
    TRANSCRIBER,
    Rows,
    call_rows,
    read_calls,
    read_speech,
    speech_rows,
)

ROOT = Path(__file__).parents[1]
TRACES = ROOT / "benchmarks" / "traces"
SHIPPED = ROOT / "src" / "edgewise" / "calibrations"
CALLS = f"{FUNCTION_MODEL}-q8_0.calls.json"
SPEECH = f"{TRANSCRIBER}-int8.speech.json"


def measured(rows: Rows, features: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    names = sorted({name for row in features for name in row})
    columns = {name: [row.get(name, 0.0) for row in features] for name in names}
    table = risk_table(rows.confidence, rows.right)
    return measured_keys(rows.confidence.tolist(), {"whole": table}, columns)


def documents() -> dict[str, dict[str, Any]]:
    """File names, and what should be in them."""
    calls, speech = TRACES / f"{FUNCTION_MODEL}.jsonl.gz", TRACES / f"{TRANSCRIBER}.jsonl.gz"
    each_call = [one for row in read_calls(calls) if not row.fitted for one in row.features]
    segments = [one.features for trace in read_speech(speech) for one in trace.segments]
    return {
        CALLS: _read(CALLS) | measured(call_rows(calls), each_call),
        SPEECH: _read(SPEECH) | measured(speech_rows(speech), segments),
    }


def _read(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((SHIPPED / name).read_text("utf-8"))
    return data


def main() -> None:
    stale = {name: told for name, told in documents().items() if told != _read(name)}
    if "--check" in sys.argv:
        sys.exit(f"stale: {', '.join(stale)}" if stale else 0)
    for name, told in stale.items():
        (SHIPPED / name).write_text(json.dumps(told, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
