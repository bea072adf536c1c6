"""The engine: builds its parts once, runs a flow for each request, writes the ledger."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self, Unpack, overload

from edgewise import plugins
from edgewise.assembly import parts as assembly
from edgewise.assembly.arguments import Prompt, check_part, checked, shown, takes
from edgewise.assembly.calibrations import calibration_of
from edgewise.assembly.finders import open_finders
from edgewise.assembly.models import ChatModels, find_chat_model, own_name
from edgewise.assembly.requests import new_request
from edgewise.cloud.breaker import Breaker
from edgewise.cloud.door import Door
from edgewise.cloud.provider import Cloud
from edgewise.cloud.redact import RedactingCloud, Redactor
from edgewise.decide.calibration import CHAT, Calibration
from edgewise.decide.pace import Pace
from edgewise.errors import EdgewiseError, InvalidRequest, SettingsError
from edgewise.flows import chat
from edgewise.local.backend import (
    CallBackend,
    ChatBackend,
    EmbedBackend,
    SpeechBackend,
    VisionSkills,
)
from edgewise.local.forks import abandon, forget_at_fork
from edgewise.monitor import (
    audits,
    drift,
    pacing,
)
from edgewise.monitor.open_streams import OpenStreams
from edgewise.record.book import Book
from edgewise.record.recorder import (
    Answer,
    RequestRecorder,
)
from edgewise.record.tool_counts import ToolRecord
from edgewise.settings import Settings
from edgewise.types.embeddings import (
    Embeddings,
    EmbedOptions,
)
from edgewise.types.messages import (
    AudioLike,
    CallOptions,
    ChatOptions,
    ListenOptions,
    Request,
    RequestOptions,
    SpeechOptions,
    Task,
    ToolLike,
    new_request_id,
)
from edgewise.types.replies import (
    Attempt,
    CallReply,
    Event,
    Finished,
    Parsed,
    Reply,
    TextDelta,
)
from edgewise.types.transcripts import Transcript

if TYPE_CHECKING:
    from edgewise.flows.listen import LiveTranscriber


class Engine:
    """Answers on the device first, and hands off when it is in doubt.

        with Engine() as engine:
            reply = engine.complete("What is the capital of Australia?")
            print(reply.text, reply.source, reply.confidence)

    Parts are made when they are first needed. The keyword arguments replace the parts that the
    settings describe; `edgewise.testing` has scripted ones.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        backend: ChatBackend | None = None,
        function_model: CallBackend | None = None,
        cloud: Cloud | None = None,
        ledger: Book | None = None,
        transcriber: SpeechBackend | None = None,
        embedder: EmbedBackend | None = None,
    ) -> None:
        if settings is not None and not isinstance(settings, Settings):
            hint = (
                "; for a model: Engine(Settings.load(model=…))" if isinstance(settings, str) else ""
            )
            raise SettingsError(f"settings: expected Settings, got {shown(settings)}{hint}")
        check_part("backend", backend, "generate", "ChatBackend")
        check_part("function_model", function_model, "write_call", "CallBackend")
        check_part("cloud", cloud, "stream", "Cloud")
        check_part("ledger", ledger, "seen", "Ledger")
        check_part("transcriber", transcriber, "hear", "SpeechBackend")
        check_part("embedder", embedder, "embed", "EmbedBackend")
        self.settings = settings or Settings.load()
        self.ledger = ledger or assembly.open_ledger(self.settings)
        self._id = new_request_id()  # goes with what leaves, so that a server knows itself
        self._streams = OpenStreams(self)
        self._auditor = audits.open_auditor(self, self._streams)
        self._watch = drift.open_watch(self.settings, self.ledger, self._streams)
        self._steer = pacing.open_steer(self.settings, self.ledger, self._watch)
        self._pace = Pace(self.settings.slow_after_s)
        watchers = (*audits.watching(self._auditor), self._watch.watcher, self._pace.watch)
        self._recorder = RequestRecorder(self.ledger, self._rates, watchers)
        self._tool_record = ToolRecord(self.ledger)
        self._backend = backend
        self._models = ChatModels(self.settings)
        self._function_model = function_model
        self._transcriber = transcriber
        self._embedder = embedder
        self._cloud = cloud
        self._vision_skills: VisionSkills = {}  # the vision skills opened so far
        self._doors: dict[Task, Door] = {}
        self._breakers: dict[str, Breaker] = {}
        self._cloud_rates: tuple[int, int] | None = None
        self._opening = threading.Lock()  # a model, which takes time: the cloud has its own lock
        self._lock = threading.Lock()
        self._pricing = threading.Lock()
        forget_at_fork(self)

    def _forget(self) -> None:
        """In a forked child: streams and connections are the parent's."""
        self._opening, self._lock = threading.Lock(), threading.Lock()
        self._pricing = threading.Lock()
        self._models.forget()
        self._streams.forget()
        abandon(*self._doors.values())
        self._doors = {}

    @takes(CallOptions)
    def call(
        self,
        prompt: Prompt,
        tools: Sequence[ToolLike],
        *,
        execute: bool = False,
        **options: Unpack[CallOptions],
    ) -> CallReply:
        """The function calls that the words ask for. `execute` runs those of Python functions.

        Tools are JSON Schemas as in OpenAI's requests, `Tool`s, or plain Python functions.
        """
        from edgewise.assembly import calls as function_calls  # noqa: PLC0415  # as in _calls
        from edgewise.calls.tools import as_toolbox  # noqa: PLC0415

        box, given = as_toolbox(tools), checked(options, CallOptions)
        request = replace(self._request(prompt, tools=box.tools, **given), task="call")
        if request.tool_choice == "none":
            raise InvalidRequest("tool_choice = 'none': `call` makes calls; `complete` answers")
        reply = self._keep(request, lambda attempts: self._calls(request, attempts))
        if execute:
            return function_calls.run_calls(reply, box, self._tool_record)
        return reply

    @takes(SpeechOptions)
    def transcribe(self, audio: AudioLike, **options: Unpack[SpeechOptions]) -> Transcript:
        """What is said in a sound file, given as a path, bytes or `Audio`."""
        from edgewise.assembly import speech  # noqa: PLC0415  # as in _calls

        return speech.transcribe(self, audio, options)

    @takes(ListenOptions)
    def listen(self, **options: Unpack[ListenOptions]) -> LiveTranscriber:
        """Live captions: `start`, `process(chunk)` for each chunk of sound, `stop`."""
        from edgewise.assembly import speech  # noqa: PLC0415  # as in _calls

        live = speech.listen(self, options)
        self._streams.add(live)
        return live

    @takes(EmbedOptions)
    def embed(self, texts: str | Sequence[str], **options: Unpack[EmbedOptions]) -> Embeddings:
        """One vector per text, all in one `space`, which the result names."""
        from edgewise.assembly import embeddings  # noqa: PLC0415  # as in _calls

        return embeddings.embed(self, texts, options)

    @overload
    def complete(
        self,
        prompt: Prompt,
        *,
        response_format: type[Parsed],
        **options: Unpack[ChatOptions],
    ) -> Reply[Parsed]: ...
    @overload
    def complete(self, prompt: Prompt, **options: Unpack[RequestOptions]) -> Reply: ...
    @takes(RequestOptions)
    def complete(self, prompt: Prompt, **options: Unpack[RequestOptions]) -> Reply:
        """One whole answer. Raises only if no honest answer can be given.

        A prompt is a text, a message or a list of messages. A message is a `Message`, or a plain
        dictionary as in OpenAI's requests.
        """
        for event in self._run(self._request(prompt, **options), live=False):
            if isinstance(event, Finished):
                return event.reply
        raise AssertionError("a flow ends with Finished")

    @takes(RequestOptions)
    def stream(
        self, prompt: Prompt, **options: Unpack[RequestOptions]
    ) -> Generator[Event, None, None]:
        """Yield events as they happen. Closing the generator cancels the work on both sides."""
        stream = self._run(self._request(prompt, **options), live=True)
        self._streams.add(stream)
        return stream

    def _request(self, prompt: Prompt, **options: Unpack[RequestOptions]) -> Request:
        """A validated request. Options that were not given come from the settings."""
        request = new_request(prompt, options, self.settings, self._recorder.seen, self._steer)
        if request.model:
            request = replace(request, model=self._other_model(request.model))
        return request

    def _other_model(self, name: str) -> str:
        """The full name of a pulled chat model; empty if it is the engine's own."""
        own = own_name(self.settings) if self._backend is None else self._backend.facts().model
        if name == own:
            return ""
        found = find_chat_model(self.settings, name)
        return "" if found == own else found

    def _run(self, request: Request, *, live: bool) -> Generator[Event, None, None]:
        """Run one request and record it, however it ends."""
        attempts: list[Attempt] = []
        self._prepare(request)
        process = os.getpid()
        finished: Finished | None = None
        try:
            for event in self._events(request, attempts, live):
                if isinstance(event, Finished):
                    finished = event
                else:
                    yield event
        except EdgewiseError as error:
            self._recorder.failed(request, error, attempts)
            raise
        except (GeneratorExit, KeyboardInterrupt, SystemExit):  # the last by a signal
            if process == os.getpid():  # else a fork leaves, and its parent goes on
                self._recorder.left(request, attempts)
            raise
        assert finished is not None, "a flow ends with Finished"
        # Recorded before the event is sent, so that a crash does not lose it.
        yield Finished(self._recorder.answered(request, finished.reply))

    def _keep(self, request: Request, work: Callable[[list[Attempt]], Answer]) -> Answer:
        """Run `work` for a request and record it, however it ends."""
        self._prepare(request)
        return self._recorder.keep(request, work)

    def _events(
        self, request: Request, attempts: list[Attempt], live: bool
    ) -> Generator[Event, None, None]:
        """Chat. With tools: the calls first, then chat if no tool fits the request."""
        if request.has_images:
            from edgewise.assembly import pictures  # noqa: PLC0415  # as in _calls

            request = pictures.settled(self, request)
        must_call = request.tool_choice == "required"
        if request.tools and (must_call or request.policy != "cloud_only"):
            if self._may_call(request):
                reply = self._calls(request, attempts)
                asked = reply.needs or reply.signalled or reply.source == "cloud"
                if must_call or reply.tool_calls or asked:
                    if reply.text:
                        yield TextDelta(reply.text, "local" if reply.needs else "cloud")
                    yield Finished(reply)
                    return
            if not request.has_results:  # a cloud that reads tool results must know the tools
                request = replace(request, tools=())
        parts = chat.Parts(
            backend=lambda: self._open_backend(request.model),
            cloud=self._cloud_for("chat"),
            policy=plugins.load("policies", request.policy),
            calibration=lambda backend: self._calibration(backend, request.model),
            patience_s=self.settings.patience_s,
            clock=time.perf_counter,
            pace=self._pace,
        )
        if request.has_images:
            backend = self._open_backend(request.model) if request.model else self._backend
            yield from pictures.answer(self, request, parts, attempts, backend, live)
            return
        yield from chat.answer(request, parts, attempts, live=live)

    def _check_wanted(self) -> None:
        """Between two pieces of long work: whoever serves others raises Cancelled here."""

    def _may_call(self, request: Request) -> bool:
        """Whether the function model is asked: for the user's words, and after a tool's result if
        it reads results. Where the cloud comes first, chat reads them."""
        if request.tool_choice != "auto" or request.messages[-1].role == "user":
            return request.tool_choice != "none"
        if request.messages[-1].role != "tool" or request.policy == "prefer_cloud":
            return False
        from edgewise.assembly import calls as function_calls  # noqa: PLC0415  # as in _calls

        return function_calls.reads_results(self._open_function_model)

    def _calls(self, request: Request, attempts: list[Attempt]) -> CallReply:
        # This import compiles patterns for a tenth of a second; chat need not wait for it.
        from edgewise.assembly import calls as function_calls  # noqa: PLC0415

        return function_calls.answer(
            request,
            attempts,
            settings=self.settings,
            function_model=self._open_function_model,
            cloud=self._cloud_for("chat"),
            record=self._tool_record,
        )

    def _open_backend(self, model: str = "") -> ChatBackend:
        """The local model, or another one. Raises ModelNotFound, like the methods below."""
        if model:
            return self._models.open_named(model)
        self._backend = found = self._backend or self._models.open_own()
        return found

    def _open_function_model(self) -> CallBackend:
        """The model that writes function calls."""
        with self._opening:
            self._function_model = self._function_model or assembly.open_function_model(
                self.settings
            )
            return self._function_model

    def _open_transcriber(self) -> SpeechBackend:
        """The model that transcribes speech."""
        with self._opening:
            self._transcriber = self._transcriber or assembly.open_transcriber(self.settings)
            return self._transcriber

    def _open_embedder(self) -> EmbedBackend:
        """The model that makes vectors."""
        with self._opening:
            self._embedder = self._embedder or assembly.open_embedder(self.settings)
            return self._embedder

    def _cloud_for(self, task: Task) -> Cloud:
        """The cloud door for a task: its own models; shared breakers, budgets and privacy."""
        task = "chat" if task == "call" else task
        with self._lock:
            if self._cloud is not None:
                return self._own_cloud(self._cloud)
            if task not in self._doors:
                self._doors[task] = assembly.open_door(
                    self.settings, self.ledger, task, self._breakers, self._id
                )
            return self._doors[task]

    def _own_cloud(self, cloud: Cloud) -> Cloud:
        """A user's own cloud must not get what our door would have redacted."""
        if isinstance(cloud, Door):
            return cloud
        return RedactingCloud(cloud, Redactor(open_finders(self.settings)))

    def _calibration(self, backend: ChatBackend | None, other: str = "") -> Calibration:
        # A file that the settings name is for the engine's own model.
        settings = self.settings.with_changes(calibration="") if other else self.settings
        return calibration_of(settings, None if backend is None else backend.facts(), CHAT)

    def close(self) -> None:
        """Cancel open streams, free models and connections. The next request opens them again."""
        self._streams.close()
        with self._opening, self._lock:
            models = (self._backend, self._function_model, self._transcriber, self._embedder)
            for model in (*models, *self._vision_skills.values()):
                if model is not None:
                    model.close()
            for door in (self._cloud, *self._doors.values()):
                if isinstance(door, Door):
                    door.close()
            self._models.close()
            self._doors.clear()
            self._vision_skills.clear()
            self._backend = self._function_model = self._transcriber = self._embedder = (
                self._cloud
            ) = None
        self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _prepare(self, request: Request) -> None:
        """While the device answers, load in the background what the end of a request needs."""
        if self._cloud_rates is None:
            threading.Thread(target=self._rates, name="edgewise-prices", daemon=True).start()
        door = self._cloud_for(request.task)
        if isinstance(door, Door) and request.policy != "local_only" and request.may_leave:
            door.prepare()

    def _rates(self) -> tuple[int, int]:
        with self._pricing:
            if self._cloud_rates is None:
                self._cloud_rates = assembly.cloud_rates(self._cloud or self._doors.get("chat"))
            return self._cloud_rates
