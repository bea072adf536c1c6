"""What is written down of every request that was served: a line of JSON, counts, and listeners."""

from __future__ import annotations

import itertools
import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from edgewise.server.metrics import Metrics
from edgewise.types.measured import is_borrowed
from edgewise.types.progress import Progress, watched
from edgewise.types.replies import Reply

log = logging.getLogger("edgewise.server")
_numbers = itertools.count(1)


@dataclass(slots=True, kw_only=True)
class Served:
    """One request: filled in while it is served, noted when it ends. Holds no text of it."""

    endpoint: str
    number: int = field(default_factory=_numbers.__next__)
    client: str = ""
    id: str = ""
    model: str = ""
    stream: bool = False
    status: int = 0
    code: str = ""  # the decision's, or the error's
    left: bool = False
    reply: Reply | None = None
    at: float = field(default_factory=time.time)
    started: float = field(default_factory=time.perf_counter)
    first_s: float | None = None
    total_s: float = 0.0
    progress: Progress = field(default_factory=Progress)

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "at": round(self.at, 3),
            "endpoint": self.endpoint,
            "client": self.client,
            "id": self.id,
            "model": self.model,
            "stream": self.stream,
            "status": self.status,
            "code": self.code,
            "left": self.left,
            "first_ms": None if self.first_s is None else round(1000 * self.first_s, 1),
            "total_ms": round(1000 * self.total_s, 1),
        }
        if self.reply is not None:
            found |= {
                "source": self.reply.source,
                "answered_by": self.reply.model,
                "confidence": self.reply.confidence,
                "confidence_verified": self.reply.confidence_verified,
                "degraded": self.reply.decision.degraded_code,
                "needs_cloud_handoff": self.reply.needs_cloud_handoff,
                "cost_microdollars": self.reply.usage.cost_microdollars,
                "input_tokens": self.reply.usage.input_tokens,
                "output_tokens": self.reply.usage.output_tokens,
                "attempts": len(self.reply.attempts),
            }
        return found


class AccessLog:
    """Takes down requests as they end. `listeners` get each one, on the thread that served it.

    `running` holds those that have not ended, by the thread that serves them.
    """

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.listeners: list[Callable[[Served], None]] = []
        self.running: dict[int, Served] = {}

    def begin(self, served: Served) -> None:
        """On the thread that serves it. What runs for it from now on tells how it goes."""
        watched.set(served.progress)
        self.running[threading.get_ident()] = served

    def forget(self) -> None:
        """On the thread that served it, at its very end; noted or not."""
        self.running.pop(threading.get_ident(), None)

    def note(self, served: Served) -> None:
        self.forget()
        served.total_s = time.perf_counter() - served.started
        self._count(served)
        _write_line(served.to_dict())
        for listener in list(self.listeners):
            listener(served)

    def refused(self, endpoint: str, status: int, code: str, client: str = "") -> None:
        """Turned away before it was read."""
        self.metrics.refused.labels(status=str(status), code=code).inc()
        line = {"at": round(time.time(), 3), "endpoint": endpoint, "client": client}
        _write_line(line | {"status": status, "code": code})

    def _count(self, served: Served) -> None:
        metrics, reply = self.metrics, served.reply
        source = reply.source if reply else "none"
        where = {"endpoint": served.endpoint, "source": source}
        metrics.requests.labels(**where, code=served.code, status=str(served.status)).inc()
        if served.left:
            metrics.disconnects.labels(endpoint=served.endpoint).inc()
        metrics.seconds.labels(**where).observe(served.total_s)
        if served.first_s is not None:
            metrics.first_token_seconds.labels(**where).observe(served.first_s)
        if reply is not None:
            self._count_reply(reply)

    def _count_reply(self, reply: Reply) -> None:
        metrics = self.metrics
        if reply.confidence is not None:
            borrowed = is_borrowed(reply.decision.calibration)
            verified = "borrowed" if borrowed else str(reply.confidence_verified).lower()
            metrics.confidence.labels(verified=verified).observe(reply.confidence)
        if reply.degraded:
            metrics.degraded.labels(code=reply.decision.degraded_code).inc()
        metrics.cost.inc(reply.usage.cost_microdollars)
        for each in reply.attempts:
            metrics.attempts.labels(
                place=each.place, backend=each.backend, outcome=each.outcome
            ).inc()
            metrics.tokens.labels(place=each.place, kind="input").inc(each.input_tokens)
            metrics.tokens.labels(place=each.place, kind="output").inc(each.output_tokens)


def _write_line(facts: dict[str, Any]) -> None:
    """As JSON; a handler that prefers other words finds the facts as `record.request`."""
    log.info("%s", json.dumps(facts, ensure_ascii=False), extra={"request": facts})
