"""`/edgewise/events`: requests while they run and as they end, to whoever looks on."""

from __future__ import annotations

import contextlib
import queue
import time
from typing import Any

from edgewise.server.access_log import Served
from edgewise.server.answer import Incoming
from edgewise.server.state import ServerState
from edgewise.server.wire import EVENTS, Head, Work, sse

BEAT_S = 15.0  # between signs of life, so that nobody in between lets go
LOOK_S = 0.2  # between looks at what is running: five a second, however fast tokens come
BACKLOG = 256  # requests a slow reader may be behind; more are passed over
MOST_SHOWN = 50  # of the requests in flight, the oldest first


def events(state: ServerState, incoming: Incoming) -> Work:
    """Server-sent events until the reader or the server goes. Holds no text of any request."""
    waiting: queue.Queue[dict[str, Any]] = queue.Queue(BACKLOG)
    own = incoming.client.name if incoming.client.budget_key else ""

    def listen(served: Served) -> None:
        if not own or served.client == own:
            with contextlib.suppress(queue.Full):  # whoever serves must not wait for who looks on
                waiting.put_nowait(served.to_dict())

    state.access_log.listeners.append(listen)
    try:
        yield Head(200, EVENTS)
        yield b": listening\n\n"
        shown: dict[str, Any] | None = None
        looked = told = time.monotonic()
        while not (incoming.cancellation.left or state.draining):
            try:
                yield sse(waiting.get(timeout=LOOK_S), "request")
                told = time.monotonic()
            except queue.Empty:
                pass
            now = time.monotonic()
            if now - looked >= LOOK_S:
                looked = now
                found = in_flight(state, own)
                if _without_time(found) != shown:
                    shown, told = _without_time(found), now
                    yield sse(found, "in_flight")
            if now - told >= BEAT_S:
                told = now
                yield b": here\n\n"
    finally:
        state.access_log.listeners.remove(listen)


def in_flight(state: ServerState, own: str = "") -> dict[str, Any]:
    """The requests that run now, and the queues before the local models.

    A client with a key of its own sees its own requests only.
    """
    found = [
        served
        for served in list(state.access_log.running.values())
        if not own or served.client == own
    ]
    return {
        "count": len(found),
        "requests": [describe(served) for served in found[:MOST_SHOWN]],
        "queues": [
            {"model": name, "slots": each.slots, "busy": each.busy, "waiting": each.waiting}
            for name, each in state.engine.fair_queues.items()
        ],
    }


def describe(served: Served) -> dict[str, Any]:
    """One request as it is now. Asks for its confidence, which is written with its next token."""
    progress = served.progress
    progress.asked = True
    rate = progress.tokens_per_second
    return {
        "number": served.number,
        "id": served.id,
        "endpoint": served.endpoint,
        "client": served.client,
        "asked_for": served.model,
        "place": progress.place,
        "backend": progress.backend,
        "model": progress.model,
        "waiting": progress.waiting,
        "tokens": progress.tokens,
        "tokens_per_second": None if rate is None else round(rate, 1),
        "confidence": _rounded(progress.confidence),
        "confidence_verified": progress.verified,
        "threshold": _rounded(progress.threshold),
        "turns": [
            {
                "to": turn.to,
                "code": turn.code,
                "confidence": _rounded(turn.confidence),
                "at_ms": round(1000 * (turn.at - served.started)),
            }
            for turn in list(progress.turns)
        ],
        "elapsed_ms": round(1000 * (time.perf_counter() - served.started)),
    }


def _rounded(chance: float | None) -> float | None:
    return None if chance is None else round(chance, 3)


def _without_time(found: dict[str, Any]) -> dict[str, Any]:
    """What is worth telling: that time passes, a reader knows."""
    requests = [{**each, "elapsed_ms": 0} for each in found["requests"]]
    return found | {"requests": requests}
