"""`edgewise bench traces`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgewise_bench.commands.report import (
    as_json_option,
    model_option,
    programs_option,
    progress,
    word_problems_option,
)

if TYPE_CHECKING:
    from edgewise.settings import Settings
    from edgewise_bench.chat.life import Asked


@click.command()
@model_option
@click.option(
    "--data",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="LLMRouter's folder with default_query_train.jsonl; without it, our questions alone.",
)
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where answers are kept as they come; .gz is packed at the end. Reused when there.",
)
@click.option("--limit", type=click.IntRange(1), help="Ask only so many; all sources take turns.")
@click.option("--slots", type=click.IntRange(1), default=1, show_default=True, help="At a time.")
@click.option("--temperature", type=click.FloatRange(0.0, 2.0), default=0.0, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Of a temperature above 0.")
@click.option("--typed", is_flag=True, help="Ask for typed answers instead, of several families.")
@click.option(
    "--life",
    is_flag=True,
    help="Ask as people ask, with room for 256 tokens, and judge by the shipped confidence. What is"
    " answered already is packed even if the run stops early.",
)
@word_problems_option
@programs_option
@as_json_option
def traces(
    model: str | None,
    data: Path | None,
    out: Path,
    limit: int | None,
    slots: int,
    temperature: float,
    seed: int,
    typed: bool,
    life: bool,
    word_problems: Path | None,
    programs: Path | None,
    as_json: bool,
) -> None:
    """Let a model answer questions with checkable answers, and keep every token's evidence.

    This is how results/traces was made. Questions are named and not copied.
    """
    from edgewise.calibrate.own import calibration_name
    from edgewise.local.store import ModelStore
    from edgewise.parts import open_backend
    from edgewise.settings import Settings
    from edgewise_bench.chat.life import everything
    from edgewise_bench.chat.traces import (
        make_origin,
        questions_to_ask,
        run_traces,
        write_trace_set,
    )
    from edgewise_bench.processes import with_model

    settings = Settings.load(threads=1, slots=slots)
    settings = with_model(settings, model)
    installed = ModelStore(settings.models_dir).find(settings.model)
    kept = out.with_suffix("") if out.suffix == ".gz" else out
    if typed:
        _ask_typed(settings, out, kept, limit, as_json)
        return
    if life:
        asked_in_life = everything(data, word_problems, programs)[:limit]
        _ask_life(settings, calibration_name(installed), asked_in_life, out, kept, as_json)
        return
    origin = make_origin(installed, temperature, seed)
    asked = questions_to_ask(data)[:limit]
    backend = open_backend(settings)
    try:
        with progress("asking", len(asked)) as step:
            found = run_traces(backend, asked, origin, kept, slots=slots, progress=step)
    finally:
        backend.close()
    if kept != out:
        write_trace_set(found, out)
    _tell(out, [row.right for row in found.rows], as_json)


def _ask_life(
    settings: Settings, name: str, asked: Sequence[Asked], out: Path, kept: Path, as_json: bool
) -> None:
    from edgewise.calibrations import shipped_document
    from edgewise.decide.calibration import parse_calibration
    from edgewise.parts import open_backend
    from edgewise_bench.chat.life import as_first_fitted, ask, judge, read_lines, write_lived

    document = shipped_document(name, "chat")
    if document is None or "before" not in document.get("with_state", {}):
        raise click.UsageError(f"{name} has no shipped confidence that reads hidden states")
    calibration = parse_calibration(as_first_fitted(document), name)
    both = calibration.seen(states=True)
    layers = both.layer_of("state"), both.layer_of("before")
    backend = open_backend(settings)
    try:
        with progress("asking", len(asked)) as step, suppress(KeyboardInterrupt):
            ask(backend, asked, kept, layers, step)
    finally:
        backend.close()
    found = judge(read_lines(kept), asked, calibration)
    if kept != out:
        write_lived(found, out)
    _tell(out, [row.right for row in found], as_json)


def _ask_typed(settings: Settings, out: Path, kept: Path, limit: int | None, as_json: bool) -> None:
    from edgewise.parts import open_backend
    from edgewise_bench.chat.typed import ask_typed, write_typed_answers
    from edgewise_bench.questions.typed import make_typed_questions

    backend = open_backend(settings)
    try:
        with progress("asking", len(make_typed_questions(0, limit))) as step:
            found = ask_typed(backend, kept, limit, step)
    finally:
        backend.close()
    if kept != out:
        write_typed_answers(found, out)
    _tell(out, [each.right for each in found], as_json)


def _tell(out: Path, verdicts: list[bool], as_json: bool) -> None:
    count = len(verdicts)
    right = sum(verdicts) / max(1, count)
    told = {"file": str(out), "answers": count, "right": round(right, 4)}
    click.echo(json.dumps(told) if as_json else f"{out}: {count:,} answers, {right:.1%} right")
