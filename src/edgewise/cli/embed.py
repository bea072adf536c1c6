"""`edgewise embed`: texts to vectors, and the space they are in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edgewise.cli import options
from edgewise.cli.main import EXIT_SIGNALLED
from edgewise.cli.ready import ensure_embedder
from edgewise.cli.render import (
    Waiting,
    console,
    print_json,
    summary,
)
from edgewise.cli.streams import read_all, without_surrogates
from edgewise.engine import Engine
from edgewise.settings import Settings
from edgewise.types.embeddings import Embeddings

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
