"""`edgewise bench tools` and `edgewise bench bfcl`: how well function calls come out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgewise.cli.bench_report import (
    as_json_option,
    command_line,
    finish,
    new_scorecard,
    progress,
    save_option,
)
from edgewise.cli.options import POLICIES

if TYPE_CHECKING:
    from edgewise.settings import Settings

_policy = click.option(
    "--policy", "-p", type=click.Choice(POLICIES), default="local_only", show_default=True
)
_model = click.option("--model", "-m", help="Function caller: a name, or the path of a GGUF file.")
_threads = click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
_plots = click.option(
    "--plots",
    type=click.Path(file_okay=False, path_type=Path),
    help="Draw the confidence into this folder, as PNG files. Needs matplotlib.",
)


@click.command()
@click.argument("cases", nargs=-1, required=True, type=click.Path(path_type=Path))
@_policy
@click.option("--columns", help="Systems to run: some of regex,raw,local,hybrid (default: all).")
@click.option("--limit", type=click.IntRange(1), help="So many cases of each file, spread over it.")
@click.option(
    "--irrelevant",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="So many requests of each file are asked again without the tools that they need.",
)
@click.option("--real-cloud", is_flag=True, help="The hybrid asks your provider. It costs money.")
@click.option(
    "--cloud-ms",
    type=click.FloatRange(0),
    default=800,
    show_default=True,
    help="How long the stand-in cloud takes for an answer.",
)
@_model
@_threads
@_plots
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

    The systems: regular expressions alone, the raw local model, the full pipeline on the device,
    and the hybrid. Unless you say --real-cloud, the hybrid's cloud is a stand-in that answers
    from the case file, and every table says so. Time and sources are measured from outside.
    """
    from edgewise.bench import tools as bench  # noqa: PLC0415 - the group must load quickly
    from edgewise.bench.call_plots import check_drawing, draw_calls  # noqa: PLC0415
    from edgewise.bench.call_tables import tool_tables  # noqa: PLC0415

    passed = ("policy", "limit", "irrelevant", "real_cloud", "cloud_ms")
    plan = bench.Plan(
        files=cases,
        columns=_names("--columns", given["columns"], bench.COLUMNS, bench.COLUMNS),
        **{name: given[name] for name in passed},
    )
    if plots is not None:
        check_drawing()
    asked, irrelevant = bench.load_sets(plan)
    steps = len(plan.systems) * (len(asked) + len(irrelevant))
    with _settings(given["model"], given["threads"]) as settings:
        bench.cloud_name(settings, plan)  # raises where there is none, before the work
        with progress("calls", steps) as step:
            outcome = bench.measure_tools(
                settings, plan, asked, irrelevant, step, answers=given["answers"]
            )
    if plots is not None and "local" in outcome.results:
        stems = ", ".join(path.stem for path in cases)
        draw_calls(plots, outcome.results["local"], stems)
    names = [path.name if path.is_absolute() else path for path in cases]
    said = _said(given, "columns", "limit", "irrelevant", "policy", "model", "threads")
    command = command_line("tools", *names, **said)
    command += " --real-cloud" if plan.real_cloud else ""
    card = new_scorecard("tools", command, outcome.metrics(), **outcome.versions())
    finish(card, save, as_json, lambda: tool_tables(outcome))


@click.command()
@click.option(
    "--package",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder that holds the unpacked bfcl_eval (default: the installed package bfcl-eval).",
)
@click.option("--categories", help="Some of them, with commas between (default: all seven).")
@click.option("--columns", help="local, raw or both: raw,local (default: local).")
@_policy
@click.option("--limit", type=click.IntRange(1), help="Only the first so many of each category.")
@click.option(
    "--resume",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the answers in this file, and go on from those it has (default: a new file).",
)
@_model
@_threads
@_plots
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
    from edgewise.bench import bfcl as bench  # noqa: PLC0415
    from edgewise.bench.bfcl_package import CATEGORIES, MORE_CATEGORIES  # noqa: PLC0415
    from edgewise.bench.call_plots import check_drawing, draw_confidence  # noqa: PLC0415
    from edgewise.bench.call_tables import comparison  # noqa: PLC0415

    known = (*CATEGORIES, *MORE_CATEGORIES)
    plan = bench.Plan(
        package=given["package"],
        categories=_names("--categories", given["categories"], known, CATEGORIES),
        columns=_names("--columns", given["columns"], bench.COLUMNS, ("local",)),
        policy=given["policy"],
        limit=given["limit"],
    )
    if plots is not None:
        check_drawing()
    cases = bench.load_cases(plan)
    with _settings(given["model"], given["threads"]) as settings:
        answers = resume or bench.new_answer_file(settings)
        if resume is None:
            click.echo(f"A run that is cut goes on with --resume {answers}", err=True)
        with progress("calls", len(plan.systems) * len(cases)) as step:
            outcome = bench.measure_bfcl(settings, plan, cases, answers, step)
    if plots is not None and "local" in plan.systems:
        draw_confidence(plots, *outcome.units("local"), "BFCL: " + ", ".join(plan.categories))
    said = _said(given, "categories", "columns", "limit", "policy", "model", "threads")
    metrics, version = outcome.metrics(), bench.find_version(plan)
    card = new_scorecard("bfcl", command_line("bfcl", **said), metrics, bfcl_eval=version)
    table = "percent right", outcome.with_published(), bench.titles(plan)
    finish(card, save, as_json, lambda: [comparison(*table)])


def _names(
    option: str, given: str | None, known: Sequence[str], default: Sequence[str]
) -> tuple[str, ...]:
    """Names with commas between them."""
    names = [name.strip() for name in (given or ",".join(default)).split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise click.UsageError(f"{option}: {given!r} is not among {', '.join(known)}")
    return tuple(names)


def _said(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The options that change figures, where they are not the default."""
    defaults = {"policy": "local_only", "irrelevant": 50, "threads": 1}
    return {name: given[name] for name in names if given[name] != defaults.get(name)}


@contextmanager
def _settings(model: str | None, threads: int) -> Iterator[Settings]:
    """The user's, but for the ledger, which must not fill with benchmarks."""
    import tempfile  # noqa: PLC0415

    from edgewise.settings import Settings  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder:
        settings = Settings.load(threads=threads, data_dir=folder)
        yield settings.with_changes(function_model=model) if model else settings
