"""`edgewise bench`: measures edgewise on this machine; what loads much loads inside commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from edgewise.cli.bench_calls import bfcl, tools
from edgewise.cli.bench_embed import embed
from edgewise.cli.bench_report import (
    as_json_option,
    command_line,
    new_scorecard,
    progress,
    report,
    save_option,
)
from edgewise.cli.bench_routing import routing
from edgewise.cli.bench_see import see
from edgewise.cli.bench_serve import serve
from edgewise.cli.bench_speech import speech
from edgewise.cli.bench_traces import traces as keep_traces

_model = click.option("--model", "-m", help="Local model: a name, or the path of a GGUF file.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})  # also when run alone
def bench() -> None:
    """Measure speed and quality on this machine.

    Every bench prints a scorecard: a table, or with --json one object.
    """


bench.add_command(tools)
bench.add_command(bfcl)
bench.add_command(speech)
bench.add_command(embed)
bench.add_command(see)
bench.add_command(routing)
bench.add_command(serve)
bench.add_command(keep_traces)


@bench.command()
@_model
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
@click.option("--quick", is_flag=True, help="Few repetitions: shows that it runs, not how fast.")
@save_option
@as_json_option
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
        progress("overhead", rounds.steps) as step,
    ):
        # The user's ledger must not fill with benchmarks.
        settings = _chosen(Settings.load(threads=threads, data_dir=folder), model)
        metrics = measure_overhead(settings, rounds, step)
    command = command_line("overhead", model=model, threads=threads if threads > 1 else None)
    command += " --quick" if quick else ""
    report(new_scorecard("overhead", command, metrics), save, as_json, verdicts(metrics))


@bench.command()
@_model
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
@click.option("--quick", is_flag=True, help="Few requests: shows that it runs, not how fast.")
@save_option
@as_json_option
def caller(model: str | None, threads: int, quick: bool, save: Path | None, as_json: bool) -> None:
    """How fast the function caller writes calls for five tools, and the memory it takes."""
    from edgewise.bench.caller import QUICK, TARGETS, Rounds, measure_caller  # noqa: PLC0415
    from edgewise.bench.overhead import verdicts  # noqa: PLC0415
    from edgewise.settings import Settings  # noqa: PLC0415

    rounds = QUICK if quick else Rounds()
    settings = Settings.load(threads=threads)
    if model:
        settings = settings.with_changes(caller_model=model)
    with progress("calls", rounds.steps) as step:
        metrics = measure_caller(settings, rounds, step)
    command = command_line("caller", model=model, threads=threads if threads > 1 else None)
    command += " --quick" if quick else ""
    report(new_scorecard("caller", command, metrics), save, as_json, verdicts(metrics, TARGETS))


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
@save_option
@as_json_option
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
        with progress("asking", len(questions)) as step:
            path = traces or calibrate.traces_path(settings, installed)
            samples = fit.make_samples(collect_traces(backend, questions, path, step))
    finally:
        backend.close()
    with progress("fitting", calibrate.FIT_STEPS) as step:
        fitted = calibrate.fit_calibration(
            samples, calibrate.calibration_name(installed), seed, step
        )
    if write is not None:
        document = calibrate.make_document(fitted, installed, seed, len(questions))
        write.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    command = command_line("calibration", model=model, seed=seed or None, limit=limit)
    report(new_scorecard("calibration", command, fitted.metrics), save, as_json)


def _chosen(settings: Any, model: str | None) -> Any:
    return settings.with_changes(model=model) if model else settings
