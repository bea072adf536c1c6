"""`edgewise bench workload`."""

from __future__ import annotations

from pathlib import Path

import click

from edgewise_bench.commands.report import (
    RESULTS,
    as_json_option,
    command_line,
    model_option,
    new_scorecard,
    progress,
    report,
    save_option,
)


@click.command()
@model_option
@click.option(
    "--users",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Users of each family of questions.",
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--traces",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    default=RESULTS / "traces",
    show_default=True,
    help="Published answers of our own models.",
)
@save_option
@as_json_option
def workload(
    model: str | None, users: int, seed: int, traces: Path, save: Path | None, as_json: bool
) -> None:
    """What a user's own verdicts let edgewise promise, and whether that holds.

    Every second family of questions is the workload of new users, judged by a confidence that
    never saw it; on the others the rules were chosen. Verdicts come one by one, on answers where
    they teach most (_any: on all answers as they come), all right or 5 % of them mistaken.
    broken_10: the share of users for whom at any moment the promised threshold keeps more than
    10 % wrong answers. kept_at_50: after 50 verdicts, how much is kept of what someone could keep
    who knows the truth. provable_at_50: the same for someone who is told which threshold to prove
    and looks once. The figures with _20 are for a stated 20 %.
    """
    from edgewise.calibrate.own import calibration_name
    from edgewise.cloud.providers import LibraryPrices
    from edgewise.local.store import ModelStore
    from edgewise.settings import Settings
    from edgewise_bench.chat import families, held_out, workloads
    from edgewise_bench.processes import with_model
    from edgewise_bench.routing.workload import ANSWERS
    from edgewise_bench.scorecard import verdicts

    settings = Settings.load()
    settings = with_model(settings, model)
    name = calibration_name(ModelStore(settings.models_dir).find(settings.model))
    path = held_out.path_of(traces, name)
    if not path.exists():
        raise click.UsageError(f"{path} is not there: no held-out answers are published for {name}")
    heads, prices = held_out.read_held_out(path).traces, LibraryPrices()
    found, lived = families.strangers_of(name, heads, traces), families.lived_of(name, traces)
    rows = workloads.rows_of(found, heads, lived)

    def dollars(row: held_out.Judged) -> float:
        return prices.cost(ANSWERS, row.input_tokens, row.output_tokens) / 1e6

    with progress("living", workloads.steps(rows, users)) as step:
        metrics = workloads.measure(rows, users, seed, dollars, step)
    command = command_line("workload", model=model, users=users, seed=seed)
    card = new_scorecard("workload", command, metrics)
    report(card, save, as_json, verdicts(metrics, workloads.TARGETS))
