"""`edgewise bench serve`."""

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
@click.option("--quick", is_flag=True, help="Few requests: shows that it runs, not how fast.")
@click.option(
    "--slots", type=click.IntRange(1), help="Requests that both work on at once.  [default: 4]"
)
@save_option
@as_json_option
def serve(
    model: str | None,
    threads: int,
    quick: bool,
    slots: int | None,
    save: Path | None,
    as_json: bool,
) -> None:
    """The server beside the runtime's own: throughput at 1, 4 and 16 clients, streams, overhead.

    Both have the same model, threads and slots, each in a process of its own, and take turns.
    """
    import tempfile
    from dataclasses import replace
    from importlib.metadata import version

    from edgewise.settings import Settings
    from edgewise_bench.chat.serve import QUICK, TARGETS, Rounds, measure_serve
    from edgewise_bench.processes import with_model
    from edgewise_bench.scorecard import verdicts

    rounds = QUICK if quick else Rounds()
    rounds = replace(rounds, slots=slots or rounds.slots)
    with (
        tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder,
        progress("serving", rounds.steps) as step,
    ):
        settings = Settings.load(threads=threads, data_dir=folder)
        settings = with_model(settings, model)
        metrics = measure_serve(settings, rounds, step)
    command = command_line(
        "serve", model=model, threads=threads if threads > 1 else None, slots=slots
    )
    command += " --quick" if quick else ""
    versions = {name: version(name) for name in ("starlette", "uvicorn")}
    card = new_scorecard("serve", command, metrics, **versions)
    report(card, save, as_json, verdicts(metrics, TARGETS))
