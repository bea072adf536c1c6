"""`edgewise bench serve`."""

from __future__ import annotations

from pathlib import Path

import click

from edgewise.cli.bench_report import (
    as_json_option,
    command_line,
    new_scorecard,
    progress,
    report,
    save_option,
)


@click.command()
@click.option("--model", "-m", help="Local model: a name, or the path of a GGUF file.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
@click.option("--quick", is_flag=True, help="Few requests: shows that it runs, not how fast.")
@save_option
@as_json_option
def serve(model: str | None, threads: int, quick: bool, save: Path | None, as_json: bool) -> None:
    """The server beside the runtime's own: throughput at 1, 4 and 16 clients, streams, overhead.

    Both have the same model, threads and slots, each in a process of its own, and take turns.
    """
    import tempfile  # noqa: PLC0415 - this group must load quickly
    from importlib.metadata import version  # noqa: PLC0415

    from edgewise.bench.overhead import verdicts  # noqa: PLC0415
    from edgewise.bench.serve import QUICK, TARGETS, Rounds, measure_serve  # noqa: PLC0415
    from edgewise.settings import Settings  # noqa: PLC0415

    rounds = QUICK if quick else Rounds()
    with (
        tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder,
        progress("serving", rounds.steps) as step,
    ):
        settings = Settings.load(threads=threads, data_dir=folder)
        if model:
            settings = settings.with_changes(model=model)
        metrics = measure_serve(settings, rounds, step)
    command = command_line("serve", model=model, threads=threads if threads > 1 else None)
    command += " --quick" if quick else ""
    versions = {name: version(name) for name in ("starlette", "uvicorn")}
    card = new_scorecard("serve", command, metrics, **versions)
    report(card, save, as_json, verdicts(metrics, TARGETS))
