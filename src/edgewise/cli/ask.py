"""`edgewise ask`: one question, one answer, and what was decided about it."""

from __future__ import annotations

import sys
from typing import Any

import click

from edgewise.cli import options
from edgewise.cli.main import EXIT_SIGNALLED
from edgewise.cli.ready import ensure_model
from edgewise.cli.render import COLOURS, console, print_json, summary, why
from edgewise.engine import Engine
from edgewise.types.replies import Finished, Reply, Switched, TextDelta


@click.command()
@click.argument("question", nargs=-1)
@options.routing
@click.option("--signal", is_flag=True, help="Only say that it should be handed off (exit 10).")
@click.option("--deadline-ms", type=float, help="Go to the cloud if the device is too slow.")
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
    signal: bool,
    explain: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Ask QUESTION, or what stands on standard input.

    \b
    edgewise ask "What is the capital of France?"
    edgewise ask --local --json "2+2?" | jq .confidence
    git diff | edgewise ask --private "Summarise this change."
    """
    prompt = _prompt(question)
    settings, request = options.split(given)
    if signal:
        request["handoff"] = "signal"
    if request.get("policy", settings.policy) != "cloud_only":
        ensure_model(settings, quiet=as_json)
    with Engine(settings) as engine:
        if as_json:
            reply = engine.complete(prompt, **request)
            print_json(reply.to_dict())
        else:
            reply = _show(engine, prompt, request)
            if explain:
                console().print(why(reply))
    if reply.signalled:
        context.exit(EXIT_SIGNALLED)


def _prompt(question: tuple[str, ...]) -> str:
    words = " ".join(question)
    piped = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read().strip()
    prompt = f"{words}\n\n{piped}" if words and piped else words or piped
    if not prompt:
        raise click.UsageError('nothing to ask: edgewise ask "your question"')
    return prompt


def _show(engine: Engine, prompt: str, request: dict[str, Any]) -> Reply:
    """Stream to the terminal. Text goes to standard output alone; the rest to standard error."""
    screen, side = console(), console(stderr=True)
    for event in engine.stream(prompt, **request):
        match event:
            case TextDelta(text, source):
                screen.print(text, end="", style=COLOURS[source] if screen.is_terminal else None)
            case Switched(to, _, reason, _):
                place = "the device" if to == "local" else "the cloud"
                side.print(f"[dim]→ {place}: {reason}[/dim]")
            case Finished(reply):
                screen.print()
                if reply.signalled:
                    side.print(f"[magenta]hand this off:[/magenta] {reply.decision.reason}")
                side.print(summary(reply))
                return reply
    raise AssertionError("a stream ends with Finished")
