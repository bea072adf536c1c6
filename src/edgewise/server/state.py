"""What all endpoints of a server share: the engine, the clients, the counts, the requests."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgewise.assembly.models import can_chat, pulled_chat_models
from edgewise.bridge import Cancellation, Worker
from edgewise.cloud.door import Door, Lane
from edgewise.errors import EdgewiseError
from edgewise.local.store.catalogue import MODELS, model_name
from edgewise.local.store.store import InstalledModel, ModelStore
from edgewise.server.access import Clients, key_budgets, key_intervals
from edgewise.server.access_log import AccessLog
from edgewise.server.errors import refuse
from edgewise.server.metrics import Gauge, Metrics
from edgewise.settings import ServerSettings, Settings
from edgewise.shared_engine import SharedCloud, SharedEngine

log = logging.getLogger("edgewise.server")

SMALL_BODY = 65_536  # bytes
LEAVING_S = 5.0  # for flows that were called off to end


@dataclass(slots=True)
class Inside:
    """Requests being served, each by its cancellation."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    workers: dict[Cancellation, Worker[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.workers)

    def enter(self, worker: Worker[Any], most: int) -> bool:
        with self.lock:
            if len(self.workers) >= most:
                return False
            self.workers[worker.cancellation] = worker
            return True

    def start(self, worker: Worker[Any], most: int) -> bool:
        """Enter, and begin to work; False also where the system has no thread to spare."""
        if not self.enter(worker, most):
            return False
        try:
            worker.start()
        except RuntimeError:
            self.leave(worker.cancellation)
            return False
        return True

    def leave(self, cancellation: Cancellation) -> None:
        with self.lock:
            self.workers.pop(cancellation, None)

    def clear(self, seconds: float) -> None:
        """Call everything off, and wait a little for it to end."""
        with self.lock:
            left = list(self.workers.values())
        for worker in left:
            worker.cancellation.leave()
        until = time.monotonic() + seconds
        for worker in left:
            worker.join(max(0.0, until - time.monotonic()))


class BodyRoom:
    """Memory for the bodies of all requests that are being sent or answered."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self.used = 0

    def take(self, count: int, *, small: bool) -> bool:
        """Small bodies may fill twice the room: large ones must not keep them out."""
        with self._lock:
            if self.used + count > self._most * (2 if small else 1):
                return False
            self.used += count
            return True

    def give_back(self, count: int) -> None:
        with self._lock:
            self.used -= count


class HeldBody:
    """What one body takes of the room, from its first byte until its request has ended."""

    def __init__(self, room: BodyRoom) -> None:
        self._room = room
        self._size = 0

    def grow(self, count: int) -> bool:
        """False where there is no room for so many bytes more."""
        if not self._room.take(count, small=self._size + count <= SMALL_BODY):
            return False
        self._size += count
        return True

    def free(self) -> None:
        size, self._size = self._size, 0
        self._room.give_back(size)


class ServerState:
    """Made once per server. `parts` replace the engine's own, as in `Engine`."""

    def __init__(self, settings: Settings, **parts: Any) -> None:
        server = settings.server
        settings = settings.with_changes(
            slots=server.slots,
            isolate=server.isolate,
            private_image_urls=False,  # a server asks for strangers
            budgets=(*settings.budgets, *key_budgets(server)),
            cloud_every_s=(*settings.cloud_every_s, *key_intervals(server)),
        )
        self.settings = settings
        self.engine = SharedEngine(settings, queue=server.queue, **parts)
        self.clients = Clients(settings, self.engine.ledger.shared)
        self.metrics = Metrics(self.gauges)
        self.access_log = AccessLog(self.metrics)
        self.inside = Inside()
        self.live = Inside()  # those of them that are live sessions
        self.bodies = BodyRoom(server.bodies_bytes)
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

    @property
    def model_trouble(self) -> str:
        """Why no local model answers at the moment; empty if one does."""
        supervisor = self.engine.supervisors.get(self.local_model)
        return self.trouble if supervisor is None else supervisor.trouble

    @property
    def answering_model(self) -> str:
        return "" if self.model_trouble else self.local_model

    def pulled(self) -> list[InstalledModel]:
        """The chat models that were pulled, the engine's own included if it is one of them."""
        return pulled_chat_models(self.settings)

    def find_pulled(self, name: str) -> str:
        """The full name of a pulled chat model; empty if there is none of that name.

        A path is no name: a client must not choose a file. Raises Refusal: it cannot chat.
        """
        wanted = model_name(name, MODELS)
        for model in ModelStore(self.settings.models_dir).installed():
            if model.name == wanted:
                if not can_chat(model):
                    words = f"{model.name} cannot chat; GET /v1/models has those that can"
                    raise refuse(400, "model_cannot_chat", words, param="model")
                return model.name
        return ""

    def lanes(self) -> Sequence[Lane]:
        """The cloud's chain, as far as the engine has one of its own."""
        door = self.engine._cloud_for("chat")
        door = door.door if isinstance(door, SharedCloud) else door
        return door.lanes if isinstance(door, Door) else ()

    def start_live(self, worker: Worker[Any]) -> bool:
        """A live session begins; False where there are as many as there may be."""
        if not self.live.enter(worker, self.server.live_sessions):
            return False
        if not self.inside.start(worker, self.server.requests):
            self.live.leave(worker.cancellation)
            return False
        return True

    def request_ended(self, cancellation: Cancellation, failure: Exception | None) -> None:
        """On a request's thread, at its very end."""
        if failure is not None:
            # Where, but not with what: the message may quote somebody's words.
            where = "".join(traceback.format_tb(failure.__traceback__))
            log.error("a request failed: %s\n%s", type(failure).__name__, where)
        self.access_log.forget()
        self.inside.leave(cancellation)
        self.live.leave(cancellation)

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
        found += model_gauges(self.engine)
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


def model_gauges(engine: SharedEngine) -> Iterator[Gauge]:
    """What is so of the local models right now."""
    for model, supervisor in engine.supervisors.items():
        own = {"model": model}
        yield "edgewise_model_resident_bytes", own, supervisor.resident_bytes
        yield "edgewise_model_up", own, not supervisor.trouble
        yield "edgewise_model_restarts_total", own, supervisor.restarts
    for model, fair_queue in engine.fair_queues.items():
        own = {"model": model}
        yield "edgewise_slots", own, fair_queue.slots
        yield "edgewise_slots_busy", own, fair_queue.busy
        yield "edgewise_queue_waiting", own, fair_queue.waiting
