"""`edgewise bench money`."""

from __future__ import annotations

from pathlib import Path

import click

from edgewise_bench.commands.report import (
    as_json_option,
    command_line,
    new_scorecard,
    progress,
    report,
    save_option,
    seed_option,
    stoppable,
)


@click.command()
@click.option("--requests", type=click.IntRange(1), default=3000, show_default=True)
@seed_option
@save_option
@as_json_option
def money(requests: int, seed: int, save: Path | None, as_json: bool) -> None:
    """Spend at a cloud that bills harshly, and compare its bill with the ledger.

    Two engines and a server with one ledger send random requests (schemas, tools, pictures, long
    histories, letters of all alphabets; over HTTP with all that makes them cost more) to a cloud of
    this machine that speaks three protocols. It cuts, stalls, refuses and lies about its usage;
    clients leave early, and several at once use one id.
    """
    import logging
    import tempfile

    from edgewise_bench.campaigns.money import TARGETS, measure_money
    from edgewise_bench.scorecard import verdicts

    logging.disable(logging.WARNING)  # of a usage that cannot be: it is meant
    with (
        stoppable(),
        tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder,
        progress("money", requests) as step,
    ):
        metrics = measure_money(Path(folder), requests, seed, step)
    card = new_scorecard("money", command_line("money", requests=requests, seed=seed), metrics)
    report(card, save, as_json, verdicts(metrics, TARGETS))
