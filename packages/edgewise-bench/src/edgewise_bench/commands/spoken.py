"""`edgewise bench spoken`: function calls from words as people say them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edgewise_bench.commands.report import (
    as_json_option,
    call_settings,
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
@click.option("--half", type=click.Choice(["first", "second"]), help="Only one half of the tools.")
@click.option("--limit", type=click.IntRange(1), help="So many requests, spread over all.")
@function_model_option
@threads_option
@click.option(
    "--answers",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write every answer to this file, one JSON object a line.",
)
@save_option
@as_json_option
def spoken(answers: Path | None, save: Path | None, as_json: bool, **given: Any) -> None:
    """Function calls from requests as people say them to a phone or a home, on the device alone.

    Each is asked as it is said, then as a transcriber writes it (a capital, a full stop), then with
    facts around it: the time, the date, a number or two. A hundred are asked again as if the
    machine were slow. Figures without a prefix are of the half whose tools nobody looked at while
    settings were chosen.
    """
    from edgewise_bench.calls import spoken as bench
    from edgewise_bench.calls.cases import spread
    from edgewise_bench.scorecard import verdicts

    cases = [case for case in bench.read_spoken() if given["half"] in (None, case.half)]
    asked = spread(cases, given["limit"])
    chosen = call_settings(given["model"], given["threads"])
    with chosen as settings, progress("calls", len(asked)) as step:
        rows = bench.measure_spoken(settings, asked, step, answers=answers)
    said = said_options(given, "half", "limit", "model", "threads")
    card = new_scorecard("spoken", command_line("spoken", **said), bench.figures(rows))
    report(card, save, as_json, verdicts(card.metrics, bench.TARGETS))
