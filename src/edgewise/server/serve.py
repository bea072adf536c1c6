"""Runs the server: in this process until it is told to stop, or beside it for a while."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from typing_extensions import override

from edgewise.errors import ExtraMissing, SettingsError

try:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from edgewise.server.access import Clients
    from edgewise.server.app import make_app
    from edgewise.server.realtime import MESSAGE_BYTES
    from edgewise.server.state import ServerState
    from edgewise.server.tracing import export_over_http, trace_requests
except ImportError as error:
    raise ExtraMissing("server", error.name or str(error)) from error
from edgewise.settings import ServerSettings, Settings

TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
WASTEFUL = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
START_S = 30.0
HEADER_BYTES = 65_536
LEAST_JUDGED = 512  # bytes: of fewer, half may be the lengths of chunks
SLICE_BYTES = 16_384  # of what comes over a connection: parsed at a time
BACKLOG = 2048

log = logging.getLogger("edgewise.server")


def serve(settings: Settings, announce: Callable[[str], None], **parts: Any) -> None:
    """Serve until SIGTERM, SIGHUP or SIGINT; then finish what runs, at most `drain_s`."""
    require_key(settings)
    with listen(settings.server) as listener:
        state = prepared(settings, listener, parts)
        take_all_descriptors()
        announce(url_of(listener))
        run_until_stopped(state, listener)


def run_until_stopped(
    state: ServerState,
    listener: socket.socket,
    listen_for_stop: Callable[[Callable[[], None]], None] | None = None,
) -> None:
    """On the main thread, until a signal. `listen_for_stop` gets a thread, and what stops this."""
    if state.server.otel:
        export_over_http()
        trace_requests(state)
    # The runner gives signals back when it is done; by then they have done their work.
    signal.signal(signal.SIGTERM, lambda *_: None)
    hangup = getattr(signal, "SIGHUP", None)  # Windows has none; `nohup` ignores it
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        signal.signal(hangup, lambda *_: signal.raise_signal(signal.SIGTERM))
    runner = _runner(state)
    if listen_for_stop is not None:

        def stop() -> None:
            runner.should_exit = True

        threading.Thread(target=listen_for_stop, args=(stop,), daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):
        runner.run(sockets=[listener])


@contextlib.contextmanager
def running(
    settings: Settings, look: Callable[[ServerState], None] = lambda _: None, **parts: Any
) -> Iterator[str]:
    """The address of a server that runs on a thread while inside. For tests and notebooks.

    `look` is shown what the endpoints share.
    """
    require_key(settings)
    with listen(settings.server) as listener:
        state = prepared(settings, listener, parts)
        look(state)
        runner = _runner(state)
        thread = threading.Thread(
            target=runner.run, kwargs={"sockets": [listener]}, name="edgewise-server", daemon=True
        )
        thread.start()
        try:
            if not state.warm.wait(START_S):
                raise SettingsError("the server did not start")
            yield url_of(listener)
        finally:
            runner.should_exit = True
            thread.join(settings.server.drain_s + START_S)


def log_to(handler: logging.Handler | None = None) -> None:
    """For `edgewise serve`: a library must not touch anybody's logging. JSON to standard error,
    unless you bring a handler."""
    if handler is None:
        handler = logging.StreamHandler()
        handler.setFormatter(JsonLines())
    for name in ("edgewise", "uvicorn"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO if name == "edgewise" else logging.WARNING)
        logger.propagate = False


def take_all_descriptors() -> None:
    """A thousand streams need two each; systems commonly start at 1,024."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource  # noqa: PLC0415 - not on Windows

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


def require_key(settings: Settings) -> None:
    """Raises SettingsError if strangers could ask."""
    if not Clients(settings).keyed and not _is_loopback(settings.server.host):
        raise SettingsError(
            f"listening on {settings.server.host!r} lets others in: set a key first "
            "(--key, EDGEWISE_SERVER_KEY or [server.keys])"
        )


def prepared(settings: Settings, listener: socket.socket, parts: dict[str, Any]) -> ServerState:
    """What the endpoints share, made and checked before the first request."""
    state = ServerState(settings, **parts)
    state.engine._cloud_for("chat")  # a chain that cannot be read is said now, not to a client
    for lane in state.lanes():
        base_url = lane.config.base_url
        if _is_own_address(base_url, listener):
            log.warning(
                "%s is not asked: its address, %s, is this server's own", lane.config.name, base_url
            )
    return state


def _is_own_address(url: str, listener: socket.socket) -> bool:
    """Whether an address surely leads here. A name that is not looked up may lead here too; its
    requests are then known by their header."""
    host, port = listener.getsockname()[:2]
    parts = urlsplit(url)
    if (parts.port or {"http": 80, "https": 443}.get(parts.scheme)) != port or not parts.hostname:
        return False
    everywhere = ipaddress.ip_address(host).is_unspecified
    return parts.hostname == host or (
        _is_loopback(parts.hostname) and (everywhere or _is_loopback(host))
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name: nobody knows where it will point tomorrow
        return False


def listen(server: ServerSettings, *, shared: bool = False) -> socket.socket:
    """Raises SettingsError: the port is taken. `shared`: others of ours listen there too."""
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    # By protocol: the event loop switches Nagle's algorithm off only where it sees TCP, and with
    # it every small answer would wait 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":  # there it would let two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((server.host, server.port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"cannot listen on {server.host}:{server.port}: {error.strerror or error}"
        ) from error
    return listener


def _runner(state: ServerState) -> uvicorn.Server:
    class Runner(uvicorn.Server):
        @override
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            state.draining = True
            await super().shutdown(sockets)

    return Runner(
        uvicorn.Config(
            make_app(state),
            http=protocol_with(state.server.header_s),
            ws="auto",
            ws_max_size=MESSAGE_BYTES,
            # 16 KB can unpack to 16 MB, on the event loop; sound hardly shrinks.
            ws_per_message_deflate=False,
            h11_max_incomplete_event_size=HEADER_BYTES,
            timeout_graceful_shutdown=max(1, round(state.server.drain_s)),
            access_log=False,
            log_config=None,
            log_level="warning",
            server_header=False,
            proxy_headers=False,  # a client must not say itself where it comes from
            date_header=True,
        )
    )


class PatientProtocol(H11Protocol):
    """uvicorn's own, with a clock that runs from the first byte (or none) to the last header.

    A body in tiny chunks is refused: each costs the event loop as much as a large one, and 256 KB
    of them would stop it for seconds.
    """

    header_s = 10.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._clock: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_clock()

    @override
    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), SLICE_BYTES):
            self._parse(data[start : start + SLICE_BYTES])
            if self.transport.is_closing() or self.transport.get_protocol() is not self:
                break  # refused, or upgraded
        if self.cycle is None or self.cycle.response_complete:
            self._start_clock()  # between requests: these bytes begin the next one
        else:
            self._stop_clock()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def _parse(self, piece: bytes) -> None:
        cycle = self.cycle
        before = 0 if cycle is None else len(cycle.body)
        super().data_received(piece)
        if cycle is None or cycle is not self.cycle or not cycle.more_body:
            return
        if len(piece) >= LEAST_JUDGED and 2 * (len(cycle.body) - before) < len(piece):
            if not cycle.response_started:
                self.transport.write(WASTEFUL)
            self.transport.close()

    def _start_clock(self) -> None:
        if self._clock is None:
            self._clock = self.loop.call_later(self.header_s, self._give_up)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _give_up(self) -> None:
        self._clock = None
        upgraded = self.transport.get_protocol() is not self  # to a WebSocket: no more requests
        if not (upgraded or self.transport.is_closing()):
            self.transport.write(TOO_SLOW)
            self.transport.close()


def protocol_with(header_s: float) -> type[PatientProtocol]:
    return type("PatientProtocol", (PatientProtocol,), {"header_s": header_s})


class JsonLines(logging.Formatter):
    """One JSON object a line: a request's own, or one made of a message."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        words = record.getMessage()
        if words.startswith("{"):
            return words
        return json.dumps({"level": record.levelname.lower(), "message": words})
