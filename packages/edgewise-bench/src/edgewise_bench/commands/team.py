"""`edgewise bench team`."""

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
@click.option("--people", type=click.IntRange(1), default=100, show_default=True)
@click.option("--calls", type=click.IntRange(4), default=2000, show_default=True, help="Racing.")
@click.option("--rows", type=click.IntRange(1), default=1_000_000, show_default=True)
@click.option("--looks", type=click.IntRange(1), default=100, show_default=True)
@click.option(
    "--load-s", type=click.FloatRange(1), default=15.0, show_default=True, help="Of load."
)
@seed_option
@save_option
@as_json_option
def team(
    people: int,
    calls: int,
    rows: int,
    looks: int,
    load_s: float,
    seed: int,
    save: Path | None,
    as_json: bool,
) -> None:
    """Race for a team's money, forge its members' names, and look at a large ledger.

    People behind one key spend at once, from four processes and sixteen threads, against caps of
    the key, of each group and of each user. Strangers send the headers that a trusted client may
    send. Then a lead reads the overview of a ledger with --rows rows, while 16 streams run. At last
    comes four times what the device can do, for --load-s seconds each with and without overflow.
    """
    import logging
    import tempfile

    from edgewise_bench.campaigns.team import TARGETS, measure_team
    from edgewise_bench.scale import gateway
    from edgewise_bench.scorecard import verdicts

    logging.disable(logging.WARNING)
    with (
        stoppable(),
        tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder,
        progress("team", 7) as step,
    ):
        metrics = measure_team(Path(folder), people, calls, rows, looks, seed, step)
        metrics |= gateway.measure_overflow(Path(folder) / "overflow", load_s, seed, step)
    asked = {"people": people, "calls": calls, "rows": rows, "looks": looks}
    command = command_line("team", **asked, **{"load-s": f"{load_s:g}"}, seed=seed)
    targets = {**TARGETS, **gateway.TARGETS}
    report(new_scorecard("team", command, metrics), save, as_json, verdicts(metrics, targets))
