"""The application: which path is whose."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from edgewise.server import health
from edgewise.server.access import Guard
from edgewise.server.answer import Incoming, answer
from edgewise.server.anthropic.messages import (
    MessagesWire,
    anthropic_error,
)
from edgewise.server.dashboard import overview
from edgewise.server.dashboard.events import events
from edgewise.server.dashboard.page import page
from edgewise.server.endpoint import Endpoint
from edgewise.server.errors import Fault
from edgewise.server.openai import models as catalogue
from edgewise.server.openai.chat import (
    ChatWire,
    openai_error,
)
from edgewise.server.openai.embeddings import embeddings
from edgewise.server.openai.responses import ResponsesWire
from edgewise.server.openai.transcriptions import transcriptions
from edgewise.server.openapi.document import description
from edgewise.server.realtime import Realtime
from edgewise.server.state import ServerState
from edgewise.server.wire import Wire, Work

Answerer = Callable[[ServerState, Incoming], Work]


def _over(wire: Wire) -> Answerer:
    return lambda state, incoming: answer(state, wire, incoming)


# The route table: method, path, name in logs and counts, and who answers on a thread.
# A new family of endpoints is a file of its own and a line here.
ROUTES: tuple[tuple[str, str, str, Answerer], ...] = (
    ("POST", "/v1/chat/completions", "chat.completions", _over(ChatWire())),
    ("POST", "/v1/responses", "responses", _over(ResponsesWire())),
    ("POST", "/v1/messages", "messages", _over(MessagesWire())),
    ("POST", "/v1/embeddings", "embeddings", embeddings),
    ("POST", "/v1/audio/transcriptions", "audio.transcriptions", transcriptions),
    ("GET", "/v1/models", "models", catalogue.model_list),
    ("GET", "/v1/models/{model:path}", "models", catalogue.one_model),
    ("GET", "/metrics", "metrics", health.metrics),
    ("GET", "/edgewise/overview/{since}", "dashboard", overview.overview),
    ("GET", "/edgewise/confidences/{since}", "dashboard", overview.confidences),
    ("GET", "/edgewise/requests", "dashboard", overview.recent),
    ("GET", "/edgewise/requests/{id}", "dashboard", overview.one_request),
    ("GET", "/edgewise/events", "dashboard", events),
)


def make_app(state: ServerState) -> Starlette:
    """An ASGI application around a house; starting it warms the house, stopping it closes it."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        threading.Thread(target=state.warm_up, name="edgewise-warm-up", daemon=True).start()
        try:
            yield
        finally:
            await asyncio.to_thread(state.close)

    checks = health.Health(state)
    routes: list[BaseRoute] = [
        Route(path, Endpoint(state, name, partial(work, state)), methods=[method])
        for method, path, name, work in ROUTES
    ]
    routes += [
        Route("/healthz", checks.alive, methods=["GET"]),
        Route("/readyz", checks.ready, methods=["GET"]),
        WebSocketRoute("/v1/realtime", Realtime(state)),
        Route("/openapi.json", description, methods=["GET"]),
        Route("/", page, methods=["GET"]),
        Route("/dashboard/{name}", page, methods=["GET"]),
    ]
    return Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[
            Middleware(Guard, server=state.server, clients=state.clients, log=state.access_log)
        ],
        exception_handlers={404: _no_such_path, 405: _wrong_method},
    )


async def _no_such_path(request: Request, _: Exception) -> Response:
    return _faulty(request, 404, "not_found", f"there is no {request.url.path[:80]!r} here")


async def _wrong_method(request: Request, error: Exception) -> Response:
    answer = _faulty(request, 405, "method_not_allowed", f"not with {request.method}")
    answer.headers.update(getattr(error, "headers", None) or {})  # which methods are allowed
    return answer


def _faulty(request: Request, status: int, code: str, words: str) -> Response:
    fault = Fault(status=status, code=code, message=words)
    write = anthropic_error if request.url.path.startswith("/v1/messages") else openai_error
    return JSONResponse(write(fault), status_code=status)
