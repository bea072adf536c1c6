"""What the commands of `edgewise bench` share: options, the scorecard's table, the progress bar."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table

    from edgewise.bench.scorecard import Scorecard

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
save_option = click.option(
    "--save",
    is_flag=False,
    flag_value="benchmarks",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the scorecard to NAME.json in this folder (benchmarks, unless you name another).",
)


def command_line(name: str, *arguments: object, **options: object) -> str:
    """The command that printed a scorecard, to be printed with it."""
    given = [f"--{key} {value}" for key, value in options.items() if value is not None]
    return " ".join(["edgewise", "bench", name, *map(str, arguments), *given])


def new_scorecard(
    name: str, command: str, metrics: Mapping[str, float], **versions: str
) -> Scorecard:
    from edgewise.bench.scorecard import make_scorecard  # noqa: PLC0415 - loads when needed

    card = make_scorecard(name, command, metrics)
    return replace(card, versions={**card.versions, **versions})


def report(
    scorecard: Scorecard,
    save: Path | None,
    as_json: bool,
    remarks: Mapping[str, str] | None = None,
) -> None:
    """One metric a row, with its target where there is one."""

    def table() -> Iterable[Table]:
        from rich.table import Table  # noqa: PLC0415

        table = Table("metric", "value", "target" if remarks else "", title=scorecard.command)
        table.columns[1].justify = "right"
        for name, value in scorecard.metrics.items():
            table.add_row(name, f"{value:,.4g}", (remarks or {}).get(name, ""))
        return [table]

    finish(scorecard, save, as_json, table)


def finish(
    scorecard: Scorecard,
    save: Path | None,
    as_json: bool,
    tables: Callable[[], Iterable[Table]],
) -> None:
    """Save the scorecard where it was asked for, and print it: as JSON or as these tables."""
    if save is not None:
        scorecard.save(save / f"{scorecard.name}.json")
    if as_json:
        click.echo(json.dumps(scorecard.to_dict()))
        return
    from rich.console import Console  # noqa: PLC0415

    screen = Console(highlight=False, soft_wrap=True)
    for table in tables():
        screen.print(table)
    screen.print(", ".join(f"{name} {version}" for name, version in scorecard.versions.items()))


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar on standard error; nothing where that is not a terminal."""
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)
        bar.update(task, completed=total)
