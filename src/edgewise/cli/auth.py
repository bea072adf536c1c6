"""`edgewise auth`: keys into the OS keyring or a file only you can read; never printed."""

from __future__ import annotations

import difflib
import sys
from typing import Any

import click

from edgewise import parts, plugins
from edgewise.cli import options
from edgewise.cli.render import Waiting, console, print_json
from edgewise.cli.streams import printable
from edgewise.cloud.provider import ChecksKeys, CloudProvider, ProviderConfig
from edgewise.cloud.providers import Provider
from edgewise.credentials import Credentials, Place, plausible_key
from edgewise.errors import CloudAuthFailed, CloudError
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
@click.option("--no-check", is_flag=True, help="Do not ask the provider whether it takes the key.")
@options.as_json
def store(
    provider: str, key: tuple[str, ...], in_file: bool, no_check: bool, as_json: bool
) -> None:
    """Store a key for PROVIDER: typed unseen, or from standard input.

    The provider is asked first whether it takes the key, by one request that costs nothing. A key
    that it refuses is not stored. The key goes into the OS keyring; without one, into a file only
    you can read.

    \b
    edgewise auth set openai
    edgewise auth set gemini < key.txt
    edgewise auth set groq --no-check      (offline)
    """
    if key:  # accepted only to refuse it without printing it
        raise click.UsageError(
            "a key does not belong on the command line, where others can see it: "
            "leave it out to be asked for it, or pipe it in"
        )
    settings = Settings.load()
    row = _row(settings, provider)
    typed = plausible_key(row.name, _read_key(row))
    unchecked = "--no-check was given" if no_check else _why_unchecked(settings, row, typed)
    place = Credentials(settings.config_dir).set(
        row.name, typed, prefer="file" if in_file else "keyring"
    )
    variable = _variable(settings, row)
    if as_json:
        print_json(
            {
                "success": True,
                "provider": row.name,
                "place": place,
                "overridden_by": variable,
                "checked": not unchecked,
                "unchecked_because": unchecked,
            }
        )
        return
    takes = "" if unchecked else f"{row.name} takes the key. "
    click.echo(f"{takes}The key for {row.name} is in {PLACES[place]}.")
    if unchecked and not no_check:
        click.echo(printable(f"It could not be checked: {unchecked}."))
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


def _why_unchecked(settings: Settings, row: Provider, key: str) -> str:
    """Ask the provider. "" if it takes the key, else why it could not say; raises if it refuses.

    403 is no refusal of the key: it may be good, but not allowed to list models.
    """
    config = ProviderConfig(
        name=row.name,
        protocol=row.protocol,
        model=row.default_model,
        base_url=row.base_url,
        key=key,
        limits=parts.time_limits(settings),
    )
    with Waiting(console(stderr=True), f"asking {row.name} whether it takes this key"):
        provider: CloudProvider = plugins.load("cloud_providers", row.protocol)(config)
        try:
            if not isinstance(provider, ChecksKeys):
                return f"{row.name} has no free request for that"
            provider.check_key()
        except CloudError as error:
            if error.status == 401:
                raise CloudAuthFailed(
                    f"{row.name} does not take this key, so it was not stored: {error} "
                    "(copy it again, or store it anyway with --no-check)",
                    provider=row.name,
                    status=error.status,
                ) from error
            return str(error)
        finally:
            provider.close()
    return ""


def _read_key(row: Provider) -> str:
    if sys.stdin is None:
        return ""
    if sys.stdin.isatty():
        return str(click.prompt(f"Key for {row.name} (not shown)", hide_input=True, err=True))
    return sys.stdin.readline()
