"""What all endpoints of a server share: the engine, the clients, the counts, who is inside."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgewise.cloud.door import (
    Door,
    Lane,
)
from edgewise.errors import EdgewiseError
from edgewise.server.access import (
    Clients,
    key_budgets,
)
from edgewise.server.access_log import AccessLog
from edgewise.server.cancellation import Cancellation
from edgewise.server.metrics import Labels, Metrics
from edgewise.server.served_engine import ServedCloud, ServedEngine
from edgewise.settings import ServerSettings, Settings

log = logging.getLogger("edgewise.server")

LEAVING_S = 5.0  # for flows that were called off to end


@dataclass(slots=True)
class Inside:
    """Requests being served: their visits and threads."""

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
        self.metrics = Metrics()
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

    def close(self) -> None:
        self.inside.clear(LEAVING_S)
        self.engine.close()

    def gauges(self) -> dict[tuple[str, Labels], float]:
        """What is so right now. Reads the ledger."""
        found: dict[tuple[str, Labels], float] = {
            ("edgewise_requests_in_flight", ()): float(len(self.inside)),
            ("edgewise_threads", ()): float(threading.active_count()),
        }
        with contextlib.suppress(OSError, IndexError, ValueError):  # Linux only
            pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
            found["edgewise_resident_bytes", ()] = float(pages * os.sysconf("SC_PAGE_SIZE"))
        for model, fair_queue in self.engine.fair_queues.items():
            labels: Labels = (("model", model),)
            found["edgewise_slots", labels] = float(fair_queue.slots)
            found["edgewise_slots_busy", labels] = float(fair_queue.busy)
            found["edgewise_queue_waiting", labels] = float(fair_queue.waiting)
        for lane in self.lanes():
            shut = float(not lane.breaker.would_allow())
            found["edgewise_breaker_open", (("provider", lane.config.name),)] = shut
        for name, drift in list(self.engine._watch.found.items()):
            own: Labels = (("calibration", name),)
            found["edgewise_drift", own] = float(drift.drifted)
            if drift.distance is not None and drift.bound is not None:
                found["edgewise_drift_distance", own] = drift.distance
                found["edgewise_drift_bound", own] = drift.bound
        with contextlib.suppress(EdgewiseError):  # counts are still worth having
            for state in self.engine.ledger.remaining():
                budget: Labels = (("key", state.budget.key), ("window", state.budget.window))
                found["edgewise_budget_remaining_microdollars", budget] = float(state.remaining)
        return found
