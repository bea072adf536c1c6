"""`edgewise call`: a request in words becomes function calls."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from edgewise.calls.home import home_facts
from edgewise.calls.tools import Toolbox, as_toolbox, parse_tools_file
from edgewise.cli import options
from edgewise.cli.main import EXIT_SIGNALLED
from edgewise.cli.options import read_prompt
from edgewise.cli.render import (
    COLOURS,
    PLACES,
    Screen,
    Waiting,
    confidence,
    console,
    milliseconds,
    print_json,
    summary,
    why,
)
from edgewise.cli.setup import ensure_function_model
from edgewise.cli.streams import (
    echo,
    json_text,
    printable,
    read_all,
    warnings_last,
    without_surrogates,
)
from edgewise.engine import Engine
from edgewise.errors import InvalidRequest
from edgewise.record.ledger import ToolRecord
from edgewise.settings import Settings
from edgewise.tasks import run_calls
from edgewise.types.messages import Execute, RunnableTool, Tool, ToolCall, leaves
from edgewise.types.replies import CallReply, Complaint, Decision, Intent, ToolResult

EXAMPLES = "examples"
EXAMPLE_TOOLS = Path(__file__).with_name("example_tools.json")


@click.command()
@click.argument("request_words", metavar="[REQUEST]...", nargs=-1)
@click.option(
    "--tools",
    "file",
    metavar="FILE",
    type=click.Path(),
    help="Tools as JSON: a list as in OpenAI's requests; `examples` are three that come with "
    "edgewise, - is standard input.",
)
@options.mcp_tools
@click.option(
    "--context",
    "facts",
    metavar="NAME=VALUE|FILE",
    multiple=True,
    help="A known fact, such as date=2026-11-16 or place=Oslo; or a JSON file of facts, or Home "
    "Assistant's list of entities.",
)
@options.routing
@options.warm
@options.signal
@options.deadline
@click.option("--speculative", is_flag=True, help="Ask the cloud while the device works.")
@click.option("--store-text", is_flag=True, help="Keep the words of the request in the ledger.")
@click.option("--why", "explain", is_flag=True, help="Say how it was decided, step by step.")
@options.as_json
@click.pass_context
def call(
    context: click.Context,
    /,
    request_words: tuple[str, ...],
    file: str | None,
    servers: tuple[str, ...],
    mcp_timeout: float,
    yes: bool,
    always: bool,
    facts: tuple[str, ...],
    signal: bool,
    explain: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Turn REQUEST into calls of the tools in FILE, one per line: a name and its arguments.

    Without a REQUEST, standard input is the request. Only the calls go to standard output;
    the source, confidence, repairs and complaints of each go to standard error. Calls of tools in
    FILE are not run. Calls of an MCP server's tools are run after your yes, or with --yes, but not
    those in doubt; their results follow the calls. --model is the model that writes the calls.

    \b
    edgewise call "Wake me at 7 and text Tom that I am late" --tools examples
    edgewise call --local --json "What's the weather in Oslo?" --tools examples
    edgewise call "Remind me on Friday" --tools my-tools.json --context date=2026-11-16
    edgewise call "What time is it in Asia/Tokyo?" --mcp "uvx mcp-server-time"
    """
    if file is None and not servers:
        raise click.UsageError(
            f"there are no tools: give --tools FILE (`--tools {EXAMPLES}` to try) or --mcp SERVER"
        )
    tools = read_tools(file) if file is not None else ()
    if file == "-" and not request_words:
        raise click.UsageError("--tools - takes standard input: give the REQUEST in words")
    nothing = 'nothing to call: edgewise call "your request" --tools FILE'
    prompt = (
        without_surrogates(" ".join(request_words))
        if file == "-"
        else read_prompt(request_words, nothing)
    )
    settings, request = _split(given)
    if facts:
        request["context"] = read_facts(facts)
    if signal:
        request["handoff"] = "signal"
    settings = ensure_function_model(settings, request.get("policy"))
    side = console(stderr=True)
    with warnings_last(), Engine(settings) as engine, started(servers, mcp_timeout) as served:
        box = as_toolbox([*tools, *served])
        if not box.tools:
            raise InvalidRequest("the MCP servers offer no tools")
        asked = engine.parts.request(prompt, tools=box.tools, **request)
        if far := sum(map(leaves, box.tools)) - sum(map(leaves, asked.tools)):
            words = f"not offered to a private request: {far} tools of servers on other machines"
            side.say((words, "yellow"))
        with Waiting(side, "thinking"):
            reply = engine.call(prompt, box.tools, **request)
        if not as_json:
            _show(reply, settings, explain)
        run = partial(run_calls, record=ToolRecord(engine.ledger), seal=engine.parts.seal(asked))
        reply = _run(reply, box, run, yes=yes, always=always, may_ask=not as_json)
        if as_json:
            print_json(reply.to_dict())
        else:
            show_results(reply.results)
    if reply.signalled:
        context.exit(EXIT_SIGNALLED)


@contextmanager
def started(servers: Sequence[str], timeout_s: float) -> Iterator[tuple[RunnableTool, ...]]:
    """The tools of the MCP servers, which run while inside."""
    if not servers:
        yield ()
        return
    from edgewise.mcp_client import ToolServers  # noqa: PLC0415 - asyncio, and an extra

    with Waiting(console(stderr=True), "starting MCP servers"):
        opened = ToolServers(servers, timeout_s=timeout_s)
    with opened:
        yield opened.tools


def _run(
    reply: CallReply,
    box: Toolbox,
    run: Callable[..., CallReply],
    **may: bool,
) -> CallReply:
    """The reply with the results of its calls, if they can be run and may be."""
    side = console(stderr=True)
    ours = [made for made in reply.calls if made.name in box.functions]
    if not ours or not (execute := allowed(ours, side, **may)):
        return reply
    with Waiting(side, "running"):
        return run(reply, box, execute=execute)


def allowed(
    calls: Sequence[ToolCall],
    side: Screen,
    label: str = "",
    /,
    *,
    yes: bool,
    always: bool,
    may_ask: bool,
) -> Execute:
    """Whether to run calls: --yes for sure ones, --always, or the user agreed in the terminal.

    Who is asked has seen which are in doubt.
    """
    doubtful = sum(bool(made.doubt) for made in calls)
    if yes or always:
        return "always" if always else True
    if may_ask and is_attended():
        count = f"{len(calls)} call{'s' * (len(calls) > 1)}"
        words = f"{label or 'run '}{count}{f', {doubtful} in doubt' * bool(doubtful)}?"
        with echo(on=True):
            return "always" if click.confirm(words, err=True) else False
    flag = "--always runs them, those in doubt too" if doubtful else "--yes runs them"
    side.say((label, "dim"), (f"not run: there is nobody to ask ({flag})", "yellow"))
    return False


def is_attended() -> bool:
    """Whether somebody is at the terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def show_results(results: Sequence[ToolResult]) -> None:
    """On standard output: they are the result."""
    for result in results:
        value = result.value if isinstance(result.value, str) else json_text(result.value)
        text = f"failed: {result.error}" if result.error else value
        click.echo(printable(f"{'result':<8}{result.call.name}: {text}"))


def _split(given: dict[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """Like options.split; --model is the function model, not the chat model."""
    model = given.pop("model")
    settings, request = options.split(given | {"model": None})
    return settings.with_changes(function_model=model) if model else settings, request


def read_tools(file: str) -> tuple[Tool, ...]:
    where = "standard input" if file == "-" else file
    path = EXAMPLE_TOOLS if file == EXAMPLES else Path(file)
    try:
        text = read_all() if file == "-" else path.read_text("utf-8-sig")
    except FileNotFoundError as error:
        raise click.UsageError(
            f"--tools: there is no file {file!r}; `--tools {EXAMPLES}` are three to try, from "
            f"{EXAMPLE_TOOLS}"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--tools {file}: {error}") from error
    try:
        tools = parse_tools_file(text)
    except InvalidRequest as error:
        raise InvalidRequest(f"{where}: {error}") from error
    if not tools:
        raise InvalidRequest(f"{where}: there are no tools in it")
    return tools


def read_facts(given: Sequence[str]) -> dict[str, Any]:
    """Facts of the command line; a later one of the same name counts."""
    facts: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if equals and name.strip():
            facts[name.strip()] = without_surrogates(value.strip())
            continue
        try:
            text = Path(each).read_text("utf-8-sig")
            facts |= _facts_in(text)
        except (OSError, ValueError) as error:
            raise click.UsageError(
                f"--context {each!r}: neither NAME=VALUE nor a file of facts ({error})"
            ) from error
    return facts


def _facts_in(text: str) -> dict[str, Any]:
    """A JSON object; or a list of a home's devices, as JSON or as Home Assistant writes it."""
    with suppress(ValueError):
        read = json.loads(text)
        if isinstance(read, dict):
            return read
    return home_facts(text)


def _show(reply: CallReply, settings: Settings, explain: bool) -> None:
    side = console(stderr=True)
    for each in reply.calls:
        click.echo(call_line(each))
        side.print(about(each, reply.decision))
    if reply.signalled:
        side.say(("hand this off: ", "magenta"), reply.decision.reason)
    elif reply.needs:
        side.say(printable(reply.text) or "something is missing")
        side.say(f"needed: {', '.join(reply.needs)}")
    elif not reply.calls:
        side.say("no tool fits this")
        if reply.text:
            side.say(("cloud: ", "cyan"), reply.text)
    for complaint in reply.complaints:
        if complaint.code == "question" and reply.needs:
            continue  # said already
        side.say((f"  {about_intent(complaint, reply.intents)}", "yellow"))
    side.print(summary(reply))
    if explain:
        side.print(why(reply))
        explain_walk(reply, side)


def call_line(made: ToolCall) -> str:
    """A call as the model writes it: name, space, compact JSON."""
    return printable(f"{made.name} {json_text(dict(made.arguments), compact=True)}")


def about(made: ToolCall, decision: Decision) -> Text:
    """Who wrote a call, how sure, what was changed and what is still wrong."""
    line = Text("  ")
    line.append(printable(made.name), style="bold")
    line.append(": ")
    line.append(PLACES[made.source], style=COLOURS[made.source])
    if made.confidence is not None:  # the cloud's own is unknown
        sure = confidence(
            made.confidence, verified=decision.verified, calibration=decision.calibration
        )
        line.append(f" · confidence {sure}")
    if made.repairs:
        line.append(f" · repairs {' '.join(made.repairs)}", style="dim")
    if made.doubt:
        line.append(" · in doubt", style="yellow")
    if made.complaints:
        line.append(f" · complaints {' '.join(made.complaints)}", style="yellow")
    return line


def about_intent(complaint: Complaint, intents: Sequence[Intent]) -> str:
    """A complaint about one part of the request."""
    of = f"{intents[complaint.intent].text!r}: " if complaint.intent is not None else ""
    return printable(f"{of}{complaint.code}, {complaint.message}")


def explain_walk(reply: CallReply, side: Screen) -> None:
    """The intents of the request, and how long each step took."""
    for number, intent in enumerate(reply.intents, start=1):
        side.say(f"intent {number}: {intent.resolved}")
    steps = [f"{name} {_step(took)}" for name, took in reply.steps_ms.items()]
    side.say(f"steps: {', '.join(steps)}")


def _step(took: float) -> str:
    return milliseconds(took) if took >= 10 else f"{took:.1f} ms"
