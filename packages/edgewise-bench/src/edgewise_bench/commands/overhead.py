"""`edgewise bench overhead`."""

from __future__ import annotations

from pathlib import Path

import click

from edgewise_bench.commands.report import (
    as_json_option,
    command_line,
    model_option,
    new_scorecard,
    progress,
    report,
    save_option,
    threads_option,
)


@click.command()
@model_option
@threads_option
@click.option("--quick", is_flag=True, help="Few repetitions: shows that it runs, not how fast.")
@save_option
@as_json_option
def overhead(
    model: str | None, threads: int, quick: bool, save: Path | None, as_json: bool
) -> None:
    """What edgewise costs on top of the bare runtime: tokens per second, first text, start."""
    import tempfile

    from edgewise.settings import Settings
    from edgewise_bench.chat.overhead import QUICK, TARGETS, Rounds, measure_overhead
    from edgewise_bench.processes import with_model
    from edgewise_bench.scorecard import verdicts

    rounds = QUICK if quick else Rounds()
    with (
        tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder,
        progress("overhead", rounds.steps) as step,
    ):
        # The user's ledger must not fill with benchmarks.
        settings = Settings.load(threads=threads, data_dir=folder)
        settings = with_model(settings, model)
        metrics = measure_overhead(settings, rounds, step)
    command = command_line("overhead", model=model, threads=threads if threads > 1 else None)
    command += " --quick" if quick else ""
    report(new_scorecard("overhead", command, metrics), save, as_json, verdicts(metrics, TARGETS))
