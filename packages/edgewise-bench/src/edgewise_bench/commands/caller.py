"""`edgewise bench caller`."""

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


@click.command("caller")
@model_option
@threads_option
@click.option("--quick", is_flag=True, help="Few requests: shows that it runs, not how fast.")
@click.option(
    "--hard",
    type=click.Path(path_type=Path),
    help="A file of cases: measure those with nested tools as well.",
)
@save_option
@as_json_option
def caller(
    model: str | None,
    threads: int,
    quick: bool,
    hard: Path | None,
    save: Path | None,
    as_json: bool,
) -> None:
    """How fast the function model writes calls for five tools, and the memory it takes."""
    from edgewise.settings import Settings
    from edgewise_bench.calls.function_model import QUICK, TARGETS, Rounds, measure_function_model
    from edgewise_bench.calls.hard_schemas import measure_hard_schemas, read_hard_requests
    from edgewise_bench.scorecard import verdicts

    rounds = QUICK if quick else Rounds()
    settings = Settings.load(threads=threads)
    if model:
        settings = settings.with_changes(function_model=model)
    nested = []
    if hard is not None and hard.exists():
        nested = read_hard_requests(hard, *([rounds.requests] if quick else []))
    elif hard is not None:
        click.echo(f"There is no file {hard}: nested tools are not measured.", err=True)
    with progress("calls", rounds.steps + len(nested)) as step:
        metrics = measure_function_model(settings, rounds, step)
        if nested:
            metrics |= measure_hard_schemas(settings, nested, step)
    command = command_line(
        "caller", model=model, threads=threads if threads > 1 else None, hard=hard
    )
    command += " --quick" if quick else ""
    report(new_scorecard("caller", command, metrics), save, as_json, verdicts(metrics, TARGETS))
