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
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, Unpack

from typing_extensions import override

from edgewise.assembly import parts as assembly
from edgewise.assembly.arguments import Prompt
from edgewise.bridge import Cancellation, current
from edgewise.cloud.provider import Chunk, Cloud, Stop
from edgewise.engine import Engine
from edgewise.errors import Cancelled, CloudClosed, DeviceBusy, GenerationFailed, InvalidRequest
from edgewise.local.backend import (
    CallBackend,
    ChatBackend,
    DeviceFacts,
    EmbedBackend,
    Guide,
    SpeechBackend,
    TokenStream,
    VisionBackend,
    VisionSkills,
    nothing,
)
from edgewise.local.forks import abandon
from edgewise.local.generation import Generation
from edgewise.settings import Settings
from edgewise.types.embeddings import Embedded
from edgewise.types.messages import Request, RequestOptions, Task
from edgewise.types.pictures import Sight
from edgewise.types.progress import watched
from edgewise.types.replies import Attempt
from edgewise.types.transcripts import Heard

if TYPE_CHECKING:
    from edgewise.local.backend import PictureArray, Samples
    from edgewise.local.isolated import Supervisor

MOST_CHOICES = 64  # cloud models that clients may name; each keeps its connections
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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.slots = slots
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

    @contextmanager
    def turn(self, cancellation: Cancellation) -> Generator[Callable[[], None]]:
        """Wait for a turn and have it. Raises DeviceBusy at once where the queue is full.

        Long work calls what this gives between its parts: whoever waits goes first.
        """
        ticket = self._draw(cancellation.client)
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


class _Described(Protocol):
    """Any local model."""

    def facts(self) -> DeviceFacts: ...

    def close(self) -> None: ...


Local = TypeVar("Local", bound=_Described)


class _Queued(Generic[Local]):
    """A local model that is waited for in turn."""

    def __init__(self, model: Local, fair_queue: FairQueue) -> None:
        self._model = model
        self.fair_queue = fair_queue

    def facts(self) -> DeviceFacts:
        return self._model.facts()

    def turn(self) -> AbstractContextManager[Callable[[], None]]:
        if (progress := watched.get()) is not None:
            facts = self.facts()
            progress.start("local", facts.backend, facts.model)
        return self.fair_queue.turn(current.get() or Cancellation())

    def close(self) -> None:
        self._model.close()


class QueuedModel(_Queued[Any]):
    """Chats and writes calls, as far as the model does."""

    def load(self) -> None:
        """Load the weights now; a runtime that cannot be told loads them with the next request."""
        getattr(self._model, "load", nothing)()

    def count_tokens(self, request: Request) -> int | None:
        """Without waiting for a turn; None if the runtime cannot count."""
        count: Callable[[Request], int] | None = getattr(self._model, "count_tokens", None)
        return None if count is None else count(request)

    def generate(self, request: Request, *, already: str = "", **layers: int) -> Generation:
        return self._in_turn(lambda: self._model.generate(request, already=already, **layers))

    def write_call(
        self,
        prompt: str,
        *,
        grammar: str = "",
        max_tokens: int = 400,
        seed: int = 0,
        already: str = "",
        drafts: Sequence[str] = (),
        prefix: str = "",
        owner: str = "",
    ) -> Generation:
        return self._in_turn(
            lambda: self._model.write_call(
                prompt,
                grammar=grammar,
                max_tokens=max_tokens,
                seed=seed,
                already=already,
                drafts=drafts,
                prefix=prefix,
                owner=owner,
            )
        )

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
            return self._model.hear(samples, language=language, words=words, **guide)


class QueuedEmbedder(_Queued[EmbedBackend]):
    """Between two batches of a request others have their turns, and it can be called off."""

    def embed(self, texts: Sequence[str], *, pause: Callable[[], None] = nothing) -> Embedded:
        with self.turn() as give_way:

            def between() -> None:
                pause()
                give_way()

            return self._model.embed(texts, pause=between)


class QueuedVisionSkill(_Queued[VisionBackend]):
    """A skill with pictures: each picture is a turn, and others have theirs in between."""

    def look(self, pixels: PictureArray) -> Sight:
        with self.turn():
            return self._model.look(pixels)


class QueuedVisionSkills(VisionSkills):
    """The skills of an engine, each with a queue from when it is first needed."""

    def __init__(self, share: Callable[[VisionBackend], VisionBackend]) -> None:
        super().__init__()
        self._share = share
        self._opening = threading.Lock()

    @override
    def __setitem__(self, name: str, vision_skill: VisionBackend) -> None:
        with self._opening:
            if name not in self:  # two requests may open it at once: the first one stays
                super().__setitem__(name, self._share(vision_skill))


# -- the engine ------------------------------------------------------------------------------------


class SharedEngine(Engine):
    """`Engine`, with a queue before each local model and a way to call off every wait."""

    def __init__(self, settings: Settings, *, queue: int, **parts: Any) -> None:
        super().__init__(settings, **parts)
        self._places = queue
        self._shared: dict[int, Any] = {}  # models with their queues
        self._choices: dict[tuple[str, Task], Cloud] = {}
        self._sharing = threading.Lock()
        self._vision_skills = self._queued_skills()

    def _queued_skills(self) -> QueuedVisionSkills:
        return QueuedVisionSkills(lambda skill: self._share(skill, QueuedVisionSkill))

    @override
    def _forget(self) -> None:
        super()._forget()
        abandon(*self._choices.values())
        self._shared, self._choices, self._sharing = {}, {}, threading.Lock()
        self._vision_skills = self._queued_skills()  # whoever stands in those queues is gone

    @override
    def _request(self, prompt: Prompt, **options: Unpack[RequestOptions]) -> Request:
        """Every client owns its own prompts: another one learns nothing about them."""
        client = (current.get() or Cancellation()).client
        return replace(super()._request(prompt, **options), owner=client)

    @override
    def _check_wanted(self) -> None:
        if (cancellation := current.get()) is not None:
            cancellation.check()

    @override
    def _open_backend(self, model: str = "") -> ChatBackend:
        return self._chat_model(model)

    @override
    def _open_function_model(self) -> CallBackend:
        return self._share(super()._open_function_model(), QueuedModel)

    @override
    def _open_transcriber(self) -> SpeechBackend:
        return self._share(super()._open_transcriber(), QueuedTranscriber)

    @override
    def _open_embedder(self) -> EmbedBackend:
        return self._share(super()._open_embedder(), QueuedEmbedder)

    @override
    def _cloud_for(self, task: Task) -> Cloud:
        cancellation = current.get()
        if cancellation is None:
            return super()._cloud_for(task)
        if not cancellation.cloud:
            return SharedCloud(super()._cloud_for(task), cancellation)
        return SharedCloud(self._chosen(cancellation.cloud, task), cancellation)

    def load(self, model: str = "") -> None:
        """Load the chat model, or another one, before anybody waits for it."""
        self._chat_model(model).load()

    def count_tokens(self, request: Request) -> int | None:
        """Of a request, as the chat model would read it; None if its runtime cannot count."""
        return self._chat_model(request.model).count_tokens(request)

    def _chat_model(self, model: str = "") -> QueuedModel:
        return self._share(super()._open_backend(model), QueuedModel)

    @property
    def opened_models(self) -> set[str]:
        """The names of models that were asked for and have not left since."""
        asked = [each._model for each in list(self._shared.values())]
        return {model.facts().model for model in asked if getattr(model, "is_loaded", True)}

    @property
    def supervisors(self) -> dict[str, Supervisor]:
        """Of the models that run in processes of their own, by the model's name."""
        shared = list(self._shared.values())  # without the lock: nobody may have to wait here
        found = [getattr(each._model, "supervisor", None) for each in shared]
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
                fair_queue = FairQueue(facts.slots, self._places, ahead=facts.ahead)
                self._shared[id(model)] = queued(model, fair_queue)
            found: Shared = self._shared[id(model)]
            return found

    def _chosen(self, choice: str, task: Task) -> Cloud:
        """The door to one provider's one model; breakers and budgets are the engine's."""
        with self._sharing:
            if (choice, task) not in self._choices:
                if len(self._choices) >= MOST_CHOICES:
                    raise InvalidRequest(f"model: {MOST_CHOICES} cloud models are in use already")
                settings = self.settings.with_changes(chain=(choice,))
                self._choices[choice, task] = assembly.open_door(
                    settings, self.ledger, task, self._breakers, self._id
                )
            return self._choices[choice, task]

    @override
    def close(self) -> None:
        super().close()
        with self._sharing:
            for door in self._choices.values():
                close = getattr(door, "close", None)
                if close is not None:
                    close()
            self._choices.clear()
            self._shared.clear()


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
