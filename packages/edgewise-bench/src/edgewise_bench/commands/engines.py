"""`edgewise bench engines`."""

from __future__ import annotations

from pathlib import Path

import click

from edgewise_bench.commands.report import (
    as_json_option,
    chosen_names,
    command_line,
    model_option,
    new_scorecard,
    progress,
    report,
    rounds_option,
    save_option,
    threads_option,
)


@click.command()
@model_option
@threads_option
@click.option("--engines", "names", help="Some of them, with commas between (default: all).")
@rounds_option(5)
@click.option(
    "--questions",
    "asked",
    type=click.IntRange(1),
    default=60,
    show_default=True,
    help="So many of our own questions, kinds in turns.",
)
@click.option(
    "--cases", type=click.IntRange(1), default=30, show_default=True, help="Function calls."
)
@save_option
@as_json_option
def engines(
    model: str | None,
    threads: int,
    names: str | None,
    rounds: int,
    asked: int,
    cases: int,
    save: Path | None,
    as_json: bool,
) -> None:
    """Every engine that runs here beside llama.cpp: speed, memory, decisions, function calls.

    A model on an engine must have been pulled (`edgewise pull NAME --engine ENGINE`), and the
    function model too. An engine without them is left out, and the scorecard says why.
    """
    import tempfile
    from contextlib import ExitStack

    from edgewise.settings import Settings
    from edgewise_bench.calls.cases import OWN_CASES, read_cases
    from edgewise_bench.chat.engines import (
        ENGINES,
        TARGETS,
        Rounds,
        measure_engines,
        open_engines,
    )
    from edgewise_bench.processes import with_model
    from edgewise_bench.questions.kinds.builtin import make_builtin_questions
    from edgewise_bench.scorecard import verdicts

    chosen = chosen_names("--engines", names, ENGINES, ENGINES)
    plan, requests = Rounds(rounds=rounds), read_cases(OWN_CASES, cases)
    with ExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="edgewise-bench-"))
        settings = Settings.load(threads=threads, data_dir=folder)
        settings = with_model(settings, model)
        running, missing = open_engines(chosen, settings, opened)
        steps = plan.steps(asked, len(requests))
        step = opened.enter_context(progress("engines", steps))
        questions = make_builtin_questions(seed=1, limit=asked)
        outcome = measure_engines(running, questions, requests, plan, step)
    outcome.missing |= missing
    metrics = outcome.metrics()
    changed = {"rounds": (rounds, 5), "questions": (asked, 60), "cases": (cases, 30)}
    said = {name: value for name, (value, usual) in changed.items() if value != usual}
    command = command_line(
        "engines", model=model, threads=threads if threads > 1 else None, engines=names, **said
    )
    card = new_scorecard("engines", command, metrics, **outcome.versions())
    report(card, save, as_json, verdicts(metrics, TARGETS))
