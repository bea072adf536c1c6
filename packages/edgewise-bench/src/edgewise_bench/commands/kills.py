"""`edgewise bench kills`."""

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
    seed_option,
    stoppable,
)


@click.command()
@rounds_option(1000)
@seed_option
@save_option
@as_json_option
def kills(rounds: int, seed: int, save: Path | None, as_json: bool) -> None:
    """Kill processes that spend money at random points, and look whether the ledger lost anything.

    Three of ten rounds kill a whole engine that asks a cloud of this machine; the others kill
    processes that write the ledger, from outside, from inside SQLite, several at once, or while
    the file is made. Needs a system that can fork.
    """
    import os
    import tempfile

    from edgewise_bench.campaigns.kills import TARGETS, measure_kills
    from edgewise_bench.scorecard import verdicts

    if not hasattr(os, "fork"):
        raise click.UsageError("this system cannot fork; run it on Linux or macOS")
    with (
        stoppable(),
        tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder,
        progress("kills", rounds) as step,
    ):
        metrics = measure_kills(Path(folder), rounds, seed, step)
    card = new_scorecard("kills", command_line("kills", rounds=rounds, seed=seed), metrics)
    report(card, save, as_json, verdicts(metrics, TARGETS))
