"""`edgewise bench conversations`: function calls in conversations, homes and rounds of tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edgewise_bench.commands.report import (
    as_json_option,
    call_settings,
    chosen_names,
    command_line,
    function_model_option,
    new_scorecard,
    progress,
    report,
    said_options,
    save_option,
    threads_option,
)


@click.command()
@click.option("--sets", help="Some of them, with commas between (default: all seven).")
@click.option("--limit", type=click.IntRange(1), help="So many cases of each set.")
@click.option("--seed", type=int, default=0, show_default=True, help="Draws them, with --limit.")
@click.option(
    "--cases",
    type=click.Path(dir_okay=False, path_type=Path),
    help="JSON lines, also gzipped, instead of the cases that ship with this bench.",
)
@function_model_option
@threads_option
@click.option(
    "--answers",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write every answer to this file, one JSON object a line.",
)
@save_option
@as_json_option
def conversations(
    cases: Path | None, answers: Path | None, save: Path | None, as_json: bool, **given: Any
) -> None:
    """Function calls that lean on more than the request, on the device alone.

    The sets: dialogue (follow-ups, corrections, answers to our question), missing (something
    required was not said: is it asked for?), home (with a list of devices), rounds (of tools),
    taken_away (the needed tool is not offered), nested (objects in the arguments) and facts (the
    date, contacts). No training saw their tools, or the devices and wordings of the homes. All of
    them take half an hour or more on one core.
    """
    from edgewise_bench.calls import conversations as bench
    from edgewise_bench.scorecard import verdicts

    sets = chosen_names("--sets", given["sets"], bench.SETS, bench.SETS)
    limit, seed = given["limit"], given["seed"]
    asked = bench.choose(bench.read_conversations(cases or bench.SHIPPED), sets, limit, seed)
    if not asked:
        raise click.UsageError(f"{cases} has no case of {', '.join(sets)}")
    chosen = call_settings(given["model"], given["threads"])
    with chosen as settings, progress("calls", len(asked)) as step:
        rows = bench.measure_conversations(settings, asked, step, answers=answers)
    said = said_options(given, "sets", "limit", "model", "threads")
    said |= {"seed": seed or None, "cases": cases.name if cases else None}
    metrics = bench.figures(rows)
    card = new_scorecard("conversations", command_line("conversations", **said), metrics)
    report(card, save, as_json, verdicts(card.metrics, bench.TARGETS))
