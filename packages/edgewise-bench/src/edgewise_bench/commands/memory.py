"""`edgewise bench memory`."""

from __future__ import annotations

from pathlib import Path

import click

from edgewise_bench.commands.report import (
    as_json_option,
    chosen_names,
    command_line,
    finish,
    new_scorecard,
    progress,
    save_option,
    stoppable,
)


@click.command()
@click.option("--only", help="Some of the requests, with commas between (default: all).")
@save_option
@as_json_option
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def memory(only: str | None, options: tuple[str, ...], save: Path | None, as_json: bool) -> None:
    """The worst request that each endpoint of the server takes, and its peak of memory.

    Every request has a fresh server, whose model has answered once. OPTIONS after -- go to
    `edgewise serve`.
    """
    import tempfile

    from rich.table import Table

    from edgewise.settings import Settings
    from edgewise_bench.campaigns.memory import measure_memory, worst_requests

    with stoppable(), tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder:
        settings = Settings.load(threads=1, data_dir=folder, model="tiny")
        known = {each.name: each.says for each in worst_requests(settings.server.body_bytes)}
        chosen = chosen_names("--only", only, tuple(known), tuple(known))
        with progress("requests", len(chosen)) as step:
            metrics = measure_memory(settings, chosen, options, step)
    command = command_line("memory", only=only) + (f" -- {' '.join(options)}" if options else "")
    card = new_scorecard("memory", command, metrics)

    def table() -> list[Table]:
        shown = Table("request", "before", "peak MB", "kept", "status", "s", title=command)
        for name in (each for each in chosen if f"peak_mb_{each}" in card.metrics):
            keys = ("idle_mb", "peak_mb", "kept_mb", "status", "seconds")
            shown.add_row(known[name], *(f"{card.metrics[f'{key}_{name}']:,.4g}" for key in keys))
        return [shown]

    finish(card, save, as_json, table)
