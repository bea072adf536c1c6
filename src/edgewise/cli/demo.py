"""`edgewise demo`: a few real requests of different difficulty, answered and routed live."""

from __future__ import annotations

from typing import Any

import click

from edgewise.cli import options
from edgewise.cli.ready import ensure_model
from edgewise.cli.render import COLOURS, console, dollars, print_json, summary
from edgewise.engine import Engine
from edgewise.errors import EdgewiseError, ModelNotFound
from edgewise.settings import Settings
from edgewise.types.messages import RequestOptions
from edgewise.types.replies import Finished, Reply, Switched, TextDelta

LONG = "The minutes of the last meeting, word by word. " * 400

QUESTIONS: tuple[tuple[str, str, RequestOptions], ...] = (
    ("easy", "What is the chemical symbol for gold?", {}),
    ("easy", "How many days are in a week?", {}),
    ("harder", "What is 17 + 25?", {}),
    ("beyond a small model", "Who was the architect of the Sydney Opera House?", {}),
    (
        "the same, but private: it may not leave the device",
        "Who was the architect of the Sydney Opera House?",
        {"private": True},
    ),
    (
        "the same, but the application wants to route itself (handoff=signal)",
        "Who was the architect of the Sydney Opera House?",
        {"handoff": "signal"},
    ),
    ("longer than the device's context window", f"{LONG}\n\nSummarise this.", {}),
)


@click.command()
@options.as_json
def demo(as_json: bool) -> None:
    """Answer a few requests on this machine, and show what was decided about each.

    Without a key everything stays on the device, and the replies say what would have left it.
    """
    settings = Settings.load(max_tokens=48)
    if not ensure_model(settings, quiet=as_json):
        raise ModelNotFound(f"the demo needs {settings.model}: edgewise pull {settings.model}")
    replies: list[dict[str, Any]] = []
    with Engine(settings) as engine:
        if not as_json:
            _introduce(engine)
        for difficulty, question, request in QUESTIONS:
            outcome = _one(engine, difficulty, question, request, as_json)
            replies.append({"difficulty": difficulty, "question": question[:80], **outcome})
    if as_json:
        print_json(replies)
    else:
        _conclude(replies)


def _introduce(engine: Engine) -> None:
    screen = console()
    facts = engine.backend().facts()
    closed = engine.cloud.closed(engine.request("?"))
    cloud = "no cloud key: what would be handed off stays here and says so" if closed else "open"
    screen.print(
        f"[bold]edgewise[/bold] · {facts.model} ({facts.quantisation}) on this machine · "
        f"cloud: {cloud}"
    )


def _one(
    engine: Engine, difficulty: str, question: str, request: RequestOptions, as_json: bool
) -> dict[str, Any]:
    """One question. A refusal is an outcome too: a clear error instead of a wrong answer."""
    if not as_json:
        words = (
            question if len(question) < 80 else f"{question[:40]}… ({len(question):,} characters)"
        )
        console().print(f"\n[dim]{difficulty}[/dim]\n[bold]> {words}[/bold]")
    try:
        if as_json:
            return engine.complete(question, **request).to_dict()
        return _stream(engine, question, request).to_dict()
    except EdgewiseError as error:
        if not as_json:
            console().print(f"[yellow]refused:[/yellow] {error} [dim]\\[{error.code}][/dim]")
        return {"success": False, "error": str(error), "code": error.code}


def _stream(engine: Engine, question: str, request: RequestOptions) -> Reply:
    screen = console()
    for event in engine.stream(question, **request):
        match event:
            case TextDelta(text, source):
                screen.print(text, end="", style=COLOURS[source], markup=False)
            case Switched(to, _, reason, _):
                screen.print(f"[dim]→ {'cloud' if to == 'cloud' else 'device'}: {reason}[/dim]")
            case Finished(reply):
                if reply.signalled:
                    screen.print("[magenta](no answer: the application is to route it)[/magenta]")
                else:
                    screen.print()
                screen.print(summary(reply))
                screen.print(f"[dim]  {reply.decision.code}: {reply.decision.reason}[/dim]")
                return reply
    raise AssertionError("a stream ends with Finished")


def _conclude(replies: list[dict[str, Any]]) -> None:
    answered = [reply for reply in replies if reply["success"]]
    local = sum(reply["source"] == "local" for reply in answered)
    doubted = sum(reply["needs_cloud_handoff"] for reply in answered)
    spent = sum(reply["usage"]["cost_microdollars"] for reply in answered)
    screen = console()
    screen.print(
        f"\n{len(replies)} requests · {local} answered on the device · {doubted} in doubt · "
        f"{len(replies) - len(answered)} refused · {dollars(spent)} spent"
    )
    screen.print(
        '[dim]Next: edgewise ask "…" · edgewise chat · edgewise auth set gemini · '
        "edgewise ledger · edgewise doctor[/dim]"
    )
