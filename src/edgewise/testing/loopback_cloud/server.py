"""LoopbackCloud: a scripted cloud that speaks four providers' protocols over real HTTP."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from edgewise.testing.loopback_cloud.connection import Connection
from edgewise.testing.loopback_cloud.wire import Answer, Scripted, SeenRequest, Status

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
        self._open: dict[Connection, threading.Thread] = {}
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
            connection = Connection(sock, self._accepted, self)
            thread = threading.Thread(
                target=self._serve,
                args=(connection,),
                name=f"loopback-cloud-{self._accepted}",
                daemon=True,
            )
            self._open[connection] = thread
            self._changed.notify_all()
        thread.start()

    def _serve(self, connection: Connection) -> None:
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
