"""Whether the server lives, whether it is ready, and its counts."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse

from edgewise.server.answer import Incoming
from edgewise.server.metrics import CONTENT_TYPE
from edgewise.server.state import ServerState
from edgewise.server.wire import Head, Work


class Health:
    """Answered on the event loop: that it can is what is asked."""

    def __init__(self, state: ServerState) -> None:
        self._state = state

    async def alive(self, _: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    async def ready(self, _: Request) -> JSONResponse:
        """Ready with a local model or without one; not while starting, nor while stopping."""
        state = self._state
        ready = state.warm.is_set() and not state.draining
        status = "draining" if state.draining else "ready" if ready else "starting"
        body = {"status": status, "local_model": state.local_model or None}
        return JSONResponse(body, status_code=200 if ready else 503)


def metrics(state: ServerState, _: Incoming) -> Work:
    yield Head(200, {"content-type": CONTENT_TYPE})
    yield state.metrics.written(state.gauges()).encode()
