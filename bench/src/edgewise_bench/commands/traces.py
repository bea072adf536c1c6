"""`edgewise bench traces`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from edgewise_bench.commands.report import as_json_option, model_option, progress


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
@as_json_option
def traces(
    model: str | None,
    data: Path | None,
    out: Path,
    limit: int | None,
    slots: int,
    temperature: float,
    seed: int,
    as_json: bool,
) -> None:
    """Let a model answer questions with checkable answers, and keep every token's evidence.

    This is how benchmarks/traces was made. Questions are named and not copied.
    """
    from edgewise.assembly.parts import open_backend
    from edgewise.local.store.store import ModelStore
    from edgewise.settings import Settings
    from edgewise_bench.chat.traces import (
        make_origin,
        questions_to_ask,
        run_traces,
        write_trace_set,
    )

    settings = Settings.load(threads=1, slots=slots)
    settings = settings.with_changes(model=model) if model else settings
    installed = ModelStore(settings.models_dir).find(settings.model)
    origin = make_origin(installed, temperature, seed)
    asked = questions_to_ask(data)[:limit]
    kept = out.with_suffix("") if out.suffix == ".gz" else out
    backend = open_backend(settings)
    try:
        with progress("asking", len(asked)) as step:
            found = run_traces(backend, asked, origin, kept, slots=slots, progress=step)
    finally:
        backend.close()
    if kept != out:
        write_trace_set(found, out)
    count = len(found.rows)
    right = sum(row.right for row in found.rows) / max(1, count)
    told = {"file": str(out), "answers": count, "right": round(right, 4)}
    click.echo(json.dumps(told) if as_json else f"{out}: {count:,} answers, {right:.1%} right")
