"""`edgewise auth`: providers' keys, never printed; `edgewise keys`: those of a server's clients."""

from __future__ import annotations

import difflib
import re
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import click
from rich.table import Table

from edgewise import parts, plugins
from edgewise.cli import options
from edgewise.cli.render import Waiting, console, print_json
from edgewise.cli.streams import printable
from edgewise.cloud.provider import ChecksKeys, CloudProvider, ProviderConfig
from edgewise.cloud.providers import Provider
from edgewise.credentials import Credentials, Place, plausible_key
from edgewise.errors import CloudAuthFailed, CloudError, SettingsError
from edgewise.record.report import parse_since
from edgewise.server.keys import KeyFile, StoredKey, expires_at
from edgewise.settings import ROLES, KeySettings, Settings

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


# -- edgewise keys: keys for a server's clients ----------------------------------------------------


_SPAN = re.compile(r"[0-9]{1,6}\s*[smhdw]")
_RULES = (
    *("expires", "policy", "models", "budgets", "requests_per_minute", "cloud_every_s", "redact"),
    *("private_kinds", "forwards_users", "user_budgets", "group_budgets"),
)


@click.group()
def keys() -> None:
    """Make, list, change, rotate and revoke the keys of a server's clients.

    \b
    edgewise keys add wiki --budget '$2/day' --model auto --model 'local/*'
    edgewise keys list
    edgewise keys change wiki --budget '$5/day'
    edgewise keys rotate wiki --keep-old 24h
    edgewise keys revoke wiki

    A key is shown once, when it is made; only its hash is kept, in a file that you alone can read.
    A running server takes up a change within a second.
    """


def _rule_options(command: options.Command) -> options.Command:
    """What `add` sets and `change` replaces."""
    given = (
        click.option(
            "--role",
            type=click.Choice(ROLES),
            help="app asks, and sees its own figures; admin sees all; metrics only reads figures.",
        ),
        click.option("--expires", help="90d, or a UTC date like 2027-01-31."),
        click.option(
            "--policy",
            "-p",
            help="Of all its requests; one may only be stricter.",
            shell_complete=options.complete_policies,
        ),
        click.option(
            "--model",
            "models",
            multiple=True,
            help="Repeatable: a name it may ask for, with * and ?.",
        ),
        click.option(
            "--budget", "budgets", multiple=True, help="Repeatable: '$2/day', '$20/month'."
        ),
        click.option(
            "--per-minute", "requests_per_minute", type=click.IntRange(0), help="Requests."
        ),
        click.option(
            "--forwards-users",
            is_flag=True,
            help="It may say for whom it asks, as Open WebUI does.",
        ),
        click.option(
            "--user-budget",
            "user_budgets",
            multiple=True,
            help="Repeatable: '$0.50/day' for each of its users, 'ann@x.example: $2/day' for one.",
        ),
        click.option(
            "--group-budget",
            "group_budgets",
            multiple=True,
            help="Repeatable: the same for groups.",
        ),
    )
    for option in reversed(given):
        command = option(command)
    return command


@keys.command()
@click.argument("name")
@_rule_options
@options.personal
@options.as_json
def add(name: str, as_json: bool, **given: Any) -> None:
    """Make a key for the client NAME, and show it once. Its role is app unless --role says other.

    NAME is the key's budget key: under it the client is counted in `edgewise ledger --by key`.

    \b
    edgewise keys add wiki --budget '$2/day'
    edgewise keys add webui --forwards-users --user-budget '$0.50/day'
    edgewise keys add prometheus --role metrics
    """
    settings, rules = Settings.load(), _rules_given(given)
    if name in settings.server.keys:
        raise SettingsError(f"[server.keys.{name}] in config.toml has this name")
    _check(settings, name, rules)
    secret = KeyFile(settings.config_dir).add(name, rules)
    _show(name, secret, as_json)


@keys.command()
@click.argument("name")
@_rule_options
@click.option(
    "--clear",
    multiple=True,
    type=click.Choice([each.replace("_", "-") for each in _RULES]),
    help="Repeatable: take this rule away.",
)
@options.personal
@options.as_json
def change(name: str, clear: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Give the key of NAME other rules. The key itself and its figures stay.

    What is given replaces what it was: one --budget replaces all its budgets.

    \b
    edgewise keys change wiki --budget '$5/day'
    edgewise keys change bot --clear policy --per-minute 300
    """
    cleared = [each.replace("-", "_") for each in clear]
    defaults = KeySettings(key_sha256="0" * 64)
    rules = {rule: getattr(defaults, rule) for rule in cleared} | _rules_given(given)
    if not rules:
        raise click.UsageError("say what is to change, as --budget '$5/day' or --clear policy")
    settings = Settings.load()
    if name in settings.server.keys:
        raise SettingsError(f"the rules of {name!r} are in config.toml: change them there")
    _check(settings, name, rules)
    file = KeyFile(settings.config_dir)
    file.change(name, rules)
    shown = _rules(file.read()[name].rules)
    if as_json:
        print_json({"name": name, "rules": shown})
    else:
        console().say(f"The rules of {name}: {_in_words(shown)}")


def _rules_given(given: dict[str, Any]) -> dict[str, Any]:
    # A number that was given counts: 0 takes a limit away.
    rules = {rule: value for rule, value in given.items() if value or type(value) in (int, float)}
    if "expires" in rules:
        rules["expires"] = _moment(rules["expires"])
    if rules.get("user_budgets") or rules.get("group_budgets"):
        rules["forwards_users"] = True
    return rules


def _check(settings: Settings, name: str, rules: dict[str, Any]) -> None:
    """Raises SettingsError, as if the rules stood in config.toml."""
    key = KeySettings(key_sha256="0" * 64, **rules)
    settings.with_changes(server=replace(settings.server, keys={name: key}))
    ends = expires_at(key)
    if ends is not None and ends <= time.time():
        raise SettingsError(f"expires = {rules['expires']!r}: that is over")


@keys.command()
@click.argument("name")
@click.option("--keep-old", default="", help="For so long the old key still counts: 24h, 7d.")
@options.as_json
def rotate(name: str, keep_old: str, as_json: bool) -> None:
    """Give NAME another key, and show it once. Its rules and figures stay.

    \b
    edgewise keys rotate wiki --keep-old 24h
    """
    keep_s = _seconds(keep_old) if keep_old else 0.0
    secret = KeyFile(Settings.load().config_dir).rotate(name, keep_s)
    words = f"The old one counts for another {keep_old}." if keep_old else "The old one is void."
    _show(name, secret, as_json, words)


@keys.command()
@click.argument("name")
@options.as_json
def revoke(name: str, as_json: bool) -> None:
    """Take the key of NAME away. What it asked and spent stays in the ledger.

    \b
    edgewise keys revoke wiki
    """
    KeyFile(Settings.load().config_dir).revoke(name)
    if as_json:
        print_json({"revoked": name})
    else:
        console().say(f"The key of {name} counts no more.")


@keys.command("list")
@options.as_json
def list_keys(as_json: bool) -> None:
    """Show all keys: role, age, last use, end and rules. Never a secret.

    \b
    edgewise keys list
    edgewise keys list --json | jq '.[] | select(.last_used == null) | .name'
    """
    settings = Settings.load()
    file = KeyFile(settings.config_dir)
    used = file.last_used()
    rows = [_key_row(key, used) for key in file.read().values()]
    rows += [
        {
            "name": name,
            "role": rules.role,
            "in": "config.toml",
            "expires": rules.expires,
            "made_at": None,
            "last_used": None,
            "old_until": None,
            "rules": _rules(rules),
        }
        for name, rules in settings.server.keys.items()
    ]
    if as_json:
        print_json(rows)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for column in ("name", "role", "made", "last used", "ends", "rules"):
        table.add_column(column, overflow="fold", no_wrap=column == "made")
    for row in rows:
        ends = row["expires"] or "-"
        if row["old_until"] is not None:
            ends += f" (the old key {_when(row['old_until'])})"
        made = "-" if row["made_at"] is None else _when(row["made_at"])[:10]
        last = "-" if row["last_used"] is None else _when(row["last_used"])
        table.add_row(row["name"], row["role"], made, last, ends, _in_words(row["rules"]))
    console().print(table if rows else "No keys yet. Make one: edgewise keys add NAME")


def _key_row(key: StoredKey, used: dict[str, float]) -> dict[str, Any]:
    times = [used[each.sha256] for each in key.secrets if each.sha256 in used]
    now = time.time()
    old = [each.until for each in key.secrets if each.until is not None and each.until > now]
    ends = expires_at(key.rules)
    return {
        "name": key.name,
        "role": key.rules.role,
        "in": "server-keys.json",
        "expires": key.rules.expires + (" (expired)" if ends is not None and ends <= now else ""),
        "made_at": key.secrets[0].made_at,
        "last_used": max(times, default=None),
        "old_until": max(old, default=None),
        "rules": _rules(key.rules),
    }


def _rules(rules: Any) -> dict[str, Any]:
    """Those that are set, besides what has a column of its own."""
    found = {name: getattr(rules, name) for name in _RULES if name != "expires"}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in found.items()
        if value
    }


def _in_words(rules: dict[str, Any]) -> str:
    return " · ".join(_words(name, value) for name, value in rules.items()) or "-"


def _words(name: str, value: Any) -> str:
    said = name.replace("_", " ")
    if isinstance(value, list):
        return f"{said} {', '.join(map(str, value))}"
    own = {"requests_per_minute": f"{value} a minute", "cloud_every_s": f"cloud every {value} s"}
    return said if value is True else own.get(name, f"{said} {value}")


def _show(name: str, secret: str, as_json: bool, words: str = "") -> None:
    if as_json:
        print_json({"name": name, "key": secret})
        return
    screen = console()
    screen.say(f"The key of {name}. It is shown this once: ", (words, "dim") if words else "")
    screen.say(secret, to_copy=True)


def _seconds(text: str) -> float:
    if not _SPAN.fullmatch(text.strip()):
        raise click.UsageError(f"cannot read {text!r}: write 30m, 24h or 7d")
    now = time.time()
    return now - parse_since(text, now=now)


def _moment(text: str) -> str:
    """A date as it was written, or the moment after so much time."""
    if not _SPAN.fullmatch(text.strip()):
        return text.strip()
    ends = datetime.fromtimestamp(time.time() + _seconds(text), UTC)
    return ends.strftime("%Y-%m-%dT%H:%M:%S")


def _when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))
