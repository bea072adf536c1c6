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
@click.option("--rounds", type=click.IntRange(1), help="Pairs of runs.  [default: 20]")
@click.option("--senses", is_flag=True, help="Only of what hears, embeds and sees.")
@click.option("--quick", is_flag=True, help="Few repetitions: shows that it runs, not how fast.")
@save_option
@as_json_option
def isolate(
    model: str | None,
    threads: int,
    rounds: int | None,
    senses: bool,
    quick: bool,
    save: Path | None,
    as_json: bool,
) -> None:
    """What a process of its own costs a local model, and how fast it is back after a crash."""
    from dataclasses import replace

    from edgewise.settings import Settings
    from edgewise_bench.chat.isolate import (
        QUICK,
        TARGETS,
        Rounds,
        measure_isolation,
        measure_senses,
    )
    from edgewise_bench.processes import with_model
    from edgewise_bench.scorecard import verdicts

    planned = QUICK if quick else Rounds()
    if rounds is not None:
        planned = replace(planned, pairs=rounds, first_tokens=rounds, restarts=rounds)
    with progress("isolation", planned.steps) as step:
        settings = Settings.load(threads=threads)
        settings = with_model(settings, model)
        if senses:
            metrics = measure_senses(settings, planned.first_tokens, step)
        else:
            metrics = measure_isolation(settings, planned, step)
    command = command_line(
        "isolate", model=model, threads=threads if threads > 1 else None, rounds=rounds
    )
    command += (" --senses" if senses else "") + (" --quick" if quick else "")
    report(new_scorecard("isolate", command, metrics), save, as_json, verdicts(metrics, TARGETS))
