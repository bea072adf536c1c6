"""`edgewise bench calibration`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgewise_bench.commands.report import (
    RESULTS,
    as_json_option,
    command_line,
    model_option,
    new_scorecard,
    programs_option,
    progress,
    report,
    save_option,
    word_problems_option,
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
@click.option(
    "--typed",
    is_flag=True,
    help="Fit the score of typed answers to the published ones, into the file that --write names.",
)
@click.option(
    "--families",
    is_flag=True,
    help="Count for whom a risk is promised, into the file that --write names. With --data the"
    " words of the measured questions are read anew.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="--fit: other questions.")
@click.option("--limit", type=click.IntRange(20), help="--fit: ask only so many, by turns.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="--fit, --families: LLMRouter's folder; its questions as well (results/traces/README.md).",
)
@word_problems_option
@programs_option
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    help="--fit: write the calibration file here. --typed, --families: the file to add to.",
)
@click.option(
    "--traces",
    type=click.Path(path_type=Path),
    help="Where answers are. With --fit a file: they are kept there, and reused; a published one"
    " (.jsonl.gz) is fitted as it is, without the model. Else the published ones.",
)
@save_option
@as_json_option
def calibration(
    model: str | None,
    ask: int | None,
    fit: bool,
    typed: bool,
    families: bool,
    seed: int,
    limit: int | None,
    data: Path | None,
    word_problems: Path | None,
    programs: Path | None,
    write: Path | None,
    traces: Path | None,
    save: Path | None,
    as_json: bool,
) -> None:
    """How well a model's confidence knows whether its answers are right.

    First the promise (docs/guide/risk.md): one family of questions is left out at a time, its
    words and its rows. families_broken_10 is the share of them that are wrong in more than 10 % of
    what is kept, among what is promised; promised_share_10 and kept_share_10 are of measured
    families, strangers_… of those left out; auroc_families and ece_families weigh every family
    the same.

    unseen_… are answers of up to 256 tokens to questions of families that the confidence has never
    seen. Its bias, slope and weight of the length are fitted to all families but the one that they
    judge; …_plain is without them, and refit_gain what they are worth.

    Then the confidence. Every answer is judged by a head that was fitted without it (auroc), or
    without its whole kind of question (everything else). The answers are llama.cpp's, on a
    processor: those published in results/traces (for the standard model), or with --ask those of
    the model here. The figures that begin with traces_ are of the answers that the shipped
    confidence was fitted on.

    stream_kept_accuracy and complete_kept_accuracy are of the answers in results/traces that were
    published word by word, sent through the gate as it runs, by the confidence that reads words.
    Those that begin with typed_ are of typed answers; there a family of questions is left out.

    --fit fits a confidence by words alone. The part for words of the smallest model is made by

    \b
    edgewise bench calibration --fit --write FILE \\
        --traces packages/edgewise-bench/results/traces/smollm2-135m-instruct.jsonl.gz
    """
    if typed:
        if write is None or not write.exists():
            raise click.UsageError("--typed needs the calibration file that --write names")
        _fit_typed(traces or RESULTS / "traces", write)
        return
    if families:
        if write is None or not write.exists():
            raise click.UsageError("--families needs the calibration file that --write names")
        _count_families(traces or RESULTS / "traces", write, data, word_problems, programs)
        return
    if not fit:
        if write or data or limit:
            raise click.UsageError("--write, --data and --limit belong to --fit")
        _judge(model, ask, traces or RESULTS / "traces", save, as_json)
        return
    from edgewise.calibrate.fit import FIT_STEPS
    from edgewise.calibrations import as_text
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
        write.write_text(as_text(document), "utf-8")
    report(new_scorecard("calibration_fit", command, fitted.metrics), save, as_json)


def _judge(
    model: str | None, ask: int | None, folder: Path, save: Path | None, as_json: bool
) -> None:
    from edgewise.calibrate.own import calibration_name
    from edgewise.local.store import ModelStore
    from edgewise.parts import open_backend
    from edgewise.settings import Settings
    from edgewise_bench.chat import families, held_out
    from edgewise_bench.chat.calibration import judged_path
    from edgewise_bench.chat.traces import traces_of
    from edgewise_bench.chat.typed import path_of, read_typed_answers, typed_figures
    from edgewise_bench.processes import with_model
    from edgewise_bench.scorecard import verdicts

    settings = Settings.load(threads=1)
    settings = with_model(settings, model)
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
        rows = held_out.with_families(held_out.read_judged(published))
    found = families.strangers_of(name, heads.traces, folder)
    metrics = families.figures(found)
    of_traces = held_out.figures(heads.traces)
    metrics |= held_out.figures(rows) if rows else {}
    metrics |= _behind_the_gate(traces_of(folder, installed.name), name)
    if (typed := path_of(folder, name)).exists():
        metrics |= typed_figures(read_typed_answers(typed))
    for each, value in of_traces.items():
        metrics[f"traces_{each}"] = value
    metrics |= families.refit_figures(found) | families.by_family(found)
    metrics |= families.unseen(families.lived_of(name, folder), found)
    command = command_line("calibration", model=model, ask=ask)
    card = new_scorecard("calibration", command, metrics)
    report(card, save, as_json, verdicts(metrics, held_out.TARGETS | families.TARGETS))


def _fit_typed(folder: Path, file: Path) -> None:
    from edgewise.calibrations import as_text
    from edgewise_bench.chat.typed import path_of, read_typed_answers, typed_key

    document = json.loads(file.read_text("utf-8"))
    answers = read_typed_answers(path_of(folder, document["name"]))
    document["typed"] = typed_key(answers, command_line("calibration --typed", write="FILE"))
    file.write_text(as_text(document), "utf-8")
    click.echo(f"{file}: {len(answers):,} typed answers")


def _count_families(
    folder: Path, file: Path, data: Path | None, problems: Path | None, programs: Path | None
) -> None:
    from edgewise.calibrations import as_text
    from edgewise_bench.chat.families import add_families, read_words

    if data is not None:
        read_words(data, folder, file.parent / "centres", problems, programs)
    document = json.loads(file.read_text("utf-8"))
    told = add_families(document, folder)
    file.write_text(as_text(document), "utf-8")
    click.echo(f"{file}: {told['rows']:,} rows of {len(told['cells'])} families")


def _behind_the_gate(path: Path, name: str) -> dict[str, float]:
    """What streams and whole answers keep, where whole answers were published with their tokens."""
    from edgewise.calibrations import shipped_document
    from edgewise.decide.calibration import parse_calibration
    from edgewise_bench.chat.gates import compare_gates
    from edgewise_bench.chat.traces import read_trace_set

    document = shipped_document(name, "chat")
    if document is None or not path.exists():
        return {}
    return compare_gates(read_trace_set(path).rows, parse_calibration(document, name))


def _ask(
    model: str | None, seed: int, limit: int | None, data: Path | None, traces: Path | None
) -> TraceSet:
    from edgewise.local.store import ModelStore
    from edgewise.parts import open_backend
    from edgewise.settings import Settings
    from edgewise_bench.chat.calibration import own_system, traces_path
    from edgewise_bench.chat.traces import make_origin, questions_to_ask, run_traces
    from edgewise_bench.processes import with_model

    settings = Settings.load(threads=1)
    settings = with_model(settings, model)
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
