"""`edgewise index`, `edgewise find`, `--context FOLDER`: search a folder by meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from edgewise.cli import options
from edgewise.cli.ready import ensure_embedder
from edgewise.cli.render import (
    Screen,
    console,
    print_json,
)
from edgewise.cli.streams import printable, without_surrogates
from edgewise.engine import Engine
from edgewise.errors import ModelNotFound
from edgewise.folder_search import FolderIndex, picture_reader
from edgewise.search.documents import cited_numbers
from edgewise.settings import Settings
from edgewise.types.embeddings import (
    Hit,
    IndexReport,
)

_folder = click.Path(exists=True, file_okay=False, path_type=Path)
_policy = click.option(
    "--policy",
    "-p",
    default="local_only",
    show_default=True,
    help="Where texts may be embedded; only the default never sends them away.",
    shell_complete=options.complete_policies,
)


CLOUD_CONTEXT_TOKENS = 8000  # enough for every passage; used if only a cloud answers


@click.command()
@click.argument("folder", type=_folder, default=".")
@click.option("--rebuild", is_flag=True, help="Forget everything and start over.")
@_policy
@options.as_json
def index(folder: Path, rebuild: bool, policy: str, as_json: bool) -> None:
    """Read the texts of FOLDER (default: this one), so that find can search them.

    Reads prose, data and code, and the text in images if that extra is installed. Unchanged
    files are skipped and deleted ones dropped; an interrupted run continues where it stopped.
    The index is kept with your data, not in the folder.

    \b
    edgewise index ~/notes
    edgewise find "when does the ferry leave" --in ~/notes
    """
    settings = ensure_embedder(Settings.load(), policy)
    with Engine(settings) as engine, opened(engine, folder, policy) as found:
        report = brought_up_to_date(found, rebuild=rebuild)
        if as_json:
            print_json({"folder": str(folder), "index": str(found._store.path)} | report.to_dict())
        else:
            console().say(_words(report))
            say_skipped(report, console(stderr=True))


@click.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--in", "folder", type=_folder, default=".", help="The folder (default: this one).")
@click.option("--most", "-n", type=click.IntRange(1), default=5, show_default=True)
@click.option("--no-update", is_flag=True, help="Search the index as it is.")
@_policy
@options.as_json
def find(
    query: tuple[str, ...], folder: Path, most: int, no_update: bool, policy: str, as_json: bool
) -> None:
    """Find the passages of a folder that are nearest in meaning to QUERY.

    The index is updated first; the first time that takes a while.

    \b
    edgewise find "how do I renew my passport" --in ~/notes
    edgewise find "retry after a timeout" --in src --json | jq .hits[0].path
    """
    words = without_surrogates(" ".join(query))
    settings = ensure_embedder(Settings.load(), policy)
    with Engine(settings) as engine, opened(engine, folder, policy) as found:
        if not no_update:
            say_skipped(brought_up_to_date(found), console(stderr=True))
        hits = found.find(words, most)
        space = found._store.space
    if as_json:
        print_json({"query": words, "space": space, "hits": [hit.to_dict() for hit in hits]})
        return
    for hit in hits:
        show_hit(hit, console())
    if not hits:
        console(stderr=True).say("nothing is indexed here")


def opened(engine: Engine, folder: Path, policy: str = "local_only") -> FolderIndex:
    pictures = picture_reader(engine.settings.threads)
    return FolderIndex(engine, folder, policy=policy, pictures=pictures)


def brought_up_to_date(found: FolderIndex, *, rebuild: bool = False) -> IndexReport:
    with files_bar() as progress:
        return found.update(progress, rebuild=rebuild)


def say_skipped(report: IndexReport, side: Screen) -> None:
    for reason, count in report.skipped:
        side.say((f"skipped {count}: {reason}", "yellow"))


def show_hit(hit: Hit, screen: Screen) -> None:
    screen.say((hit.place, "bold"), (f"  {hit.score:.2f}", "dim"))
    lines = [" ".join(line.split()) for line in hit.text.splitlines() if line.strip()]
    for line in lines[:3]:
        screen.say("    ", line[:160] + ("…" if len(line) > 160 else ""))


def _words(report: IndexReport) -> str:
    return (
        f"{report.files:,} files, {report.passages:,} passages in the space {report.space or '-'}: "
        f"{report.added:,} new, {report.changed:,} changed, {report.removed:,} gone, "
        f"{report.unchanged:,} as before"
    )


@contextmanager
def files_bar() -> Iterator[Callable[[int, int, str], None]]:
    """A bar on standard error, in a terminal only."""
    side = console(stderr=True)
    bar = Progress(
        TextColumn("indexing", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}", markup=False),
        console=side,
        disable=not side.is_terminal,
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=None)

        def report(done: int, total: int, name: str) -> None:
            bar.update(task, completed=done, total=total, description=printable(name)[-40:])

        yield report


def with_passages(
    engine: Engine, question: str, folder: Path, request: dict[str, Any]
) -> tuple[str, list[Hit]]:
    """The prompt for the model, and its passages: [1] is the first."""
    with opened(engine, folder) as found:
        say_skipped(brought_up_to_date(found), console(stderr=True))
        return found.cite(
            question,
            context_tokens=_context_tokens(engine, request),
            answer_tokens=request.get("max_tokens", engine.settings.max_tokens),
        )


def _context_tokens(engine: Engine, request: dict[str, Any]) -> int:
    """Always the device's: it must be able to step in if the cloud fails."""
    if request.get("policy", engine.settings.policy) == "cloud_only":
        return CLOUD_CONTEXT_TOKENS
    try:
        return engine._open_backend().facts().context_tokens
    except ModelNotFound:
        return CLOUD_CONTEXT_TOKENS


def show_sources(hits: Sequence[Hit], answer: str, side: Screen) -> None:
    """Below the answer: its possible sources, and those that it cites."""
    named = cited_numbers(answer, len(hits))
    for number, hit in enumerate(hits, start=1):
        style = "bold" if number in named else "dim"
        side.say((f"[{number}] {hit.place}", style), (f"  {hit.score:.2f}", "dim"))
    if not hits:
        side.say(("nothing in the folder to answer from", "yellow"))
