"""`edgewise wyoming`: speech to text and intents for Home Assistant's voice pipelines."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
from pathlib import Path
from typing import Any

import click

from edgewise.aio import AsyncEngine
from edgewise.cli import options
from edgewise.cli.ready import ensure_function_model, ensure_transcriber
from edgewise.cli.render import console
from edgewise.cli.streams import print_json
from edgewise.settings import Settings

PORT = 10300  # where Home Assistant looks for speech to text


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
    default=PORT,
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

    home = server.HomeFile(entities, area)
    settings = Settings.load(policy=policy)
    settings = ensure_transcriber(ensure_function_model(settings, policy), policy)
    if not uri and not _is_loopback(host):
        console(stderr=True).say(
            ("anybody who reaches this port can use it: ", "yellow"),
            "the protocol has no keys; let a firewall allow Home Assistant alone",
        )
    shown = uri or f"tcp://{f'[{host}]' if ':' in host else host}:{port}"
    asyncio.run(_serve(settings, home, shown, as_json, live=live))


async def _serve(settings: Settings, home: Any, uri: str, as_json: bool, *, live: bool) -> None:
    from edgewise.server import wyoming as server  # noqa: PLC0415 - as above

    stop = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl+C raises
            asyncio.get_running_loop().add_signal_handler(each, stop.set)
    async with AsyncEngine(settings) as engine:
        service = server.Service(
            engine=engine, home=home, live=live, options={"policy": settings.policy}
        )
        await server.serve(service, uri, lambda where: _announce(where, as_json), stop)


def _announce(uri: str, as_json: bool) -> None:
    if as_json:
        print_json({"uri": uri})
    else:
        console().say(("Listening on ", "green"), uri, " (Wyoming: speech to text, intents)")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name: nobody knows where it will point tomorrow
        return False
