"""`edgewise ask` and `edgewise see`: one question, one answer, and how it was decided."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from edgewise.cli import options
from edgewise.cli.main import EXIT_FAILED, EXIT_SIGNALLED
from edgewise.cli.options import read_prompt
from edgewise.cli.render import Screen, Waiting, console, print_json, show_answer, summary, why
from edgewise.cli.setup import choose_model, ensure_embedder, ensure_model
from edgewise.cli.streams import warnings_last, without_surrogates
from edgewise.engine import Engine
from edgewise.errors import InvalidRequest
from edgewise.requests import image_at
from edgewise.types.embeddings import Hit
from edgewise.types.messages import Image
from edgewise.types.replies import Reply, SeenReply


@click.command()
@click.argument("question", nargs=-1)
@options.routing
@options.warm
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
@options.signal
@options.deadline
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
    request |= {"images": pictures_at(images)} if images else {}
    request |= {"response_format": _read_schema(schema)} if schema is not None else {}
    if folder is not None:
        settings = ensure_embedder(settings)
    if not images:  # the vision skills have their own
        policy = request.get("policy")
        settings = ensure_model(choose_model(settings, policy), policy)
    hits: list[Hit] = []
    with warnings_last(), Engine(settings) as engine:
        if folder is not None:  # a plain question searches nothing
            from edgewise.cli import search  # noqa: PLC0415
            from edgewise.folder_search import sources  # noqa: PLC0415

            prompt, hits = search.with_passages(engine, prompt, folder, request)
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
                search.show_sources(hits, reply.text, console(stderr=True))
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


# -- about pictures --------------------------------------------------------------------------------


@click.command()
@click.argument("words", metavar="IMAGE... QUESTION", nargs=-1, required=True)
@options.routing
@options.signal
@click.option("--why", "explain", is_flag=True, help="Say how it was decided, attempt by attempt.")
@options.as_json
@click.pass_context
def see(
    context: click.Context,
    /,
    words: tuple[str, ...],
    signal: bool,
    explain: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Ask QUESTION about every IMAGE: a file, every page of a PDF, or an http(s) address.

    The device reads text and names eighty kinds of objects. Other questions, and doubtful
    answers, go to the cloud, without the pictures' metadata. Needs the extra `vision`.

    \b
    edgewise see receipt.jpg "What is the total?"
    edgewise see --private sign.png "What does the sign say?"
    edgewise see before.png after.png "What changed?"
    """
    if len(words) < 2:
        raise click.UsageError('name an image and a question: edgewise see photo.jpg "question"')
    *paths, question = words
    images = pictures_at(paths)
    settings, request = options.split(given)
    request["images"] = images
    if signal:
        request["handoff"] = "signal"
    side = console(stderr=True)
    with warnings_last(), Engine(settings) as engine:
        if as_json:
            with Waiting(side, "looking"):
                reply = engine.complete(without_surrogates(question), **request)
            print_json(reply.to_dict())
        else:
            events = engine.stream(without_surrogates(question), **request)
            reply = show_answer(events, console(), side)
            tell_seen(reply, side)
            side.print(summary(reply))
            if explain:
                side.print(why(reply))
    if reply.signalled:
        context.exit(EXIT_SIGNALLED)


def pictures_at(names: Sequence[str]) -> list[Image]:
    """The pictures at these paths and addresses; of a PDF, every page."""
    # What reads pages compiles patterns: a question without a picture does not wait for it.
    from edgewise.documents import pages_as_pictures  # noqa: PLC0415

    found: list[Image] = []
    for image in map(image_at, names):
        is_pdf = image.data.startswith(b"%PDF")
        found += pages_as_pictures(image.data, image.name) if is_pdf else [image]
    return found


def tell_seen(reply: Reply, side: Screen) -> None:
    """What to know about an answer: the skill, and what was left out."""
    if reply.signalled:
        side.say(("hand this off: ", "magenta"), reply.decision.reason)
    if isinstance(reply, SeenReply):
        for note in reply.notes:
            side.say((note, "yellow"))
        if reply.skill:
            side.say(("device skill: ", "dim"), reply.skill)
