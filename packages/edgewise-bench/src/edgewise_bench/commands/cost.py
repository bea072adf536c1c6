"""`edgewise bench cost`: how much cheaper answers become, and how good they stay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgewise_bench.commands.report import (
    RESULTS,
    as_json_option,
    call_settings,
    command_line,
    new_scorecard,
    progress,
    report,
    save_option,
)

if TYPE_CHECKING:
    from edgewise_bench.routing.workload import Part


@click.command()
@click.option(
    "--shares",
    help="Requests of each sort, such as calls=0.5,speech=0.1,tasks=0.2,chat=0.2; what you leave"
    " out has none.",
)
@click.option(
    "--calls",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Cases for `bench tools`: the function model answers them now, in place of the"
    " published answers.",
)
@click.option(
    "--data",
    type=click.Path(exists=True, path_type=Path),
    help="LLMRouter's outcomes, a folder or .tar.gz (docs/notes/routing.md): the cloud then answers"
    " exam questions as llama-3.1-nemotron-51b-instruct did.",
)
@click.option(
    "--traces",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    default=RESULTS / "traces",
    show_default=True,
    help="Published answers of our own models.",
)
@save_option
@as_json_option
def cost(
    shares: str | None,
    calls: tuple[Path, ...],
    data: Path | None,
    traces: Path,
    save: Path | None,
    as_json: bool,
) -> None:
    """Quality against cost on a workload of what people ask an assistant.

    The device is the standard model with the function model and whisper-tiny.en. Each answer's
    confidence comes from a fit that had not seen its kind of question, its case or its voice. One
    threshold rules all sorts. times_cheaper_at_95: the cloud alone costs so many times as much, at
    95 % of its quality.
    """
    from edgewise_bench.routing import workload
    from edgewise_bench.scorecard import verdicts

    wanted = read_shares(shares, workload.SHARES)
    parts = workload.open_parts(traces, _strong(data))
    if calls:
        parts["calls"] = _ask(calls)
    parts = {name: part for name, part in parts.items() if wanted.get(name)}
    metrics = workload.measure(parts, wanted)
    names = {"calls": " ".join(path.name for path in calls) or None}
    command = command_line("cost", shares=shares, data="DIR" if data else None, **names)
    report(
        new_scorecard("cost", command, metrics), save, as_json, verdicts(metrics, workload.TARGETS)
    )


def read_shares(given: str | None, usual: Mapping[str, float]) -> dict[str, float]:
    if given is None:
        return dict(usual)
    found: dict[str, float] = {}
    for pair in given.split(","):
        name, _, number = pair.partition("=")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            raise click.UsageError(f"--shares: {pair!r} is not a name, = and a number") from None
    unknown = sorted(set(found) - set(usual))
    if unknown or not 0 < sum(found.values()) < float("inf") or min(found.values()) < 0:
        raise click.UsageError(
            f"--shares: give some of {', '.join(usual)} a share above 0"
            + (f"; {', '.join(unknown)} is not among them" if unknown else "")
        )
    return found


def _strong(data: Path | None) -> dict[int, float] | None:
    if data is None:
        return None
    from edgewise_bench.routing.frozen import open_data
    from edgewise_bench.routing.own_traces import FROZEN_STRONG, frozen_scores
    from edgewise_bench.routing.workload import strong_scores

    with open_data(data) as folder:
        larger = folder / "llmrouter"
        return strong_scores(frozen_scores(larger, FROZEN_STRONG), larger)


def _ask(files: tuple[Path, ...]) -> Part:
    from edgewise_bench.calls.scores import f1
    from edgewise_bench.calls.tools import Plan, load_sets, measure_tools
    from edgewise_bench.routing.workload import call_part

    plan = Plan(files=files, columns=("local",), irrelevant=0)
    cases, _ = load_sets(plan)
    with call_settings(None, 1) as settings, progress("calls", len(cases)) as step:
        rows = measure_tools(settings, plan, cases, (), step).results["local"].rows
    return call_part(
        [min(answered.confidences, default=0.0) for _, answered in rows],
        [f1(answered.calls, case.expected) for case, answered in rows],
    )
