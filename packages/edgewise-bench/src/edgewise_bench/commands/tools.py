"""`edgewise bench tools`: how well function calls come out, by four systems."""

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
@click.argument("cases", nargs=-1, type=click.Path(path_type=Path))
@policy_option
@click.option("--columns", help="Systems to run: some of regex,raw,local,hybrid (default: all).")
@click.option("--limit", type=click.IntRange(1), help="So many cases of each file, spread over it.")
@click.option(
    "--irrelevant",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="So many requests of each file are asked again without the tools that they need.",
)
@click.option(
    "--context",
    "facts",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What is known in every case, such as the devices of a home: a JSON file of facts.",
)
@click.option(
    "--part",
    type=click.Choice(["first", "second"]),
    help="Only one half of the cases: the first to look at, the second to hold back.",
)
@click.option(
    "--messages", is_flag=True, help="Ask with the turns of each case, where it has `messages`."
)
@click.option("--real-cloud", is_flag=True, help="The hybrid asks your provider. It costs money.")
@click.option(
    "--cloud-ms",
    type=click.FloatRange(0),
    default=800,
    show_default=True,
    help="How long the stand-in cloud takes for an answer.",
)
@function_model_option
@threads_option
@plots_option
@click.option(
    "--answers",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write every answer to this file, one JSON object a line.",
)
@save_option
@as_json_option
def tools(
    cases: tuple[Path, ...], plots: Path | None, save: Path | None, as_json: bool, **given: Any
) -> None:
    """Function calls for the cases of one or more files, by four systems side by side.

    CASES are JSON files: `cases`, each with a `query`, its `tools` and its `expected_calls`.
    Without one, thirty requests for an assistant are asked that ship with this bench.

    The systems: regular expressions alone, the raw local model, the full pipeline on the device,
    and the hybrid. Unless you say --real-cloud, the hybrid's cloud is a stand-in that answers
    from the case file, and every table says so. Time and sources are measured from outside.
    """
    from edgewise_bench.calls import tools as bench
    from edgewise_bench.calls.cases import OWN_CASES
    from edgewise_bench.plots import check_drawing, draw_calls

    passed = ("messages", "policy", "limit", "irrelevant", "real_cloud", "cloud_ms")
    plan = bench.Plan(
        files=cases or (OWN_CASES,),
        context=_known(given["facts"]),
        part=given["part"] or "",
        columns=chosen_names("--columns", given["columns"], bench.COLUMNS, bench.COLUMNS),
        **{name: given[name] for name in passed},
    )
    if plots is not None:
        check_drawing()
    asked, irrelevant = bench.load_sets(plan)
    steps = len(plan.systems) * (len(asked) + len(irrelevant))
    with call_settings(given["model"], given["threads"]) as settings:
        bench.cloud_name(settings, plan)  # raises where there is none, before the work
        with progress("calls", steps) as step:
            outcome = bench.measure_tools(
                settings, plan, asked, irrelevant, step, answers=given["answers"]
            )
    if plots is not None and "local" in outcome.results:
        stems = ", ".join(path.stem for path in plan.files)
        draw_calls(plots, outcome.results["local"], stems)
    names = [path.name if path.is_absolute() else path for path in cases]
    options = ("columns", "limit", "part", "irrelevant", "policy", "model", "threads")
    said = said_options(given, *options)
    said |= {"context": given["facts"].name} if given["facts"] else {}
    command = command_line("tools", *names, **said)
    command += " --messages" if plan.messages else ""
    command += " --real-cloud" if plan.real_cloud else ""
    card = new_scorecard("tools", command, outcome.metrics(), **outcome.versions())
    finish(card, save, as_json, lambda: bench.tool_tables(outcome))


def _known(path: Path | None) -> dict[str, Any] | None:
    from edgewise.cli.call import read_facts

    return read_facts([str(path)]) if path else None
