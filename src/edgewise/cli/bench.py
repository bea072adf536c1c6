"""`edgewise bench`: measures edgewise on this machine; what loads much loads inside commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edgewise.cli.bench_calibration import calibration
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
bench.add_command(calibration)


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


@bench.command("caller")
@_model
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
@click.option("--quick", is_flag=True, help="Few requests: shows that it runs, not how fast.")
@save_option
@as_json_option
def function_model(
    model: str | None, threads: int, quick: bool, save: Path | None, as_json: bool
) -> None:
    """How fast the function model writes calls for five tools, and the memory it takes."""
    from edgewise.bench.function_model import QUICK, TARGETS, Rounds, measure_function_model  # noqa: PLC0415
    from edgewise.bench.overhead import verdicts  # noqa: PLC0415
    from edgewise.settings import Settings  # noqa: PLC0415

    rounds = QUICK if quick else Rounds()
    settings = Settings.load(threads=threads)
    if model:
        settings = settings.with_changes(function_model=model)
    with progress("calls", rounds.steps) as step:
        metrics = measure_function_model(settings, rounds, step)
    command = command_line("caller", model=model, threads=threads if threads > 1 else None)
    command += " --quick" if quick else ""
    report(new_scorecard("caller", command, metrics), save, as_json, verdicts(metrics, TARGETS))


def _chosen(settings: Any, model: str | None) -> Any:
    return settings.with_changes(model=model) if model else settings
