"""`edgewise bench routing`: what a routing score is worth, on frozen outcomes."""

from __future__ import annotations

from pathlib import Path

import click

from edgewise_bench.commands.report import (
    RESULTS,
    as_json_option,
    command_line,
    new_scorecard,
    progress,
    report,
    save_option,
)


@click.command()
@click.option(
    "--data",
    type=click.Path(exists=True, path_type=Path),
    help="RouteLLM's and LLMRouter's outcomes: a folder or .tar.gz (docs/notes/routing.md).",
)
@click.option(
    "--traces",
    type=click.Path(file_okay=False, path_type=Path),
    default=RESULTS / "traces",
    show_default=True,
    help="Published answers of our own models; passed over where there are none.",
)
@click.option(
    "--plots",
    type=click.Path(file_okay=False, path_type=Path),
    help="Draw the deferral curves into this folder, as PNG files. Needs matplotlib.",
)
@click.option("--study", is_flag=True, help="With --data: variants of the routers, nothing else.")
@save_option
@as_json_option
def routing(
    data: Path | None,
    traces: Path,
    plots: Path | None,
    study: bool,
    save: Path | None,
    as_json: bool,
) -> None:
    """How much quality each call to the strong model buys: APGR, CPT, AUROC, with intervals.

    Our own traces: what the shipped confidences are worth for chat, calls and speech.
    With --data: routers that decide before anything is generated, on outcomes others published.
    Rows that fit a router never test it. Vectors of the prompts are made once, and kept.
    """
    from importlib.metadata import version

    from edgewise.settings import Settings
    from edgewise_bench.plots import check_drawing
    from edgewise_bench.routing.measure import TARGETS, open_parts
    from edgewise_bench.scorecard import verdicts

    if study:
        _study(data, save, as_json)
        return
    if plots is not None:
        check_drawing()
    metrics: dict[str, float] = {}
    own = traces if traces.is_dir() else None
    with open_parts(Settings.load(threads=1), data, own) as parts:
        if not parts:
            raise click.UsageError("there is nothing to measure without --data or --traces")
        for part in parts:
            with progress(part.title, part.steps) as step:
                metrics |= part.measure(step, plots)
    command = command_line("routing", data="DIR" if data else None)
    card = new_scorecard("routing", command, metrics, numpy=version("numpy"))
    report(card, save, as_json, verdicts(metrics, TARGETS))


def _study(data: Path | None, save: Path | None, as_json: bool) -> None:
    from edgewise.settings import Settings
    from edgewise_bench.routing.measure import open_study

    if data is None:
        raise click.UsageError("--study needs --data")
    with (
        open_study(Settings.load(threads=1), data) as part,
        progress(part.title, part.steps) as step,
    ):
        metrics = part.measure(step, None)
    command = "edgewise bench routing --data DIR --study"
    report(new_scorecard("routing_study", command, metrics), save, as_json)
