"""`edgewise bench isolate`."""

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
def isolate(model: str | None, threads: int, quick: bool, save: Path | None, as_json: bool) -> None:
    """What a process of its own costs a local model, and how fast it is back after a crash."""
    from edgewise.settings import Settings
    from edgewise_bench.chat.isolate import QUICK, TARGETS, Rounds, measure_isolation
    from edgewise_bench.scorecard import verdicts

    rounds = QUICK if quick else Rounds()
    with progress("isolation", rounds.steps) as step:
        settings = Settings.load(threads=threads)
        settings = settings.with_changes(model=model) if model else settings
        metrics = measure_isolation(settings, rounds, step)
    command = command_line("isolate", model=model, threads=threads if threads > 1 else None)
    command += " --quick" if quick else ""
    report(new_scorecard("isolate", command, metrics), save, as_json, verdicts(metrics, TARGETS))
