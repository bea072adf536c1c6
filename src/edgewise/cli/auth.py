"""`edgewise auth`: keys into the OS keyring or a file only you can read; never printed."""

from __future__ import annotations

import sys

import click

from edgewise import assembly
from edgewise.cli import options
from edgewise.cli.render import console, print_json
from edgewise.cloud.directory import find_row
from edgewise.credentials import Credentials
from edgewise.settings import Settings


@click.group()
def auth() -> None:
    """Providers' keys. They are read from the environment first, then from here."""


@auth.command("set")
@click.argument("provider")
@click.option("--file", "in_file", is_flag=True, help="A 0600 file instead of the OS keyring.")
def store(provider: str, in_file: bool) -> None:
    """Store a key for PROVIDER: typed unseen, or from standard input."""
    settings = Settings.load()
    row = find_row(provider, custom=tuple(assembly.provider_rows(settings).values()))
    if sys.stdin is not None and sys.stdin.isatty():
        key = str(click.prompt(f"Key for {row.name}", hide_input=True))
    else:
        key = sys.stdin.readline() if sys.stdin is not None else ""
    place = Credentials(settings.config_dir).set(
        row.name, key.strip(), prefer="file" if in_file else "keyring"
    )
    where = "the OS keyring" if place == "keyring" else "a file only you can read"
    click.echo(f"The key for {row.name} is in {where}.")


@auth.command()
@click.argument("provider")
def remove(provider: str) -> None:
    """Forget the stored key of PROVIDER."""
    if not Credentials(Settings.load().config_dir).remove(provider):
        raise click.ClickException(f"there is no stored key for {provider!r}")
    click.echo(f"The key for {provider} is gone.")


@auth.command()
@options.as_json
def status(as_json: bool) -> None:
    """Which providers have a key, and from where. Keys are never shown."""
    settings = Settings.load()
    stored = Credentials(settings.config_dir).places()
    rows = []
    for row in assembly.provider_rows(settings).values():
        variable = next((name for name in row.key_names if settings.environment.get(name)), "")
        place = f"environment ({variable})" if variable else str(stored.get(row.name, ""))
        rows.append(
            {
                "provider": row.name,
                "key": place or ("not needed" if not row.needs_key else ""),
                "ready": bool(place) or not row.needs_key,
                "model": row.default_model,
                "key_names": list(row.key_names),
            }
        )
    if as_json:
        print_json(rows)
        return
    screen = console()
    for entry in rows:
        mark = "[green]✓[/green]" if entry["ready"] else "[dim]·[/dim]"
        hint = entry["key"] or f"[dim]none; edgewise auth set {entry['provider']}[/dim]"
        screen.print(f"{mark} {entry['provider']:<14}{hint}")
