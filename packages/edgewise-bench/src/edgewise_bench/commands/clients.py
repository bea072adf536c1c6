"""`edgewise bench clients`."""

from __future__ import annotations

from pathlib import Path

import click

from edgewise_bench.commands.report import (
    as_json_option,
    chosen_names,
    command_line,
    new_scorecard,
    progress,
    report,
    save_option,
    stoppable,
)


@click.command()
@click.option("--clients", "given", help="Some of them, with commas between (default: all).")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where they are installed; those that are not there are looked for on PATH.",
)
@click.option(
    "--record",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write what each client sent and got to NAME.json in this folder.",
)
@save_option
@as_json_option
def clients(
    given: str | None, folder: Path | None, record: Path | None, save: Path | None, as_json: bool
) -> None:
    """Real coding agents and libraries: does what they send arrive at the cloud as it was sent?

    Each mends a file of a scratch repository. It asks `edgewise serve`, whose cloud is scripted
    and on this machine; a plain proxy between them writes down what was sent. A client has a home
    of its own, and reaches nobody else. One that is not installed is named, with the command that
    installs it, and not counted.
    """
    import tempfile

    from edgewise.settings import Settings
    from edgewise_bench.clients.measure import TARGETS, measure_clients
    from edgewise_bench.clients.programs import CLIENTS
    from edgewise_bench.scorecard import verdicts

    def tell(words: str) -> None:
        click.echo(words, err=True)

    names = chosen_names("--clients", given, tuple(CLIENTS), tuple(CLIENTS))
    with stoppable(), tempfile.TemporaryDirectory(prefix="edgewise-bench-") as data:
        settings = Settings.load(threads=1, data_dir=data, model="tiny")
        with progress("clients", len(names)) as step:
            outcome = measure_clients(settings, names, folder, record, step, tell)
    for client in outcome.missing:
        tell(f"{client.name} is not installed: {client.how(folder)}")
    metrics = outcome.metrics()
    versions = {name: run.version for name, run in outcome.runs.items()}
    card = new_scorecard("clients", command_line("clients", clients=given), metrics, **versions)
    report(card, save, as_json, verdicts(metrics, TARGETS))
