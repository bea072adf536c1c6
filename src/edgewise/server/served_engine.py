"""An engine that many clients share: they queue for its models in turn, and can leave at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

from typing_extensions import override

from edgewise.assembly import parts as assembly
from edgewise.cloud.provider import Chunk, Cloud, Stop
from edgewise.engine import Engine
from edgewise.errors import Cancelled, CloudClosed, GenerationFailed, InvalidRequest
from edgewise.local.backend import (
    CallBackend,
    ChatBackend,
    DeviceFacts,
    EmbedBackend,
    SpeechBackend,
    TokenStream,
)
from edgewise.server.cancellation import (
    Cancellation,
    current,
)
from edgewise.server.queue import (
    FairQueue,
    QueuedEmbedder,
    QueuedTranscriber,
    QueuedVisionSkill,
    QueuedVisionSkills,
)
from edgewise.settings import Settings
from edgewise.types.messages import Request, Task
from edgewise.types.replies import Attempt

Shared = TypeVar("Shared")

MOST_CHOICES = 64  # cloud models that clients may name; each keeps its connections


class ServedEngine(Engine):
    """`Engine`, with a turnstile before each local model and a way to call off every wait."""

    def __init__(self, settings: Settings, *, queue: int, **parts: Any) -> None:
        super().__init__(settings, **parts)
        self._places = queue
        self._shared: dict[int, Any] = {}  # models behind their turnstiles
        self._choices: dict[tuple[str, Task], Cloud] = {}
        self._sharing = threading.Lock()
        self._vision_skills = QueuedVisionSkills(
            lambda vision_skill: self._share(vision_skill, QueuedVisionSkill)
        )

    @override
    def _open_backend(self) -> ChatBackend:
        return self._share(super()._open_backend(), QueuedModel)

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
            return ServedCloud(super()._cloud_for(task), cancellation)
        return ServedCloud(self._chosen(cancellation.cloud, task), cancellation)

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
                    settings, self.ledger, task, self._breakers
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


class QueuedModel:
    """A local model behind a turnstile. Chats and writes calls, as far as the model does."""

    def __init__(self, model: Any, fair_queue: FairQueue) -> None:
        self._model = model
        self.fair_queue = fair_queue

    def facts(self) -> DeviceFacts:
        facts: DeviceFacts = self._model.facts()
        return facts

    def generate(self, request: Request, *, already: str = "") -> TokenStream:
        return self._in_turn(lambda: self._model.generate(request, already=already))

    def write_call(
        self,
        prompt: str,
        *,
        grammar: str = "",
        max_tokens: int = 400,
        seed: int = 0,
        already: str = "",
    ) -> TokenStream:
        return self._in_turn(
            lambda: self._model.write_call(
                prompt, grammar=grammar, max_tokens=max_tokens, seed=seed, already=already
            )
        )

    def close(self) -> None:
        self._model.close()

    def _in_turn(self, begin: Callable[[], TokenStream]) -> TokenStream:
        cancellation = current.get() or Cancellation()
        with self.fair_queue.turn(cancellation), closing(begin()) as tokens:
            # A backend without `abort` is left at its next token.
            abort = getattr(tokens, "abort", _nothing)
            with cancellation.waking(abort):
                try:
                    for item in tokens:
                        cancellation.check()
                        yield item
                except GenerationFailed:
                    cancellation.check()  # it was called off
                    raise


def _nothing() -> None:
    """What waking does to a model that cannot be called off."""


@dataclass(slots=True)
class ServedCloud:
    """The door as one request sees it: leaving breaks its connection."""

    door: Cloud
    cancellation: Cancellation

    def closed(self, request: Request) -> CloudClosed | None:
        return self.door.closed(request)

    def stream(
        self,
        request: Request,
        access_log: list[Attempt],
        *,
        live: bool,
        patience_s: float | None,
        stop: Stop | None = None,
    ) -> Generator[Chunk, None, None]:
        stop = stop or Stop()
        chunks = self.door.stream(request, access_log, live=live, patience_s=patience_s, stop=stop)
        with self.cancellation.waking(stop.ask), closing(chunks):
            yield from chunks
        if stop.asked:
            raise Cancelled("the caller left")
