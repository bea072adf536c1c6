"""A plain reverse proxy in front of the server that writes down what a client says and hears."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from typing_extensions import override

MOST_BYTES = 64_000_000  # of one body
MOST_EXCHANGES = 1_000
PATIENCE_S = 300.0
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and its reply. Header names are lower-case. `asked` is when it was read."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    asked: float
    status: int
    reply_headers: Mapping[str, str]
    reply: bytes = field(repr=False)


class Tap:
    """What went through so far, and the hosts that were asked for in vain.

    A client has it as its proxy too. So one that asks somebody else is told no, and is seen.
    """

    def __init__(self, server: str) -> None:
        self.server = server
        self.url = ""
        self.exchanges: list[Exchange] = []
        self.elsewhere: set[str] = set()

    @contextlib.contextmanager
    def listening(self) -> Iterator[Tap]:
        handler = type("Handler", (_Handler,), {"tap": self})
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            server.daemon_threads = True
            self.url = f"http://127.0.0.1:{server.server_port}"
            threading.Thread(target=server.serve_forever, name="tap", daemon=True).start()
            try:
                yield self
            finally:
                server.shutdown()


class _Handler(http.server.BaseHTTPRequestHandler):
    tap: Tap
    protocol_version = "HTTP/1.1"

    def do_CONNECT(self) -> None:
        """Some clients ask a proxy for every address. For ours, they are there already."""
        if self.path == urlsplit(self.tap.url).netloc:
            self.send_response_only(200)
            self.end_headers()
            self.close_connection = False
        else:
            self._refuse(self.path)

    def _pass_on(self) -> None:
        if not self.path.startswith("/"):  # as a client asks a proxy
            self._refuse(urlsplit(self.path).netloc)
            return
        body = self._body()
        if body is None or len(self.tap.exchanges) >= MOST_EXCHANGES:
            self.send_error(413)
            return
        asked = time.monotonic()
        headers = {name.lower(): value for name, value in self.headers.items()}
        kept = {name: value for name, value in headers.items() if name not in _HOP_BY_HOP}
        server = urlsplit(self.tap.server).netloc
        upstream = http.client.HTTPConnection(server, timeout=PATIENCE_S)
        with contextlib.closing(upstream):
            upstream.request(self.command, self.path, body, kept)
            response = upstream.getresponse()
            heard = {name.lower(): value for name, value in response.getheaders()}
            reply = bytearray()
            with contextlib.suppress(ConnectionError):  # who leaves has asked all the same
                self._answer(response, heard, reply)
            self.tap.exchanges.append(
                Exchange(
                    method=self.command,
                    path=self.path,
                    headers=headers,
                    body=body,
                    asked=asked,
                    status=response.status,
                    reply_headers=heard,
                    reply=bytes(reply),
                )
            )

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = do_OPTIONS = _pass_on

    def _body(self) -> bytes | None:
        """None: too long."""
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            length = int(self.headers.get("content-length") or 0)
            return self.rfile.read(length) if length <= MOST_BYTES else None
        body = bytearray()
        while size := int(self.rfile.readline().split(b";")[0], 16):
            if len(body) + size > MOST_BYTES:
                return None
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return bytes(body)

    def _answer(
        self, response: http.client.HTTPResponse, heard: Mapping[str, str], reply: bytearray
    ) -> None:
        self.send_response_only(response.status, response.reason)
        for name, value in heard.items():
            if name not in _HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("connection", "close")  # which ends the body
        self.end_headers()
        self.close_connection = True
        while (piece := response.read1(65_536)) and len(reply) < MOST_BYTES:
            reply += piece
            self.wfile.write(piece)
            self.wfile.flush()

    def _refuse(self, host: str) -> None:
        self.tap.elsewhere.add(host)
        self.close_connection = True
        self.send_error(403)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: who wants to see it has the exchanges."""
