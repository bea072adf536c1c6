"""Runs the server: in this process until it is told to stop, or beside it for a while."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from typing_extensions import override

from edgewise.errors import EdgewiseError, ExtraMissing, SettingsError

try:
    import uvicorn

    from edgewise.server.access import Clients
    from edgewise.server.app import make_app
    from edgewise.server.patience import protocol_with
    from edgewise.server.realtime import MESSAGE_BYTES
    from edgewise.server.state import ServerState
    from edgewise.server.tracing import export_over_http, trace_requests
except ImportError as error:
    raise ExtraMissing("server", error.name or str(error)) from error
from edgewise.local import warm
from edgewise.parts import find_function_model, find_model
from edgewise.settings import ServerSettings, Settings

START_S = 30.0
HEADER_BYTES = 65_536
BACKLOG = 2048

log = logging.getLogger("edgewise.server")


def serve(settings: Settings, announce: Callable[[str], None], **parts: Any) -> None:
    """Serve until SIGTERM, SIGHUP or SIGINT; then finish what runs, at most `drain_s`."""
    require_key(settings)
    with listen(settings.server) as listener:
        state = prepared(settings, listener, parts)
        take_all_descriptors()
        announce(url_of(listener))
        with lending(state):
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


@contextlib.contextmanager
def lending(state: ServerState) -> Iterator[None]:
    """While inside, `edgewise ask` and the like of the same user borrow the models of this server.

    They wait their turn as clients do. Whether their words may leave is their own affair: only the
    model is asked.
    """
    settings, parts = state.settings, state.engine.parts
    unasked = settings.with_changes(fetch_default_model=False)
    ways = ((find_model, parts.backend), (find_function_model, parts.function_model))

    def has(asked: Mapping[str, Any]) -> bool:
        model = opened(str(asked["path"]))
        return (
            model is not None
            and model.facts().context_tokens == asked["context_tokens"]
            and asked["projector"] == settings.projector
            and all(getattr(settings, name) == value for name, value in asked["settings"].items())
        )

    def opened(path: str) -> Any:
        for find, open_model in ways:
            with contextlib.suppress(EdgewiseError):
                if str(find(unasked).path.absolute()) == path:
                    return open_model()
        return None

    @contextlib.contextmanager
    def lend(opening: Any, _keep_s: float) -> Iterator[Any]:
        yield opened(str(opening[2][0].path))

    def status() -> list[dict[str, Any]]:
        return [{"model": name} for name in sorted(parts.opened_models)]

    lender = None
    if settings.keep_warm_s != 0:
        with contextlib.suppress(OSError):  # then commands load their own
            place = warm.folder() / f"serve-{os.getpid()}-{warm.home_mark(settings.data_dir)}"
            lender = warm.Lender(place, "serve", lend, has, status)
            lender.open()
            thread = threading.Thread(target=lender.serve, args=(lambda: False,), daemon=True)
            thread.start()
    try:
        yield
    finally:
        if lender is not None:
            lender.close()


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
    """Raises SettingsError if strangers could ask, and nobody has said that they may."""
    if is_loopback(settings.server.host) or settings.server.open or Clients(settings).keyed:
        return
    raise SettingsError(
        f"listening on {settings.server.host!r} lets others in: make a key first "
        "(edgewise keys add NAME, --key, EDGEWISE_SERVER_KEY or [server.keys]), or say --open"
    )


def who_may_ask(settings: Settings) -> str:
    """What to warn of when the server starts; empty: only this machine reaches it."""
    host = settings.server.host
    if is_loopback(host):
        return ""
    every = host in ("0.0.0.0", "::")
    where = "every network that this machine is in" if every else f"all who reach {host}"
    if Clients(settings).keyed:
        named = (
            "" if settings.server.hosts else "; by address alone: --allow-host lets it have a name"
        )
        return f"open to {where}, with a key; without TLS, unless a proxy adds it{named}"
    return f"open to {where}, WITHOUT A KEY: whoever finds it can ask, and spend"


def prepared(settings: Settings, listener: socket.socket, parts: dict[str, Any]) -> ServerState:
    """What the endpoints share, made and checked before the first request."""
    state = ServerState(settings, **parts)
    state.engine.parts.cloud("chat")  # a chain that cannot be read is said now, not to a client
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
        is_loopback(parts.hostname) and (everywhere or is_loopback(host))
    )


def is_loopback(host: str) -> bool:
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


class JsonLines(logging.Formatter):
    """One JSON object a line: a request's own, or one made of a message."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        words = record.getMessage()
        if words.startswith("{"):
            return words
        return json.dumps({"level": record.levelname.lower(), "message": words})
