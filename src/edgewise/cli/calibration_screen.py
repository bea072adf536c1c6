"""How calibrations look in a terminal: what was fitted, and which are in use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from edgewise.calibration_files import Kind, find_document, own_path
from edgewise.cli.render import console, print_json
from edgewise.errors import ModelNotFound
from edgewise.local.model_store import ModelStore
from edgewise.settings import Settings

_MODELS: tuple[tuple[Kind, str], ...] = (
    ("chat", "model"),
    ("calls", "caller_model"),
    ("speech", "speech_model"),
)
_SCORES = {
    "shipped": "the shipped score",
    "refitted": "weights fitted to these rows",
}


def print_fitted(document: dict[str, Any], path: Path | None) -> None:
    """The report of a new file."""
    screen, report = console(), document["report"]
    screen.say((document["name"], "bold"))
    screen.say(
        f"{report['rows']} rows, {report['measured_on']} answers measured: ",
        (f"{report['accuracy']:.0%}", "bold"),
        " right",
    )
    screen.say(
        f"AUROC {report['auroc']:.3f} · calibration error {report['ece']:.3f}"
        f" (was {report['ece_before']:.3f}) · {_SCORES[report['score']]}, map: {report['map']}"
    )
    table = Table(box=None, pad_edge=False)
    for column in ("threshold", "kept", "right among the kept"):
        table.add_column(column, justify="right")
    for row in document["curve"]:
        right = f"{row['kept_accuracy']:.0%}" if row["kept_share"] else "-"
        table.add_row(f"{row['threshold']:.1f}", f"{row['kept_share']:.0%}", right)
    screen.print(table)
    for line in promised(report):
        screen.say(line)
    screen.say(f"written to {path}" if path else "nothing written (--dry-run)")


def promised(report: dict[str, Any]) -> list[str]:
    """What errors can be promised, and what the others lack."""
    sure = f"{1 - report.get('probability', 0.1):.0%}"
    lines = []
    for each in report.get("promises", ()):
        error = f"max_error {each['max_error']:.0%} (with {sure} probability)"
        if each["threshold"] is None:
            lines.append(
                f"{error}: cannot be promised; it takes at least {each['rows_needed']} kept rows,"
                " none of them wrong"
            )
        else:
            lines.append(
                f"{error}: keeps {each['kept_share']:.0%}, from confidence {each['threshold']:.2f}"
            )
    return lines


def print_calibrations(settings: Settings, as_json: bool) -> None:
    """Which are in use, where they come from, and what they promise."""
    found = [_in_use(settings, kind, setting) for kind, setting in _MODELS]
    if as_json:
        print_json(found)
        return
    screen = console()
    for each in found:
        screen.say((f"{each['kind']}: ", "bold"), each["name"], (f"  ({each['from']})", "dim"))
        facts = [each["fitted"], each["data"]]
        if each["rows"]:
            facts.append(f"{each['rows']:,} rows")
        if any(facts):
            screen.say("  " + " · ".join(fact for fact in facts if fact))
        for line in each["promises"]:
            screen.say(f"  {line}")


def _in_use(settings: Settings, kind: Kind, setting: str) -> dict[str, Any]:
    model = getattr(settings, setting)
    try:
        installed = ModelStore(settings.models_dir).find(model)
    except ModelNotFound:
        return _row(kind, model, "not installed", {})
    key = f"{installed.name}-{installed.quantisation}".lower()
    document = dict(find_document(settings, key, kind) or {})
    if kind == "chat" and settings.calibration:
        return _row(kind, key, f"settings: {settings.calibration}", {})
    own = own_path(settings, key, kind)
    origin = str(own) if own.exists() else "shipped" if document else "uncalibrated"
    return _row(kind, key, origin, document)


def _row(kind: Kind, key: str, origin: str, document: dict[str, Any]) -> dict[str, Any]:
    report, data = document.get("report", {}), document.get("data", {})
    return {
        "kind": kind,
        "name": document.get("name", key),
        "from": origin,
        "fitted": document.get("fitted_at", ""),
        "data": data.get("description", ""),
        "rows": report.get("rows") or report.get("questions") or report.get("segments"),
        "promises": promised(_proven(document)),
    }


def _proven(document: dict[str, Any]) -> dict[str, Any]:
    """From the risk table itself, which shipped files have too."""
    from edgewise.bench.calibration_report import promises  # noqa: PLC0415 - loads when needed
    from edgewise.types.measured import read_measured  # noqa: PLC0415

    measured = read_measured(document)
    table = measured.risk.get("whole", ())
    return promises(table, measured.risk_rows) if table else {}
