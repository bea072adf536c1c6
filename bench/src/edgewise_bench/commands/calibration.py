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
@click.option(
    "--ask",
    type=click.IntRange(20),
    metavar="N",
    help="Let the model answer N of the built-in questions here, instead of judging the answers"
    " that are published.",
)
@click.option("--fit", is_flag=True, help="Fit a confidence by words alone, and judge the fit.")
@click.option("--seed", type=int, default=0, show_default=True, help="--fit: other questions.")
@click.option("--limit", type=click.IntRange(20), help="--fit: ask only so many, by turns.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="--fit: LLMRouter's folder; ask its questions as well (see benchmarks/traces).",
)
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    help="--fit: write the calibration file here.",
)
@click.option(
    "--traces",
    type=click.Path(path_type=Path),
    help="Where answers are. With --fit a file: they are kept there, and reused; a published one"
    " (.jsonl.gz) is fitted as it is, without the model. Else the folder benchmarks/traces.",
)
@save_option
@as_json_option
def calibration(
    model: str | None,
    ask: int | None,
    fit: bool,
    seed: int,
    limit: int | None,
    data: Path | None,
    write: Path | None,
    traces: Path | None,
    save: Path | None,
    as_json: bool,
) -> None:
    """How well a model's confidence knows whether its answers are right.

    Every answer is judged by a head that was fitted without it (auroc), or without its whole kind
    of question (everything else). The answers are llama.cpp's, on a processor: those published in
    benchmarks/traces (for the standard model), or with --ask those of the model here. The figures
    that begin with traces_ are of the answers that the shipped confidence was fitted on.

    --fit fits a confidence by words alone. The part for words of the smallest model is made by

    \b
    edgewise bench calibration --fit --write FILE \\
        --traces benchmarks/traces/smollm2-135m-instruct.jsonl.gz
    """
    if not fit:
        if write or data or limit:
            raise click.UsageError("--write, --data and --limit belong to --fit")
        _judge(model, ask, traces or Path("benchmarks/traces"), save, as_json)
        return
    from edgewise.calibrate.fit import FIT_STEPS
    from edgewise_bench.chat.calibration import fit_shipped
    from edgewise_bench.chat.traces import read_trace_set

    published = traces is not None and traces.suffix == ".gz"
    command = command_line(
        "calibration --fit",
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
    report(new_scorecard("calibration_fit", command, fitted.metrics), save, as_json)


def _judge(
    model: str | None, ask: int | None, folder: Path, save: Path | None, as_json: bool
) -> None:
    from edgewise.assembly.parts import open_backend
    from edgewise.calibrate.own import calibration_name
    from edgewise.local.store.store import ModelStore
    from edgewise.settings import Settings
    from edgewise_bench.chat import held_out
    from edgewise_bench.chat.calibration import judged_path
    from edgewise_bench.scorecard import verdicts

    settings = Settings.load(threads=1)
    settings = settings.with_changes(model=model) if model else settings
    installed = ModelStore(settings.models_dir).find(settings.model)
    name = calibration_name(installed)
    path = held_out.path_of(folder, name)
    if not path.exists():
        raise click.UsageError(
            f"{path} is not there: no heads that were held out are published for {name}. Fit a"
            " confidence of its own: edgewise calibrate --builtin"
        )
    heads = held_out.read_held_out(path)
    rows: list[held_out.Judged] = []
    if ask is not None:
        backend = open_backend(settings)
        try:
            with progress("asking", ask) as step:
                kept = judged_path(settings, installed)
                rows = held_out.ask(backend, heads, ask, kept, step)
        finally:
            backend.close()
    elif (published := held_out.answers_path(folder, name)).exists():
        rows = held_out.read_judged(published)
    metrics = held_out.figures(rows) if rows else {}
    for each, value in held_out.figures(heads.traces).items():
        metrics[f"traces_{each}"] = value
    command = command_line("calibration", model=model, ask=ask)
    card = new_scorecard("calibration", command, metrics)
    report(card, save, as_json, verdicts(metrics, held_out.TARGETS))


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
