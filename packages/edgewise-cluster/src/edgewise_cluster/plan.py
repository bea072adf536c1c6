"""What a deploy file says: replicas, resources, settings. Read and checked without Ray."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from edgewise.cloud.providers import is_loopback
from edgewise.errors import SettingsError
from edgewise.server.keys import KeyFile
from edgewise.settings import ServerSettings, Settings

Kind = Literal["chat", "calls", "speech", "vision", "embeddings"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_KNOWN = {each.name for each in fields(Settings)} - {"environment", "named"}
_KNOWN_OF_SERVER = {each.name for each in fields(ServerSettings)}
# What the deploy file says in places of its own, or must not say at all.
_ELSEWHERE = {
    "host": "host is at the top of the file",
    "port": "port is at the top of the file",
    "key": "keys do not belong in this file: set EDGEWISE_SERVER_KEY, or name a keys_file",
}
NOWHERE = "/nonexistent"  # a folder without config.toml
DRAIN_S = 30.0  # besides the longest stream, for a replica to end

EXAMPLE = """\
# edgewise deploy FILE.toml: what runs, how often, and on what. Everything has a default.

name = "edgewise"       # of the application; two on one cluster need two names
host = "127.0.0.1"      # others can ask only if this says so; then clients need keys
port = 8484
address = ""            # of a Ray cluster ("auto", "10.0.0.5:6379"); empty: Ray on this machine
keys_file = ""          # a .env file with keys, on every machine; empty: their environment

[fronts]                # the server: doors, policy, budgets, the cloud
replicas = 2            # with two or more, an upgrade interrupts nobody
cpus = 0.5

# Models without a table run inside each front. With one, they are replicas of their own:
# chat, calls (the function model), speech, vision, embeddings.
[models.chat]
replicas = 1            # at least so many
max_replicas = 2        # more than `replicas`: as many as are needed, up to this
target_ongoing = 4      # requests per replica that this aims at; 0: [settings.server] slots
cpus = 1.0              # for each replica; also its threads
gpus = 0.0
memory_bytes = 0        # that Ray sets aside for it
resources = {}          # of your own, as in: ray start --resources '{"big": 1}'

[settings]              # as in config.toml, for every replica
# budgets = ["$3/day"]
# ledger = "postgresql://edgewise@db.internal/edgewise"   # one budget, ledger and dashboard for all

[settings.server]
slots = 4               # requests that one replica of a model works on at once
total_s = 600.0         # the longest answer: an upgrade waits for it
"""


class Share(BaseModel):
    """How many replicas, and what each of them gets."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    replicas: Annotated[int, Field(ge=1, le=10_000)] = 1
    max_replicas: Annotated[int, Field(ge=0, le=10_000)] = 0
    target_ongoing: Annotated[float, Field(ge=0)] = 0.0
    cpus: Annotated[float, Field(ge=0)] = 1.0
    gpus: Annotated[float, Field(ge=0)] = 0.0
    memory_bytes: Annotated[int, Field(ge=0)] = 0
    resources: dict[str, Annotated[float, Field(gt=0)]] = {}

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.max_replicas and self.max_replicas < self.replicas:
            raise ValueError(f"max_replicas = {self.max_replicas}: less than replicas")
        return self


class Plan(BaseModel):
    """A deploy file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")] = "edgewise"
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65535)] = 8484
    address: str = ""
    keys_file: str = ""
    parts: Annotated[str, Field(pattern=r"^([\w.]+:\w+)?$")] = ""  # "module:function", see docs
    fronts: Share = Share(replicas=2, cpus=0.5)
    models: dict[Kind, Share] = {}
    settings: dict[str, Any] = {}

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def server(self) -> ServerSettings:
        """What the file alone says about serving. Raises SettingsError."""
        table = self.settings.get("server", {})
        return Settings.load({}, config_dir=NOWHERE, server=table).server

    @property
    def longest_s(self) -> float:
        """For a replica that leaves to finish what it does."""
        return self.server.total_s + DRAIN_S

    def load_settings(self, environment: Mapping[str, str] | None = None) -> Settings:
        """Of a replica: what the file says, over what its machine says."""
        given = {name: value for name, value in self.settings.items() if name != "server"}
        settings = Settings.load(environment, env_file=self.keys_file or None, **given)
        # The machine's own [server] table and variables stay, as far as the file is silent.
        named = {name: getattr(self.server, name) for name in self.settings.get("server", {})}
        named |= {"host": self.host, "port": self.port}
        if not self.address:  # the HAProxy on this machine says who asks
            named.setdefault("proxies", ("127.0.0.1",))
        return settings.with_changes(server=replace(settings.server, **named))


def read_plan(path: Path) -> Plan:
    """Raises SettingsError: one line that says what is wrong, and what was probably meant."""
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise SettingsError(
            f"{path}: there is no such file; edgewise deploy --example prints one"
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from error
    return check_plan(data, str(path))


def check_plan(data: Mapping[str, Any], source: str) -> Plan:
    try:
        plan = Plan.model_validate(data)
    except ValidationError as error:
        raise SettingsError(f"{source}: {_first_complaint(error)}") from None
    try:
        _check_settings(plan)
    except SettingsError as error:
        raise SettingsError(f"{source}: {error}") from error
    return plan


def _first_complaint(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "[key]")
    name = str(first["loc"][-1]) if first["loc"] else ""
    match first["type"]:
        case "extra_forbidden":
            model = Plan if len(first["loc"]) == 1 else Share
            return f"there is no {place}{_nearest(name, model.model_fields)}"
        case "literal_error":
            kind = str(first["input"])
            return f"there is no models.{kind}{_nearest(kind, KINDS)}"
        case "value_error":
            return f"{place}: {first['ctx']['error']}"
    return f"{place} = {first['input']!r}: {first['msg'].lower()}"


def _nearest(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else f" ({', '.join(known)})"


def _check_settings(plan: Plan) -> None:
    server = plan.settings.get("server", {})
    if not isinstance(server, dict):
        raise SettingsError("settings.server: not a table")
    _check_ledger(str(plan.settings.get("ledger", "")))
    for name in server:
        if name in _ELSEWHERE:
            raise SettingsError(f"settings.server.{name}: {_ELSEWHERE[name]}")
    for table, known in ((plan.settings, _KNOWN), (server, _KNOWN_OF_SERVER)):
        for name in table:
            if name not in known:
                place = "settings" if table is plan.settings else "settings.server"
                near = difflib.get_close_matches(name, known, n=1)
                hint = (
                    f"; did you mean {near[0]!r}?" if near else " (see docs/reference/settings.md)"
                )
                raise SettingsError(f"there is no {place}.{name}{hint}")
    # Conversions and limits are the settings' own. Keys are not looked for: this machine need
    # not have them.
    given = {name: value for name, value in plan.settings.items() if name != "server"}
    Settings.load({}, config_dir=NOWHERE, **given)
    _ = plan.server


def _check_ledger(url: str) -> None:
    try:
        password = urlsplit(url).password
    except ValueError:
        return  # the settings say what is wrong with it
    if password:
        raise SettingsError(
            "settings.ledger: leave its password out of this file: set EDGEWISE_LEDGER or "
            "PGPASSWORD on the machines, or in the keys_file"
        )


def _open_note(plan: Plan) -> str:
    """Whether strangers could ask, as far as this machine can tell."""
    where = f"host = {plan.host!r}: open to all who reach it"
    if plan.server.open:
        return f"{where}, WITHOUT A KEY: settings.server.open says so"
    if _has_key(plan):
        return f"{where}, with a key; without TLS, unless a proxy adds it"
    words = (
        f"{where}, and this machine knows no key: a front refuses to start without one "
        "(EDGEWISE_SERVER_KEY, a keys_file, or edgewise keys add on its machine)"
    )
    if not plan.address:  # it is this machine that would run it
        raise SettingsError(words)
    return words


def _has_key(plan: Plan) -> bool:
    try:
        settings = plan.load_settings()
        return bool(
            settings.server.keys
            or settings.environment.get("EDGEWISE_SERVER_KEY")
            or KeyFile(settings.config_dir).read()
        )
    except SettingsError:  # of a keys_file that other machines have
        return False


def notes(plan: Plan) -> list[str]:
    """What is allowed, but probably not wanted. Raises SettingsError: it could not start here."""
    found = []
    if max(plan.fronts.replicas, 1) == 1:
        found.append("fronts.replicas = 1: nobody answers while an upgrade replaces it")
    if not is_loopback(plan.url):
        found.append(_open_note(plan))
    if plan.address and "ledger" not in plan.settings:
        found.append("settings.ledger is not set: every machine has a budget and a ledger alone")
    return found
