"""The runtime `ray`: models that are replicas elsewhere in the cluster, as flows see them.

A front asks a deployment of models (replicas.py). What comes back is read on one event loop of this
process and handed to the thread that waits. If the replica dies, another one goes on where it was:
an answer in words is continued, everything else is done again and must come out the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cache
from queue import Empty
from typing import TYPE_CHECKING, Any, Unpack

from edgewise import __version__, errors
from edgewise.bridge import Cancellation, current
from edgewise.errors import EdgewiseError, GenerationFailed, ModelNotFound, RuntimeDown
from edgewise.local.backend import (
    CallToWrite,
    Channel,
    DeviceFacts,
    Generation,
    Guide,
    TokenStream,
    nothing,
)
from edgewise.local.isolated import plain_request
from edgewise.types.embeddings import Embedded
from edgewise.types.messages import Request
from edgewise.types.replies import Finish, Sight, Token
from edgewise.types.transcripts import Heard

if TYPE_CHECKING:
    from edgewise.local.backend import PictureArray, Samples
    from edgewise.local.store import InstalledModel

WAIT_S = 15.0  # for a replica to take a request: one may be starting
BEAT_S = 5.0  # how often a replica that works says so
SILENT_S = 45.0  # without a word a replica is lost
TRIES = 3  # replicas that may be lost under one request
MANY = 100_000  # requests that a front hands on at once: the queue is where the model is


# -- what goes between a front and a replica -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ask:
    """One thing that a model is to do, and for whom."""

    method: str
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    model: str = ""  # another chat model than the deployment's own, or the vision skill
    client: str = ""  # whose turn it is in the queue of the model
    version: str = ""  # of the front


@dataclass(frozen=True, slots=True)
class Alive:
    """The replica has the request; later, that it still works on it."""


@dataclass(frozen=True, slots=True)
class Value:
    """The result of a method that does not stream."""

    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """An error of ours; others only by their name, for they may quote a request."""

    kind: str
    words: str
    details: dict[str, Any]

    @classmethod
    def of(cls, error: Exception) -> Failed:
        if isinstance(error, EdgewiseError):
            return cls(type(error).__name__, str(error), dict(vars(error)))
        return cls("GenerationFailed", f"the model's replica: {type(error).__name__}", {})

    def error(self) -> EdgewiseError:
        kind = getattr(errors, self.kind, None)
        if not (isinstance(kind, type) and issubclass(kind, EdgewiseError)):
            kind = GenerationFailed  # of a version that is newer than this one
        error = kind.__new__(kind)
        Exception.__init__(error, self.words)
        vars(error).update(self.details)
        return error


Item = Token | Finish | Value | Failed | Alive | DeviceFacts


class ReplicaLost(Exception):
    """It died, or nothing is heard of it any more."""


# -- asking ----------------------------------------------------------------------------------------


class Deployed:
    """A deployment of models. Thread-safe."""

    # What this process was deployed with. Replicas of another version answer while an upgrade runs,
    # but what they say of their model is not remembered.
    version = ""

    def __init__(self, handle: Any, name: str) -> None:
        self._handle = handle
        self.name = name
        self.facts: dict[str, DeviceFacts] = {}  # by the model's name in `Ask`; "" is its own

    def items(self, ask: Ask, session: str, channel: Channel[Item]) -> Iterator[Item]:
        """What one replica says, its signs of life left out. Raises ReplicaLost."""
        task = asyncio.run_coroutine_threadsafe(self._read(ask, session, channel), _loop())
        channel.interrupt = lambda: _leave(task)
        begun = False
        try:
            while True:
                try:
                    item = channel.queue.get(timeout=SILENT_S if begun else WAIT_S)
                except Empty:
                    silent = ReplicaLost("nothing is heard of it")
                    raise silent if begun else self.down(silent) from None
                begun = True
                if isinstance(item, ReplicaLost):
                    raise item
                if isinstance(item, BaseException):
                    raise GenerationFailed(str(item))
                if item is None:
                    return
                if isinstance(item, Failed):
                    raise item.error()
                if isinstance(item, DeviceFacts):
                    self.learn(ask.model, item)
                elif not isinstance(item, Alive):
                    yield item
        finally:
            task.cancel()

    def learn(self, model: str, facts: DeviceFacts) -> None:
        self.facts[model] = _as_seen(facts)

    async def _read(self, ask: Ask, session: str, channel: Channel[Item]) -> None:
        response = None
        try:
            # Not by reference: Ray's object store costs three times as much per request.
            options = {"session_id": session} if session else {}
            handle = self._handle.options(stream=True, _by_reference=False, **options)
            response = handle.answer.remote(ask)
            async for items in response:
                for item in items:
                    channel.queue.put(item)
            channel.queue.put(None)
        except asyncio.CancelledError:
            if response is not None:
                response.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - whatever Ray raises, the replica is no use
            channel.queue.put(ReplicaLost(f"{self.name}: {type(error).__name__}"))

    def value(self, ask: Ask, session: str = "") -> Any:
        """The result of a method that does not stream; done again elsewhere if its replica dies."""
        lost = ReplicaLost()
        for number in range(TRIES):
            channel: Channel[Item] = Channel()
            try:
                with (current.get() or Cancellation()).waking(channel.abort):
                    for item in self.items(ask, _on(session, number), channel):
                        if isinstance(item, Value):
                            return item.value
                raise ReplicaLost(f"{self.name} said nothing")
            except ReplicaLost as error:
                lost = error
        raise self.down(lost)

    def down(self, lost: ReplicaLost) -> RuntimeDown:
        return RuntimeDown(f"no replica of {self.name} answers: {lost}", retry_after_s=5.0)


class Course:
    """One stream, however many replicas it takes."""

    def __init__(self, deployed: Deployed, ask: Ask, session: str) -> None:
        self._deployed, self._ask, self._session = deployed, ask, session
        self._told: list[Token] = []
        self._continued = 0  # tokens that this replica was given as the beginning of the answer
        self._repeated = 0  # tokens that it has brought, or need not bring
        self._stopped = threading.Event()
        self._channel: Channel[Item] = Channel()

    def stream(self) -> Generation:
        return Generation(self._tokens(), self._abort)

    def _abort(self) -> None:
        self._stopped.set()
        self._channel.abort()

    def _tokens(self) -> TokenStream:
        lost = ReplicaLost()
        for number in range(TRIES):
            self._channel = Channel()
            if self._stopped.is_set():
                raise GenerationFailed("called off")
            try:
                with contextlib.closing(self._attempt(number)) as items:
                    yield from items
                return
            except ReplicaLost as error:
                lost = error
            self._go_on()
        raise self._deployed.down(lost)

    def _attempt(self, number: int) -> TokenStream:
        for item in self._deployed.items(self._ask, _on(self._session, number), self._channel):
            if isinstance(item, Finish):
                yield self._whole(item)
            elif isinstance(item, Token) and self._is_new(item):
                self._told.append(item)
                yield item

    def _go_on(self) -> None:
        """What the next replica is asked: the rest of an answer in words, else all of it again."""
        self._repeated = 0
        request = self._ask.arguments[0]
        if not isinstance(request, Request) or request.response_format is not None:
            return
        new = self._told[self._continued :]
        rest = request.device_tokens - len(new)
        if not new or rest < 1:
            self._repeated = self._continued
            return
        options = dict(self._ask.options)
        options["already"] = options.get("already", "") + "".join(each.text for each in new)
        options["prompt_layer"] = 0  # the state behind the prompt came with the first token
        arguments = (replace(request, max_tokens=rest),)
        self._ask = replace(self._ask, arguments=arguments, options=options)
        self._repeated = self._continued = len(self._told)

    def _is_new(self, token: Token) -> bool:
        self._repeated += 1
        if self._repeated > len(self._told):
            return True
        if token.text != self._told[self._repeated - 1].text:
            raise GenerationFailed(
                "the model's replica was lost, and the answer came out differently when it was "
                "written again"
            )
        return False

    def _whole(self, finish: Finish) -> Finish:
        if not self._continued:
            return finish
        return replace(
            finish,
            input_tokens=finish.input_tokens - self._continued,
            output_tokens=finish.output_tokens + self._continued,
            estimated=True,
        )


def version_of(plan: str) -> str:
    """Of all replicas that were deployed with this plan by this release."""
    return hashlib.blake2b(f"{__version__} {plan}".encode(), digest_size=16).hexdigest()


def tell_facts(ask: Ask, version: str, facts: DeviceFacts) -> Iterator[Item]:
    """What a replica says of its model, last: a front of its own version remembers it."""
    if ask.version == version:
        yield facts
    if ask.method == "facts":
        yield Value(facts)


def _as_seen(facts: DeviceFacts) -> DeviceFacts:
    """The queue is where the model is: the front hands everything on."""
    return replace(facts, slots=MANY, ahead=0)


def _leave(task: Future[None]) -> None:
    task.cancel()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="edgewise-replicas", daemon=True).start()
    return loop


def _on(session: str, number: int) -> str:
    """The place of a session; after its replica was lost, another one."""
    return f"{session}-{number}" if session and number else session


def session_of(*parts: object) -> str:
    """Requests with the same parts go to the same replica, which has read them before."""
    return hashlib.blake2b(repr(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()


def conversation_session(request: Request) -> str:
    """Of a conversation: its client, its tools, and how it begins."""
    first = next((n for n, each in enumerate(request.messages) if each.role == "user"), 0)
    begins = [(each.role, each.content) for each in request.messages[: first + 1]]
    tools = [(each.name, each.description, each.parameters) for each in request.tools]
    return session_of(request.owner, begins, tools)


# -- the models, as flows see them -----------------------------------------------------------------


class RemoteModel:
    """What all of them share: facts, which come with every answer."""

    def __init__(self, deployed: Deployed, model: str = "") -> None:
        self._deployed, self._model = deployed, model

    def facts(self) -> DeviceFacts:
        known = self._deployed.facts.get(self._model)
        if known is None:
            told = self._value("facts")
            known = self._deployed.facts.get(self._model) or _as_seen(told)
        return known

    def close(self) -> None:
        """The replicas stay: others ask them too."""

    def _ask(self, method: str, *arguments: Any, **options: Any) -> Ask:
        client = (current.get() or Cancellation()).client
        return Ask(method, arguments, options, self._model, client, Deployed.version)

    def _value(self, method: str, *arguments: Any, **options: Any) -> Any:
        return self._deployed.value(self._ask(method, *arguments, **options))


class RemoteChat(RemoteModel):
    """Fulfils ChatBackend and TokenCounter."""

    def generate(self, request: Request, **options: Any) -> Generation:
        ask = self._ask("generate", plain_request(request), **options)
        return Course(self._deployed, ask, conversation_session(request)).stream()

    def count_tokens(self, request: Request) -> int | None:
        count = self._value("count_tokens", plain_request(request))
        return None if count is None else int(count)

    def load(self) -> None:
        self._value("load")


class RemoteCalls(RemoteModel):
    """Fulfils CallBackend."""

    def write_call(self, call: CallToWrite) -> Generation:
        session = session_of(call.owner, call.prefix)
        return Course(self._deployed, self._ask("write_call", call), session).stream()


class RemoteTranscriber(RemoteModel):
    """Fulfils SpeechBackend."""

    def hear(
        self, samples: Samples, *, language: str = "", words: bool = True, **guide: Unpack[Guide]
    ) -> list[Heard]:
        found: list[Heard] = self._value("hear", samples, language=language, words=words, **guide)
        return found


class RemoteEmbedder(RemoteModel):
    """Fulfils EmbedBackend."""

    def embed(self, texts: Sequence[str], *, pause: Callable[[], None] = nothing) -> Embedded:
        pause()
        found: Embedded = self._value("embed", tuple(texts))
        return found


class RemoteSkill(RemoteModel):
    """Fulfils VisionBackend."""

    def look(self, pixels: PictureArray) -> Sight:
        found: Sight = self._value("look", pixels)
        return found


def open_backend(model: InstalledModel, *, threads: int, context_tokens: int) -> RemoteChat:
    """The entry point `edgewise.local_backends: ray`, for the fronts of a deployed application."""
    words = "backend = 'ray' is for the fronts of `edgewise deploy`, not for an engine alone"
    if "ray" not in sys.modules:  # a front has it; importing it here would be in vain
        raise ModelNotFound(words)
    from ray import serve  # noqa: PLC0415 - an extra

    try:
        name = serve.get_replica_context().app_name
    except serve.exceptions.RayServeException as error:
        raise ModelNotFound(words) from error
    return RemoteChat(Deployed(serve.get_deployment_handle("chat", name), "chat"), model.name)
