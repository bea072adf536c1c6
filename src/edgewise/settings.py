"""Settings: the only reader of environment variables, `.env` and config.toml. Frozen, checked."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import shutil
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any, Self, TypedDict, TypeVar, Unpack, get_args

import platformdirs

from edgewise import plugins
from edgewise.errors import SettingsError, did_you_mean
from edgewise.types.messages import (
    ALL,
    ERROR_PROBABILITY,
    KINDS,
    POLICIES,
    Handoff,
    Kinds,
    OnDrift,
    as_kinds,
    find_complaint,
)

DEFAULT_MODEL = "auto"  # what `edgewise setup` proposes for this machine
DEFAULT_FUNCTION_MODEL = "edgewise-caller"
DEFAULT_SPEECH_MODEL = "whisper-tiny.en"
DEFAULT_EMBEDDER = "all-minilm-l6-v2"
# Settings that take several forms: a list, a text with commas, and true, or a plain number.
KindNames = tuple[str, ...]
Intervals = tuple[str, ...]
_BOOLEANS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def default_threads(cores: int | None = None) -> int:
    """Half of the cores: busy threads on shared cores slow each other down badly."""
    return max(1, (cores or os.cpu_count() or 1) // 2)


ROLES = ("app", "admin", "metrics")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySettings:
    """A `[server.keys.NAME]` table: one client, what it may ask, spend and see, and how often.

    The key itself is in the variable `key_env`, or only its SHA-256 is given.
    """

    key_env: str = ""
    key_sha256: str = ""
    budgets: tuple[str, ...] = ()  # "$1/day": for this key alone
    budget_key: str = ""  # empty: the table's name
    requests_per_minute: int = 0  # 0: no limit
    redact: KindNames = ()  # besides what the settings redact for everybody
    private_kinds: KindNames = ()
    cloud_every_s: float = 0.0  # least time between two handoffs of this key
    role: str = "app"  # admin: sees the figures of all; app: its own; metrics: only reads figures
    expires: str = ""  # a date or time in UTC; empty: never
    policy: str = ""  # of all its requests; they may only be stricter
    models: tuple[str, ...] = ()  # names that it may ask for, with * and ?; empty: all
    # It may say for whom it asks; then each of those people can have a budget
    forwards_users: bool = False
    user_budgets: tuple[str, ...] = ()  # "$0.50/day" for each user, "ann@x.example: $2/day" for one
    group_budgets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise SettingsError(f"role must be one of {', '.join(ROLES)}")
        if self.expires and not _is_moment(self.expires):
            raise SettingsError(
                "expires must be a date or time like 2027-01-31 or 2027-01-31T12:00"
            )
        if bool(self.key_env) == bool(self.key_sha256):
            raise SettingsError("either key_env or key_sha256 must say what the key is")
        digits = set(self.key_sha256.lower()) <= set("0123456789abcdef")
        if self.key_sha256 and not (len(self.key_sha256) == 64 and digits):
            raise SettingsError("key_sha256 must be 64 hexadecimal digits")
        if self.requests_per_minute < 0:
            raise SettingsError("requests_per_minute must be 0 or more")
        if self.cloud_every_s < 0:
            raise SettingsError("cloud_every_s must be 0 or more")


def _is_moment(text: str) -> bool:
    try:
        datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return False
    return True


LOG_FORMATS = ("auto", "text", "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Everything about serving. Times in seconds."""

    host: str = "127.0.0.1"
    port: int = 8484
    key: str = field(default="", repr=False)  # the key of a server that has no table of keys
    hosts: tuple[str, ...] = ()  # host names of this server for clients, besides addresses
    origins: tuple[str, ...] = ()  # web pages that may call it, as "https://app.example"
    proxies: tuple[str, ...] = ()  # addresses of proxies whose X-Forwarded-For is believed
    # Addresses that may say for whom they ask, besides keys with `forwards_users`; and in which
    # headers: the first that is there counts
    user_proxies: tuple[str, ...] = ()
    user_headers: tuple[str, ...] = (
        "x-edgewise-user",
        "x-openwebui-user-email",
        "x-openwebui-user-id",
    )
    group_headers: tuple[str, ...] = ("x-edgewise-group", "x-openwebui-user-role")
    open: bool = False  # listen for others without a key
    any_model: bool = True  # an unknown model name means "auto"
    remote_images: bool = False  # fetch images from public addresses
    otel: bool = False  # spans and metrics to OpenTelemetry
    preload: tuple[str, ...] = ()  # chat models that are loaded at the start, and pinned
    isolate: bool = True  # each model in a process of its own: a crash does not end the server
    log_format: str = "auto"  # text (for people), json, or auto: text in a terminal
    # Capacity
    slots: int = 4  # local requests at once
    queue: int = 64  # local requests that may wait for a slot
    busy_after_s: float = 0.25  # a longer wait for a slot is a reason to hand off; 0: it is none
    requests: int = 2048  # requests of all kinds at once
    live_sessions: int = 64  # of those, live sessions
    body_bytes: int = 20_000_000
    bodies_bytes: int = 200_000_000  # bodies of all requests at once; small ones get in after that
    sound_s: float = 3600.0  # of sound in one upload, and in a live session until it is committed
    header_s: float = 10.0  # for a client to send a request's head
    body_s: float = 30.0  # for a client to send its body
    stall_s: float = 30.0  # for a client that reads nothing of its answer
    total_s: float = 600.0  # to answer a request
    drain_s: float = 20.0  # to finish running requests after the signal to stop
    keys: Mapping[str, KeySettings] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in (
            "slots", "queue", "requests", "live_sessions", "body_bytes", "bodies_bytes"
        ):  # fmt: skip
            if getattr(self, name) < 1:
                raise SettingsError(f"[server]: {name} = {getattr(self, name)!r}: at least 1")
        for name in ("sound_s", "header_s", "body_s", "stall_s", "total_s", "drain_s"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"[server]: {name} = {getattr(self, name)!r}: more than 0")
        if not self.busy_after_s >= 0:
            raise SettingsError(f"[server]: busy_after_s = {self.busy_after_s!r}: 0 or more")
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"[server]: port = {self.port!r}: 0 to 65535")
        if self.log_format not in LOG_FORMATS:
            known = ", ".join(LOG_FORMATS)
            raise SettingsError(f"[server]: log_format = {self.log_format!r}: one of {known}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """A `[providers.NAME]` table: changes a built-in provider, or defines a new one."""

    protocol: str = ""
    base_url: str = ""
    model: str = ""
    key_env: str = ""
    speech_model: str = ""
    translation_model: str = ""
    voice_model: str = ""
    voice: str = ""
    voice_price: float | None = None
    embedding_model: str = ""
    decisions: str = ""
    decision_model: str = ""
    needs_key: bool | None = None  # None: as built in; a new one needs it if it names a variable
    # Dollars per million tokens; None: as the price list says
    input_price: float | None = None
    output_price: float | None = None
    cached_price: float | None = None  # of input that it had read before; None: as other input

    def __post_init__(self) -> None:
        prices = (self.input_price, self.output_price, self.cached_price)
        if any(price is not None and price < 0 for price in prices):
            raise SettingsError("a price must be 0 or more")
        if (self.input_price is None) != (self.output_price is None):
            raise SettingsError("input_price and output_price must be named together")
        if self.cached_price is not None and not (self.input_price or 0) >= self.cached_price:
            raise SettingsError("cached_price must be named with input_price, and be no higher")


class EngineOptions(TypedDict, total=False):
    """Settings as keyword arguments of `Engine`; docs/reference/settings.md says what they mean."""

    model: str
    speech_model: str
    embed_model: str
    fetch_default_model: bool
    device_hosts: str | Sequence[str]
    chat_history: bool
    threads: int
    gpu: str
    openvino_device: str
    llama_library: str
    slots: int
    isolate: bool
    keep_warm_s: float | None
    context_tokens: int
    model_memory_bytes: int
    calibration: str
    projector: str
    private_image_urls: bool
    policy: str
    handoff: Handoff
    threshold: float | None
    max_error: float | None
    cloud_share: float | None
    error_probability: float
    max_tokens: int | None
    slow_after_s: float
    call_tools: int
    speech_threshold: float | None
    speech_drain_s: float
    chain: str | Sequence[str]
    providers: Mapping[str, ProviderSettings | Mapping[str, Any]]
    connect_s: float
    first_token_s: float
    total_s: float
    patience_s: float
    cooldown_s: float
    redact: Kinds
    private_kinds: Kinds
    finders: str | Sequence[str]
    finder_model: str
    models: Mapping[str, str]
    server: ServerSettings | Mapping[str, Any]
    store_away_allowance: str
    budgets: str | Sequence[str]
    cloud_every_s: float | str | Sequence[str]
    pace_budget: bool
    on_drift: OnDrift
    store_text: bool
    learn_from_private: bool
    audit_share: float
    audit_budget: str
    data_dir: str | PathLike[str]
    cache_dir: str | PathLike[str]
    config_dir: str | PathLike[str]


class SettingsOptions(EngineOptions, total=False):
    """Settings as keyword arguments. `Engine` takes these three too, by name or as an object."""

    backend: str
    function_model: str
    ledger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a user can set. `Settings.load()` reads the file and the environment."""

    # What answers on the device
    backend: str = "llama_cpp"
    model: str = DEFAULT_MODEL
    function_model: str = DEFAULT_FUNCTION_MODEL  # writes function calls
    speech_model: str = DEFAULT_SPEECH_MODEL  # transcribes speech
    embed_model: str = DEFAULT_EMBEDDER  # makes vectors of texts
    fetch_default_model: bool = True  # get the defaults, and what `auto` means, on first use
    device_hosts: tuple[str, ...] = ()  # other machines whose model server counts as the device
    chat_history: bool = True  # `edgewise chat` keeps what was typed, for the arrow keys
    threads: int = field(default_factory=default_threads)
    gpu: str = "auto"  # layers on the GPU: as many as fit, "off", or a number
    openvino_device: str = ""  # CPU, GPU, NPU or AUTO; empty: as `gpu` says
    llama_library: str = ""  # path of a libllama of your own; empty: the one of the wheel
    slots: int = 1  # local requests at once; `edgewise serve` has its own number
    isolate: bool = False  # each model in a process of its own; `edgewise serve` has its own switch
    # How long a model stays loaded for the next command; None: 300 for `ask`, `call` and `chat`,
    # which load it in a process of the user, and 0 for an engine of your own; 0 switches it off
    keep_warm_s: float | None = None
    context_tokens: int = 0  # 0: as the catalogue says
    model_memory_bytes: int = 0  # for all chat models together; 0: most of what is free
    calibration: str = ""  # path of a calibration file; empty: the shipped one for the model
    projector: str = ""  # path of the projector (mmproj) for a GGUF model that sees pictures
    private_image_urls: bool = False  # fetch images from addresses in private networks
    # How requests are routed unless they say otherwise
    policy: str = "prefer_local"
    handoff: Handoff = "automatic"
    # At most one of these three; docs/guide/risk.md
    threshold: float | None = None
    max_error: float | None = None
    cloud_share: float | None = None
    error_probability: float = ERROR_PROBABILITY
    max_tokens: int | None = None  # of an answer; None: 256 on the device, no limit for a cloud
    slow_after_s: float = 10.0  # above it a device slower than the cloud hands off; 0: never
    call_tools: int = 24  # function calls: how many tools the device is offered
    # Speech: segments below this confidence are handed off; None: the calibration's threshold
    speech_threshold: float | None = None
    speech_drain_s: float = 5.0  # how long the end of live captions waits for corrections
    # The cloud: providers in the order they are tried; empty: every one that has a key
    chain: tuple[str, ...] = ()
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict)
    connect_s: float = 1.5
    first_token_s: float = 15.0
    total_s: float = 600.0
    patience_s: float = 2.0
    cooldown_s: float = 5.0
    # What leaves: kinds of personal data that leave as placeholders only, kinds that keep a request
    # on the device, and finders of kinds that our patterns do not know; docs/guide/privacy.md
    redact: KindNames = ()
    private_kinds: KindNames = ()
    finders: tuple[str, ...] = ()
    finder_model: str = "en_core_web_sm"  # the spaCy model of presidio, or its folder
    # Names that clients use for models, with * and ?, and the names of ours that they mean
    models: Mapping[str, str] = field(default_factory=dict)
    # `edgewise serve`
    server: ServerSettings = field(default_factory=ServerSettings)
    # The record
    ledger: str = field(default="", repr=False)  # a file, or postgresql://…; empty: in data_dir
    store_away_allowance: str = ""  # "$0.50": what may be spent while the database is away
    budgets: tuple[str, ...] = ()  # "$3/day", "$20/month", "app-key: $1/day"
    cloud_every_s: Intervals = ()  # "30", "app: 60", "task transcribe: 5": seconds between handoffs
    pace_budget: bool = False  # hand off fewer, so that the money lasts until the budget resets
    on_drift: OnDrift = (
        "risk"  # what to do if a calibration no longer fits; docs/guide/calibrate.md
    )
    store_text: bool = False
    learn_from_private: bool = False  # verdicts on private requests count too
    # The shadow audit: this share of the kept answers is also asked of the cloud, and, under a
    # stated risk, of what left the device is asked
    audit_share: float = 0.0
    audit_budget: str = ""  # "$0.50/day"; empty: only the other budgets limit it
    # Folders
    data_dir: Path = field(default_factory=lambda: Path(platformdirs.user_data_dir("edgewise")))
    cache_dir: Path = field(default_factory=lambda: Path(platformdirs.user_cache_dir("edgewise")))
    config_dir: Path = field(default_factory=lambda: Path(platformdirs.user_config_dir("edgewise")))
    # Variables with providers' keys and addresses, as they were when the settings were read
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    # The settings that are not defaults: somebody named them in the file, the environment or code
    named: frozenset[str] = field(default=frozenset(), repr=False, compare=False)

    def __new__(cls, **given: Any) -> Self:
        """An unknown name is a SettingsError that knows the nearest one, and no TypeError."""
        _check_names(given.keys() - set(_NOT_SET_BY_USERS))
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for name in _FIELDS:
            object.__setattr__(self, name, _convert(name, getattr(self, name)))
        _check(self.threads >= 1, "threads", self.threads, "at least 1")
        good_gpu = self.gpu in ("auto", "off") or self.gpu.isdecimal()
        _check(good_gpu, "gpu", self.gpu, "auto, off or a number of layers")
        good_device = self.openvino_device in ("", "CPU", "GPU", "NPU", "AUTO")
        words = "CPU, GPU, NPU or AUTO"
        _check(good_device, "openvino_device", self.openvino_device, words)
        _check(self.slots >= 1, "slots", self.slots, "at least 1")
        _check(self.context_tokens >= 0, "context_tokens", self.context_tokens, "0 or more")
        memory = self.model_memory_bytes
        _check(memory >= 0, "model_memory_bytes", memory, "0 or more bytes")
        warm = self.keep_warm_s
        _check(warm is None or warm >= 0, "keep_warm_s", warm, "0 or more seconds")
        longest = self.max_tokens
        _check(longest is None or longest >= 1, "max_tokens", longest, "at least 1")
        _check(self.handoff in get_args(Handoff), "handoff", self.handoff, "automatic or signal")
        if complaint := find_complaint(self):
            raise SettingsError(complaint)
        heard = self.speech_threshold
        _check(heard is None or 0 <= heard <= 1, "speech_threshold", heard, "between 0 and 1")
        _check(self.call_tools >= 1, "call_tools", self.call_tools, "at least 1")
        scheme = self.ledger_url.partition("://")[0]
        openers = {*plugins.names("ledgers"), *plugins.OURS["ledgers"]} if scheme else ()
        if scheme and scheme not in openers:  # not quoted: the rest may hold a password
            known = ", ".join(f"{each}://…" for each in sorted(openers))
            raise SettingsError(f"ledger: must be a file, or a URL that a plug-in opens: {known}")
        for name in ("connect_s", "first_token_s", "total_s", "patience_s", "cooldown_s"):
            _check(getattr(self, name) > 0, name, getattr(self, name), "more than 0 seconds")
        words = "report, widen or cloud"
        _check(self.on_drift in get_args(OnDrift), "on_drift", self.on_drift, words)
        _check(0 <= self.audit_share <= 1, "audit_share", self.audit_share, "between 0 and 1")
        _check(self.slow_after_s >= 0, "slow_after_s", self.slow_after_s, "0 or more seconds")
        _check(self.speech_drain_s >= 0, "speech_drain_s", self.speech_drain_s, "0 or more seconds")
        _check_plugged(self)
        _check_amounts(self)
        _check_chain(self)

    @property
    def models_dir(self) -> Path:
        return self.cache_dir / "models"

    @property
    def calibrations_dir(self) -> Path:
        return self.data_dir / "calibrations"

    @property
    def ledger_path(self) -> Path:
        """The file on this machine. With a database, rows go there first."""
        if self.ledger and not self.ledger_url:
            return Path(self.ledger).expanduser()
        return self.data_dir / "ledger.sqlite3"

    @property
    def ledger_url(self) -> str:
        """Where processes share one ledger, for the plug-in of its scheme; empty: a file."""
        return self.ledger if "://" in self.ledger else ""

    @classmethod
    def load(
        cls,
        environment: Mapping[str, str] | None = None,
        *,
        env_file: str | Path | None = None,
        **overrides: Unpack[SettingsOptions],
    ) -> Settings:
        """Defaults, then config.toml, then `.env`, then the environment, then `overrides`.

        The `.env` file is the one that `env_file` or EDGEWISE_ENV_FILE names, else the one beside
        config.toml. The current folder's is not read: whoever wrote that folder could redirect your
        requests.
        """
        _check_names(overrides)
        environment = dict(os.environ if environment is None else environment)
        named = env_file or environment.get("EDGEWISE_ENV_FILE") or None
        if named is not None:
            environment = _read_env_file(Path(named).expanduser(), must_exist=True) | environment
        config_dir = _config_dir(environment, overrides)
        if named is None:
            environment = _read_env_file(config_dir / ".env", must_exist=False) | environment
        # Scripts and CI systems set a variable to empty to say "not set".
        given = {name: value for name, value in environment.items() if value}
        values: dict[str, Any] = {}
        if home := given.get("EDGEWISE_HOME"):
            root = Path(home).expanduser()
            values = {f"{kind}_dir": root / kind for kind in ("data", "cache", "config")}
        values |= _read_file(config_dir / "config.toml")
        for old, new in _RENAMED.items():
            if (variable := f"EDGEWISE_{old.upper()}") in given:
                values[new] = given[variable]
        values |= {
            name: given[variable]
            for name in _VARIABLES
            if (variable := f"EDGEWISE_{name.upper()}") in given
        }
        _tell_misspelt(given)
        if server := _server_variables(given):
            values["server"] = {**_mapping(values.get("server", {}), "[server]"), **server}
        values |= overrides
        return cls(**values, environment=environment, named=frozenset(values))

    def with_changes(
        self,
        *,
        environment: Mapping[str, str] | None = None,
        **changes: Unpack[SettingsOptions],
    ) -> Settings:
        """New settings; these stay as they are."""
        _check_names(changes)
        given: dict[str, Any] = {**changes, "named": self.named | changes.keys()}
        kept = self.environment if environment is None else environment
        return replace(self, **given, environment=kept)

    @property
    def file(self) -> Path:
        return self.config_dir / "config.toml"

    def remember(self, name: str, value: str) -> None:
        """Write one text into config.toml. Everything else in it stays, comments included.

        Raises SettingsError, and changes nothing, if the file cannot be read or edited safely.
        """
        path = self.file.resolve()  # a link stays a link
        text = path.read_text("utf-8") if path.is_file() else ""
        before = _read_file(path)
        written = _with_line(text, name, value)
        try:
            as_meant = tomllib.loads(written) == {**tomllib.loads(text), name: value}
        except tomllib.TOMLDecodeError:
            as_meant = False
        if not as_meant:
            line = f"{name} = {json.dumps(value, ensure_ascii=False)}"
            raise SettingsError(f"{path} was left alone: write `{line}` into it yourself")
        if before.get(name) == value:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        temporary.write_text(written, "utf-8")
        if path.is_file():
            shutil.copymode(path, temporary)
        os.replace(temporary, path)


_NOT_SET_BY_USERS = ("environment", "named")
_FIELDS = {
    each.name: str(each.type) for each in fields(Settings) if each.name not in _NOT_SET_BY_USERS
}
_TABLES = ("models", "providers", "server")
# Old names that are still read.
_RENAMED = {"caller_model": "function_model"}
# Settings of steps that are gone: a file that still has them is read as if it had not.
_GONE = frozenset({"call_easy", "call_hard", "difficulty"})
_VARIABLES = tuple(name for name in _FIELDS if name not in _TABLES)
_SERVER_FIELDS = {
    each.name: str(each.type) for each in fields(ServerSettings) if each.name != "keys"
}


_NEARLY = 0.93  # one letter more, less or another one; not EDGEWISE_OPENAI_MODEL for EDGEWISE_MODEL
_told: set[str] = set()  # variables, in this process
_log = logging.getLogger("edgewise")


def _check(good: bool, name: str, value: object, wanted: str) -> None:
    if not good:
        raise SettingsError(f"{name} = {value!r}: must be {wanted}")


def _check_names(given: Iterable[str], *, place: str = "") -> None:
    for name in sorted(set(given) - set(_FIELDS)):
        near = did_you_mean(name, _FIELDS) or "; docs/reference/settings.md names them all"
        if name.endswith("api_key"):
            near = (
                ": a provider's key comes from its variable, or from `edgewise auth set PROVIDER`"
            )
        raise SettingsError(f"{place}there is no setting {name!r}{near}")


def _tell_misspelt(given: Mapping[str, str]) -> None:
    """Say once that a variable is not read whose name is nearly a setting's.

    It may be another program's, so it is no error; but EDGEWISE_BUDGET would be no limit at all.
    """
    of_server = (f"server_{name}" for name in _SERVER_FIELDS)
    names = {*_VARIABLES, *_RENAMED, "home", "env_file", *of_server}
    known = {f"EDGEWISE_{name.upper()}" for name in names}
    for name in sorted(each for each in given if each.startswith("EDGEWISE_")):
        if name in known or name in _told:
            continue
        import difflib  # noqa: PLC0415  # only where a name is wrong

        if near := difflib.get_close_matches(name, known, n=1, cutoff=_NEARLY):
            _told.add(name)
            _log.warning("%s is not read; did you mean %s?", name, near[0])


def _check_plugged(settings: Settings) -> None:
    """What plug-ins bring is known by its name; nothing of it is loaded."""
    if settings.policy not in POLICIES:
        plugins.check("policies", settings.policy, "policy")
    if settings.backend != "llama_cpp":
        plugins.check("local_backends", settings.backend, "backend")
    for finder in settings.finders:
        plugins.check("finders", finder, "finders", "presidio")
    keyed = [(f"[server.keys.{name}]: ", key) for name, key in settings.server.keys.items()]
    for place, key in keyed:
        if key.policy and key.policy not in POLICIES:
            plugins.check("policies", key.policy, f"{place}policy")
    for name in () if settings.finders else ("redact", "private_kinds"):  # finders add kinds
        _check_kinds(name, getattr(settings, name))
        for place, key in keyed:
            _check_kinds(f"{place}{name}", getattr(key, name))
    for name, provider in settings.providers.items():
        if provider.protocol:
            place = f"[providers.{name}]: protocol"
            plugins.check("cloud_providers", provider.protocol, place)


def _check_kinds(place: str, kinds: Iterable[str]) -> None:
    known = (ALL, *KINDS)
    for kind in kinds:
        if kind not in known:
            raise SettingsError(
                f"{place}: nothing here finds {kind!r}{did_you_mean(kind, known)} "
                f"(known: {', '.join(KINDS)}; the setting finders adds more)"
            )


def _check_amounts(settings: Settings) -> None:
    """Money and times are read as the ledger will read them."""
    names = ("budgets", "audit_budget", "cloud_every_s", "store_away_allowance")
    if not any(getattr(settings, name) for name in names):
        return
    from edgewise.record.rows import (  # noqa: PLC0415  # most have none of these
        parse_amount,
        parse_budget,
        parse_interval,
    )

    for text in settings.budgets:
        parse_budget(text)
    if settings.audit_budget:
        parse_budget(settings.audit_budget, key="audit")
    for text in settings.cloud_every_s:
        parse_interval(text)
    parse_amount(settings.store_away_allowance)


def _check_chain(settings: Settings) -> None:
    if settings.chain:
        from edgewise.cloud.providers import find_row  # noqa: PLC0415  # reads their list

        for text in settings.chain:
            if (name := text.partition("/")[0]) not in settings.providers:
                find_row(name)


def _config_dir(environment: Mapping[str, str], overrides: Mapping[str, Any]) -> Path:
    """As far as it is known before any file is read."""
    home = environment.get("EDGEWISE_HOME")
    usual = str(Path(home) / "config") if home else platformdirs.user_config_dir("edgewise")
    named = overrides.get("config_dir") or environment.get("EDGEWISE_CONFIG_DIR") or usual
    return Path(named).expanduser()


def _read_env_file(path: Path, *, must_exist: bool) -> dict[str, str]:
    if not path.is_file():
        if must_exist:
            raise SettingsError(f"{path}: there is no such .env file")
        return {}
    from dotenv import dotenv_values  # noqa: PLC0415  # most users have none

    try:
        found = dotenv_values(path, interpolate=False, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from error
    return {name: value for name, value in found.items() if value is not None}


def _server_variables(given: Mapping[str, str]) -> dict[str, Any]:
    """What variables such as EDGEWISE_SERVER_HOST say, with the types of the `[server]` table."""
    found: dict[str, Any] = {}
    for name, kind in _SERVER_FIELDS.items():
        variable = f"EDGEWISE_SERVER_{name.upper()}"
        if variable not in given:
            continue
        convert, wanted = _CONVERTERS[kind]
        try:
            found[name] = convert(given[variable].strip())
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise SettingsError(f"{variable} = {given[variable]!r}: not {wanted}") from error
    return found


def _read_file(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from error
    data = {_RENAMED.get(name, name): value for name, value in data.items() if name not in _GONE}
    _check_names(data, place=f"{path}: ")
    return data


def _with_line(text: str, name: str, value: str) -> str:
    """A TOML text in which `name` is `value`; its own line if there is one, else a new first one.

    The caller checks the result: a line inside a long text may look like the setting.
    """
    quoted = json.dumps(value, ensure_ascii=False)
    above = re.search(r"^\s*\[", text, re.MULTILINE)  # a table's lines are not ours
    end = above.start() if above else len(text)
    line = re.compile(rf"""^(\s*{name}\s*=\s*)("[^"\n]*"|'[^'\n]*')""", re.MULTILINE)
    changed, count = line.subn(lambda found: found[1] + quoted, text[:end], count=1)
    return changed + text[end:] if count else f"{name} = {quoted}\n{text}"


def _convert(name: str, value: Any) -> Any:
    """Convert text from the environment, and TOML's types, to the field's type."""
    match name:
        case "server":
            return _table(ServerSettings, value, "[server]")
        case "providers":
            return _tables(ProviderSettings, value, "providers")
        case "models":
            rows = _mapping(value, "[models]")
            if wrong := [one for one in rows.values() if not isinstance(one, str) or not one]:
                raise SettingsError(f"[models]: {wrong[0]!r} is not the name of a model")
            return dict(rows)
    if (kind := _FIELDS.get(name, "")) not in _CONVERTERS:
        return value
    convert, wanted = _CONVERTERS[kind]
    try:
        return convert(value)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise SettingsError(f"{name} = {value!r}: not {wanted}") from error


Table = TypeVar("Table")


def _tables(kind: type[Table], value: Any, place: str) -> dict[str, Table]:
    rows = _mapping(value, f"[{place}]")
    return {str(name): _table(kind, row, f"[{place}.{name}]") for name, row in rows.items()}


def _table(kind: type[Table], value: Any, place: str) -> Table:
    """A table as its dataclass. Values are never quoted: one may be a misplaced key."""
    if isinstance(value, kind):
        return value  # given in code
    known = {each.name: str(each.type) for each in fields(kind)}  # type: ignore[arg-type]
    given: dict[str, Any] = {}
    for name, one in _mapping(value, place).items():
        if name not in known:
            near = did_you_mean(name, known)
            raise SettingsError(
                f"{place}: unknown setting {name!r}{near} (known: {', '.join(known)})"
            )
        if known[name] == "Mapping[str, KeySettings]":
            given[name] = _tables(KeySettings, one, f"{place[1:-1]}.{name}")
            continue
        # TOML has types of its own: quoted digits are text, not a number.
        convert, wanted = _CONVERTERS[known[name]]
        if isinstance(one, str) is not (known[name] == "str"):
            raise SettingsError(f"{place}: {name} must be {wanted}")
        try:
            given[name] = convert(one)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise SettingsError(f"{place}: {name} must be {wanted}") from error
    try:
        return kind(**given)
    except SettingsError as error:
        words = str(error)
        raise SettingsError(words if words.startswith("[") else f"{place}: {words}") from error


def _mapping(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingsError(f"{place}: not a table")
    return value


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


def _truth(value: Any) -> bool:
    if not isinstance(value, bool | str):
        raise TypeError
    return value if isinstance(value, bool) else _BOOLEANS[value.lower()]


def _list(value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(part.strip() for part in map(_text, parts) if part.strip())


def _kind_names(value: Any) -> tuple[str, ...]:
    return as_kinds(value if isinstance(value, bool | str) else map(_text, value))


def _intervals(value: Any) -> tuple[str, ...]:
    return (f"{_number(value):g}",) if isinstance(value, int | float) else _list(value)


# By the field's type as written above: the converter, and the words for the type.
_CONVERTERS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "str": (_text, "text"),
    "int": (_whole, "a whole number"),
    "int | None": (lambda value: None if value is None else _whole(value), "a whole number"),
    "float": (_number, "a number"),
    "float | None": (lambda value: None if value is None else _number(value), "a number"),
    "bool": (_truth, "true or false"),
    "bool | None": (_truth, "true or false"),
    "Path": (lambda value: Path(value).expanduser(), "a path"),
    "tuple[str, ...]": (_list, "a list of texts"),
    "KindNames": (_kind_names, "true, or a list of kinds like EMAIL"),
    "Intervals": (_intervals, "seconds, or a list like ['30', 'app: 60']"),
}
