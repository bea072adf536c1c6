"""The application: which path is whose, and the way of a request from the loop to a thread.

The event loop only moves bytes. Everything else of a request, from parsing its body to writing
its events, happens on a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import threading
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send

from edgewise.bridge import Cancellation, NoThread, Worker
from edgewise.server import dashboard, gemini, ollama
from edgewise.server.access import GOOGLE_KEY, Guard, send_fault
from edgewise.server.answer import Incoming, answer
from edgewise.server.anthropic import MessagesWire, count_tokens
from edgewise.server.chat import ChatWire, model_list, one_model
from edgewise.server.decisions import decisions, systemone
from edgewise.server.embeddings import embeddings
from edgewise.server.errors import BROKEN, Fault, Refusal, error_body, refuse
from edgewise.server.metrics import CONTENT_TYPE
from edgewise.server.openapi import description
from edgewise.server.realtime import Realtime
from edgewise.server.responses import ResponsesWire
from edgewise.server.state import HeldBody, ServerState
from edgewise.server.transcriptions import speech, transcriptions, translations
from edgewise.server.wire import Head, Pings, Wire, Work, send_head, whole

log = logging.getLogger("edgewise.server")

PING_S = 15.0  # of silence in a stream; some proxies cut after 30

Answerer = Callable[[ServerState, Incoming], Work]

FULL = Fault(
    status=429,
    code="server_busy",
    message="the server serves as many requests as it may",
    retry_after_s=1.0,
)


def make_app(state: ServerState) -> Starlette:
    """An ASGI application around the state; starting it warms the state, stopping it closes it."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        threading.Thread(target=state.warm_up, name="edgewise-warm-up", daemon=True).start()
        try:
            yield
        finally:
            await asyncio.to_thread(state.close)

    async def alive(_: Request) -> JSONResponse:
        """Answered on the event loop: that it can is what is asked."""
        return JSONResponse({"status": "ok"})

    async def ready(_: Request) -> JSONResponse:
        """Ready with a local model or without one; not while starting, nor while stopping."""
        is_ready = state.warm.is_set() and not state.draining
        status = "draining" if state.draining else "ready" if is_ready else "starting"
        body = {"status": status, "local_model": state.answering_model or None}
        return JSONResponse(body, status_code=200 if is_ready else 503)

    routes: list[BaseRoute] = [
        Route(path, Endpoint(state, name, work), methods=[method])
        for method, path, name, work in ROUTES
    ]
    routes += [
        Route("/healthz", alive, methods=["GET"]),
        Route("/readyz", ready, methods=["GET"]),
        WebSocketRoute("/v1/realtime", Realtime(state)),
        Route("/openapi.json", description, methods=["GET"]),
        Route("/", dashboard.page, methods=["GET"]),
        Route("/dashboard/{name}", dashboard.page, methods=["GET"]),
    ]
    middleware = [
        Middleware(
            Guard,
            server=state.server,
            clients=state.clients,
            log=state.access_log,
            own_id=state.engine.parts.id,
        )
    ]
    if state.server.origins:  # no other origin comes past the guard
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=state.server.origins,
                allow_methods=("GET", "POST"),
                allow_headers=("*",),
                allow_private_network=True,  # that is where servers are that pages may ask
                expose_headers=("*",),
            )
        )
    return Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=middleware,
        exception_handlers={404: _no_such_path, 405: _wrong_method},
    )


def _chat(wire: Wire) -> Answerer:
    return lambda state, incoming: answer(state, wire, incoming)


def _metrics(state: ServerState, incoming: Incoming) -> Work:
    written = state.metrics.written(incoming.client.own)
    yield whole(200, {"content-type": CONTENT_TYPE}, written)


def _either(openais: Answerer, googles: Answerer) -> Answerer:
    """Both list their models at one path; only Google's clients send this header."""

    def work(state: ServerState, incoming: Incoming) -> Work:
        mine = googles if GOOGLE_KEY in incoming.headers else openais
        return mine(state, incoming)

    return work


# Method, path, name in logs and counts, and who answers on a thread.
# A new family of endpoints is a file of its own and a line here.
ROUTES: tuple[tuple[str, str, str, Answerer], ...] = (
    ("POST", "/v1/chat/completions", "chat.completions", _chat(ChatWire())),
    ("POST", "/v1/responses", "responses", _chat(ResponsesWire())),
    ("POST", "/v1/messages", "messages", _chat(MessagesWire())),
    ("POST", "/v1/messages/count_tokens", "messages.count_tokens", count_tokens),
    ("POST", "/v1/embeddings", "embeddings", embeddings),
    ("POST", "/v1/systemone", "systemone", systemone),
    ("POST", "/v1/decisions", "decisions", decisions),
    ("POST", "/v1/audio/transcriptions", "audio.transcriptions", transcriptions),
    ("POST", "/v1/audio/speech", "audio.speech", speech),
    ("POST", "/v1/audio/translations", "audio.translations", translations),
    ("GET", "/v1/models", "models", _either(model_list, gemini.list_models)),
    ("GET", "/v1/models/{model:path}", "models", _either(one_model, gemini.one_model)),
    ("POST", "/v1/models/{model:path}", "gemini", gemini.generate),
    ("POST", "/v1beta/models/{model:path}", "gemini", gemini.generate),
    ("GET", "/v1beta/models", "models", gemini.list_models),
    ("GET", "/v1beta/models/{model:path}", "models", gemini.one_model),
    ("POST", "/api/chat", "ollama.chat", _chat(ollama.OllamaChatWire())),
    ("POST", "/api/generate", "ollama.generate", _chat(ollama.OllamaGenerateWire())),
    ("POST", "/api/embed", "ollama.embed", ollama.embed),
    ("POST", "/api/embeddings", "ollama.embed", ollama.embeddings),
    ("POST", "/api/show", "ollama.show", ollama.show),
    ("GET", "/api/tags", "ollama.tags", ollama.tags),
    ("GET", "/api/ps", "ollama.ps", ollama.running),
    ("GET", "/api/version", "ollama.version", ollama.version),
    ("GET", "/metrics", "metrics", _metrics),
    ("GET", "/edgewise/overview/{since}", "dashboard", dashboard.overview),
    ("GET", "/edgewise/confidences/{since}", "dashboard", dashboard.confidences),
    ("GET", "/edgewise/usage/{by}/{every}/{since}", "dashboard", dashboard.usage),
    ("GET", "/edgewise/models", "dashboard", dashboard.residences),
    ("POST", "/edgewise/models", "models.change", dashboard.change_residence),
    ("GET", "/edgewise/requests", "dashboard", dashboard.recent),
    ("GET", "/edgewise/requests/{id}", "dashboard", dashboard.one_request),
    ("POST", "/edgewise/feedback", "feedback", dashboard.feedback),
    ("GET", "/edgewise/events", "dashboard", dashboard.events),
)


def unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """A body as it was before it was packed. Raises Refusal: it is too large, or not so packed."""
    match encoding.strip().lower():
        case "" | "identity":
            return body
        case "gzip" | "x-gzip" | "deflate":
            reader: Any = zlib.decompressobj(zlib.MAX_WBITS | 32)  # it looks which of the two
        case "zstd":
            reader = _zstd_reader()
        case _:
            raise refuse(415, "unknown_encoding", "the body may be packed with gzip or zstd")
    try:
        plain: bytes = reader.decompress(body, most + 1)
    except Exception as error:  # each library has errors of its own
        raise refuse(400, "invalid_request", "the body is not packed as it says") from error
    if len(plain) > most:
        raise refuse(413, "request_too_large", f"the body may have {most:,} bytes")
    if not reader.eof:
        raise refuse(400, "invalid_request", "the packed body does not end")
    if reader.unused_data:  # it would be passed over
        raise refuse(400, "invalid_request", "something stands behind the packed body")
    return plain


def _zstd_reader() -> Any:
    for name in ("compression.zstd", "backports.zstd"):  # the first is Python's own, from 3.14
        with contextlib.suppress(ImportError):
            return importlib.import_module(name).ZstdDecompressor()
    raise refuse(415, "missing_extra", "zstd needs backports.zstd, which the extra 'server' brings")


class ClientGone(Exception):
    """It left while it was still sending."""


class Endpoint:
    """An ASGI app for one route: reads the body within its limits, then lets a thread answer."""

    def __init__(self, state: ServerState, name: str, work: Answerer) -> None:
        self._state = state
        self._name = name
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope["edgewise.client"]
        headers = scope["edgewise.headers"]
        held = HeldBody(self._state.bodies)
        try:
            body = await self._read(headers.get("content-length", ""), receive, held)
            if packed := headers.get("content-encoding", ""):
                body = await self._unpacked(body, packed, held)
            cancellation = Cancellation(client.name, via=scope["edgewise.via"])
            cancellation.user, cancellation.group = client.user, client.group
            query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
            incoming = Incoming(
                headers, body, client, cancellation, scope["path_params"], Pings(), query
            )
            del body  # its request holds it, and no longer than it must
            await self._serve(incoming, scope["path"], receive, send, held)
        except Refusal as refusal:
            held.free()
            fault = refusal.fault
            self._state.access_log.refused(self._name, fault.status, fault.code, client.name)
            await send_fault(send, scope["path"], fault)
        except ClientGone:
            return

    async def _read(self, length: str, receive: Receive, held: HeldBody) -> bytes:
        limit = self._state.server.body_bytes
        too_big = refuse(413, "request_too_large", f"the body may have {limit:,} bytes")
        if length.isdigit() and int(length) > limit:
            raise too_big
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._state.server.body_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    part = message.get("body", b"")
                    size += len(part)
                    if size > limit:
                        raise too_big
                    if not held.grow(len(part)):
                        raise Refusal(FULL)
                    parts.append(part)
                    if not message.get("more_body"):
                        return b"".join(parts)
        except BaseException as error:
            held.free()
            if isinstance(error, TimeoutError):
                words = "the body took too long to arrive"
                raise refuse(408, "request_timeout", words) from None
            raise

    async def _unpacked(self, body: bytes, packed: str, held: HeldBody) -> bytes:
        most = self._state.server.body_bytes
        try:
            plain = await asyncio.to_thread(unpacked, body, packed, most)
        except RuntimeError:  # there is no thread to spare
            raise Refusal(FULL) from None
        if not held.grow(len(plain)):
            raise Refusal(FULL)
        return plain

    async def _serve(
        self, incoming: Incoming, path: str, receive: Receive, send: Send, held: HeldBody
    ) -> None:
        """Run the work on a thread and send what it yields. Raises Refusal: the server is full."""
        state, server = self._state, self._state.server

        def ended(failure: Exception | None) -> None:
            held.free()
            state.request_ended(incoming.cancellation, failure)

        worker = Worker(
            incoming.cancellation,
            lambda: self._work(state, incoming),
            ended,
            name="edgewise-request",
            waits=lambda piece: isinstance(piece, Head),  # its first text, or its end, is near
        )
        if not state.inside.start(worker, server.requests):
            held.free()
            raise Refusal(FULL)
        watcher = asyncio.create_task(_watch(receive, worker))
        timer = asyncio.get_running_loop().call_later(
            server.total_s, lambda: worker.leave(late=True)
        )
        try:
            if not await _send_all(worker, send, server.stall_s, incoming.pings):
                if isinstance(worker.failure, NoThread):
                    raise Refusal(FULL)
                await send_fault(send, path, BROKEN)
        except TimeoutError:
            log.warning("a client took nothing for %g s and was let go", server.stall_s)
        finally:
            timer.cancel()
            watcher.cancel()
            worker.leave()  # does nothing to work that has ended


async def _send_all(worker: Worker[Head | bytes], send: Send, stall_s: float, pings: Pings) -> bool:
    """False where the work broke before it began to answer, and somebody still listens.

    If it broke later, the body has no end and the connection is cut: nobody may take it as whole.
    """
    begun = ended = False
    batches = worker.batches()
    while True:
        following = asyncio.ensure_future(anext(batches, None))
        try:
            while not (await asyncio.wait({following}, timeout=PING_S))[0]:
                opening, ping = pings.due()
                if opening is not None:
                    begun = True
                    await send_head(send, opening)
                if ping and begun and not ended:
                    async with asyncio.timeout(stall_s):
                        await send({"type": "http.response.body", "body": ping, "more_body": True})
        except BaseException:
            following.cancel()
            raise
        if (batch := following.result()) is None:
            break
        if isinstance(head := batch[0], Head):
            begun = True
            await send_head(send, head)
            batch[:1] = [] if head.body is None else [head.body]
            ended = head.body is not None
        if batch:
            # One that does not read what it asked for must not hold a slot.
            async with asyncio.timeout(stall_s):
                body = b"".join(batch)  # type: ignore[arg-type]
                await send({"type": "http.response.body", "body": body, "more_body": not ended})
    if begun and not ended and not worker.cancellation.gone and worker.failure is None:
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    return begun or worker.cancellation.gone


async def _watch(receive: Receive, worker: Worker[Head | bytes]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    worker.leave()


async def _no_such_path(request: Request, _: Exception) -> Response:
    return _faulty(request, 404, "not_found", f"there is no {request.url.path[:80]!r} here")


async def _wrong_method(request: Request, error: Exception) -> Response:
    answer = _faulty(request, 405, "method_not_allowed", f"not with {request.method}")
    answer.headers.update(getattr(error, "headers", None) or {})  # which methods are allowed
    return answer


def _faulty(request: Request, status: int, code: str, words: str) -> Response:
    fault = Fault(status=status, code=code, message=words)
    return JSONResponse(error_body(request.url.path, fault), status_code=status)
