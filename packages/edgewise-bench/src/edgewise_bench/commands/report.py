"""What the commands of `edgewise bench` share: options, the scorecard's table, the progress bar."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table

    from edgewise.settings import Settings
    from edgewise_bench.scorecard import Scorecard

RESULTS = Path("packages/edgewise-bench/results")  # in a clone
_POLICIES = ("prefer_local", "local_only", "prefer_cloud", "cloud_only")

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
save_option = click.option(
    "--save",
    is_flag=False,
    flag_value=str(RESULTS),
    type=click.Path(file_okay=False, path_type=Path),
    help=f"Write the scorecard to NAME.json in this folder ({RESULTS}, unless you name another).",
)
model_option = click.option(
    "--model", "-m", help="Local model: a name, or the path of a GGUF file."
)
function_model_option = click.option(
    "--model", "-m", help="Function model: a name, or the path of a GGUF file."
)
threads_option = click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
policy_option = click.option(
    "--policy", "-p", type=click.Choice(_POLICIES), default="local_only", show_default=True
)
seed_option = click.option(
    "--seed", type=int, default=0, show_default=True, help="Another seed, other rounds."
)
plots_option = click.option(
    "--plots",
    type=click.Path(file_okay=False, path_type=Path),
    help="Draw the confidence into this folder, as PNG files. Needs matplotlib.",
)

word_problems_option = click.option(
    "--word-problems",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="GSM8K's questions as well, from this .jsonl.gz.",
)
programs_option = click.option(
    "--programs",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="HumanEval's tasks as well, from this .jsonl.gz; what is written is run.",
)


def rounds_option(default: int) -> Callable[[Any], Any]:
    return click.option("--rounds", type=click.IntRange(1), default=default, show_default=True)


@contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM ends a campaign as Ctrl-C does: with its figures, and with all that it started."""
    import signal

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def command_line(name: str, *arguments: object, **options: object) -> str:
    """The command that printed a scorecard, to be printed with it."""
    given = [f"--{key} {value}" for key, value in options.items() if value is not None]
    return " ".join(["edgewise", "bench", name, *map(str, arguments), *given])


def new_scorecard(
    name: str, command: str, metrics: Mapping[str, float], **versions: str
) -> Scorecard:
    from edgewise_bench.scorecard import make_scorecard

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
        from rich.table import Table

        table = Table("metric", "value", "target" if remarks else "", title=scorecard.command)
        table.columns[1].justify = "right"
        for name, value in scorecard.metrics.items():
            shown = f"{value:,.0f}" if value >= 10_000 else f"{value:,.4g}"
            table.add_row(name, shown, (remarks or {}).get(name, ""))
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
    from rich.console import Console

    screen = Console(highlight=False, soft_wrap=True)
    for table in tables():
        screen.print(table)
    screen.print(", ".join(f"{name} {version}" for name, version in scorecard.versions.items()))


def progress(label: str, total: int) -> AbstractContextManager[Callable[[], None]]:
    """A bar on standard error; nothing where that is not a terminal."""
    from edgewise.cli.calibrate import progress as bar

    return bar(label, total)


def chosen_names(
    option: str, given: str | None, known: Sequence[str], default: Sequence[str]
) -> tuple[str, ...]:
    """Names with commas between them."""
    names = [name.strip() for name in (given or ",".join(default)).split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise click.UsageError(f"{option}: {given!r} is not among {', '.join(known)}")
    return tuple(names)


def said_options(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The options that change figures, where they are not the default."""
    defaults = {"policy": "local_only", "irrelevant": 50, "threads": 1}
    return {name: given[name] for name in names if given[name] != defaults.get(name)}


@contextmanager
def call_settings(model: str | None, threads: int) -> Iterator[Settings]:
    """The user's, but for the ledger, which must not fill with benchmarks."""
    import tempfile

    from edgewise.settings import Settings

    with tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder:
        settings = Settings.load(threads=threads, data_dir=folder)
        yield settings.with_changes(function_model=model) if model else settings
