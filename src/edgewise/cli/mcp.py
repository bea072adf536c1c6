"""`edgewise mcp`: the engine for every client of the Model Context Protocol."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from edgewise.cli import options
from edgewise.cli.render import console
from edgewise.cli.setup import choose_model
from edgewise.cli.streams import print_json
from edgewise.settings import Settings


@click.command()
@click.option(
    "--http",
    "port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="Listen on this port of this machine instead; 0 takes a free one.",
)
@click.option(
    "--policy",
    "-p",
    help=f"Where requests may be answered: {', '.join(options.POLICIES)}, or a plug-in's.",
    shell_complete=options.complete_policies,
)
@click.option(
    "--model",
    "-m",
    help="Local model: a name, a GGUF file, or a server that runs (ollama:NAME, a URL).",
    shell_complete=options.complete_models_and_files,
)
@options.as_json
def mcp(port: int | None, policy: str | None, model: str | None, as_json: bool) -> None:
    """Be an MCP server that offers ask, call, transcribe, see and find, until the client leaves.

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
    engine = AsyncEngine(choose_model(settings, policy))
    if port is None:
        asyncio.run(mcp_server.serve_stdio(engine))
    else:
        asyncio.run(mcp_server.serve_http(engine, port, lambda url: _announce(url, as_json)))


def _announce(url: str, as_json: bool) -> None:
    if as_json:
        print_json({"url": url})
    else:
        console(stderr=True).say(("Listening on ", "green"), url)
