"""`/edgewise/events`: requests as they end, to whoever looks on."""

from __future__ import annotations

import queue
from typing import Any

from edgewise.server.access_log import Served
from edgewise.server.answer import Incoming
from edgewise.server.state import ServerState
from edgewise.server.wire import EVENTS, Head, Work, sse

BEAT_S = 15.0  # between signs of life, so that nobody in between lets go
LOOK_S = 0.5  # between looks at whether the server is going down
BACKLOG = 256  # requests a slow reader may be behind; more are passed over


def events(state: ServerState, incoming: Incoming) -> Work:
    """Server-sent events until the reader or the server goes. Holds no text of any request."""
    waiting: queue.Queue[dict[str, Any]] = queue.Queue(BACKLOG)
    own = incoming.client.name if incoming.client.budget_key else ""

    def listen(served: Served) -> None:
        if (not own or served.client == own) and not waiting.full():
            waiting.put(served.to_dict())

    state.access_log.listeners.append(listen)
    try:
        yield Head(200, EVENTS)
        yield b": listening\n\n"
        quiet_s = 0.0
        while not (incoming.cancellation.left or state.draining):
            try:
                yield sse(waiting.get(timeout=LOOK_S), "request")
                quiet_s = 0.0
            except queue.Empty:
                quiet_s += LOOK_S
                if quiet_s >= BEAT_S:
                    yield b": here\n\n"
                    quiet_s = 0.0
    finally:
        state.access_log.listeners.remove(listen)
