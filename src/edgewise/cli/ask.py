"""`edgewise ask`: one question, one answer, and how it was decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from edgewise.cli import options
from edgewise.cli.index import (
    show_sources,
    with_passages,
)
from edgewise.cli.main import EXIT_FAILED, EXIT_SIGNALLED
from edgewise.cli.options import read_images, read_prompt
from edgewise.cli.ready import ensure_embedder, ensure_model
from edgewise.cli.render import (
    Waiting,
    console,
    print_json,
    show_answer,
    summary,
    why,
)
from edgewise.cli.see import tell_seen
from edgewise.cli.setup import choose_model
from edgewise.cli.streams import warnings_last
from edgewise.engine import Engine
from edgewise.errors import InvalidRequest
from edgewise.search.documents import sources
from edgewise.types.embeddings import Hit
from edgewise.types.replies import Reply


@click.command()
@click.argument("question", nargs=-1)
@options.routing
@click.option(
    "--context",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Answer from the texts of this folder, with citations; a handoff sends passages.",
)
@click.option(
    "--schema",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A JSON Schema that the answer must follow; exit 1 if it does not.",
)
@click.option("--image", "images", multiple=True, help="A picture: a file or an address.")
@click.option("--signal", is_flag=True, help="Only say that it should be handed off (exit 10).")
@click.option(
    "--deadline-ms",
    type=click.FloatRange(0, min_open=True),
    help="Go to the cloud if the device is too slow.",
)
@click.option("--truncate", is_flag=True, help="Drop the oldest text if the prompt is too long.")
@click.option("--store-text", is_flag=True, help="Keep prompt and reply in the ledger.")
@click.option("--evidence", is_flag=True, help="With --json: every token's log-probability.")
@click.option("--why", "explain", is_flag=True, help="Say how it was decided, attempt by attempt.")
@options.as_json
@click.pass_context
def ask(
    context: click.Context,
    /,
    question: tuple[str, ...],
    folder: Path | None,
    schema: Path | None,
    images: tuple[str, ...],
    signal: bool,
    explain: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Ask QUESTION, together with what is piped in.

    Without a QUESTION, standard input is the question. With one, a pipe that is silent for a
    second is ignored; a - after the QUESTION waits for it. The answer goes to standard output,
    everything else to standard error.

    \b
    edgewise ask "What is the capital of France?"
    edgewise ask --local --json "2+2?" | jq .confidence
    edgewise ask --schema city.json "Name a big city." | jq .name
    edgewise ask --private --context ~/notes "When does the ferry leave?"
    git diff | edgewise ask --private "Summarise this change."
    """
    if given["evidence"] and not as_json:
        raise click.UsageError("--evidence goes with --json")
    prompt = read_prompt(question, 'nothing to ask: edgewise ask "your question"')
    settings, request = options.split(given)
    request |= {"handoff": "signal"} if signal else {}
    request |= {"images": read_images(images)} if images else {}
    request |= {"response_format": _read_schema(schema)} if schema is not None else {}
    if folder is not None:
        settings = ensure_embedder(settings)
    if not images:  # the vision skills have their own
        policy = request.get("policy")
        settings = ensure_model(choose_model(settings, policy), policy)
    hits: list[Hit] = []
    with warnings_last(), Engine(settings) as engine:
        if folder is not None:
            prompt, hits = with_passages(engine, prompt, folder, request)
        if as_json:
            with Waiting(console(stderr=True), "thinking"):
                reply = engine.complete(prompt, **request)
            told = reply.to_dict()
            told |= {} if folder is None else {"sources": sources(hits, reply.text)}
            told |= {} if schema is None else {"parsed": told.get("parsed")}
            print_json(told)
        else:
            reply = _show(engine, prompt, request)
            if folder is not None:
                show_sources(hits, reply.text, console(stderr=True))
            if explain:
                console(stderr=True).print(why(reply))
    if reply.signalled:
        context.exit(EXIT_SIGNALLED)
    if schema is not None and reply.parsed is None and reply.text.strip() != "null":
        console(stderr=True).say(f"edgewise: {reply.decision.reason}")
        context.exit(EXIT_FAILED)


def _read_schema(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidRequest(f"--schema {path}: {error.strerror or error}") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidRequest(f"--schema {path}: not JSON: {error.msg} at {where}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"--schema {path}: not JSON: {error}") from error


def _show(engine: Engine, prompt: str, request: dict[str, Any]) -> Reply:
    side = console(stderr=True)
    reply = show_answer(engine.stream(prompt, **request), console(), side)
    tell_seen(reply, side)
    side.print(summary(reply))
    return reply
