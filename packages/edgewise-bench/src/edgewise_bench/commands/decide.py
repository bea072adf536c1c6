"""`edgewise bench decide`."""

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
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Public sets, by the names in the docs; without it only the suites that come along.",
)
@click.option(
    "--rows",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where answers are written, line by line: what is there already is not asked again.",
)
@click.option("--most", type=click.IntRange(1), metavar="N", help="Decisions asked in this run.")
@model_option
@threads_option
@save_option
@as_json_option
def decide(
    data: Path | None,
    rows: Path | None,
    most: int | None,
    model: str | None,
    threads: int,
    save: Path | None,
    as_json: bool,
) -> None:
    """Typed questions: right, calibrated, kept at a stated error of 10 %, learnt from labels.

    Six suites come along; eight public ones are read from --data. Each confidence is fitted on
    other suites, each threshold chosen on other rows.
    """
    import tempfile

    from edgewise.settings import Settings
    from edgewise_bench.decisions.suites import bench_suites

    suites = bench_suites(data)
    settings = Settings.load(threads=threads)
    if model:
        settings = settings.with_changes(model=model)
    total = sum(len(suite.rows) for suite in suites)
    with tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder:
        from edgewise_bench.decisions.measure import measure_all

        path = rows or Path(folder) / "rows.jsonl"
        with progress("deciding", min(total, most or total)) as step:
            metrics = measure_all(settings, suites, path, data, step, most=most)
    command = command_line("decide", model=model, data="FOLDER" if data else None, most=most)
    targets = {
        "accuracy": ">= 0.80", "ece": "<= 0.05", "auroc": ">= 0.80", "kept": ">= 0.50",
        "splits_broken": "<= 10", "learnt_accuracy": ">= 0.85", "stranger_auroc": ">= 0.88",
        "order_changes": "0", "cpu_s_yes_no": "<= 0.5", "cpu_s_choice": "<= 1.0",
    }  # fmt: skip
    report(new_scorecard("decide", command, metrics), save, as_json, targets)
