"""`edgewise bench embed`."""

from __future__ import annotations

from pathlib import Path

import click

from edgewise_bench.commands.report import (
    as_json_option,
    command_line,
    new_scorecard,
    progress,
    report,
    save_option,
    threads_option,
)


@click.command()
@click.option("--model", "-m", help="Embedding model, by name.")
@threads_option
@click.option("--quick", is_flag=True, help="Few vectors: shows that it runs, not how fast.")
@save_option
@as_json_option
def embed(model: str | None, threads: int, quick: bool, save: Path | None, as_json: bool) -> None:
    """Texts per second, agreement with the plain runtime, retrieval, and exact search.

    Retrieval is measured on sixty passages and questions that come with edgewise, search on
    100,000 random vectors. With all-minilm-l6-v2-fp32 pulled, also against unrounded weights.
    """
    from importlib.metadata import version

    from edgewise.settings import Settings
    from edgewise_bench.embed import QUICK, TARGETS, Rounds, measure_embed
    from edgewise_bench.scorecard import verdicts

    rounds = QUICK if quick else Rounds()
    settings = Settings.load(threads=threads)
    if model:
        settings = settings.with_changes(embed_model=model)
    with progress("embedding", rounds.steps) as step:
        metrics = measure_embed(settings, rounds, step)
    command = command_line("embed", model=model, threads=threads if threads > 1 else None)
    command += " --quick" if quick else ""
    versions = {name: version(name) for name in ("onnxruntime", "tokenizers", "numpy")}
    card = new_scorecard("embed", command, metrics, **versions)
    report(card, save, as_json, verdicts(metrics, TARGETS))
