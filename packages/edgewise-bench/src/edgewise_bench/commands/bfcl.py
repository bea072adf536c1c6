"""`edgewise bench bfcl`: the Berkeley leaderboard's single-turn categories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edgewise_bench.commands.report import (
    as_json_option,
    call_settings,
    chosen_names,
    command_line,
    finish,
    function_model_option,
    new_scorecard,
    plots_option,
    policy_option,
    progress,
    said_options,
    save_option,
    threads_option,
)


@click.command()
@click.option(
    "--package",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder that holds the unpacked bfcl_eval (default: the installed package bfcl-eval).",
)
@click.option("--categories", help="Some of them, with commas between (default: all seven).")
@click.option("--columns", help="local, raw or both: raw,local (default: local).")
@policy_option
@click.option("--limit", type=click.IntRange(1), help="Only the first so many of each category.")
@click.option(
    "--resume",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the answers in this file, and go on from those it has (default: a new file).",
)
@function_model_option
@threads_option
@plots_option
@save_option
@as_json_option
def bfcl(
    resume: Path | None, plots: Path | None, save: Path | None, as_json: bool, **given: Any
) -> None:
    """The Berkeley function-calling leaderboard: single-turn categories, its own AST checker.

    Percent right for each category, beside what FunctionGemma-270M publishes for itself. The cases
    and the checker come from the package bfcl-eval, which you install or unpack; a policy other
    than local_only asks your provider, which costs money.

    All seven categories are 2,551 requests: an hour or more on one core. Answers are written as
    they come; a run that was cut goes on with --resume.
    """
    from edgewise_bench.calls import bfcl as bench
    from edgewise_bench.calls.bfcl_package import CATEGORIES, MORE_CATEGORIES
    from edgewise_bench.calls.tools import comparison
    from edgewise_bench.plots import check_drawing, draw_confidence

    known = (*CATEGORIES, *MORE_CATEGORIES)
    plan = bench.Plan(
        package=given["package"],
        categories=chosen_names("--categories", given["categories"], known, CATEGORIES),
        columns=chosen_names("--columns", given["columns"], bench.COLUMNS, ("local",)),
        policy=given["policy"],
        limit=given["limit"],
    )
    if plots is not None:
        check_drawing()
    cases = bench.load_cases(plan)
    with call_settings(given["model"], given["threads"]) as settings:
        answers = resume or bench.new_answer_file(settings)
        if resume is None:
            click.echo(f"A run that is cut goes on with --resume {answers}", err=True)
        with progress("calls", len(plan.systems) * len(cases)) as step:
            outcome = bench.measure_bfcl(settings, plan, cases, answers, step)
    if plots is not None and "local" in plan.systems:
        draw_confidence(plots, *outcome.units("local"), "BFCL: " + ", ".join(plan.categories))
    said = said_options(given, "categories", "columns", "limit", "policy", "model", "threads")
    metrics, version = outcome.metrics(), bench.find_version(plan)
    card = new_scorecard("bfcl", command_line("bfcl", **said), metrics, bfcl_eval=version)
    table = "percent right", outcome.with_published(), bench.titles(plan)
    finish(card, save, as_json, lambda: [comparison(*table)])
