"""`edgewise bench find`: how often a search of a folder finds the right file first."""

from __future__ import annotations

from pathlib import Path

import click

from edgewise_bench.commands.report import (
    as_json_option,
    command_line,
    new_scorecard,
    progress,
    report,
    save_option,
)


@click.command()
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder of yours, with --questions.",
)
@click.option(
    "--questions",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON lines, each with a query and the path that is right in the folder.",
)
@save_option
@as_json_option
def find(folder: Path | None, questions: Path | None, save: Path | None, as_json: bool) -> None:
    """Questions that avoid a note's words, and rare words, numbers and names of it.

    Fifty notes come with edgewise, among sixty passages about other things. How much exact words
    weigh was chosen on one half of the questions (`chosen_on_`); the other half is what counts.
    Beside each figure: the order by meaning only, and BM25.
    """
    from edgewise.settings import Settings
    from edgewise_bench.find import TARGETS, asked_of, measure_find, own_notes
    from edgewise_bench.scorecard import verdicts

    if (folder is None) != (questions is None):
        raise click.UsageError("--folder and --questions belong together")
    asked = asked_of(questions) if questions else own_notes().asked
    settings = Settings.load(threads=1)
    with progress("finding", len(asked)) as step:
        metrics = measure_find(settings, folder, asked, step)
    own = "" if folder is None else " --folder FOLDER --questions FILE"
    card = new_scorecard("find", command_line("find") + own, metrics)
    report(card, save, as_json, verdicts(metrics, TARGETS) if folder is None else None)
