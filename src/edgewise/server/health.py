"""Whether the server lives, whether it is ready, and its counts."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse

from edgewise.server.answer import Incoming
from edgewise.server.metrics import CONTENT_TYPE
from edgewise.server.state import House
from edgewise.server.wire import Head, Work


class Health:
    """Answered on the event loop: that it can is what is asked."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def alive(self, _: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    async def ready(self, _: Request) -> JSONResponse:
        """Ready with a local model or without one; not while starting, nor while stopping."""
        house = self._house
        ready = house.warm.is_set() and not house.draining
        state = "draining" if house.draining else "ready" if ready else "starting"
        body = {"status": state, "local_model": house.local_model or None}
        return JSONResponse(body, status_code=200 if ready else 503)


def metrics(house: House, _: Incoming) -> Work:
    yield Head(200, {"content-type": CONTENT_TYPE})
    yield house.metrics.written(house.gauges()).encode()
