"""LoopbackCloud: a scripted cloud that speaks five providers' protocols over real HTTP."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import selectors
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, TextIO
from urllib.parse import unquote, urlsplit

from edgewise.testing.loopback_cloud.wires import (
    Answer,
    AnthropicWire,
    CactusWire,
    Cut,
    DecisionsWire,
    Empty,
    GeminiWire,
    Malformed,
    OpenAIWire,
    Recorded,
    ResponsesWire,
    Route,
    Scripted,
    SeenRequest,
    Silence,
    Status,
    SystemOneWire,
    Wire,
    beginning,
)

Reply = Scripted | str | Callable[[SeenRequest], Scripted | str]

# Headers carry keys, so the log lists the headers that it keeps, not those it drops.
LOGGED_HEADERS = (
    "x-client-request-id",
    "idempotency-key",
    "user-agent",
    "content-type",
    "content-length",
)


class LoopbackCloud:
    """A threaded HTTP/1.1 server on 127.0.0.1 that answers as scripted.

        with LoopbackCloud() as cloud:
            cloud.script(Status(429, retry_after_s=1), Answer(text="Paris."))
            client = openai.OpenAI(base_url=cloud.openai_url, api_key="any")

    Requests get the scripted replies in order, then the last `always` reply. A reply may be a
    function of the request: `cloud.always(lambda seen: hear(seen.audio))` makes it transcribe. A
    stopped cloud can be started again and keeps its port, so that a test can let a provider go
    down and come back.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        log: Path | None = None,
        models: Sequence[str] = ("loopback-large", "loopback-small"),
    ) -> None:
        self.stopping = threading.Event()
        self.models = tuple(models)
        self._port = port
        self._log_path = log
        self._log: TextIO | None = None
        # Re-entrant: the predicate of `wait_for` reads the properties below under it.
        self._changed = threading.Condition(threading.RLock())
        self._script: deque[Reply] = deque()
        self._always: Reply = Answer()
        self._requests: list[SeenRequest] = []
        self._accepted = 0
        self._departures = 0
        self._open: dict[ServedSocket, threading.Thread] = {}
        self._acceptor: threading.Thread | None = None
        self._waker: socket.socket | None = None

    # -- life -----------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        if self._acceptor is not None:
            raise RuntimeError("this LoopbackCloud is running already")
        listener = socket.socket()
        try:
            if sys.platform != "win32":  # on Windows it would let two servers share a port
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", self._port))
            listener.listen(128)
        except OSError:
            listener.close()
            raise
        self._port = listener.getsockname()[1]
        self.stopping.clear()
        if self._log_path is not None:
            self._log = self._log_path.open("a", encoding="utf-8")
        self._waker, woken = socket.socketpair()
        self._acceptor = threading.Thread(
            target=self._accept, args=(listener, woken), name="loopback-cloud", daemon=True
        )
        self._acceptor.start()

    def stop(self) -> None:
        """Close everything at once, even for waiting clients. Does nothing if it is not running."""
        if self._acceptor is None or self._waker is None:
            return
        self.stopping.set()
        self._waker.close()
        self._acceptor.join()  # first, so that no new connection appears meanwhile
        self._acceptor = self._waker = None
        with self._changed:
            waiting = dict(self._open)
        for connection, thread in waiting.items():
            connection.wake()
            thread.join()
        if self._log is not None:
            self._log.close()
            self._log = None

    def _accept(self, listener: socket.socket, woken: socket.socket) -> None:
        with listener, woken, selectors.DefaultSelector() as doors:
            doors.register(listener, selectors.EVENT_READ)
            doors.register(woken, selectors.EVENT_READ)
            while not any(key.fileobj is woken for key, _ in doors.select()):
                with contextlib.suppress(OSError):  # the client may have left already
                    self._welcome(listener.accept()[0])

    def _welcome(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._changed:
            self._accepted += 1
            connection = ServedSocket(sock, self._accepted, self)
            thread = threading.Thread(
                target=self._serve,
                args=(connection,),
                name=f"loopback-cloud-{self._accepted}",
                daemon=True,
            )
            self._open[connection] = thread
            self._changed.notify_all()
        thread.start()

    def _serve(self, connection: ServedSocket) -> None:
        try:
            connection.serve()
        finally:
            with self._changed:
                del self._open[connection]
                self._changed.notify_all()

    # -- addresses ------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        if self._port == 0:
            raise RuntimeError("start this LoopbackCloud first: it has no port yet")
        return self._port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def gemini_url(self) -> str:
        return self.url

    @property
    def anthropic_url(self) -> str:
        return self.url

    @property
    def cactus_url(self) -> str:
        return f"{self.url}/api/v1"

    # -- the script -----------------------------------------------------------------------------

    def script(self, *replies: Reply) -> None:
        """Queue replies for the next requests, one each. A string is an answer's text."""
        with self._changed:
            self._script.extend(replies)

    def clear_script(self) -> None:
        """Drop the queued replies that no request took."""
        with self._changed:
            self._script.clear()

    def always(self, reply: Reply) -> None:
        """Set the reply for every request after the script."""
        with self._changed:
            self._always = reply

    def next_reply(self, seen: SeenRequest) -> Scripted:
        with self._changed:
            reply = self._script.popleft() if self._script else self._always
        made = reply(seen) if callable(reply) else reply
        return Answer(text=made) if isinstance(made, str) else made

    def model_list_fault(self) -> Status | None:
        """Lists of models do not use up the script; only an `always` status affects them."""
        with self._changed:
            return self._always if isinstance(self._always, Status) else None

    # -- observations ---------------------------------------------------------------------------

    @property
    def requests(self) -> list[SeenRequest]:
        """Every request read so far, in order of arrival."""
        with self._changed:
            return list(self._requests)

    @property
    def connections(self) -> int:
        """TCP connections accepted so far."""
        with self._changed:
            return self._accepted

    @property
    def disconnects(self) -> int:
        """Clients that left before their reply was complete."""
        with self._changed:
            return self._departures

    def wait_for(self, predicate: Callable[[LoopbackCloud], bool], timeout: float = 30.0) -> bool:
        """Wait until `predicate(cloud)` holds. Raises TimeoutError that says what was seen.

        with LoopbackCloud() as cloud: ...; cloud.wait_for(lambda cloud: cloud.disconnects == 1)
        """
        with self._changed:
            if not self._changed.wait_for(lambda: predicate(self), timeout):
                raise TimeoutError(
                    f"not so within {timeout:g} s: {len(self._requests)} requests on "
                    f"{self._accepted} connections, {self._departures} clients left early"
                )
        return True

    def note_request(self, seen: SeenRequest) -> None:
        with self._changed:
            self._requests.append(seen)
            if self._log is not None:
                self._log.write(json.dumps(_log_line(seen)) + "\n")
                self._log.flush()  # a reader must find it, even if we are killed
            self._changed.notify_all()

    def note_departure(self) -> None:
        with self._changed:
            if not self.stopping.is_set():
                self._departures += 1
                self._changed.notify_all()


def _log_line(seen: SeenRequest) -> dict[str, object]:
    return {
        "method": seen.method,
        "path": seen.path,
        "protocol": seen.protocol,
        "stream": seen.stream,
        "connection": seen.connection,
        "headers": {name: seen.headers[name] for name in LOGGED_HEADERS if name in seen.headers},
    }


# -- one client's connection: reads requests, plays scripted replies, notices a leaving client -----


LAST_FRAME = b"0\r\n\r\n"
# OpenAI last: all three list models at /v1/models, and only the others' headers differ.
WIRES: tuple[Wire, ...] = (
    AnthropicWire(),
    GeminiWire(),
    CactusWire(),
    ResponsesWire(),
    DecisionsWire(),
    SystemOneWire(),
    OpenAIWire(),
)
# A reset may overtake unread data; this lets the client read what it was sent.
GRACE_BEFORE_RESET_S = 0.05


class ClientLeft(Exception):
    """The client is gone, or the server is stopping."""


class ServedSocket:
    """Serves one socket on its own thread until either side closes it."""

    def __init__(self, sock: socket.socket, number: int, host: LoopbackCloud) -> None:
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
            content=request.content,
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
            case Recorded():
                self._send_recorded(route, scripted)
            case Empty():
                self._play(route, body, Answer(text="", vectors=(), chances=(), speech=b""))
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

    def _send_recorded(self, route: Route, recorded: Recorded) -> None:
        if not route.stream or recorded.status != 200:
            self._send_content(b"".join(recorded.pieces), recorded.status, recorded.headers)
            return
        self._start_stream(recorded.headers)
        for number, piece in enumerate(recorded.pieces):
            self._hold(recorded.delay_between_s if number else 0.0)
            last = number == len(recorded.pieces) - 1
            self._send(frame(piece) + (LAST_FRAME if last else b""))

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

    def _start_stream(self, more: Mapping[str, str] | None = None) -> None:
        headers = {
            "content-type": "text/event-stream; charset=utf-8",
            "cache-control": "no-cache",
            "transfer-encoding": "chunked",
            **(more or {}),
        }
        self._send(response_head(200, headers))

    # -- whole ----------------------------------------------------------------------------------

    def _send_status(self, wire: Wire, fault: Status) -> None:
        self._send_json(fault.status, wire.error(fault), wire.error_headers(fault))

    def _send_json(
        self, status: int, value: object, headers: Mapping[str, str] | None = None
    ) -> None:
        if isinstance(value, bytes):
            self._send_content(value, status, {"content-type": "audio/wav", **(headers or {})})
        else:
            self._send_content(json.dumps(value).encode(), status, headers)

    def _send_content(
        self, content: bytes, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        head = {"content-type": "application/json", "content-length": str(len(content))}
        self._send(response_head(status, {**head, **(headers or {})}) + content)

    def _send_half(self, route: Route, fault: Cut) -> None:
        made = route.whole(Answer(text=fault.text))
        content = made if isinstance(made, bytes) else json.dumps(made).encode()
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


# -- addresses that fail below HTTP: nobody listens, nobody accepts, no such name ------------------


# Long enough for a loopback connection, if it is going to succeed.
_SETTLED_S = 0.1
_MOST_FILLERS = 16


def refused_url() -> str:
    """A URL where connecting is refused at once."""
    # Port 1 belongs to a service that nobody runs any more, and the system never assigns it. A free
    # port that was found and released could be taken again.
    return "http://127.0.0.1:1"


def unresolvable_url() -> str:
    """A URL whose host has no address. RFC 2606 keeps `.invalid` free for this."""
    return "http://edgewise-no-such-host.invalid"


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """A URL where connecting hangs, as behind a firewall that drops packets.

    Linux drops SYNs for a listener whose queue is full, so the queue is filled. Elsewhere the
    kernel completes the connection but nothing is ever answered: a client then meets its read
    time-out instead of its connect time-out.
    """
    with contextlib.ExitStack() as held:
        listener = held.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        address = listener.getsockname()
        listener.listen(0 if sys.platform == "linux" else 128)
        if sys.platform == "linux":
            _fill(address, held)
        yield f"http://127.0.0.1:{address[1]}"


def _fill(address: tuple[str, int], held: contextlib.ExitStack) -> None:
    """Connect until one attempt hangs."""
    for _ in range(_MOST_FILLERS):
        filler = held.enter_context(socket.socket())
        filler.settimeout(_SETTLED_S)
        try:
            filler.connect(address)
        except TimeoutError:
            return
    raise OSError(f"this kernel still accepts after {_MOST_FILLERS} unaccepted connections")
