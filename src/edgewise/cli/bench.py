"""`edgewise bench`: measures edgewise on this machine; what loads much loads inside commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from edgewise.bench.scorecard import Scorecard

_as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_save = click.option(
    "--save",
    is_flag=False,
    flag_value="benchmarks",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the scorecard to NAME.json in this folder (benchmarks, unless you name another).",
)
_model = click.option("--model", "-m", help="Local model: a name, or the path of a GGUF file.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})  # also when run alone
def bench() -> None:
    """Measure speed and quality on this machine.

    Every bench prints a scorecard: a table, or with --json one object.
    """


@bench.command()
@_model
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
@click.option("--quick", is_flag=True, help="Few repetitions: shows that it runs, not how fast.")
@_save
@_as_json
def overhead(
    model: str | None, threads: int, quick: bool, save: Path | None, as_json: bool
) -> None:
    """What edgewise costs on top of the bare runtime: tokens per second, first text, start."""
    import tempfile  # noqa: PLC0415 - this group must load quickly: `edgewise --help` reads it

    from edgewise.bench.overhead import QUICK, Rounds, measure_overhead, verdicts  # noqa: PLC0415
    from edgewise.settings import Settings  # noqa: PLC0415

    rounds = QUICK if quick else Rounds()
    with (
        tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder,
        _progress("overhead", rounds.steps) as step,
    ):
        # The user's ledger must not fill with benchmarks.
        settings = _chosen(Settings.load(threads=threads, data_dir=folder), model)
        metrics = measure_overhead(settings, rounds, step)
    command = _command("overhead", model=model, threads=threads if threads > 1 else None)
    command += " --quick" if quick else ""
    _report(_scorecard("overhead", command, metrics), save, as_json, verdicts(metrics))


@bench.command()
@_model
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
@click.option("--quick", is_flag=True, help="Few requests: shows that it runs, not how fast.")
@_save
@_as_json
def caller(model: str | None, threads: int, quick: bool, save: Path | None, as_json: bool) -> None:
    """How fast the function caller writes calls for five tools, and the memory it takes."""
    from edgewise.bench.caller import QUICK, TARGETS, Rounds, measure_caller  # noqa: PLC0415
    from edgewise.bench.overhead import verdicts  # noqa: PLC0415
    from edgewise.settings import Settings  # noqa: PLC0415

    rounds = QUICK if quick else Rounds()
    settings = Settings.load(threads=threads)
    if model:
        settings = settings.with_changes(caller_model=model)
    with _progress("calls", rounds.steps) as step:
        metrics = measure_caller(settings, rounds, step)
    command = _command("caller", model=model, threads=threads if threads > 1 else None)
    command += " --quick" if quick else ""
    _report(_scorecard("caller", command, metrics), save, as_json, verdicts(metrics, TARGETS))


@bench.command()
@_model
@click.option("--seed", type=int, default=0, show_default=True, help="Makes other questions.")
@click.option("--limit", type=click.IntRange(20), help="Ask only so many; all kinds take turns.")
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the calibration file here.",
)
@click.option(
    "--traces",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the model's answers in this file (default: in the cache); reused when there.",
)
@_save
@_as_json
def calibration(
    model: str | None,
    seed: int,
    limit: int | None,
    write: Path | None,
    traces: Path | None,
    save: Path | None,
    as_json: bool,
) -> None:
    """Fit the confidence of a model on questions with checkable answers, and judge the fit.

    The first run asks about 1,500 questions: some ten minutes on one core. Their answers are
    kept, so that fitting again takes seconds.
    """
    from edgewise.assembly import open_backend  # noqa: PLC0415
    from edgewise.bench import calibrate, fit  # noqa: PLC0415
    from edgewise.bench.questions import make_questions  # noqa: PLC0415
    from edgewise.bench.traces import collect_traces  # noqa: PLC0415
    from edgewise.local.model_store import ModelStore  # noqa: PLC0415
    from edgewise.settings import Settings  # noqa: PLC0415

    settings = _chosen(Settings.load(threads=1), model)
    installed = ModelStore(settings.models_dir).find(settings.model)
    questions = make_questions(seed, limit)
    backend = open_backend(settings)
    try:
        with _progress("asking", len(questions)) as step:
            path = traces or calibrate.traces_path(settings, installed)
            samples = fit.make_samples(collect_traces(backend, questions, path, step))
    finally:
        backend.close()
    with _progress("fitting", calibrate.FIT_STEPS) as step:
        fitted = calibrate.fit_calibration(
            samples, calibrate.calibration_name(installed), seed, step
        )
    if write is not None:
        document = calibrate.make_document(fitted, installed, seed, len(questions))
        write.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    command = _command("calibration", model=model, seed=seed or None, limit=limit)
    _report(_scorecard("calibration", command, fitted.metrics), save, as_json)


def _chosen(settings: Any, model: str | None) -> Any:
    return settings.with_changes(model=model) if model else settings


def _command(name: str, **options: object) -> str:
    """The command that printed a scorecard, to be printed with it."""
    given = [f"--{key} {value}" for key, value in options.items() if value is not None]
    return " ".join(["edgewise", "bench", name, *given])


def _scorecard(name: str, command: str, metrics: Mapping[str, float]) -> Scorecard:
    from edgewise.bench.scorecard import make_scorecard  # noqa: PLC0415

    return make_scorecard(name, command, metrics)


def _report(
    scorecard: Scorecard,
    save: Path | None,
    as_json: bool,
    remarks: Mapping[str, str] | None = None,
) -> None:
    if save is not None:
        scorecard.save(save / f"{scorecard.name}.json")
    if as_json:
        click.echo(json.dumps(scorecard.to_dict()))
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table("metric", "value", "target" if remarks else "", title=scorecard.command)
    table.columns[1].justify = "right"
    for name, value in scorecard.metrics.items():
        table.add_row(name, f"{value:,.4g}", (remarks or {}).get(name, ""))
    screen = Console(highlight=False, soft_wrap=True)
    screen.print(table)
    screen.print(", ".join(f"{name} {version}" for name, version in scorecard.versions.items()))


@contextmanager
def _progress(label: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar on standard error; nothing where that is not a terminal."""
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)
        bar.update(task, completed=total)
