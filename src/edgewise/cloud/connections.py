"""Connections that know which try they carry, and can be broken off from another thread.

Closing a socket does not wake a thread that is blocked reading it; shutting it down does. A
connection learns whose it is from the moment the request is written, so an abort reaches one
taken from the pool just as well as a fresh one.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpcore2
from typing_extensions import override

# An answer is whole before its last bytes are read. That long is worth a reusable connection.
DRAIN_S = 0.25


class Closeable(Protocol):
    def close(self) -> None: ...


@dataclass(slots=True, eq=False)
class Try:
    """One request under way. `whole` says that the answer is complete, whatever bytes follow."""

    connection: Connection | None = None
    body: Closeable | None = None
    aborted: bool = False
    whole: bool = False


@dataclass(slots=True)
class Tries:
    """Which try runs on which connection."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    running: dict[str, Try] = field(default_factory=dict)
    # An abort may overtake its try's first step; it must still find it stopped.
    early: deque[str] = field(default_factory=lambda: deque(maxlen=256))
    thread: threading.local = field(default_factory=threading.local)

    def begin(self, name: str) -> Try:
        with self.lock:
            self.running[name] = Try(aborted=name in self.early)
            return self.running[name]

    def end(self, name: str) -> None:
        with self.lock:
            self.running.pop(name, None)

    def claim(self, connection: Connection) -> None:
        """Called as the request is written, on the thread that sends it."""
        current: Try | None = getattr(self.thread, "current", None)
        if current is not None:
            with self.lock:
                current.connection = connection
                if current.aborted:
                    connection.shut_down()

    def let_go(self, current: Try) -> None:
        """Before the connection goes back to the pool, where it may serve another try at once."""
        with self.lock:
            current.connection = None

    def abort(self, name: str) -> None:
        with self.lock:
            current = self.running.get(name)
            if current is None:
                self.early.append(name)
                return
            current.aborted = True
            if current.connection is not None:
                current.connection.shut_down()

    def abort_all(self) -> None:
        for name in list(self.running):
            self.abort(name)


class Connection(httpcore2.NetworkStream):
    """A network stream that knows its try and can be shut down from another thread."""

    def __init__(self, inner: httpcore2.NetworkStream, tries: Tries) -> None:
        self._inner = inner
        self._tries = tries
        self._closing = threading.Lock()
        self.in_a_hurry = False

    @override
    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, DRAIN_S if self.in_a_hurry else timeout)

    @override
    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._tries.claim(self)
        self._inner.write(buffer, timeout)

    @override
    def close(self) -> None:
        with self._closing:
            self._inner.close()

    @override
    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        secured = self._inner.start_tls(ssl_context, server_hostname, timeout)
        return Connection(secured, self._tries)

    @override
    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)

    def shut_down(self) -> None:
        # The lock keeps the descriptor from being closed, and given to someone else, meanwhile.
        with self._closing, contextlib.suppress(OSError):
            # Not sock.shutdown(): on a TLS socket that drops the encryption first, and a write
            # at that moment would go out in the clear, key and all.
            socket.socket.shutdown(self._inner.get_extra_info("socket"), socket.SHUT_RDWR)


class Backend(httpcore2.SyncBackend):
    def __init__(self, tries: Tries) -> None:
        self._tries = tries

    @override
    def connect_tcp(self, *args: Any, **options: Any) -> httpcore2.NetworkStream:
        return Connection(super().connect_tcp(*args, **options), self._tries)
