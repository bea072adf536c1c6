"""The Hugging Face Hub, as far as fetching one file needs it, on two loopback ports."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from typing_extensions import override

from edgewise.local.catalogue import HubSource
from tests.local.fake_packages import noise, sha256

DATA = noise(3_000_000)
SOURCE = HubSource("someone/weights-GGUF", "weights-q4_k_m.gguf", "main")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Host(ThreadingHTTPServer):
    """One of the two hosts of the hub: the one that knows files, or the one that sends them."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.hub: Hub
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def stop(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def note(self, request: BaseHTTPRequestHandler) -> None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append((request.command, request.path, headers))


class Hub:
    """Imitates the hub: a front that redirects large files to a store which knows ranges."""

    def __init__(self) -> None:
        self.data = DATA
        self.etag = sha256(DATA)
        self.refusal: tuple[int, str] | None = None  # status and X-Error-Code
        self.cuts: list[int] = []  # bytes to send before the connection breaks, one per request
        self.ignores_ranges = False
        self.sent = 0
        self.front, self.store = Host(FrontHandler), Host(StoreHandler)
        self.front.hub = self.store.hub = self

    def stop(self) -> None:
        self.front.stop()
        self.store.stop()

    @property
    def ranges(self) -> list[str]:
        return [headers.get("range", "") for _, _, headers in self.store.requests]


class FrontHandler(BaseHTTPRequestHandler):
    server: Host

    def do_HEAD(self) -> None:
        self.server.note(self)
        hub = self.server.hub
        if hub.refusal is not None:
            self.send_response(hub.refusal[0])
            self.send_header("X-Error-Code", hub.refusal[1])
            self.send_header("content-length", "0")
            self.end_headers()
            return
        self.send_response(302)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("X-Linked-ETag", f'"{hub.etag}"')
        self.send_header("X-Linked-Size", str(len(hub.data)))
        self.send_header("Location", f"{hub.store.url}/blob")
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_HEAD

    @override
    def log_message(self, format: str, *arguments: object) -> None:
        pass


class StoreHandler(BaseHTTPRequestHandler):
    server: Host

    def do_GET(self) -> None:
        self.server.note(self)
        hub = self.server.hub
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("range", ""))
        start = int(match[1]) if match and not hub.ignores_ranges else 0
        body = hub.data[start:]
        self.send_response(206 if start else 200)
        if start:
            end = len(hub.data) - 1
            self.send_header("content-range", f"bytes {start}-{end}/{len(hub.data)}")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if hub.cuts:
            body = body[: hub.cuts.pop(0)]
        hub.sent += len(body)
        self.wfile.write(body)
        self.close_connection = True

    @override
    def log_message(self, format: str, *arguments: object) -> None:
        pass
