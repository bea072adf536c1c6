"""`edgewise bench privacy`."""

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
@click.option("--requests", type=click.IntRange(1), default=1_500, show_default=True)
@seed_option
@save_option
@as_json_option
def privacy(requests: int, seed: int, save: Path | None, as_json: bool) -> None:
    """Ask privately at every door, in every way, while a cloud of this machine keeps every byte.

    Each request is sent three times: private, with personal data redacted, and openly, which must
    leak. The devices are scripted. What leaves is said on standard error, with its door and way.
    """
    import tempfile

    from edgewise_bench.campaigns.privacy import TARGETS, measure_privacy
    from edgewise_bench.scorecard import verdicts

    def tell(words: str) -> None:
        click.echo(words, err=True)

    with (
        stoppable(),
        tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder,
        progress("requests", requests) as step,
    ):
        metrics = measure_privacy(Path(folder), requests, seed, step, tell)
    command = command_line("privacy", requests=requests, seed=seed)
    report(new_scorecard("privacy", command, metrics), save, as_json, verdicts(metrics, TARGETS))
