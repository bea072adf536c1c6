"""`edgewise see`: a question about pictures, and the skill that answered it."""

from __future__ import annotations

from typing import Any

import click

from edgewise.cli import options
from edgewise.cli.main import EXIT_SIGNALLED
from edgewise.cli.options import read_images
from edgewise.cli.render import (
    Screen,
    Waiting,
    console,
    print_json,
    show_answer,
    summary,
    why,
)
from edgewise.cli.streams import warnings_last, without_surrogates
from edgewise.engine import Engine
from edgewise.types.pictures import SeenReply
from edgewise.types.replies import Reply


@click.command()
@click.argument("words", metavar="IMAGE... QUESTION", nargs=-1, required=True)
@options.routing
@click.option("--signal", is_flag=True, help="Only say that it should be handed off (exit 10).")
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
    """Ask QUESTION about every IMAGE: a file, or an http(s) address.

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
    images = read_images(paths)
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


def tell_seen(reply: Reply, side: Screen) -> None:
    """What to know about an answer: the skill, and what was left out."""
    if reply.signalled:
        side.say(("hand this off: ", "magenta"), reply.decision.reason)
    if isinstance(reply, SeenReply):
        for note in reply.notes:
            side.say((note, "yellow"))
        if reply.skill:
            side.say(("device skill: ", "dim"), reply.skill)
