"""Write the shipped calibrations of speech, and what published rows say of that of calls.

    python scripts/measure_calibrations.py [--check | --table]

Risk tables, quantiles and the features' means: on answers to requests that the calibration of calls
was not fitted on, and on segments as fits without their voice judge them. The scores of speech are
fitted here; those of calls by training/fit_calls.py.
--table prints that of docs/notes/senses.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgewise.calibrate.report import measured_keys
from edgewise.calibrations import as_text
from edgewise.decide.calibration import Measured, parse_calibration
from edgewise.decide.policy import find_threshold
from edgewise.speech.words import SPEECH
from edgewise.types.messages import ERROR_PROBABILITY
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
TRACES = ROOT / "packages" / "edgewise-bench" / "results" / "traces"
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


def table() -> list[str]:
    """What each shipped calibration of speech is worth: lines of docs/notes/senses.md."""
    lines = [
        "| | Documents, segments | AUROC (people) | Calibration error | Kept at 0.5 "
        "| Words wrong: kept, sent | `max_error` 5 %, 10 %, 20 % keeps |",
        "|---|---|---|---|---|---|---|",
    ]
    for model in TRANSCRIBERS:
        document = _read(f"{model}-int8.speech.json")
        told, on = document["report"], document["report"]["fitted_on"]
        measured = parse_calibration(document, model, SPEECH).measured
        kept = ", ".join(_kept(measured, error) for error in (0.05, 0.10, 0.20))
        auroc, people = told["segment_error_auroc"], told["segment_error_auroc_human"]
        line = (
            f"| `{model}` | {on['documents']}, {told['segments']} | {auroc:.3f} ({people:.3f}) "
            f"| {told['calibration_error']:.3f} | {told['kept_share']:.0%} "
            f"| {told['kept_error_rate']:.1%}, {told['sent_error_rate']:.1%} | {kept} |"
        )
        lines.append(line.replace("%", " %"))
    return lines


def _kept(measured: Measured, error: float) -> str:
    """The share that is kept at the threshold that `max_error` gets, with a probability of 90 %."""
    rows = measured.risk["whole"]
    threshold = find_threshold(rows, measured.risk_rows, error, ERROR_PROBABILITY)
    kept = next((row.kept for row in rows if row.threshold == threshold), 0)
    return f"{kept / measured.risk_rows:.0%}" if kept else "nothing"


def _read(name: str) -> dict[str, Any]:
    path = SHIPPED / name
    data: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return data


def main() -> None:
    if "--table" in sys.argv:
        sys.stdout.write("\n".join(table()) + "\n")
        return
    stale = {name: told for name, told in documents().items() if told != _read(name)}
    if "--check" in sys.argv:
        sys.exit(f"stale: {', '.join(stale)}" if stale else 0)
    for name, told in stale.items():
        (SHIPPED / name).write_text(as_text(told), "utf-8")


if __name__ == "__main__":
    main()
