"""The `[server]` table: where `edgewise serve` listens, whom it lets in, how much it takes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from edgewise.errors import SettingsError

Table = TypeVar("Table")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySettings:
    """A `[server.keys.NAME]` table: one client, what it may spend and how often it may ask.

    The key itself is in the variable `key_env`, or known only by its SHA-256.
    """

    key_env: str = ""
    key_sha256: str = ""
    budgets: tuple[str, ...] = ()  # "$1/day": for this key alone
    budget_key: str = ""  # empty: the table's name
    requests_per_minute: int = 0  # 0: as many as it likes

    def __post_init__(self) -> None:
        if bool(self.key_env) == bool(self.key_sha256):
            raise SettingsError("either key_env or key_sha256 must say what the key is")
        digits = set(self.key_sha256.lower()) <= set("0123456789abcdef")
        if self.key_sha256 and not (len(self.key_sha256) == 64 and digits):
            raise SettingsError("key_sha256 must be 64 hexadecimal digits")
        if self.requests_per_minute < 0:
            raise SettingsError("requests_per_minute must be 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Everything about serving. Times in seconds."""

    host: str = "127.0.0.1"
    port: int = 8484
    key: str = field(default="", repr=False)  # the one key of a server without a table of keys
    hosts: tuple[str, ...] = ()  # names clients may call this server by, besides addresses
    origins: tuple[str, ...] = ()  # web pages that may call it, "https://app.example"
    any_model: bool = True  # an unknown model name means "auto"
    remote_images: bool = False  # fetch images from public addresses
    otel: bool = False  # spans and metrics to OpenTelemetry
    # How much it takes on
    slots: int = 4  # local requests at once
    queue: int = 64  # local requests that wait for a slot
    requests: int = 2048  # requests of all kinds at once
    body_bytes: int = 20_000_000
    header_s: float = 10.0  # to send a request's head
    body_s: float = 30.0  # to send its body
    stall_s: float = 30.0  # for a client to take nothing of its answer
    total_s: float = 600.0  # to answer it
    drain_s: float = 20.0  # to finish what runs when told to stop
    keys: Mapping[str, KeySettings] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in ("slots", "queue", "requests", "body_bytes"):
            if getattr(self, name) < 1:
                raise SettingsError(f"[server]: {name} = {getattr(self, name)!r}: at least 1")
        for name in ("header_s", "body_s", "stall_s", "total_s", "drain_s"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"[server]: {name} = {getattr(self, name)!r}: more than 0")
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"[server]: port = {self.port!r}: 0 to 65535")


def read_server(table: Any) -> ServerSettings:
    """The table of a settings file; a clear error names what is wrong. Keys are never quoted."""
    if isinstance(table, ServerSettings):
        return table
    values = dict(_mapping(table, "[server]"))
    if "keys" in values:
        rows = _mapping(values["keys"], "[server.keys]")
        values["keys"] = {
            str(name): _built(KeySettings, row, f"[server.keys.{name}]")
            for name, row in rows.items()
        }
    return _built(ServerSettings, values, "[server]")


def _mapping(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingsError(f"{place}: not a table")
    return value


def _built(kind: Callable[..., Table], values: Any, place: str) -> Table:
    if isinstance(values, KeySettings):
        return values  # type: ignore[return-value]  # given in code
    known = {each.name: str(each.type) for each in fields(kind)}  # type: ignore[arg-type]
    given: dict[str, Any] = {}
    for name, value in _mapping(values, place).items():
        if name not in known:
            raise SettingsError(f"{place}: unknown setting {name!r} (known: {', '.join(known)})")
        given[name] = _converted(known[name], value, f"{place}: {name}")
    try:
        return kind(**given)
    except SettingsError as error:
        words = str(error)
        raise SettingsError(words if words.startswith("[") else f"{place}: {words}") from error


def _converted(kind: str, value: Any, place: str) -> Any:
    match kind:
        case "str" if isinstance(value, str):
            return value
        case "bool" if isinstance(value, bool):
            return value
        case "int" if isinstance(value, int) and not isinstance(value, bool):
            return value
        case "float" if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        case "tuple[str, ...]" if isinstance(value, list | tuple):
            if all(isinstance(each, str) for each in value):
                return tuple(value)
        case "Mapping[str, KeySettings]":
            return value
    raise SettingsError(f"{place} must be {_WORDS[kind]}")


_WORDS = {
    "str": "text",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "tuple[str, ...]": "a list of texts",
}
