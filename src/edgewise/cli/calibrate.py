"""`edgewise calibrate`: fits confidences to a model, to your requests, or to what audits found."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from edgewise.calibrations import (
    KindName,
    as_text,
    calibration_of,
    find_document,
    is_home,
    model_key,
    own_path,
    transfer_document,
    undo_own,
    write_own,
)
from edgewise.cli import options
from edgewise.cli.render import console, print_json
from edgewise.cli.setup import (
    at_a_terminal,
    choose_model,
    ensure_function_model,
    ensure_model,
    ensure_transcriber,
)
from edgewise.decide.calibration import (
    CHAT,
    STATE,
    parse_calibration,
    read_measured,
    state_document,
)
from edgewise.errors import InvalidRequest, LocalError, ModelNotFound
from edgewise.local.backend import CallBackend, ChatBackend, DeviceFacts, SpeechBackend
from edgewise.local.store import LLAMA_CPP, InstalledModel, ModelStore, ran_by
from edgewise.parts import is_elsewhere
from edgewise.settings import Settings
from edgewise.types.messages import DEVICE_TOKENS

# Fitting is imported in the functions: it loads numpy and the runtime, which --help must not.
if TYPE_CHECKING:
    from edgewise.calibrate.own import Fresh
    from edgewise.calibrate.rows import Labelled

_SCORES = {
    "shipped": "the score in use",
    "refitted": "weights fitted to these rows",
}
KINDS: dict[str, KindName] = {"chat": "chat", "call": "calls", "transcribe": "speech"}
_SETTING = {"chat": "model", "call": "function_model", "transcribe": "speech_model"}
LEAST_TOLD = 0.005  # a share that is rounded to nothing
EXIT_NOT_WRITTEN = 1
_file = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class New:
    """A calibration that was fitted, and where it belongs. `told` is what --json prints of it."""

    key: str
    kind: KindName
    document: dict[str, Any]
    told: dict[str, Any]


@click.command()
@click.argument("file", required=False, type=_file)
@click.option("--builtin", is_flag=True, help="Ask the model our own questions instead.")
@click.option("--minutes", type=click.FloatRange(min=0), help="With --builtin: time to ask.  [15]")
@click.option("--questions", type=click.IntRange(min=1), help="With --builtin: at most this many.")
@click.option("--from-ledger", is_flag=True, help="Fit to the results of the shadow audit instead.")
@click.option(
    "--task",
    type=click.Choice(list(KINDS)),
    help="With --builtin (chat or call), --from-ledger, --undo: the task.",
)
@click.option("--undo", is_flag=True, help="Bring the previous calibration back.")
@click.option("--show", is_flag=True, help="Only show which calibrations are in use.")
@click.option("--model", "-m", help="Local model, instead of the settings'.")
@click.option("--out", type=_file, help="Write to this file instead of the engine's.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the split.")
@click.option("--dry-run", is_flag=True, help="Fit and report, but write nothing.")
@click.option("--yes", "-y", is_flag=True, help="Replace without asking.")
@options.as_json
@click.pass_context
def calibrate(
    context: click.Context,
    file: Path | None,
    builtin: bool,
    minutes: float | None,
    questions: int | None,
    from_ledger: bool,
    task: str | None,
    undo: bool,
    show: bool,
    model: str | None,
    out: Path | None,
    seed: int,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Fit the confidences to your model, or to your own requests.

    FILE has one JSON object a line: a request and what is right.

    \b
    {"prompt": "What is the capital of Peru?", "answer": "Lima"}
    {"prompt": "...", "tools": [...], "calls": [{"name": "...", "arguments": {}}]}
    {"audio": "call.wav", "text": "what is said in it"}

    The device answers each request. Half of the rows fit its confidence; the other half measure
    what it is worth and what risk it can promise. With --builtin the questions are ours: for a
    model whose confidence is unverified. The engine uses the new file from then on; you are told
    what gets worse, and asked. A run that was stopped goes on where it was.

    \b
    edgewise calibrate --builtin --model my-model.gguf
    edgewise calibrate --builtin --task call --model functiongemma-270m-it
    edgewise calibrate questions.jsonl
    edgewise calibrate --from-ledger --task chat
    edgewise calibrate --undo
    edgewise calibrate --show
    """
    if sum((file is not None, builtin, from_ledger, undo, show)) != 1:
        raise click.UsageError("give a FILE, --builtin, --from-ledger, --undo or --show")
    if not builtin and (minutes is not None or questions is not None):
        raise click.UsageError("--minutes and --questions go with --builtin")
    if builtin and (task == "transcribe" or (task == "call" and minutes is not None)):
        raise click.UsageError("--builtin is for chat, and for calls without --minutes")
    settings = Settings.load()
    if show:
        print_calibrations(settings, as_json)
        return
    if undo:
        _undo(settings, task or "chat", model, as_json)
        return
    new = (
        _fit_builtin_calls(settings, model, seed, questions)
        if builtin and task == "call"
        else _fit_builtin(settings, model, seed, minutes, questions)
        if builtin
        else _fit_audits(settings, task or "chat", model, seed)
        if file is None
        else _fit_file(settings, file, model, seed)
    )
    if not as_json:
        asked_chat = builtin and new.kind == "chat"
        (print_builtin if asked_chat else print_fitted)(new.document)
    path = None if dry_run else _write(settings, new, out, yes)
    _say_where(settings, new, path, as_json)
    if path is None and not dry_run:
        context.exit(EXIT_NOT_WRITTEN)


def _say_where(settings: Settings, new: New, path: Path | None, as_json: bool) -> None:
    if as_json:
        place = str(path) if path else None
        print_json({"file": place, "path": place, "kind": new.kind} | new.told)
    else:
        console().say(f"written to {path}" if path else "nothing written")
    ours = own_path(settings, new.key, new.kind)
    if settings.calibration and new.kind == "chat" and path == ours:
        console(stderr=True).say(
            (f"The settings name {settings.calibration}, which is used instead.", "yellow")
        )


def _told(document: dict[str, Any]) -> dict[str, Any]:
    from edgewise.calibrate.own import used_part  # noqa: PLC0415

    told = {name: document[name] for name in ("name", "fitted_at", "data")}
    return told | {name: used_part(document)[name] for name in ("report", "curve")}


def _fit_file(settings: Settings, file: Path, model: str | None, seed: int) -> New:
    from edgewise.calibrate.rows import read_labelled  # noqa: PLC0415

    return _fit_labelled(
        settings, read_labelled(file), model, seed, f"labelled rows of {file.name}"
    )


def _fit_builtin_calls(settings: Settings, model: str | None, seed: int, most: int | None) -> New:
    """Our own requests for calls."""
    from edgewise.calibrate.rows import Labelled, builtin_calls  # noqa: PLC0415

    labelled = Labelled("call", calls=builtin_calls(most))
    about = "our own requests for calls, answered here by the model itself"
    return _fit_labelled(settings, labelled, model, seed, about)


def _fit_labelled(
    settings: Settings, labelled: Labelled, model: str | None, seed: int, about: str
) -> New:
    from edgewise.calibrate.report import refuse_few  # noqa: PLC0415

    refuse_few(len(labelled))
    settings = _with_model(settings, labelled.task, model)
    installed = _installed(settings, labelled.task)
    key, kind = _key(settings, labelled.task, installed), KINDS[labelled.task]
    data = {
        "description": about,
        "rows": len(labelled),
        "repeated": labelled.repeated,
        "seed": seed,
    }
    fresh = _fresh(key, data, seed)
    fit = _fit_chat if labelled.task == "chat" else _fit_scored
    document = fit(settings, labelled, installed, fresh)
    return New(key, kind, document, _told(document))


def _fit_builtin(
    settings: Settings,
    model: str | None,
    seed: int,
    minutes: float | None,
    most: int | None,
) -> New:
    """Our own questions, for as long as the time allows."""
    from edgewise import parts  # noqa: PLC0415
    from edgewise.calibrate import builtin, traces  # noqa: PLC0415
    from edgewise.calibrate.rows import builtin_questions  # noqa: PLC0415

    settings = settings.with_changes(model=model) if model else settings
    settings = ensure_model(choose_model(settings, "local_only"), "local_only")
    allowed = builtin.MINUTES if minutes is None else minutes
    questions = builtin_questions(most)
    backend = parts.open_backend(settings)
    try:
        facts = backend.facts()
        if not (facts.evidence or facts.rates):
            raise InvalidRequest(f"{facts.backend} says nothing about how sure it is")
        key, weights = model_key(facts), _weights(settings, facts.backend)
        in_use = calibration_of(settings, facts, CHAT).seen(states=facts.states)
        layer = builtin.layer_to_read(facts, in_use)
        unique = (*weights.values(), builtin.MAX_TOKENS, layer, seed)
        path = traces.answers_path(settings, f"builtin-{key}", *unique)
        _say_plan(facts.model, allowed, len(traces.read_answers(path)))
        with asking_bar(len(questions)) as step:
            answers = builtin.ask_questions(
                backend, questions, path, seconds=60 * allowed, layer=layer, progress=step
            )
    finally:
        backend.close()
    data = {
        "description": "our own questions of many kinds, answered here by the model itself",
        "command": "edgewise calibrate --builtin",
        "questions": len(answers),
        "kinds": len({each.trace.question.kind for each in answers}),
        "max_tokens": builtin.MAX_TOKENS,
        "seed": seed,
    }
    fresh = _fresh(key, data, seed)
    whose = {"model": facts.model, "quantisation": facts.quantisation, **weights}
    source = builtin.Source(fresh.name, fresh.fitted_at, data, whose, layer)
    outcome = builtin.fit_builtin(answers, in_use, source)
    return New(key, "chat", outcome.document, builtin.summary(outcome))


def _weights(settings: Settings, backend: str) -> dict[str, Any]:
    """Which weights exactly, and what ran them. A file of the user's has no known hash."""
    try:
        found = ModelStore(settings.models_dir).find(settings.model)
    except LocalError:  # another runtime may have its own models
        return {"sha256": settings.model, "runtime": {backend: ""}}
    known = found.sha256 or f"{found.bytes} bytes of {found.path.stat().st_mtime_ns}"
    other = backend != LLAMA_CPP and not found.runtime
    return {"sha256": known, "runtime": {backend: ""} if other else ran_by(found.runtime)}


def _say_plan(model: str, minutes: float, known: int) -> None:
    side = console(stderr=True)
    if known:
        side.say(f"{known} answers of {model} are known; going on behind them.")
    side.say(
        f"Asking {model} our own questions, for {minutes:g} minutes in all. "
        "Ctrl-C stops; the same command goes on."
    )


def _fit_chat(
    settings: Settings, labelled: Labelled, installed: InstalledModel, fresh: Fresh
) -> dict[str, Any]:
    from edgewise import parts  # noqa: PLC0415
    from edgewise.calibrate import own, traces  # noqa: PLC0415

    key, longest = _key(settings, "chat", installed), settings.max_tokens or DEVICE_TOKENS
    system = installed.row.default_system if installed.row else ""
    base = own.base_in_use(settings, key, "chat")
    backend = parts.open_backend(settings)
    try:
        facts, in_use = backend.facts(), parse_calibration(base, key)
        if not (facts.evidence or in_use.at_end):
            raise InvalidRequest(
                f"{facts.backend} sends no log-probabilities; "
                + ("first run calibrate --builtin" if facts.rates else "nothing can be learnt")
            )
        heads = in_use.seen(states=facts.states).heads
        # What heads read belongs to them.
        runtime = ran_by(installed.runtime).values()
        unique = (installed.sha256, *runtime, longest, system, *heads.values())
        path = traces.answers_path(settings, key, *unique)
        with progress("asking", len(labelled)) as step:
            samples = traces.answer_chat(backend, labelled.questions, path, longest, step, heads)
    finally:
        backend.close()
    with progress("fitting", own.STEPS) as step:
        return own.fit_chat(samples, base, installed, fresh, step)


def _fit_scored(
    settings: Settings, labelled: Labelled, installed: InstalledModel, fresh: Fresh
) -> dict[str, Any]:
    from edgewise.calibrate import own, traces  # noqa: PLC0415

    key, kind = _key(settings, labelled.task, installed), KINDS[labelled.task]
    base = own.base_in_use(settings, key, kind)
    unique = (installed.sha256, base["name"], base.get("fitted_at"), json.dumps(base.get("map")))
    path = traces.answers_path(settings, key, *unique)
    with progress("asking", len(labelled)) as step:
        if labelled.calls:
            rows = traces.answer_calls(settings, labelled.calls, path, step)
        else:
            rows = traces.answer_speech(settings, labelled.sounds, path, step)
    maps = {"final": read_measured(base).map_of("final")}
    return own.fit_scored(rows, base, maps, fresh)


def _fit_audits(settings: Settings, task: str, model: str | None, seed: int) -> New:
    from edgewise import parts  # noqa: PLC0415
    from edgewise.calibrate import own  # noqa: PLC0415

    settings = _with_model(settings, task, model)
    key, kind = _key(settings, task, _installed(settings, task)), KINDS[task]
    base = own.base_in_use(settings, key, kind)
    ledger = parts.open_ledger(settings)
    try:
        audits = ledger.audits(task=task)
    finally:
        ledger.close()
    # Audits name the part that judged: by words, or by hidden states too.
    states = "with_state" in base and any(a.calibration == f"{base['name']}{STATE}" for a in audits)
    seen = state_document(base) if states else base
    rows, floor = own.rows_of_audits(audits, str(seen["name"]))
    data = {
        "description": "answers kept on the device, compared with the cloud's by the shadow audit",
        "calibration": seen["name"],
        "from_confidence": floor,
        "seed": seed,
    }
    measured = read_measured(seen)
    names = ("early", "final") if kind == "chat" else ("final",)
    maps = {name: measured.map_of(name) for name in names}
    fresh = _fresh(key, data, seed)
    fitted = own.fit_scored(rows, seen, maps, fresh, floor)
    document = own.replace_used(base, fitted, states=states)
    return New(key, kind, document, _told(document))


def _with_model(settings: Settings, task: str, model: str | None) -> Settings:
    chosen: dict[str, Any] = {_SETTING[task]: model} if model else {}
    return settings.with_changes(**chosen)


def _key(settings: Settings, task: str, installed: InstalledModel) -> str:
    """What the file of the model is called: another runtime has its own."""
    from edgewise.calibrate.own import calibration_name  # noqa: PLC0415

    facts = _facts(settings, task)
    return calibration_name(installed) if is_home(facts) else model_key(facts)


def _facts(settings: Settings, task: str) -> DeviceFacts:
    from edgewise import parts  # noqa: PLC0415

    openers: dict[str, Callable[[Settings], ChatBackend | CallBackend | SpeechBackend]] = {
        "chat": parts.open_backend,
        "call": parts.open_function_model,
        "transcribe": parts.open_transcriber,
    }
    model = openers[task](settings)  # loads nothing
    try:
        return model.facts()
    finally:
        model.close()


def _installed(settings: Settings, task: str) -> InstalledModel:
    ensure = {
        "chat": ensure_model,
        "call": ensure_function_model,
        "transcribe": ensure_transcriber,
    }[task]
    return _find(ensure(settings, "local_only"), task)


def _find(settings: Settings, task: str) -> InstalledModel:
    name = getattr(settings, _SETTING[task])
    try:
        return ModelStore(settings.models_dir).find(name)
    except LocalError:
        if task == "transcribe" or not is_elsewhere(name):
            raise
    return InstalledModel(name, Path(name), "", sha256=name, bytes=0)


def _fresh(key: str, data: dict[str, Any], seed: int) -> Fresh:
    from edgewise.calibrate.own import Fresh  # noqa: PLC0415

    now = time.gmtime()
    stamp, written = time.strftime("%Y%m%dT%H%M%S", now), time.strftime("%Y-%m-%d %H:%M UTC", now)
    # A new name: the ledger must not mix the confidences of two calibrations.
    return Fresh(f"{key}+own.{stamp}", written, data, seed)


def _write(settings: Settings, new: New, out: Path | None, yes: bool) -> Path | None:
    """The new file; None if what is in use stays."""
    if out is not None:
        if out.exists() and not yes:
            click.confirm(f"Overwrite {out}?", abort=True, err=True)
        out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        out.write_text(as_text(new.document), "utf-8")
        return out
    path = own_path(settings, new.key, new.kind)
    in_use = find_document(settings, new.key, new.kind)
    base = in_use or transfer_document(new.kind)
    if base is not None:
        _say_change(new.document, base)
    if in_use is not None:
        if not yes and not at_a_terminal():
            message = "Nothing is written: another calibration is in use. --yes replaces it."
            console(stderr=True).say((message, "yellow"))
            return None
        if not yes:
            click.confirm("Replace it?", abort=True, err=True)
    write_own(path, new.document)
    return path


def _say_change(document: dict[str, Any], in_use: Mapping[str, Any]) -> None:
    """What the new one does better and worse than the one in use, on the same rows."""
    from edgewise.calibrate.own import used_part  # noqa: PLC0415
    from edgewise.calibrate.report import Comparison  # noqa: PLC0415

    side, report = console(stderr=True), used_part(document)["report"]
    told = Comparison.read(report)
    count = report.get("measured_on", report["rows"])
    side.say(f"In use is {in_use['name']}. On the same {count} answers the new one is")
    for word, changes, style in (
        ("better", told.better(), "green"),
        ("worse", told.worse(), "red"),
    ):
        for change in changes:
            side.say((f"  {word}: ", style), change)
    if not told.better() and not told.worse():
        side.say("  neither better nor worse.")


def _undo(settings: Settings, task: str, model: str | None, as_json: bool) -> None:
    settings = _with_model(settings, task, model)
    settings = settings.with_changes(fetch_default_model=False)
    key, kind = _key(settings, task, _find(settings, task)), KINDS[task]
    path = own_path(settings, key, kind)
    if not undo_own(path):
        raise click.ClickException(f"nothing to undo: no calibration of yours in {path}")
    now = find_document(settings, key, kind)
    origin = str(path) if path.exists() else "shipped" if now else ""
    name = now["name"] if now else ""
    if as_json:
        print_json({"kind": kind, "name": name, "from": origin})
    else:
        back = f"{name} is in use again ({origin})" if now else "the confidence is unverified again"
        console().say(f"{back}; what it replaced is {path.name}.undone")


def print_fitted(document: dict[str, Any]) -> None:
    """The report of a new file."""
    from edgewise.calibrate.own import used_part  # noqa: PLC0415

    screen, report = console(), used_part(document)["report"]
    screen.say((document["name"], "bold"))
    screen.say(
        f"{report['rows']} rows, {report['measured_on']} answers measured: ",
        (f"{report['accuracy']:.0%}", "bold"),
        " right",
    )
    screen.say(
        f"AUROC {report['auroc']:.3f} · calibration error {report['ece']:.3f}"
        f" (was {report['in_use']['ece']:.3f}) · {_SCORES[report['score']]}, map: {report['map']}"
    )
    _print_kept(used_part(document))


def print_builtin(document: dict[str, Any]) -> None:
    """The report of a file that our own questions made."""
    from edgewise.calibrate.own import used_part  # noqa: PLC0415

    screen, report = console(), used_part(document)["report"]
    screen.say((document["name"], "bold"))
    screen.say(
        f"{report['questions']} questions of {document['data']['kinds']} kinds: ",
        (f"{report['accuracy']:.0%}", "bold"),
        " right",
    )
    screen.say(
        f"on kinds that were held out: AUROC {report['auroc']:.3f} · calibration error "
        f"{report['ece']:.3f} · keeps {report['kept_share_at_0.90']:.0%} at 90% right"
    )
    if "with_state" in document:
        words = document["report"]["auroc"]
        screen.say(f"by words and hidden states (words alone: AUROC {words:.3f})")
    else:
        screen.say("by words alone: hidden states are not given, too few, or no better")
    _print_families(report["families"])
    _print_kept(used_part(document))


def _print_families(families: Sequence[Mapping[str, Any]]) -> None:
    """Of each, what it is most too sure of first; a large difference of few answers is luck."""
    table = Table(box=None, pad_edge=False)
    for column in ("family", "answers", "right", "confidence"):
        table.add_column(column, justify="left" if column == "family" else "right")
    for each in families:
        right, sure = f"{each['right']:.0%}", f"{each['confidence']:.0%}"
        table.add_row(each["family"], f"{each['questions']}", right, sure)
    console().print(table)


def _print_kept(part: Mapping[str, Any]) -> None:
    """What thresholds keep, and what can be promised."""
    screen = console()
    table = Table(box=None, pad_edge=False)
    for column in ("threshold", "kept", "right among the kept"):
        table.add_column(column, justify="right")
    for row in part["curve"]:
        right = f"{row['kept_accuracy']:.0%}" if row["kept_share"] else "-"
        table.add_row(f"{row['threshold']:.1f}", f"{row['kept_share']:.0%}", right)
    screen.print(table)
    for line in promised(part["report"]):
        screen.say(line)


def promised(report: dict[str, Any]) -> list[str]:
    """Which errors can be promised, and what the others lack."""
    sure = f"{1 - report.get('probability', 0.1):.0%}"
    lines = []
    for each in report.get("promises", ()):
        error = f"max_error {each['max_error']:.0%} (with {sure} probability)"
        if each["threshold"] is None and each["kept_share"] < LEAST_TOLD:
            lines.append(
                f"{error}: cannot be promised; it takes at least {each['rows_needed']} kept rows,"
                " none of them wrong"
            )
        else:
            at = each["threshold"]
            how = "near a measured family" if at is None else f"from confidence {at:.2f}"
            lines.append(f"{error}: keeps {each['kept_share']:.0%}, {how}")
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
    model = getattr(settings, setting)
    task = next(task for task, each in _SETTING.items() if each == setting)
    settings = settings.with_changes(fetch_default_model=False)
    try:
        installed, facts = _find(settings, task), _facts(settings, task)
    except ModelNotFound:
        return _row(kind, model, "not installed", {})
    key = _key(settings, task, installed)
    document = dict(find_document(settings, key, kind) or {})
    if kind == "chat" and settings.calibration:
        return _row(kind, key, f"settings: {settings.calibration}", {})
    path = own_path(settings, key, kind)
    origin = (
        str(path) if path.exists() else "shipped" if document else "unverified: none of its own"
    )
    if not document and facts.same_bits_as and find_document(settings, facts.same_bits_as, kind):
        origin = f"borrowed from {facts.same_bits_as}: the same bits"
    if facts.states and document.get("with_state"):  # as `doctor` reads it
        document = {**document, **state_document(document), "name": document["name"]}
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
    from edgewise.calibrate.report import promises_of  # noqa: PLC0415

    return promises_of(read_measured(document))


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar on standard error; nothing if that is not a terminal."""
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)
        bar.update(task, completed=total)


@contextmanager
def asking_bar(most: int) -> Iterator[Callable[[int, int, float], None]]:
    """A bar with the time left; how many are asked depends on how fast the model is."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]} left"),
    )
    shown = sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), disable=not shown) as bar:
        task = bar.add_task("asking", total=most, left="?")

        def show(done: int, total: int, left_s: float) -> None:
            # By the answers' own times: those that were known take none.
            left = f"{left_s // 60:.0f}:{left_s % 60:02.0f}"
            bar.update(task, completed=done, total=total, left=left)

        yield show
