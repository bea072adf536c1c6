"""An engine for many at once: a queue before each local model, and every wait can be called off.

Clients take turns at a local model, and a full queue says so at once. The server and `AsyncEngine`
are built on it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from typing_extensions import override

from edgewise.bridge import Cancellation, current
from edgewise.cloud.door import Breaker, Door
from edgewise.cloud.provider import Chunk, Cloud, Stop
from edgewise.engine import Engine
from edgewise.errors import Cancelled, CloudClosed, DeviceBusy, GenerationFailed
from edgewise.local.backend import (
    CallBackend,
    CallToWrite,
    Described,
    DeviceFacts,
    EmbedBackend,
    Generation,
    Guide,
    SpeechBackend,
    TokenStream,
    VisionBackend,
    VoiceBackend,
    abandon,
    nothing,
)
from edgewise.parts import Parts, open_door, provider_configs
from edgewise.requests import Prompt
from edgewise.settings import Settings
from edgewise.types.embeddings import Embedded
from edgewise.types.messages import Request, RequestOptions, Service
from edgewise.types.replies import Attempt, Finish, Sight, watched
from edgewise.types.transcripts import Heard, Spoken

if TYPE_CHECKING:
    from edgewise.local.backend import PictureArray, Samples
    from edgewise.local.isolated import Supervisor

MOST_CHOICES = 64  # cloud models that clients named and that are kept, with their connections
USUAL_TURN_S = 2.0  # until the first turns have been timed
SMOOTHING = 0.2

Shared = TypeVar("Shared")


class Ticket:
    """A place in the queue."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.called = threading.Event()
        self.has_turn = False


class FairQueue:
    """At most `slots` at once, and `ahead` more that the model lines up itself; `queue` may wait.

    First come, first served per client. Among clients it goes round: one that sends a hundred
    requests delays another's single one by one turn, not by a hundred.
    """

    def __init__(
        self,
        slots: int,
        queue: int,
        *,
        ahead: int = 0,
        busy_after_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.slots = slots
        self._busy_after_s = busy_after_s
        self._inside = slots + ahead
        self._queue = queue
        self._clock = clock
        self._lock = threading.Lock()
        self._free = self._inside
        self._waiting = 0
        self._lines: OrderedDict[str, deque[Ticket]] = OrderedDict()
        self._turn_s = USUAL_TURN_S

    @property
    def busy(self) -> int:
        return self._inside - self._free

    @property
    def waiting(self) -> int:
        return self._waiting

    @property
    def wait_s(self) -> float:
        """About how long one who came now would wait; 0 where it is not worth mentioning."""
        before = self._inside - self._free + self._waiting - self.slots + 1  # and must go first
        wait_s = max(0, before) * self._turn_s / self._inside
        return wait_s if 0 < self._busy_after_s < wait_s else 0.0

    @contextmanager
    def turn(self, cancellation: Cancellation) -> Generator[Callable[[], None]]:
        """Wait for a turn and have it. Raises DeviceBusy at once where the queue is full.

        Long work calls what this gives between its parts: whoever waits goes first.
        """
        ticket = self._draw(cancellation.who)
        try:
            self._wait(ticket, cancellation)
            started = self._clock()
            try:
                yield lambda: self._give_way(ticket, cancellation)
            finally:
                self._learn(self._clock() - started)
        finally:
            self._give_back(ticket)

    def _wait(self, ticket: Ticket, cancellation: Cancellation) -> None:
        with cancellation.waking(ticket.called.set), _in_line():
            ticket.called.wait()
        cancellation.check()

    def _give_way(self, ticket: Ticket, cancellation: Cancellation) -> None:
        cancellation.check()
        with self._lock:
            ticket.has_turn = False
            ticket.called.clear()
            # Before its client's later ones; a full queue is no reason to end what was begun.
            self._lines.setdefault(ticket.client, deque()).appendleft(ticket)
            self._waiting += 1
            self._call_next()
        self._wait(ticket, cancellation)

    def _call_next(self) -> bool:
        """Hand a turn on. Returns whether anybody waited."""
        if (following := self._next()) is None:
            return False
        self._call(following)
        return True

    def _call(self, ticket: Ticket) -> None:
        ticket.has_turn = True
        ticket.called.set()

    def _draw(self, client: str) -> Ticket:
        ticket = Ticket(client)
        with self._lock:
            if self._free:  # then nobody waits: a free slot is always handed on
                self._free -= 1
                self._call(ticket)
                return ticket
            if self._waiting >= self._queue:
                wait = max(1.0, self._turn_s * (self._waiting + 1) / self.slots)
                raise DeviceBusy(
                    f"{self._waiting} requests wait for the local model already",
                    retry_after_s=wait,
                )
            self._lines.setdefault(client, deque()).append(ticket)
            self._waiting += 1
        return ticket

    def _give_back(self, ticket: Ticket) -> None:
        with self._lock:
            if not ticket.has_turn:  # it left the queue
                self._drop(ticket)
                return
            if not self._call_next():
                self._free += 1

    def _drop(self, ticket: Ticket) -> None:
        line = self._lines[ticket.client]
        line.remove(ticket)
        self._waiting -= 1
        if not line:
            del self._lines[ticket.client]

    def _next(self) -> Ticket | None:
        if not self._lines:
            return None
        client, line = self._lines.popitem(last=False)
        ticket = line.popleft()
        self._waiting -= 1
        if line:
            self._lines[client] = line  # to the end: the others come first
        return ticket

    def _learn(self, seconds: float) -> None:
        with self._lock:
            self._turn_s += SMOOTHING * (seconds - self._turn_s)


@contextmanager
def _in_line() -> Generator[None]:
    """Whoever looks on sees that the request waits for its turn."""
    progress = watched.get()
    if progress is None:
        yield
        return
    progress.waiting = True
    try:
        yield
    finally:
        progress.waiting = False


Local = TypeVar("Local", bound=Described)


class _Queued(Generic[Local]):
    """A local model that is waited for in turn."""

    def __init__(self, model: Local, fair_queue: FairQueue) -> None:
        self.model = model
        self.fair_queue = fair_queue

    def facts(self) -> DeviceFacts:
        return replace(self.model.facts(), wait_s=self.fair_queue.wait_s)

    def turn(self) -> AbstractContextManager[Callable[[], None]]:
        if (progress := watched.get()) is not None:
            facts = self.facts()
            progress.start("local", facts.backend, facts.model)
        return self.fair_queue.turn(current.get() or Cancellation())

    def close(self) -> None:
        self.model.close()


class QueuedModel(_Queued[Any]):
    """Chats and writes calls, as far as the model does."""

    def load(self) -> None:
        """Load the weights now; a runtime that cannot be told loads them with the next request."""
        getattr(self.model, "load", nothing)()

    def count_tokens(self, request: Request) -> int | None:
        """Without waiting for a turn; None if the runtime cannot count."""
        count: Callable[[Request], int] | None = getattr(self.model, "count_tokens", None)
        return None if count is None else count(request)

    def generate(self, request: Request, *, already: str = "", **layers: int) -> Generation:
        return self._in_turn(lambda: self.model.generate(request, already=already, **layers))

    def write_call(self, call: CallToWrite) -> Generation:
        return self._in_turn(lambda: self.model.write_call(call))

    def _in_turn(self, begin: Callable[[], TokenStream]) -> Generation:
        """Called off with its request, or alone by `abort`: in the queue as well as at work."""
        request = current.get() or Cancellation()
        alone = Cancellation(request.client, cloud=request.cloud)
        return Generation(self._tokens(begin, request, alone), alone.leave)

    def _tokens(
        self, begin: Callable[[], TokenStream], request: Cancellation, alone: Cancellation
    ) -> TokenStream:
        try:
            with (
                request.waking(alone.leave),
                self.fair_queue.turn(alone),
                closing(begin()) as tokens,
                # A backend without `abort` is left at its next token.
                alone.waking(getattr(tokens, "abort", nothing)),
            ):
                for item in tokens:
                    alone.check()
                    yield item
        except (Cancelled, GenerationFailed) as error:
            request.check()
            if alone.left:
                raise GenerationFailed("called off") from error
            raise


class QueuedTranscriber(_Queued[SpeechBackend]):
    """A long recording is heard in pieces, and others have their turns in between."""

    def hear(
        self,
        samples: Samples,
        *,
        language: str = "",
        words: bool = True,
        **guide: Unpack[Guide],
    ) -> list[Heard]:
        with self.turn():
            return self.model.hear(samples, language=language, words=words, **guide)


class QueuedEmbedder(_Queued[EmbedBackend]):
    """Between two batches of a request others have their turns, and it can be called off."""

    def embed(self, texts: Sequence[str], *, pause: Callable[[], None] = nothing) -> Embedded:
        with self.turn() as give_way:

            def between() -> None:
                pause()
                give_way()

            return self.model.embed(texts, pause=between)


class QueuedVoice(_Queued[VoiceBackend]):
    """A text is a turn."""

    def speak(self, text: str, **options: Any) -> Spoken:
        with self.turn():
            return self.model.speak(text, **options)


class QueuedVisionSkill(_Queued[VisionBackend]):
    """A skill with pictures: each picture is a turn, and others have theirs in between."""

    def look(self, pixels: PictureArray) -> Sight:
        with self.turn():
            return self.model.look(pixels)


# -- the engine ------------------------------------------------------------------------------------


class QueuedParts(Parts):
    """Parts with a queue before each local model and a way to call off every wait."""

    def __init__(
        self, settings: Settings | None, *, queue: int, busy_after_s: float = 0.0, **given: Any
    ) -> None:
        super().__init__(settings, **given)
        self._busy_after_s = busy_after_s
        self._places = queue
        self._shared: dict[int, Any] = {}  # models with their queues
        self._named = NamedDoors(self._open_named)
        self._sharing = threading.Lock()

    @override
    def forget(self) -> None:
        super().forget()
        abandon(*self._named.doors())
        self._named = NamedDoors(self._open_named)
        self._shared, self._sharing = {}, threading.Lock()

    @override
    def request(self, prompt: Prompt, **options: Unpack[RequestOptions]) -> Request:
        """Every client owns its own prompts: another one learns nothing about them."""
        asked = current.get() or Cancellation()
        request = super().request(prompt, **options)
        return replace(request, owner=asked.who, user=asked.user, group=asked.group)

    @override
    def check_wanted(self) -> None:
        if (cancellation := current.get()) is not None:
            cancellation.check()

    @override
    def backend(self, model: str = "") -> QueuedModel:
        return self._share(super().backend(model), QueuedModel)

    @override
    def function_model(self, name: str = "") -> CallBackend:
        return self._share(super().function_model(name), QueuedModel)

    @override
    def transcriber(self) -> SpeechBackend:
        return self._share(super().transcriber(), QueuedTranscriber)

    @override
    def translator(self) -> SpeechBackend:
        found = super().translator()
        if isinstance(found, QueuedTranscriber):  # the transcriber, who can translate
            return found
        return self._share(found, QueuedTranscriber)

    @override
    def voice(self) -> VoiceBackend:
        return self._share(super().voice(), QueuedVoice)

    @override
    def embedder(self) -> EmbedBackend:
        return self._share(super().embedder(), QueuedEmbedder)

    @override
    def vision_skill(self, name: str) -> VisionBackend:
        return self._share(super().vision_skill(name), QueuedVisionSkill)

    @override
    def cloud(self, task: Service) -> Cloud:
        cancellation = current.get()
        if cancellation is None:
            return super().cloud(task)
        if not cancellation.cloud:
            return SharedCloud(super().cloud(task), cancellation)
        return SharedCloud(self._named.get(cancellation.cloud, task), cancellation)

    def load(self, model: str = "") -> None:
        """Load the chat model, or another one, before anybody waits for it."""
        self.backend(model).load()

    def count_tokens(self, request: Request) -> int | None:
        """Of a request, as the chat model would read it; None if its runtime cannot count."""
        return self.backend(request.model).count_tokens(request)

    @property
    def opened_models(self) -> set[str]:
        """The names of models that were asked for and have not left since."""
        asked = [each.model for each in list(self._shared.values())]
        return {model.facts().model for model in asked if getattr(model, "is_loaded", True)}

    @property
    def supervisors(self) -> dict[str, Supervisor]:
        """Of the models that run in processes of their own, by the model's name."""
        shared = list(self._shared.values())  # without the lock: nobody may have to wait here
        found = [getattr(each.model, "supervisor", None) for each in shared]
        return {each.facts.model: each for each in found if each is not None and each.facts}

    @property
    def fair_queues(self) -> dict[str, FairQueue]:
        """By the model's name; only of models that were asked for."""
        with self._sharing:
            return {each.facts().model: each.fair_queue for each in self._shared.values()}

    def _share(self, model: Any, queued: Callable[[Any, FairQueue], Shared]) -> Shared:
        with self._sharing:
            if id(model) not in self._shared:
                facts: DeviceFacts = model.facts()
                fair_queue = FairQueue(
                    facts.slots, self._places, ahead=facts.ahead, busy_after_s=self._busy_after_s
                )
                self._shared[id(model)] = queued(model, fair_queue)
            found: Shared = self._shared[id(model)]
            return found

    def _open_named(self, choice: str, task: Service) -> Door:
        """The door to one provider's one model; budgets are the engine's.

        A model that only clients name has a breaker of its own: what is wrong with it (no such
        model, not for this key) says nothing about the provider, which answers the others.
        """
        settings = self.settings.with_changes(chain=(choice,))
        own = set(provider_configs(self.settings, task))
        breakers = self.breakers
        named = [one for one in provider_configs(settings, task) if one not in own]
        if named:
            breakers = {one.name: Breaker(settings.cooldown_s) for one in named}
        return open_door(settings, self.ledger, task, breakers, self.id)

    @override
    def close(self) -> None:
        super().close()
        self._named.close()
        with self._sharing:
            self._shared.clear()


class SharedEngine(Engine):
    """`Engine` with queued parts."""

    parts: QueuedParts

    def __init__(
        self, settings: Settings | None, *, queue: int, busy_after_s: float = 0.0, **given: Any
    ) -> None:
        self._use(QueuedParts(settings, queue=queue, busy_after_s=busy_after_s, **given))


class NamedDoors:
    """The doors to models that clients name: the last `MOST_CHOICES`, and those at work.

    A name that never answered goes first. So nonsense takes no place from what is in use.
    """

    def __init__(self, open_door: Callable[[str, Service], Door]) -> None:
        self._open = open_door
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, Service], NamedDoor] = OrderedDict()

    def get(self, choice: str, task: Service) -> NamedDoor:
        with self._lock:
            found = self._kept.get((choice, task))
            found = found or NamedDoor((choice, task), self._open(choice, task), self)
            self._keep(found)
            return found

    @contextmanager
    def using(self, named: NamedDoor) -> Generator[None]:
        with self._lock:
            named.users += 1
        try:
            yield
        finally:
            with self._lock:
                named.users -= 1
                self._keep(named)

    def _keep(self, named: NamedDoor) -> None:
        self._kept.setdefault(named.key, named)
        self._kept.move_to_end(named.key)
        idle = [each for each in self._kept.values() if not each.users]
        idle.sort(key=lambda each: each.has_answered)
        for each in idle[: max(0, len(self._kept) - MOST_CHOICES)]:
            del self._kept[each.key]
            each.door.close()
        if self._kept.get(named.key) is not named and not named.users:
            named.door.close()

    def doors(self) -> list[Door]:
        return [each.door for each in list(self._kept.values())]

    def close(self) -> None:
        with self._lock:
            for door in self.doors():
                door.close()
            self._kept.clear()


@dataclass(slots=True, eq=False)
class NamedDoor:
    """A door to a model that a client named. One that is not kept is closed after each use."""

    key: tuple[str, Service]
    door: Door
    doors: NamedDoors
    users: int = 0
    has_answered: bool = False

    def closed(self, request: Request) -> CloudClosed | None:
        return self.door.closed(request)

    def stream(
        self,
        request: Request,
        attempts: list[Attempt],
        *,
        live: bool,
        patience_s: float | None,
        stop: Stop | None = None,
    ) -> Generator[Chunk, None, None]:
        chunks = self.door.stream(request, attempts, live=live, patience_s=patience_s, stop=stop)
        with self.doors.using(self), closing(chunks):
            for chunk in chunks:
                self.has_answered = self.has_answered or isinstance(chunk, Finish)
                yield chunk


@dataclass(slots=True)
class SharedCloud:
    """The door as one request sees it: leaving breaks its connection."""

    door: Cloud
    cancellation: Cancellation

    def closed(self, request: Request) -> CloudClosed | None:
        return self.door.closed(request)

    def stream(
        self,
        request: Request,
        attempts: list[Attempt],
        *,
        live: bool,
        patience_s: float | None,
        stop: Stop | None = None,
    ) -> Generator[Chunk, None, None]:
        stop = stop or Stop()
        request = replace(request, via=self.cancellation.via)
        chunks = self.door.stream(request, attempts, live=live, patience_s=patience_s, stop=stop)
        with self.cancellation.waking(stop.ask), closing(chunks):
            yield from chunks
        if stop.asked:
            raise Cancelled("the client left")
