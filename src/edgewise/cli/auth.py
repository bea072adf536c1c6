"""`edgewise auth`: keys into the OS keyring or a file only you can read; never printed."""

from __future__ import annotations

import difflib
import sys
from typing import Any

import click

from edgewise.assembly import parts
from edgewise.cli import options
from edgewise.cli.render import (
    console,
    print_json,
)
from edgewise.cloud.providers import Provider
from edgewise.credentials import Credentials, Place
from edgewise.settings import Settings

PLACES: dict[Place, str] = {"keyring": "the OS keyring", "file": "a file only you can read"}


@click.group()
def auth() -> None:
    """Manage providers' keys. The environment comes first, then the keys stored here.

    \b
    edgewise auth set openai
    edgewise auth status
    edgewise auth remove openai
    """


@auth.command("set")
@click.argument("provider", shell_complete=options.complete_providers)
@click.argument("key", nargs=-1, metavar="", type=click.UNPROCESSED)
@click.option("--file", "in_file", is_flag=True, help="A 0600 file instead of the OS keyring.")
@options.as_json
def store(provider: str, key: tuple[str, ...], in_file: bool, as_json: bool) -> None:
    """Store a key for PROVIDER: typed unseen, or from standard input.

    It goes into the OS keyring; without one, into a file only you can read.

    \b
    edgewise auth set openai
    edgewise auth set gemini < key.txt
    """
    if key:  # accepted only to refuse it without printing it
        raise click.UsageError(
            "a key does not belong on the command line, where others can see it: "
            "leave it out to be asked for it, or pipe it in"
        )
    settings = Settings.load()
    row = _row(settings, provider)
    place = Credentials(settings.config_dir).set(
        row.name, _read_key(row), prefer="file" if in_file else "keyring"
    )
    variable = _variable(settings, row)
    if as_json:
        print_json(
            {"success": True, "provider": row.name, "place": place, "overridden_by": variable}
        )
        return
    click.echo(f"The key for {row.name} is in {PLACES[place]}.")
    if variable:
        click.echo(f"But {variable} is set and comes first; unset it to use this key.")


@auth.command()
@click.argument("provider", shell_complete=options.complete_providers)
@options.as_json
def remove(provider: str, as_json: bool) -> None:
    """Forget the stored key of PROVIDER.

    \b
    edgewise auth remove openai
    """
    settings = Settings.load()
    row = _row(settings, provider)
    if not Credentials(settings.config_dir).remove(row.name):
        raise click.ClickException(f"there is no stored key for {row.name}")
    variable = _variable(settings, row)
    if as_json:
        print_json({"success": True, "provider": row.name, "overridden_by": variable})
        return
    click.echo(f"The key for {row.name} is gone.")
    if variable:
        click.echo(f"But {variable} is set and is still used.")


@auth.command()
@options.as_json
def status(as_json: bool) -> None:
    """Show which providers have a key, and from where. Keys are never shown.

    \b
    edgewise auth status
    edgewise auth status --json | jq '.[] | select(.ready) | .provider'
    """
    settings = Settings.load()
    credentials = Credentials(settings.config_dir)
    stored = credentials.places()
    rows = [
        _status(settings, row, credentials, stored.get(row.name))
        for row in parts.provider_rows(settings).values()
    ]
    if as_json:
        print_json(rows)
        return
    screen = console()
    for entry in rows:
        mark = ("✓", "green") if entry["ready"] else ("·", "dim")
        screen.say(mark, f" {entry['provider']:<14}", entry["key"] or ("none", "dim"))
    screen.say()
    screen.say(("Store one: edgewise auth set PROVIDER", "dim"))


def _status(
    settings: Settings, row: Provider, credentials: Credentials, place: Place | None
) -> dict[str, Any]:
    variable = _variable(settings, row)
    # A keyring may be locked or emptied by others: only asking it tells.
    usable = bool(variable) or (place is not None and bool(credentials.get(row.name)))
    if variable:
        key = f"environment ({variable})"
    elif place is not None:
        key = place if usable else f"{place} (locked, or the key is gone)"
    else:
        key = "" if row.needs_key else "not needed"
    return {
        "provider": row.name,
        "key": key,
        "ready": usable or not row.needs_key,
        "model": row.default_model,
        "key_names": list(row.key_names),
    }


def _row(settings: Settings, name: str) -> Provider:
    """Does not quote the input: it may be a key, by mistake."""
    rows = parts.provider_rows(settings)
    if name.lower() in rows:
        return rows[name.lower()]
    near = difflib.get_close_matches(name.lower(), rows, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise click.UsageError(f"no such provider.{hint} Known are {', '.join(rows)}.")


def _variable(settings: Settings, row: Provider) -> str:
    return next((name for name in row.key_names if settings.environment.get(name)), "")


def _read_key(row: Provider) -> str:
    if sys.stdin is None:
        return ""
    if sys.stdin.isatty():
        return str(click.prompt(f"Key for {row.name} (not shown)", hide_input=True, err=True))
    return sys.stdin.readline()
