"""`edgewise demo`: a few real requests of different difficulty, answered and routed live."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from edgewise.cli import options
from edgewise.cli.call import call_line
from edgewise.cli.ready import ensure_model
from edgewise.cli.render import (
    COLOURS,
    Waiting,
    console,
    dollars,
    print_json,
    show_answer,
    summary,
)
from edgewise.cli.streams import warnings_last
from edgewise.engine import Engine
from edgewise.errors import EdgewiseError, LocalError
from edgewise.local.backend import DeviceFacts
from edgewise.local.store.store import ModelStore
from edgewise.settings import Settings
from edgewise.types.messages import RequestOptions, Tool

LONG = "The minutes of the last meeting, word by word. " * 400

QUESTIONS: tuple[tuple[str, str, RequestOptions], ...] = (
    ("easy", "What is the chemical symbol for gold?", {}),
    ("harder for a small model", "What is 17 + 25?", {}),
    ("beyond a small model", "Who won the chess world championship in 1972?", {}),
    ("wrong, but it sounds sure", "What is the capital of the United States?", {}),
    ("in doubt, but private: it may not leave the device", "What is 17 + 25?", {"private": True}),
    (
        "in doubt, and the application routes it itself (handoff=signal)",
        "What is 17 + 25?",
        {"handoff": "signal"},
    ),
    ("longer than the device's context window", f"{LONG}\n\nSummarise this.", {}),
)

CALLS: tuple[tuple[str, str], ...] = (
    (
        "two function calls in one request",
        "Set an alarm for 6:30 and text Maria that I'm on my way",
    ),
    ("none of these functions fits it", "Who painted the Mona Lisa?"),
)


def _tool(name: str, description: str, **kinds: str) -> Tool:
    fields = {field: {"type": kind} for field, kind in kinds.items()}
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return Tool(name, description, schema)


TOOLS = (
    _tool("set_alarm", "Set an alarm", hour="integer", minute="integer"),
    _tool("send_message", "Send a message to a contact", recipient="string", message="string"),
    _tool("get_weather", "Current weather of a place", place="string"),
)


@click.command()
@options.as_json
def demo(as_json: bool) -> None:
    """Answer a few requests on this machine, and show what was decided about each.

    Without a key everything stays on the device, and the replies say what would have left it.

    \b
    edgewise demo
    edgewise demo --json | jq '.[].source'
    """
    settings = ensure_model(Settings.load(max_tokens=48))
    replies: list[dict[str, Any]] = []
    with warnings_last(), Engine(settings) as engine:
        facts = engine._open_backend().facts()  # without a model there is nothing to show
        if not as_json:
            _introduce(engine, facts)
        for title, question, request in QUESTIONS:
            outcome = _one(engine, title, question, request, as_json)
            replies.append({"title": title, "question": _short(question), **outcome})
        for title, question in CALLS if _has_function_model(settings) else ():
            outcome = _one_call(engine, title, question, as_json)
            replies.append({"title": title, "question": question, **outcome})
    if as_json:
        print_json(replies)
    else:
        _conclude(replies)


def _has_function_model(settings: Settings) -> bool:
    """Whether functions can be called without another download."""
    try:
        ModelStore(settings.models_dir).find(settings.function_model)
    except LocalError:
        return False
    return True


def _introduce(engine: Engine, facts: DeviceFacts) -> None:
    closed = engine._cloud_for("chat").closed(engine._request("?"))
    cloud = "no key; what would be handed off stays here, and says so" if closed else "open"
    console().say(
        ("edgewise", "bold"),
        f" · {facts.model} ({facts.quantisation}) on this machine · cloud: {cloud}",
    )


def _short(question: str) -> str:
    if len(question) < 80:
        return question
    return f"{question[:40]}… ({len(question):,} characters)"


def _one(
    engine: Engine, title: str, question: str, request: RequestOptions, as_json: bool
) -> dict[str, Any]:
    """One question. A refusal is a result too: a clear error instead of a wrong answer."""
    screen = console()
    if not as_json:
        screen.say()
        screen.say((title, "dim"))
        screen.say((f"> {_short(question)}", "bold"))
    try:
        if as_json:
            with Waiting(console(stderr=True), title):
                return engine.complete(question, **request).to_dict()
        reply = show_answer(engine.stream(question, **request), screen, screen)
    except EdgewiseError as error:
        return _refused(error, as_json)
    if reply.signalled:
        screen.say(("(no answer: the application routes it)", "magenta"))
    screen.print(summary(reply))
    screen.say((f"  {reply.decision.code}: {reply.decision.reason}", "dim"))
    return reply.to_dict()


def _refused(error: EdgewiseError, as_json: bool) -> dict[str, Any]:
    if not as_json:
        console().say(("refused: ", "yellow"), str(error), (f" [{error.code}]", "dim"))
    return {"success": False, "error": str(error), "code": error.code}


def _one_call(engine: Engine, title: str, question: str, as_json: bool) -> dict[str, Any]:
    """One request for function calls. Nothing is run."""
    screen = console()
    if not as_json:
        screen.say()
        screen.say((title, "dim"))
        screen.say((f"> {question}", "bold"))
    try:
        with Waiting(console(stderr=True), title):
            reply = engine.call(question, TOOLS)
    except EdgewiseError as error:
        return _refused(error, as_json)
    if not as_json:
        for made in reply.calls:
            screen.say((call_line(made), COLOURS[made.source]))
        if not reply.calls:
            screen.say(("(no call)", "magenta"))
        screen.print(summary(reply))
        screen.say((f"  {reply.decision.code}: {reply.decision.reason}", "dim"))
    return reply.to_dict()


def _conclude(replies: list[dict[str, Any]]) -> None:
    answered = [reply for reply in replies if reply["success"]]
    count = Counter(reply["source"] for reply in answered)
    doubted = sum(reply["needs_cloud_handoff"] for reply in answered)
    spent = sum(reply["usage"]["cost_microdollars"] for reply in answered)
    screen = console()
    screen.say()
    screen.say(
        f"{len(replies)} requests · {count['local']} answered on the device · "
        f"{count['cloud'] + count['mixed']} by the cloud · {doubted} in doubt · "
        f"{len(replies) - len(answered)} refused · {dollars(spent)} spent"
    )
    screen.say(
        (
            'Next: edgewise ask "…" · edgewise call "…" --tools FILE · edgewise chat · '
            "edgewise auth set gemini · edgewise ledger · edgewise doctor",
            "dim",
        )
    )
