"""One client's TCP connection: reads requests, plays scripted replies, notices a leaving client."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol
from urllib.parse import unquote, urlsplit

from edgewise.testing.loopback_cloud.anthropic_wire import AnthropicWire
from edgewise.testing.loopback_cloud.cactus_wire import CactusWire
from edgewise.testing.loopback_cloud.gemini_wire import GeminiWire
from edgewise.testing.loopback_cloud.openai_wire import OpenAIWire
from edgewise.testing.loopback_cloud.wire import (
    Answer,
    Cut,
    Empty,
    Malformed,
    Route,
    Scripted,
    SeenRequest,
    Silence,
    Status,
    Wire,
    beginning,
)

LAST_FRAME = b"0\r\n\r\n"
# OpenAI last: all three list models at /v1/models, and only the others' headers differ.
WIRES: tuple[Wire, ...] = (AnthropicWire(), GeminiWire(), CactusWire(), OpenAIWire())
# A reset may overtake unread data; this lets the client read what it was sent.
GRACE_BEFORE_RESET_S = 0.05


class Host(Protocol):
    """What a connection needs of its server."""

    stopping: threading.Event
    models: tuple[str, ...]

    def note_request(self, seen: SeenRequest) -> None: ...

    def note_departure(self) -> None: ...

    def next_reply(self, seen: SeenRequest) -> Scripted: ...

    def model_list_fault(self) -> Status | None: ...


class ClientLeft(Exception):
    """The client is gone, or the server is stopping."""


class Connection:
    """Serves one socket on its own thread until either side closes it."""

    def __init__(self, sock: socket.socket, number: int, host: Host) -> None:
        self._sock = sock
        self._stream = sock.makefile("rb")
        self._number = number
        self._host = host

    def serve(self) -> None:
        try:
            while (request := read_request(self._stream)) is not None:
                self._reply(request)
                if request.wants_close:
                    return
        except ClientLeft:
            self._host.note_departure()
        finally:
            self._close()

    def wake(self) -> None:
        """From another thread: end every read and write of this connection at once."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def _reply(self, request: HttpRequest) -> None:
        body = request.form() or request.json_object()
        found = (
            wire.route(request.method, request.path, request.headers, body or {}) for wire in WIRES
        )
        route = next((route for route in found if route), None)
        seen = SeenRequest(
            path=request.path,
            protocol=route.wire.name if route else "",
            headers=request.headers,
            body=body or {},
            stream=bool(route and route.stream),
            connection=self._number,
            method=request.method,
            query=request.query,
            audio=route.audio if route else b"",
        )
        self._host.note_request(seen)
        if route is None:
            fault = Status(404, message=f"The loopback cloud has nothing at {request.path!r}.")
            self._send_status(OpenAIWire(), fault)
        elif route.lists_models:
            self._list_models(route)
        elif body is None or any(name not in body for name in route.required):
            needed = ", ".join(route.required)
            fault = Status(400, message=f"The body must be an object or a form with {needed}.")
            self._send_status(route.wire, fault)
        else:
            self._play(route, body, self._host.next_reply(seen))

    def _list_models(self, route: Route) -> None:
        if (fault := self._host.model_list_fault()) is not None:
            self._send_status(route.wire, fault)
        else:
            self._send_json(200, route.wire.models(self._host.models))

    def _play(self, route: Route, body: Mapping[str, Any], scripted: Scripted) -> None:
        match scripted:
            case Empty():
                self._play(route, body, Answer(text="", vectors=()))
            case Answer(delay_first_s=delay):
                self._hold(delay)
                if route.stream:
                    self._stream_answer(route, body, scripted)
                else:
                    self._send_json(200, route.whole(scripted))
            case Status(after_chunks=chunks) if not (route.stream and chunks):
                self._send_status(route.wire, scripted)
            case Silence(after_chunks=chunks) if not (route.stream and chunks):
                self._hold(None)
            case _ if route.stream:
                self._stream_fault(route, body, scripted)
            case Cut():
                self._send_half(route, scripted)
            case _:
                self._send_content(b'{"choices": [{"mess')

    # -- streamed -------------------------------------------------------------------------------

    def _stream_answer(self, route: Route, body: Mapping[str, Any], answer: Answer) -> None:
        events = route.wire.events(answer, route.model, body)
        self._start_stream()
        first = True
        pending = b""
        for event in events:
            if event.chunk:
                self._hold(0.0 if first else answer.delay_between_s)
                first = False
            pending += frame(event.data)
            if event.chunk:
                self._send(pending)
                pending = b""
        # The end goes out in one piece: a client that hangs up at its last event must not count as
        # one that left too early.
        self._send(pending + LAST_FRAME)

    def _stream_fault(self, route: Route, body: Mapping[str, Any], fault: Scripted) -> None:
        assert isinstance(fault, Status | Cut | Malformed | Silence)
        answer = (
            Answer(text=fault.text, chunk_size=fault.chunk_size)
            if isinstance(fault, Cut)
            else Answer()
        )
        events = route.wire.events(answer, route.model, body)
        self._start_stream()
        for event in beginning(events, fault.after_chunks):
            self._send(frame(event.data))
        match fault:
            case Status():
                self._send(frame(route.wire.error_event(fault)) + LAST_FRAME)
            case Malformed():
                self._send(frame(route.wire.broken_event()) + LAST_FRAME)
            case Silence():
                self._hold(None)
            case Cut(how="end"):
                self._send(LAST_FRAME)
            case Cut():
                self._break(fault)

    def _start_stream(self) -> None:
        headers = {
            "content-type": "text/event-stream; charset=utf-8",
            "cache-control": "no-cache",
            "transfer-encoding": "chunked",
        }
        self._send(response_head(200, headers))

    # -- whole ----------------------------------------------------------------------------------

    def _send_status(self, wire: Wire, fault: Status) -> None:
        self._send_json(fault.status, wire.error(fault), wire.error_headers(fault))

    def _send_json(
        self, status: int, value: object, headers: Mapping[str, str] | None = None
    ) -> None:
        self._send_content(json.dumps(value).encode(), status, headers)

    def _send_content(
        self, content: bytes, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        head = {"content-type": "application/json", "content-length": str(len(content))}
        self._send(response_head(status, {**head, **(headers or {})}) + content)

    def _send_half(self, route: Route, fault: Cut) -> None:
        content = json.dumps(route.whole(Answer(text=fault.text))).encode()
        half = content[: len(content) // 2]
        if fault.how == "end":
            self._send_content(half)
            return
        head = {"content-type": "application/json", "content-length": str(len(content))}
        self._send(response_head(200, head) + half)
        self._break(fault)

    # -- the socket -----------------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        self._hold(0.0)
        try:
            self._sock.sendall(data)
        except OSError as error:
            raise ClientLeft from error

    def _hold(self, seconds: float | None) -> None:
        """Wait, but not longer than the client does. None waits until the client leaves."""
        ends = None if seconds is None else time.monotonic() + seconds
        self._sock.settimeout(seconds)
        try:
            arrived = self._sock.recv(1, socket.MSG_PEEK)
        except (TimeoutError, BlockingIOError):
            return
        except OSError as error:
            raise ClientLeft from error
        finally:
            self._sock.settimeout(None)
        if not arrived:
            raise ClientLeft
        # The client has already sent its next request, which hides its departure.
        if self._host.stopping.wait(None if ends is None else max(0.0, ends - time.monotonic())):
            raise ClientLeft

    def _break(self, fault: Cut) -> None:
        """End the connection in the middle of the body; `serve` then stops."""
        if fault.how == "reset":
            self._hold(GRACE_BEFORE_RESET_S)
            shape = "hh" if sys.platform == "win32" else "ii"
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack(shape, 1, 0))
        self._close()

    def _close(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.close()
        self._sock.close()


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request as read. `path` is unquoted and without its query."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    content: bytes

    def json_object(self) -> dict[str, Any] | None:
        """The body as a JSON object; {} if it is empty; None if it is something else."""
        if not self.content:
            return {}
        try:
            value = json.loads(self.content)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def form(self) -> dict[str, Any] | None:
        """The parts of a multipart form: text, or bytes for a file. None: not a form."""
        kind, _, options = self.headers.get("content-type", "").partition(";")
        found = re.search(r'boundary="?([^";]+)', options)
        if kind.strip().lower() != "multipart/form-data" or not found:
            return None
        fields: dict[str, Any] = {}
        for part in (b"\r\n" + self.content).split(b"\r\n--" + found[1].encode())[1:-1]:
            head, _, value = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
            name = re.search(rb'[; ]name="([^"]*)"', head)
            if name:
                fields[name[1].decode()] = (
                    value if b"filename=" in head else value.decode("utf-8", "replace")
                )
        return fields

    @property
    def wants_close(self) -> bool:
        return self.headers.get("connection", "").lower() == "close"


def read_request(stream: BinaryIO) -> HttpRequest | None:
    """None if the client has closed the connection or does not speak HTTP."""
    try:
        method, target, _version = stream.readline().decode("latin-1").split()
        fields = http.client.parse_headers(stream)
        headers = {name.lower(): value for name, value in fields.items()}
        content = _read_content(stream, headers)
    except (ValueError, OSError, http.client.HTTPException):
        return None
    parts = urlsplit(target)
    return HttpRequest(method, unquote(parts.path), parts.query, headers, content)


def _read_content(stream: BinaryIO, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        length = int(headers.get("content-length", "0"))
        content = stream.read(length)
        if len(content) < length:
            raise ValueError("the client left before its request was whole")
        return content
    content = b""
    while size := int(stream.readline().split(b";")[0], 16):
        content += stream.read(size)
        stream.readline()
    while stream.readline().strip():
        pass  # trailers carry nothing we need
    return content


def response_head(status: int, headers: Mapping[str, str]) -> bytes:
    reason = http.client.responses.get(status, "Unknown")
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {text}" for name, text in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def frame(data: bytes) -> bytes:
    """One piece of a body in chunked transfer coding."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
