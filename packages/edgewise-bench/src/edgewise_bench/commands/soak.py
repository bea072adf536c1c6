"""`edgewise bench soak`."""

from __future__ import annotations

from pathlib import Path

import click

from edgewise_bench.commands.report import (
    as_json_option,
    command_line,
    new_scorecard,
    report,
    save_option,
    seed_option,
    stoppable,
)


@click.command()
@click.option("--minutes", type=click.FloatRange(0.05), default=60.0, show_default=True)
@seed_option
@save_option
@as_json_option
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def soak(
    minutes: float, seed: int, options: tuple[str, ...], save: Path | None, as_json: bool
) -> None:
    """A mixed load at a modest rate for an hour: memory, descriptors, threads, latencies.

    Latencies are of the first and of the last third. A line a minute goes to standard error. Ctrl-C
    ends it early, with the figures so far. OPTIONS after -- go to `edgewise serve`.
    """
    import tempfile

    from edgewise.settings import Settings
    from edgewise_bench.campaigns.soak import TARGETS, measure_soak
    from edgewise_bench.scorecard import verdicts

    with stoppable(), tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder:
        settings = Settings.load(threads=1, data_dir=folder, model="tiny")
        tell = lambda words: click.echo(words, err=True)  # noqa: E731
        metrics = measure_soak(settings, minutes, seed, options, tell)
    command = command_line("soak", minutes=f"{minutes:g}", seed=seed)
    command += f" -- {' '.join(options)}" if options else ""
    card = new_scorecard("soak", command, metrics)
    report(card, save, as_json, verdicts(metrics, TARGETS))
