"""`edgewise bench hostile`."""

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
    seed_option,
    stoppable,
)


@click.command()
@rounds_option(500)
@seed_option
@click.option("--first", type=click.IntRange(0), default=0, help="Begin with this round.")
@click.option("--families", help="Some of them, with commas between (default: all).")
@click.option(
    "--peer",
    type=click.IntRange(0),
    default=0,
    help="Then so many hostile schemas to the runtime's own server, and to ours beside it.",
)
@model_option
@save_option
@as_json_option
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def hostile(
    rounds: int,
    seed: int,
    first: int,
    families: str | None,
    peer: int,
    model: str | None,
    options: tuple[str, ...],
    save: Path | None,
    as_json: bool,
) -> None:
    """Attack a real server: hostile schemas, files, HTTP and WebSockets; clients that leave.

    The server has a home of its own and a cloud of this machine. What goes wrong is said on
    standard error with the number of the round; --first N --rounds 1 sends that one alone. OPTIONS
    after -- go to `edgewise serve`.
    """
    import tempfile

    from edgewise.settings import Settings
    from edgewise_bench.campaigns.attacks import FAMILIES
    from edgewise_bench.campaigns.hostile import TARGETS, Plan, measure_hostile
    from edgewise_bench.campaigns.peer import measure_peer
    from edgewise_bench.scorecard import verdicts

    def tell(words: str) -> None:
        click.echo(words, err=True)

    plan = Plan(
        rounds=rounds,
        seed=seed,
        first=first,
        families=chosen_names("--families", families, tuple(FAMILIES), tuple(FAMILIES)),
        options=options,
    )
    with stoppable(), tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder:
        settings = Settings.load(threads=1, data_dir=folder, model=model or "tiny")
        with progress("attacks", rounds) as step:
            metrics = measure_hostile(settings, plan, step, tell)
        if peer:
            with progress("peer", 2 * peer) as step:
                metrics |= measure_peer(settings, peer, seed, options, step, tell)
    said = {"first": first or None, "families": families, "peer": peer or None, "model": model}
    command = command_line("hostile", rounds=rounds, seed=seed, **said)
    command += f" -- {' '.join(options)}" if options else ""
    card = new_scorecard("hostile", command, metrics)
    report(card, save, as_json, verdicts(metrics, TARGETS))
