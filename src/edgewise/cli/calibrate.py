"""`edgewise calibrate`: fits the confidences to your own requests, or to what audits found."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from edgewise.assembly.calibrations import KindName, find_document, own_path
from edgewise.cli import options
from edgewise.cli.ready import ensure_function_model, ensure_model, ensure_transcriber
from edgewise.cli.render import console, print_json
from edgewise.errors import ModelNotFound
from edgewise.local.store.store import InstalledModel, ModelStore
from edgewise.settings import Settings
from edgewise.types.measured import read_measured

# Fitting is imported in the functions: it loads numpy and the runtime, which --help must not.
if TYPE_CHECKING:
    from edgewise.calibrate.own import Fresh
    from edgewise.calibrate.rows import Labelled

_SCORES = {
    "shipped": "the shipped score",
    "refitted": "weights fitted to these rows",
}
KINDS: dict[str, KindName] = {"chat": "chat", "call": "calls", "transcribe": "speech"}
_SETTING = {"chat": "model", "call": "function_model", "transcribe": "speech_model"}
_file = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("file", required=False, type=_file)
@click.option("--from-ledger", is_flag=True, help="Fit to the results of the shadow audit instead.")
@click.option("--task", type=click.Choice(list(KINDS)), help="With --from-ledger: the task.")
@click.option("--show", is_flag=True, help="Only show which calibrations are in use.")
@click.option("--model", "-m", help="Local model, instead of the settings'.")
@click.option("--out", type=_file, help="Write to this file instead of the engine's.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the split.")
@click.option("--dry-run", is_flag=True, help="Fit and report, but write nothing.")
@click.option("--yes", "-y", is_flag=True, help="Overwrite without asking.")
@options.as_json
def calibrate(
    file: Path | None,
    from_ledger: bool,
    task: str | None,
    show: bool,
    model: str | None,
    out: Path | None,
    seed: int,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Fit the confidences to your own requests.

    FILE has one JSON object a line: a request and what is right.

    \b
    {"prompt": "What is the capital of Peru?", "answer": "Lima"}
    {"prompt": "...", "tools": [...], "calls": [{"name": "...", "arguments": {}}]}
    {"audio": "call.wav", "text": "what is said in it"}

    The device answers each request. Half of the rows fit its confidence; the other half measure
    what it is worth and what risk it can promise. The engine uses the new file from then on.

    \b
    edgewise calibrate questions.jsonl
    edgewise calibrate --from-ledger --task chat
    edgewise calibrate --show
    """
    if sum((file is not None, from_ledger, show)) != 1:
        raise click.UsageError("give a FILE, --from-ledger or --show")
    settings = Settings.load()
    if show:
        print_calibrations(settings, as_json)
        return
    if file is not None:
        key, kind, document = _fit_file(settings, file, model, seed)
    else:
        key, kind, document = _fit_audits(settings, task or "chat", model, seed)
    path = None if dry_run else _write(settings, key, kind, document, out, yes)
    if as_json:
        print_json({"path": str(path) if path else None, "kind": kind} | _told(document))
    else:
        print_fitted(document, path)
    if settings.calibration and kind == "chat" and path is not None and out is None:
        console(stderr=True).say(
            (f"The settings name {settings.calibration}, which is used instead.", "yellow")
        )


def _told(document: dict[str, Any]) -> dict[str, Any]:
    return {name: document[name] for name in ("name", "fitted_at", "data", "report", "curve")}


def _fit_file(
    settings: Settings, file: Path, model: str | None, seed: int
) -> tuple[str, KindName, dict[str, Any]]:
    from edgewise.calibrate.own import calibration_name  # noqa: PLC0415
    from edgewise.calibrate.report import refuse_few  # noqa: PLC0415
    from edgewise.calibrate.rows import read_labelled  # noqa: PLC0415

    labelled = read_labelled(file)
    refuse_few(len(labelled))
    settings = settings.with_changes(**{_SETTING[labelled.task]: model}) if model else settings
    installed = _installed(settings, labelled.task)
    key, kind = calibration_name(installed), KINDS[labelled.task]
    data = {
        "description": f"labelled rows of {file.name}",
        "rows": len(labelled),
        "repeated": labelled.repeated,
        "seed": seed,
    }
    fresh = _fresh(key, data, seed)
    if labelled.task == "chat":
        return key, kind, _fit_chat(settings, labelled, installed, fresh)
    return key, kind, _fit_scored(settings, labelled, installed, fresh)


def _fit_chat(
    settings: Settings, labelled: Labelled, installed: InstalledModel, fresh: Fresh
) -> dict[str, Any]:
    from edgewise.assembly import parts  # noqa: PLC0415
    from edgewise.calibrate import own, traces  # noqa: PLC0415

    key, longest = own.calibration_name(installed), settings.max_tokens
    system = installed.row.default_system if installed.row else ""
    unique = (installed.sha256, version("xllamacpp"), longest, system)
    path = traces.answers_path(settings, key, *unique)
    backend = parts.open_backend(settings)
    try:
        with progress("asking", len(labelled)) as step:
            samples = traces.answer_chat(backend, labelled.questions, path, longest, step)
    finally:
        backend.close()
    with progress("fitting", own.STEPS) as step:
        return own.fit_chat(samples, own.shipped_base(key, "chat"), installed, fresh, step)


def _fit_scored(
    settings: Settings, labelled: Labelled, installed: InstalledModel, fresh: Fresh
) -> dict[str, Any]:
    from edgewise.calibrate import own, traces  # noqa: PLC0415

    key, kind = own.calibration_name(installed), KINDS[labelled.task]
    base = own.shipped_base(key, kind)
    unique = (installed.sha256, base["name"], base.get("fitted_at"), json.dumps(base.get("map")))
    path = traces.answers_path(settings, key, *unique)
    with progress("asking", len(labelled)) as step:
        if labelled.calls:
            rows = traces.answer_calls(settings, labelled.calls, path, step)
        else:
            rows = traces.answer_speech(settings, labelled.sounds, path, step)
    maps = {"final": read_measured(base).map_of("final")}
    return own.fit_scored(rows, base, maps, fresh)


def _fit_audits(
    settings: Settings, task: str, model: str | None, seed: int
) -> tuple[str, KindName, dict[str, Any]]:
    from edgewise.assembly import parts  # noqa: PLC0415
    from edgewise.calibrate import own  # noqa: PLC0415

    settings = settings.with_changes(**{_SETTING[task]: model}) if model else settings
    key, kind = own.calibration_name(_installed(settings, task)), KINDS[task]
    base = own.base_in_use(settings, key, kind)
    ledger = parts.open_ledger(settings)
    try:
        audits = ledger.audits(task=task)
    finally:
        ledger.close()
    rows, floor = own.rows_of_audits(audits, str(base["name"]))
    data = {
        "description": "answers kept on the device, compared with the cloud's by the shadow audit",
        "calibration": base["name"],
        "from_confidence": floor,
        "seed": seed,
    }
    measured = read_measured(base)
    names = ("early", "final") if kind == "chat" else ("final",)
    maps = {name: measured.map_of(name) for name in names}
    fresh = _fresh(key, data, seed)
    return key, kind, own.fit_scored(rows, base, maps, fresh, floor)


def _installed(settings: Settings, task: str) -> InstalledModel:

    ensure = {
        "chat": ensure_model,
        "call": ensure_function_model,
        "transcribe": ensure_transcriber,
    }[task]
    settings = ensure(settings, "local_only")
    return ModelStore(settings.models_dir).find(getattr(settings, _SETTING[task]))


def _fresh(key: str, data: dict[str, Any], seed: int) -> Fresh:
    from edgewise.calibrate.own import Fresh  # noqa: PLC0415

    now = time.gmtime()
    stamp, written = time.strftime("%Y%m%dT%H%M%S", now), time.strftime("%Y-%m-%d %H:%M UTC", now)
    # A new name: the ledger must not mix the confidences of two calibrations.
    return Fresh(f"{key}+own.{stamp}", written, data, seed)


def _write(
    settings: Settings,
    key: str,
    kind: KindName,
    document: dict[str, Any],
    out: Path | None,
    yes: bool,
) -> Path:

    path = out or own_path(settings, key, kind)
    if path.exists() and not yes:
        click.confirm(f"Overwrite {path}?", abort=True, err=True)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Whole or not at all: an engine may be reading it.
    half = path.with_name(f"{path.name}.part")
    half.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    half.replace(path)
    return path


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
    """Which errors can be promised, and what the others lack."""
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
    """The calibrations in use, where they come from, and what they promise."""
    found = [_in_use(settings, kind, _SETTING[task]) for task, kind in KINDS.items()]
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


def _in_use(settings: Settings, kind: KindName, setting: str) -> dict[str, Any]:
    from edgewise.calibrate.own import calibration_name  # noqa: PLC0415

    model = getattr(settings, setting)
    try:
        installed = ModelStore(settings.models_dir).find(model)
    except ModelNotFound:
        return _row(kind, model, "not installed", {})
    key = calibration_name(installed)
    document = dict(find_document(settings, key, kind) or {})
    if kind == "chat" and settings.calibration:
        return _row(kind, key, f"settings: {settings.calibration}", {})
    path = own_path(settings, key, kind)
    origin = str(path) if path.exists() else "shipped" if document else "uncalibrated"
    return _row(kind, key, origin, document)


def _row(kind: KindName, key: str, origin: str, document: dict[str, Any]) -> dict[str, Any]:
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
    from edgewise.calibrate.report import promises  # noqa: PLC0415

    measured = read_measured(document)
    table = measured.risk.get("whole", ())
    return promises(table, measured.risk_rows) if table else {}


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar on standard error; nothing if that is not a terminal."""
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)
        bar.update(task, completed=total)
