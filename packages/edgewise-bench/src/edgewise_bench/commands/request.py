"""`edgewise bench request`."""

from __future__ import annotations

from pathlib import Path

import click

from edgewise_bench.commands.report import (
    as_json_option,
    command_line,
    new_scorecard,
    progress,
    report,
    rounds_option,
    save_option,
)


@click.command()
@rounds_option(7)
@click.option(
    "--before",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder src of another checkout, to be measured in turns with this one.",
)
@click.option("--quick", is_flag=True, help="Few requests: shows that it runs, not what it costs.")
@save_option
@as_json_option
def request(
    rounds: int, before: Path | None, quick: bool, save: Path | None, as_json: bool
) -> None:
    """The processor time that the server takes for a request, with a scripted model."""
    from importlib.metadata import version

    from edgewise_bench.scale.request_cost import QUICK, TARGETS, Rounds, measure_request_cost
    from edgewise_bench.scorecard import verdicts

    plan = QUICK if quick else Rounds(rounds=rounds)
    with progress("asking", plan.steps) as step:
        metrics = measure_request_cost(plan, before, step)
    command = command_line(
        "request", rounds=rounds if rounds != 7 and not quick else None, before=before and "SRC"
    )
    command += " --quick" if quick else ""
    versions = {name: version(name) for name in ("starlette", "uvicorn")}
    card = new_scorecard("request", command, metrics, **versions)
    report(card, save, as_json, verdicts(metrics, TARGETS))
