"""What all endpoints of a server share: the engine, the clients, the counts, the requests."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from typing_extensions import override

from edgewise.assembly import parts as assembly
from edgewise.cloud.door import Door, Lane
from edgewise.cloud.provider import Chunk, Cloud, Stop
from edgewise.engine import Engine
from edgewise.errors import Cancelled, CloudClosed, EdgewiseError, InvalidRequest
from edgewise.local.backend import (
    CallBackend,
    ChatBackend,
    DeviceFacts,
    EmbedBackend,
    SpeechBackend,
)
from edgewise.server.access import Clients, key_budgets
from edgewise.server.access_log import AccessLog
from edgewise.server.bridge import Cancellation, current
from edgewise.server.metrics import Gauge, Metrics
from edgewise.server.queue import (
    FairQueue,
    QueuedEmbedder,
    QueuedModel,
    QueuedTranscriber,
    QueuedVisionSkill,
    QueuedVisionSkills,
)
from edgewise.settings import ServerSettings, Settings
from edgewise.types.messages import Request, Task
from edgewise.types.replies import Attempt

log = logging.getLogger("edgewise.server")

LEAVING_S = 5.0  # for flows that were called off to end
MOST_CHOICES = 64  # cloud models that clients may name; each keeps its connections

Shared = TypeVar("Shared")


@dataclass(slots=True)
class Inside:
    """Requests being served: their threads, and how each is called off."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    cancellations: dict[threading.Thread, Cancellation] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.cancellations)

    def enter(self, thread: threading.Thread, cancellation: Cancellation, most: int) -> bool:
        with self.lock:
            if len(self.cancellations) >= most:
                return False
            self.cancellations[thread] = cancellation
            return True

    def leave(self, thread: threading.Thread) -> None:
        with self.lock:
            self.cancellations.pop(thread, None)

    def clear(self, seconds: float) -> None:
        """Call everything off, and wait a little for it to end."""
        with self.lock:
            left = dict(self.cancellations)
        for cancellation in left.values():
            cancellation.leave()
        until = time.monotonic() + seconds
        for thread in left:
            thread.join(max(0.0, until - time.monotonic()))


class ServerState:
    """Made once per server. `parts` replace the engine's own, as in `Engine`."""

    def __init__(self, settings: Settings, **parts: Any) -> None:
        server = settings.server
        settings = settings.with_changes(
            slots=server.slots, budgets=(*settings.budgets, *key_budgets(server))
        )
        self.settings = settings
        self.engine = ServedEngine(settings, queue=server.queue, **parts)
        self.clients = Clients(settings)
        self.metrics = Metrics(self.gauges)
        self.access_log = AccessLog(self.metrics)
        self.inside = Inside()
        self.draining = False
        self.warm = threading.Event()
        self.local_model = ""
        self.trouble = ""  # why there is no local model

    @property
    def server(self) -> ServerSettings:
        return self.settings.server

    def warm_up(self) -> None:
        """Find the local model and load the first provider's SDK, before anybody waits for it."""
        try:
            backend = self.engine._open_backend()
            self.local_model = backend.facts().model
        except EdgewiseError as error:
            self.trouble = str(error)
            log.warning("no local model: %s", error)
        finally:
            self.warm.set()
        door = self.engine._cloud_for("chat")
        if isinstance(door, Door):
            door.prepare()

    def lanes(self) -> Sequence[Lane]:
        """The cloud's chain, as far as the engine has one of its own."""
        door = self.engine._cloud_for("chat")
        door = door.door if isinstance(door, ServedCloud) else door
        return door.lanes if isinstance(door, Door) else ()

    def request_ended(self, failure: Exception | None) -> None:
        """On a request's thread, at its very end."""
        if failure is not None:
            # Where, but not with what: the message may quote somebody's words.
            where = "".join(traceback.format_tb(failure.__traceback__))
            log.error("a request failed: %s\n%s", type(failure).__name__, where)
        self.inside.leave(threading.current_thread())

    def close(self) -> None:
        self.inside.clear(LEAVING_S)
        self.engine.close()

    def gauges(self) -> list[Gauge]:
        """What is so right now. Reads the ledger."""
        found: list[Gauge] = [
            ("edgewise_requests_in_flight", {}, len(self.inside)),
            ("edgewise_threads", {}, threading.active_count()),
        ]
        with contextlib.suppress(OSError, IndexError, ValueError):  # Linux only
            pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
            found.append(("edgewise_resident_bytes", {}, pages * os.sysconf("SC_PAGE_SIZE")))
        for model, fair_queue in self.engine.fair_queues.items():
            own = {"model": model}
            found.append(("edgewise_slots", own, fair_queue.slots))
            found.append(("edgewise_slots_busy", own, fair_queue.busy))
            found.append(("edgewise_queue_waiting", own, fair_queue.waiting))
        for lane in self.lanes():
            shut = not lane.breaker.would_allow()
            found.append(("edgewise_breaker_open", {"provider": lane.config.name}, shut))
        for name, drift in list(self.engine._watch.found.items()):
            own = {"calibration": name}
            found.append(("edgewise_drift", own, drift.drifted))
            if drift.distance is not None and drift.bound is not None:
                found.append(("edgewise_drift_distance", own, drift.distance))
                found.append(("edgewise_drift_bound", own, drift.bound))
        with contextlib.suppress(EdgewiseError):  # counts are still worth having
            for left in self.engine.ledger.remaining():
                own = {"key": left.budget.key, "window": left.budget.window}
                found.append(("edgewise_budget_remaining_microdollars", own, left.remaining))
        return found


class ServedEngine(Engine):
    """`Engine`, with a queue before each local model and a way to call off every wait."""

    def __init__(self, settings: Settings, *, queue: int, **parts: Any) -> None:
        super().__init__(settings, **parts)
        self._places = queue
        self._shared: dict[int, Any] = {}  # models with their queues
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
        attempts: list[Attempt],
        *,
        live: bool,
        patience_s: float | None,
        stop: Stop | None = None,
    ) -> Generator[Chunk, None, None]:
        stop = stop or Stop()
        chunks = self.door.stream(request, attempts, live=live, patience_s=patience_s, stop=stop)
        with self.cancellation.waking(stop.ask), closing(chunks):
            yield from chunks
        if stop.asked:
            raise Cancelled("the client left")
