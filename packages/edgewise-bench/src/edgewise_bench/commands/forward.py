"""`edgewise bench forward`."""

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
@click.option("--requests", type=click.IntRange(1), default=600, show_default=True)
@click.option("--timed", type=click.IntRange(0), default=400, show_default=True)
@click.option("--traces", type=click.IntRange(0), default=100, show_default=True)
@seed_option
@save_option
@as_json_option
def forward(
    requests: int, timed: int, traces: int, seed: int, save: Path | None, as_json: bool
) -> None:
    """Send recorded requests of agents through a server, and compare every byte on both sides.

    Chat completions, responses and messages, with unknown fields put in at random, to a cloud of
    this machine that answers with recorded bytes. Then the time to the first byte, beside a plain
    reverse proxy. Then made-up traces of agents: what they cost where conversations stay, and turn
    by turn.
    """
    import logging
    import tempfile

    from edgewise_bench.campaigns import agent_traces
    from edgewise_bench.campaigns.forward import TARGETS, measure_forward
    from edgewise_bench.scorecard import verdicts

    logging.disable(logging.WARNING)
    with (
        stoppable(),
        tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder,
        progress("forward", requests) as step,
    ):
        metrics = measure_forward(Path(folder), requests, seed, step, timed=timed)
        targets = dict(TARGETS)
        if traces:
            metrics |= agent_traces.measure_traces(traces, seed)
            targets |= agent_traces.TARGETS
    command = command_line("forward", requests=requests, timed=timed, traces=traces, seed=seed)
    report(new_scorecard("forward", command, metrics), save, as_json, verdicts(metrics, targets))
