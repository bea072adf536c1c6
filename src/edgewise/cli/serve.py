"""`edgewise serve`, `edgewise mcp` and `edgewise wyoming`: the engine for clients of each API."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from typing_extensions import override

from edgewise.cli import options
from edgewise.cli.render import (
    COLOURS,
    PLACES,
    Part,
    Screen,
    confidence,
    console,
    dollars,
    milliseconds,
)
from edgewise.cli.setup import choose_model, ensure_function_model, ensure_model, ensure_transcriber
from edgewise.cli.streams import print_json
from edgewise.settings import LOG_FORMATS, Settings
from edgewise.types.messages import POLICIES

CURL = """\
curl {url}/v1/chat/completions -H 'content-type: application/json'{key} \\
  -d '{{"model": "auto", "messages": [{{"role": "user", "content": "Hello"}}]}}'"""


@click.command()
@click.option("--host", help="The address to listen on; anything but this machine needs a key.")
@click.option("--open", is_flag=True, default=None, help="Let others ask without a key.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; 0 takes a free one.")
@click.option("--key", help="Clients must send it; EDGEWISE_SERVER_KEY keeps it out of `ps`.")
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Repeatable: a name that clients may call it by, such as host.docker.internal",
)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="URL",
    help="Repeatable: the origin of web pages that may ask, such as https://app.example",
)
@click.option(
    "--isolate/--no-isolate",
    default=None,
    help="Local models in processes of their own: a crash does not end the server (default).",
)
@click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    help="text is for people, json for programs; auto: text in a terminal.  [auto]",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Processes behind the one port; they share the ledger and the processors.",
)
@click.option(
    "--preload",
    multiple=True,
    metavar="MODEL",
    help="Repeatable: load this chat model before the first request and keep it; auto: its own.",
)
@click.option("--slots", type=click.IntRange(1), help="Local requests at once.")
@click.option("--queue", type=click.IntRange(1), help="Local requests that may wait.")
@click.option(
    "--policy",
    "-p",
    help="The policy of requests that name none.",
    shell_complete=options.complete_policies,
)
@options.chat_model
@options.personal
@options.as_json
def serve(
    as_json: bool,
    workers: int,
    policy: str | None,
    model: str | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    redact: tuple[str, ...] | None,
    private_kinds: tuple[str, ...] | None,
    cloud_every_s: float | None,
    preload: tuple[str, ...],
    **given: Any,
) -> None:
    """Serve OpenAI's, Anthropic's and Ollama's APIs on this machine, until stopped.

    \b
    edgewise serve
    OPENAI_BASE_URL=http://127.0.0.1:8484/v1 your-application

    Settings that are not given here come from variables such as EDGEWISE_SERVER_HOST, then from
    [server] in config.toml. A line per request goes to standard error: for people in a terminal,
    JSON everywhere else. SIGTERM lets running requests finish.
    """
    overrides: dict[str, Any] = {
        "policy": policy,
        "model": model,
        "redact": redact,
        "private_kinds": private_kinds,
        "cloud_every_s": cloud_every_s,
    }
    settings = Settings.load(**{name: value for name, value in overrides.items() if value})
    changes = {name: value for name, value in given.items() if value is not None}
    changes["hosts"] = (*settings.server.hosts, *hosts)
    changes["preload"] = (*settings.server.preload, *preload)
    changes["origins"] = (*settings.server.origins, *origins)
    settings = settings.with_changes(server=replace(settings.server, **changes))
    # Imported here: its parts are an extra, and slow to load.
    from edgewise.server import serve as runner  # noqa: PLC0415

    runner.require_key(settings)  # before a model is fetched that nobody could ask
    settings = ensure_model(choose_model(settings))
    set_up_log(settings.server.log_format)
    if workers == 1:
        runner.serve(settings, lambda url: _announce(url, settings, as_json))
        return
    from edgewise.server.workers import serve_many  # noqa: PLC0415

    serve_many(
        settings,
        lambda url, pids: _announce(url, settings, as_json, pids),
        workers,
        set_up_log=partial(set_up_log, settings.server.log_format),
    )


def set_up_log(log_format: str) -> None:
    """In every process that serves."""
    from edgewise.server.serve import log_to  # noqa: PLC0415

    log_to(_log_handler(log_format))


def _announce(url: str, settings: Settings, as_json: bool, pids: Sequence[int] = ()) -> None:
    from edgewise.server.access import Clients  # noqa: PLC0415 - as above
    from edgewise.server.serve import who_may_ask  # noqa: PLC0415

    warning = who_may_ask(settings)
    if as_json:
        found: dict[str, Any] = {
            "url": url,
            "host": settings.server.host,
            "open_to": warning,
            "openai_base_url": f"{url}/v1",
            "anthropic_base_url": url,
            "ollama_base_url": url,
        }
        print_json(found | ({"workers": list(pids)} if pids else {}))
        return
    keyed = Clients(settings).keyed
    key = " -H 'authorization: Bearer YOUR-KEY'" if keyed else ""
    screen = console()
    many = f" with {len(pids)} processes: {', '.join(map(str, pids))}" if pids else ""
    port = url.rpartition(":")[2]
    shown = url if not warning else f"{_bracketed(settings.server.host)}:{port}, here {url}"
    screen.say(("Listening on ", "green"), shown, f"{many} (in a browser: the dashboard)")
    if warning:
        console(stderr=True).say((warning, "yellow" if keyed else "bold red"))
    screen.say(CURL.format(url=url, key=key), to_copy=True)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _log_handler(log_format: str) -> logging.Handler | None:
    """Lines for people, if that is wanted; None leaves it at JSON."""
    side = console(stderr=True)
    readable = log_format == "text" or (log_format == "auto" and side.is_terminal)
    return RequestLines(side) if readable else None


class RequestLines(logging.Handler):
    """One line per request that a person can read; warnings as they are."""

    def __init__(self, side: Screen) -> None:
        super().__init__()
        self._side = side

    @override
    def emit(self, record: logging.LogRecord) -> None:
        request: dict[str, Any] | None = getattr(record, "request", None)
        if request is None:
            words = f"{record.levelname.lower()}: {record.getMessage()}"
            self._side.say((f"{_time(record.created)} ", "dim"), (words, "yellow"))
        else:
            self._side.say(*request_line(request))


def request_line(request: dict[str, Any]) -> list[Part]:
    """Time, status, endpoint; then who answered, how sure, how much, how long, for what."""
    status = int(request["status"])
    colour = "green" if status < 400 else "yellow" if status < 500 else "red"
    facts: list[Part] = [(request["client"], "dim"), request.get("model", "")]
    if "source" in request:
        facts += _answered(request)
    elif "total_ms" in request:
        facts.append(milliseconds(request["total_ms"]))
    facts += [
        ("the client left" if request.get("left") else "", "yellow"),
        (request["code"] if status >= 400 else "", colour),
    ]
    line: list[Part] = [(f"{_time(request['at'])} ", "dim"), (f"{status or '---'} ", colour)]
    line.append(request["endpoint"])
    for fact in facts:
        if fact and fact[0]:
            line += [(" · ", "dim"), fact]
    return line


def _answered(request: dict[str, Any]) -> list[Part]:
    source = request["source"]
    sure = confidence(request["confidence"], verified=request["confidence_verified"])
    doubted = request["needs_cloud_handoff"] and source == "local"
    return [
        (f"{PLACES[source]} {request['answered_by']}", COLOURS[source]),
        f"confidence {sure}" if request["confidence"] is not None else "",
        f"{request['input_tokens']}+{request['output_tokens']} tokens",
        milliseconds(request["total_ms"]),
        dollars(request["cost_microdollars"]),
        ("in doubt" if doubted else "", "yellow"),
        (f"degraded: {request['degraded']}" if request["degraded"] else "", "yellow"),
    ]


def _time(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))


# -- for clients of the Model Context Protocol -----------------------------------------------------


@click.command()
@click.option(
    "--http",
    "port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="Listen on this port of this machine instead, at an address that ends in a key; 0 takes a "
    "free port.",
)
@click.option(
    "--policy",
    "-p",
    help=f"Where requests may be answered: {', '.join(POLICIES)}, or a plug-in's.",
    shell_complete=options.complete_policies,
)
@options.chat_model
@options.as_json
def mcp(port: int | None, policy: str | None, model: str | None, as_json: bool) -> None:
    """Be an MCP server that offers ask, call, decide, transcribe, see and find, until it leaves.

    Clients start it themselves, and speak to it over its standard streams; nothing but the
    protocol goes to standard output. Every result says where it comes from, how sure it is and
    what it cost. With --http, --json prints the address as JSON. Needs the extra `mcp`.

    \b
    edgewise mcp
    edgewise mcp --policy local_only
    edgewise mcp --http 8485
    """
    # Imported here: the package is an extra, and slow to load.
    from edgewise import mcp_server  # noqa: PLC0415
    from edgewise.aio import AsyncEngine  # noqa: PLC0415

    chosen: dict[str, Any] = {"policy": policy, "model": model}
    settings = Settings.load(**{name: value for name, value in chosen.items() if value})
    engine = AsyncEngine(settings)
    if port is None:
        asyncio.run(mcp_server.serve_stdio(engine))
    else:
        tell = partial(_tell, "url", as_json=as_json, screen=console(stderr=True))
        asyncio.run(mcp_server.serve_http(engine, port, tell))


# -- for Home Assistant ----------------------------------------------------------------------------


WYOMING_PORT = 10300  # where Home Assistant looks for speech to text


@click.command()
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on. The protocol has no keys: others on the network can use it.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=WYOMING_PORT,
    show_default=True,
    help="The port; 0 takes a free one.",
)
@click.option("--uri", help="unix:///path/of/a/socket or stdio:// instead of --host and --port.")
@click.option(
    "--entities",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The devices and areas of the home; read again when it changes.",
)
@click.option("--area", default="", help="The area where people speak, if it is always the same.")
@click.option("--live", is_flag=True, help="Transcribe while somebody speaks; costs more work.")
@click.option(
    "--policy",
    "-p",
    default="local_only",
    show_default=True,
    help="Where requests may be answered.",
    shell_complete=options.complete_policies,
)
@options.as_json
def wyoming(
    host: str,
    port: int,
    uri: str | None,
    entities: Path | None,
    area: str,
    live: bool,
    policy: str,
    as_json: bool,
) -> None:
    """Serve the Wyoming protocol: Home Assistant's speech to text and conversation.

    \b
    edgewise wyoming --host 0.0.0.0 --entities home.yaml

    In Home Assistant: Settings, Devices & services, Add integration, Wyoming Protocol; then the
    address of this machine and the port. Nothing leaves this machine unless --policy allows it.
    """
    # Imported here: its package is an extra.
    from edgewise.server import wyoming as server  # noqa: PLC0415
    from edgewise.server.serve import is_loopback  # noqa: PLC0415

    home = server.HomeFile(entities, area)
    settings = Settings.load(policy=policy)
    settings = ensure_transcriber(ensure_function_model(settings, policy), policy)
    if not uri and not is_loopback(host):
        console(stderr=True).say(
            ("anybody who reaches this port can use it: ", "yellow"),
            "the protocol has no keys; let a firewall allow Home Assistant alone",
        )
    shown = uri or f"tcp://{f'[{host}]' if ':' in host else host}:{port}"
    asyncio.run(_serve_wyoming(settings, home, shown, as_json, live=live))


async def _serve_wyoming(
    settings: Settings, home: Any, uri: str, as_json: bool, *, live: bool
) -> None:
    from edgewise.aio import AsyncEngine  # noqa: PLC0415 - as above
    from edgewise.server import wyoming as server  # noqa: PLC0415

    stop = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl+C raises
            asyncio.get_running_loop().add_signal_handler(each, stop.set)
    async with AsyncEngine(settings) as engine:
        service = server.Service(
            engine=engine, home=home, live=live, options={"policy": settings.policy}
        )
        after = " (Wyoming: speech to text, intents)"
        tell = partial(_tell, "uri", after=after, as_json=as_json, screen=console())
        await server.serve(service, uri, tell, stop)


def _tell(key: str, where: str, after: str = "", *, as_json: bool, screen: Screen) -> None:
    if as_json:
        print_json({key: where})
    else:
        screen.say(("Listening on ", "green"), where, after)
