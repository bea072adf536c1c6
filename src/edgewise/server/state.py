"""What all endpoints of a server share: the engine, the clients, the counts, the requests."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from edgewise.bridge import Cancellation, NoThread, Worker
from edgewise.cloud.door import Door, Lane
from edgewise.cloud.providers import has_model
from edgewise.errors import EdgewiseError
from edgewise.local.catalogue import MODELS, model_name
from edgewise.local.models import PooledModel
from edgewise.local.store import InstalledModel, ModelStore
from edgewise.parts import can_chat, ledger_limits, pulled_chat_models
from edgewise.record.report import Usage
from edgewise.server.access import AccessLog, Clients, Served
from edgewise.server.errors import refuse
from edgewise.server.metrics import Energy, Gauge, Metrics
from edgewise.settings import ServerSettings, Settings
from edgewise.shared_engine import SharedCloud, SharedEngine

log = logging.getLogger("edgewise.server")
Found = TypeVar("Found")

SMALL_BODY = 65_536  # bytes
KEPT_S_PER_ROW = 2e-5  # 3 s for 150,000 rows, whose reading takes about one
LONGEST_KEPT_S = 5.0  # as often as the dashboard asks
MOST_KEPT = 8  # reports: clients choose their time
LEAVING_S = 5.0  # for flows that were called off to end


@dataclass(slots=True)
class Inside:
    """Requests being served, each by its cancellation. One client has at most `share` of them."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    workers: dict[Cancellation, Worker[Any] | None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.workers)

    def enter(
        self,
        who: Cancellation,
        most: int,
        share: int | None = None,
        worker: Worker[Any] | None = None,
    ) -> bool:
        with self.lock:
            if len(self.workers) >= most:
                return False
            if share is not None and sum(o.client == who.client for o in self.workers) >= share:
                return False
            self.workers[who] = worker
            return True

    def start(self, worker: Worker[Any], most: int) -> bool:
        """Enter, and begin to work."""
        if not self.enter(worker.cancellation, most, worker=worker):
            return False
        worker.start()
        return True

    def leave(self, cancellation: Cancellation) -> None:
        with self.lock:
            self.workers.pop(cancellation, None)

    def clear(self, seconds: float) -> None:
        """Call everything off, and wait a little for it to end."""
        with self.lock:
            left = [worker for worker in self.workers.values() if worker is not None]
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


@dataclass(frozen=True, slots=True)
class KeptValue:
    value: Any
    begun: float
    until: float


class Reports:
    """What clients read of the whole ledger: one report at a time, shared by all who waited for it.

    A large one is shown for a while, so that reading takes a bounded part of the machine, however
    many look and however often.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[object, KeptValue] = {}

    def get(self, key: object, make: Callable[[], tuple[Found, int]]) -> Found:
        """What `make` finds, with the number of rows that it read; or has just found."""
        asked = self._clock()
        with self._lock:
            kept = self._kept.get(key)
            begun = self._clock()
            if kept is None or not (kept.begun > asked or begun < kept.until):
                value, rows = make()
                kept_s = min(rows * KEPT_S_PER_ROW, LONGEST_KEPT_S)
                kept = KeptValue(value, begun, self._clock() + kept_s)
                self._kept.pop(key, None)
                self._kept = dict([*self._kept.items()][1 - MOST_KEPT :]) | {key: kept}
            found: Found = kept.value
            return found


class ServerState:
    """Made once per server. `parts` replace the engine's own, as in `Engine`."""

    def __init__(self, settings: Settings, **parts: Any) -> None:
        server = settings.server
        settings = settings.with_changes(
            slots=server.slots,
            isolate=server.isolate,
            private_image_urls=False,  # a server asks for strangers
        )
        self.settings = settings
        self.engine = SharedEngine(
            settings, queue=server.queue, busy_after_s=server.busy_after_s, **parts
        )
        self.clients = Clients(settings, self.engine.ledger.shared)
        self.clients.changed = self._limit
        self._limit()
        self.metrics = Metrics(self.gauges)
        self.access_log = AccessLog(self.metrics)
        self.inside = Inside()
        self.live = Inside()  # those of them that are live sessions
        self.watching = Inside()  # those that read `/edgewise/events`
        self.bodies = BodyRoom(server.bodies_bytes)
        self.reports = Reports()
        self.draining = False
        self.warm = threading.Event()
        self._closed = threading.Event()
        self.energy = Energy(self._device_works)
        self._summing = threading.Thread(target=self._sum_up, name="edgewise-reports", daemon=True)
        self.local_model = ""
        self.trouble = ""  # why there is no local model
        self.loading: set[str] = set()  # the models that somebody waits for

    def _limit(self) -> None:
        """Let the budgets of keys count beside those of the settings."""
        budgets, intervals = ledger_limits(self.settings)
        of_keys = self.clients.limits()
        self.engine.ledger.limit([*budgets, *of_keys[0]], [*intervals, *of_keys[1]])

    @property
    def server(self) -> ServerSettings:
        return self.settings.server

    def warm_up(self) -> None:
        """Find the local model and load the first provider's SDK, before anybody waits for it."""
        try:
            backend = self.engine.parts.backend()
            self.local_model = backend.facts().model
            self._preload()
        except EdgewiseError as error:
            self.trouble = str(error)
            log.warning("no local model: %s", error)
        finally:
            self.warm.set()
        door = self.engine.parts.cloud("chat")
        if isinstance(door, Door):
            door.prepare()
        if not self._closed.is_set():
            self._summing.start()
        if self.energy.told:
            self.access_log.starters.append(self.energy.look)  # what was before is not its own
            self.access_log.listeners.append(self._count_answer)
            watch = threading.Thread(target=self.energy.watch, args=(self._closed,), daemon=True)
            watch.start()

    def _device_works(self) -> bool:
        return any(each.busy for each in self.engine.parts.fair_queues.values())

    def _count_answer(self, served: Served) -> None:
        if served.reply is not None and served.reply.source == "local":
            self.energy.answered()

    def _preload(self) -> None:
        """Load what the settings name before anybody asks, and keep it there."""
        for name in self.server.preload:
            try:
                model = self.find_local(name)
                self.load(model)
                if (found := self.pooled(model)) is not None:
                    found.pin()
            except EdgewiseError as error:
                log.warning("%s is not preloaded: %s", name, error)

    def load(self, model: str) -> None:
        """A chat model, or the server's own; whoever looks sees that it is being loaded."""
        name = model or self.local_model
        self.loading.add(name)
        try:
            self.engine.parts.load(model)
        finally:
            self.loading.discard(name)

    def pooled(self, model: str) -> PooledModel | None:
        """A chat model as the pool has it; None if it was given to the engine."""
        found: Any = self.engine.parts.backend(model).model
        return found if isinstance(found, PooledModel) else None

    def keep(self, model: str, seconds: float | None, own: str) -> None:
        """How long a model stays in memory. A client with a key of its own may keep one longer,
        never shorter."""
        if seconds is None or not (model or self.local_model):
            return
        found = self.pooled(model)
        if found is not None and not (own and seconds < found.keep_s):
            found.keep(seconds)

    def find_local(self, name: str) -> str:
        """A chat model as the engine knows it: empty for the server's own. Raises Refusal."""
        name = name.removeprefix("local/")
        found = name if name == self.local_model else self.find_pulled(name)
        if self.local_model and name in ("auto", "local"):
            found = self.local_model
        if not found:
            raise refuse(404, "model_not_found", f"model {name[:80]!r} not found", param="model")
        return "" if found == self.local_model else found

    def _sum_up(self) -> None:
        """What is over is read before anybody looks; a large ledger takes seconds."""
        with contextlib.suppress(EdgewiseError):  # whoever looks is told
            self.engine.ledger.sum_up(self._closed.is_set)

    @property
    def model_trouble(self) -> str:
        """Why no local model answers at the moment; empty if one does."""
        supervisor = self.engine.parts.supervisors.get(self.local_model)
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
        store = ModelStore(self.settings.models_dir)
        # Most names are those of clouds: then no manifest need be read, with each request.
        here = store.root.is_dir() and wanted in os.listdir(store.root)
        for model in store.installed() if here else ():
            if model.name == wanted:
                if not can_chat(model):
                    words = f"{model.name} cannot chat; GET /v1/models has those that can"
                    raise refuse(400, "model_cannot_chat", words, param="model")
                return model.name
        return ""

    def provider_of(self, name: str) -> str:
        """Who of the chain has a model of this name; empty if nobody is known to, or if it is the
        one that is asked anyway."""
        lanes = self.lanes()
        if any(lane.config.model == name for lane in lanes[:1]):
            return ""
        found = (lane.config.name for lane in lanes if has_model(lane.config, name))
        return next(found, "")

    def lanes(self) -> Sequence[Lane]:
        """The cloud's chain, as far as the engine has one of its own."""
        door = self.engine.parts.cloud("chat")
        door = door.door if isinstance(door, SharedCloud) else door
        return door.lanes if isinstance(door, Door) else ()

    def start_live(self, worker: Worker[Any]) -> bool:
        """A live session begins; False where there are, or the key has, as many as may be."""
        most = self.server.live_sessions
        if not self.live.enter(worker.cancellation, most, self.clients.share_of(most)):
            return False
        if not self.inside.start(worker, self.server.requests):
            self.live.leave(worker.cancellation)
            return False
        return True

    def request_ended(self, cancellation: Cancellation, failure: Exception | None) -> None:
        """On a request's thread, at its very end."""
        if failure is not None and not isinstance(failure, NoThread):  # the client comes again
            # Where, but not with what: the message may quote somebody's words.
            where = "".join(traceback.format_tb(failure.__traceback__))
            log.error("a request failed: %s\n%s", type(failure).__name__, where)
        self.access_log.forget()
        self.inside.leave(cancellation)
        self.live.leave(cancellation)

    def close(self) -> None:
        self._closed.set()
        self.inside.clear(LEAVING_S)
        if self._summing.is_alive():
            self._summing.join(LEAVING_S)
        self.clients.close()
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
        if self.energy.told:
            found.append(("edgewise_device_joules_total", {}, self.energy.joules))
            found.append(("edgewise_device_answers_total", {}, self.energy.answers))
        for lane in self.lanes():
            shut = not lane.breaker.would_allow()
            found.append(("edgewise_breaker_open", {"provider": lane.config.name}, shut))
        for name, drift in list(self.engine.parts.watch.found.items()):
            own = {"calibration": name}
            found.append(("edgewise_drift", own, drift.drifted))
            if drift.distance is not None and drift.bound is not None:
                found.append(("edgewise_drift_distance", own, drift.distance))
                found.append(("edgewise_drift_bound", own, drift.bound))
        with contextlib.suppress(EdgewiseError):  # counts are still worth having
            for left in self.engine.ledger.remaining():
                if left.budget.of:  # labels are words of ours, and names of people are not
                    continue
                own = {"key": left.budget.key, "window": left.budget.window}
                found.append(("edgewise_budget_remaining_microdollars", own, left.remaining))
                limit = left.budget.limit_microdollars
                found.append(("edgewise_budget_limit_microdollars", own, limit))
            names = self.clients.names
            for row in self.engine.ledger.usage() if names else ():
                if row.key in names:
                    found += key_gauges(row)
        return found


def key_gauges(row: Usage) -> Iterator[Gauge]:
    """What a key asked, spent and saved since the ledger was begun, whoever served it."""
    own = {"key": row.key}
    yield "edgewise_key_requests_total", own, row.requests
    yield "edgewise_key_kept_total", own, row.kept
    yield "edgewise_key_doubtful_total", own, row.doubtful
    yield "edgewise_key_cloud_total", own, row.cloud
    yield "edgewise_key_failed_total", own, row.failed
    yield "edgewise_key_spent_microdollars_total", own, row.spent_microdollars
    yield "edgewise_key_avoided_microdollars_total", own, row.avoided_microdollars


def model_gauges(engine: SharedEngine) -> Iterator[Gauge]:
    """What is so of the local models right now."""
    for model, supervisor in engine.parts.supervisors.items():
        own = {"model": model}
        yield "edgewise_model_resident_bytes", own, supervisor.resident_bytes
        yield "edgewise_model_up", own, not supervisor.trouble
        yield "edgewise_model_restarts_total", own, supervisor.restarts
    for model, fair_queue in engine.parts.fair_queues.items():
        own = {"model": model}
        yield "edgewise_slots", own, fair_queue.slots
        yield "edgewise_slots_busy", own, fair_queue.busy
        yield "edgewise_queue_waiting", own, fair_queue.waiting
