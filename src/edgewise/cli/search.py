"""`edgewise embed`, `index`, `find` and `--context FOLDER`: vectors, and searching by them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from edgewise.cli import options
from edgewise.cli.main import EXIT_FAILED, EXIT_SIGNALLED
from edgewise.cli.render import Screen, Waiting, console, print_json, summary
from edgewise.cli.setup import ensure_embedder
from edgewise.cli.streams import printable, read_all, without_surrogates
from edgewise.engine import Engine
from edgewise.errors import ModelNotFound
from edgewise.folder_search import FolderIndex, cited_numbers
from edgewise.settings import Settings
from edgewise.types.embeddings import Embeddings, Hit, IndexReport
from edgewise.types.messages import DEVICE_TOKENS

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

    Reads prose, data, code, Word and PDF, and the text in images if that extra is installed.
    Unchanged files are skipped and deleted ones dropped; an interrupted run continues where it
    stopped. What it could not read is counted, with the reason.
    The index is kept with your data, not in the folder.

    \b
    edgewise index ~/notes
    edgewise find "when does the ferry leave" --in ~/notes
    """
    settings = ensure_embedder(Settings.load(), policy)
    with Engine(settings) as engine, opened(engine, folder, policy) as found:
        report = brought_up_to_date(found, rebuild=rebuild)
        if as_json:
            print_json({"folder": str(folder), "index": str(found.path)} | report.to_dict())
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
    """Find the passages of a folder that are nearest in meaning to QUERY, or have its rare words.

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
        space = found.space
    if as_json:
        print_json({"query": words, "space": space, "hits": [hit.to_dict() for hit in hits]})
    else:
        for hit in hits:
            show_hit(hit, console())
    if not hits:  # any text is near to some other: there is none
        why = "is not indexed yet: leave out --no-update" if no_update else ""
        why = why or "holds no file that can be searched"
        console(stderr=True).say(f"the folder {folder.resolve()} {why}")
        sys.exit(EXIT_FAILED)


def opened(engine: Engine, folder: Path, policy: str = "local_only") -> FolderIndex:
    return FolderIndex(engine, folder, policy=policy)


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
            answer_tokens=request.get("max_tokens", engine.settings.max_tokens) or DEVICE_TOKENS,
        )


def _context_tokens(engine: Engine, request: dict[str, Any]) -> int:
    """Always the device's: it must be able to step in if the cloud fails."""
    if request.get("policy", engine.settings.policy) == "cloud_only":
        return CLOUD_CONTEXT_TOKENS
    try:
        return engine.parts.backend().facts().context_tokens
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


# -- vectors ---------------------------------------------------------------------------------------


SHOWN_NUMBERS = 6


@click.command()
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@click.option(
    "--file",
    "-f",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="A whole file is one text; may be given several times.",
)
@click.option("--lines", is_flag=True, help="Every line of standard input is a text.")
@click.option("--int8", is_flag=True, help="8-bit vectors, each with its scale.")
@click.option("--space", help="Refuse vectors of any other space than this one.")
@click.option("--dimensions", type=click.IntRange(1), help="Numbers per vector, if the model can.")
@options.placement
@options.as_json
@click.pass_context
def embed(
    context: click.Context,
    /,
    texts: tuple[str, ...],
    file: tuple[Path, ...],
    lines: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Make a vector of every TEXT, all in one space.

    Without a TEXT and without --file, standard input is the text. --json prints the vectors;
    otherwise one line per text shows how its vector begins.

    \b
    edgewise embed "Where do penguins live?" --json | jq .space
    edgewise embed --lines --int8 --json < sentences.txt
    edgewise embed "a query" --space all-minilm-l6-v2@int8-384
    """
    found = [without_surrogates(text) for text in texts]
    found += [path.read_text("utf-8", errors="replace") for path in file]
    if lines or not found:
        piped = read_all()
        found += [line for line in piped.splitlines() if line.strip()] if lines else [piped]
    if not any(text.strip() for text in found):
        raise click.UsageError('nothing to embed: edgewise embed "your text"')
    request = options.placed(given)
    settings = ensure_embedder(Settings.load(), request.get("policy"))
    with Engine(settings) as engine, Waiting(console(stderr=True), "embedding"):
        made = engine.embed(found, **request)
    if as_json:
        print_json(made.to_dict())
    else:
        _show(made, found)
    if made.signalled:
        context.exit(EXIT_SIGNALLED)


def _show(made: Embeddings, texts: list[str]) -> None:
    screen, side = console(), console(stderr=True)
    for number, (vector, text) in enumerate(zip(made.vectors, texts, strict=True)):
        begins = " ".join(f"{value:.4g}" for value in vector[:SHOWN_NUMBERS])
        codes = "".join(f" · {code}" for code in made.text_codes[number])
        words = " ".join(text.split())
        screen.say(f"{begins} …  ", (words[:60] + ("…" if len(words) > 60 else ""), "dim"))
        if codes:
            side.say((f"  text {number + 1}{codes}", "yellow"))
    side.say(f"{len(made.vectors)} vectors of {made.dimensions} numbers in the space {made.space}")
    side.print(summary(made))
