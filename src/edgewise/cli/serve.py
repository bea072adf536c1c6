"""`edgewise serve`: the engine for every client of OpenAI's, Anthropic's or Ollama's API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from edgewise.cli import options
from edgewise.cli.ready import ensure_model
from edgewise.cli.render import console
from edgewise.cli.setup import choose_model
from edgewise.cli.streams import print_json
from edgewise.settings import Settings

CURL = """\
curl {url}/v1/chat/completions -H 'content-type: application/json'{key} \\
  -d '{{"model": "auto", "messages": [{{"role": "user", "content": "Hello"}}]}}'"""


@click.command()
@click.option("--host", help="The address to listen on; anything but this machine needs a key.")
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
@click.option("--slots", type=click.IntRange(1), help="Local requests at once.")
@click.option("--queue", type=click.IntRange(1), help="Local requests that may wait.")
@click.option(
    "--policy",
    "-p",
    help="The policy of requests that name none.",
    shell_complete=options.complete_policies,
)
@click.option(
    "--model",
    "-m",
    help="Local model: a name, or the path of a GGUF file.",
    shell_complete=options.complete_models_and_files,
)
@options.personal
@options.as_json
def serve(
    as_json: bool,
    policy: str | None,
    model: str | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    redact: tuple[str, ...] | None,
    private_kinds: tuple[str, ...] | None,
    cloud_every_s: float | None,
    **given: Any,
) -> None:
    """Serve OpenAI's, Anthropic's and Ollama's APIs on this machine, until stopped.

    \b
    edgewise serve
    OPENAI_BASE_URL=http://127.0.0.1:8484/v1 your-application

    Settings that are not given here come from variables such as EDGEWISE_SERVER_HOST, then from
    [server] in config.toml. A line of JSON per request goes to standard error. SIGTERM lets running
    requests finish.
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
    changes["origins"] = (*settings.server.origins, *origins)
    settings = settings.with_changes(server=replace(settings.server, **changes))
    # Imported here: its parts are an extra, and slow to load.
    from edgewise.server import serve as runner  # noqa: PLC0415

    settings = ensure_model(choose_model(settings))
    runner.log_to_stderr()
    runner.serve(settings, lambda url: _announce(url, settings, as_json))


def _announce(url: str, settings: Settings, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "url": url,
                "openai_base_url": f"{url}/v1",
                "anthropic_base_url": url,
                "ollama_base_url": url,
            }
        )
        return
    keyed = settings.server.key or settings.server.keys
    key = " -H 'authorization: Bearer YOUR-KEY'" if keyed else ""
    screen = console()
    screen.say(("Listening on ", "green"), url, " (in a browser: the dashboard)")
    screen.say(CURL.format(url=url, key=key))
