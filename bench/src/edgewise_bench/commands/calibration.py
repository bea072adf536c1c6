"""`edgewise bench calibration`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgewise_bench.commands.report import (
    as_json_option,
    command_line,
    model_option,
    new_scorecard,
    progress,
    report,
    save_option,
)

if TYPE_CHECKING:
    from edgewise_bench.chat.traces import TraceSet


@click.command()
@model_option
@click.option("--seed", type=int, default=0, show_default=True, help="Makes other questions.")
@click.option("--limit", type=click.IntRange(20), help="Ask only so many; all kinds take turns.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="LLMRouter's folder: ask its questions as well (see benchmarks/traces).",
)
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the calibration file here.",
)
@click.option(
    "--traces",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the model's answers in this file (default: in the cache); reused when there."
    " A published one (.jsonl.gz) is fitted as it is, without the model.",
)
@save_option
@as_json_option
def calibration(
    model: str | None,
    seed: int,
    limit: int | None,
    data: Path | None,
    write: Path | None,
    traces: Path | None,
    save: Path | None,
    as_json: bool,
) -> None:
    """Fit the confidence of a model on questions with checkable answers, and judge the fit.

    The first run asks about 1,500 questions: some ten minutes on one core. Their answers are
    kept, so that fitting again takes a minute or two. What is shipped is made by

    \b
    edgewise bench calibration --write FILE \\
        --traces benchmarks/traces/smollm2-135m-instruct.jsonl.gz
    """
    from edgewise.calibrate.fit import FIT_STEPS
    from edgewise_bench.chat.calibration import fit_shipped
    from edgewise_bench.chat.traces import read_trace_set

    published = traces is not None and traces.suffix == ".gz"
    command = command_line(
        "calibration",
        model=model,
        seed=seed or None,
        limit=limit,
        data="DIR" if data else None,
        traces=traces if published else None,
    )
    if traces is not None and published:
        found = read_trace_set(traces)
    else:
        found = _ask(model, seed, limit, data, traces)
    with progress("fitting", FIT_STEPS) as step:
        fitted, document = fit_shipped(found, command, seed, step)
    if write is not None:
        write.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    report(new_scorecard("calibration", command, fitted.metrics), save, as_json)


def _ask(
    model: str | None, seed: int, limit: int | None, data: Path | None, traces: Path | None
) -> TraceSet:
    from edgewise.assembly.parts import open_backend
    from edgewise.local.store.store import ModelStore
    from edgewise.settings import Settings
    from edgewise_bench.chat.calibration import own_system, traces_path
    from edgewise_bench.chat.traces import make_origin, questions_to_ask, run_traces

    settings = Settings.load(threads=1)
    settings = settings.with_changes(model=model) if model else settings
    installed = ModelStore(settings.models_dir).find(settings.model)
    asked = questions_to_ask(data, seed)[:limit]
    backend = open_backend(settings)
    try:
        with progress("asking", len(asked)) as step:
            path = traces or traces_path(settings, installed)
            origin = make_origin(installed, system=own_system(installed))
            return run_traces(backend, asked, origin, path, progress=step)
    finally:
        backend.close()
