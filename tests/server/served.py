"""A running server as tests see it: clients of every kind, and what goes on inside."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import anthropic
import httpx  # noqa: F401 - half imported by a thread of the server, it breaks the client of openai
import httpx2
import openai

from edgewise.server import serve
from edgewise.server.state import ServerState
from edgewise.settings import Settings

HELLO: Any = [{"role": "user", "content": "What is the capital of France?"}]


class Served:
    def __init__(self, url: str, state: ServerState) -> None:
        self.url = url
        self.state = state
        self.http = httpx2.Client(base_url=url, timeout=30)
        self.closing = contextlib.ExitStack()  # clients
        self.others = request_threads()  # of tests in this process that left some

    @classmethod
    @contextlib.contextmanager
    def started(cls, settings: Settings, backend: Any, **parts: Any) -> Iterator[Served]:
        states: list[ServerState] = []
        with serve.running(settings, states.append, backend=backend, **parts) as url:
            served = cls(url, states[0])
            try:
                yield served
            finally:
                served.http.close()
                served.closing.close()

    def openai(self, key: str = "any", **options: Any) -> Any:  # answers carry more than is typed
        client = openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, **options)
        self.closing.callback(client.close)
        return client

    def anthropic(self, key: str = "any") -> Any:
        client = anthropic.Anthropic(base_url=self.url, api_key=key, max_retries=0)
        self.closing.callback(client.close)
        return client

    def chat(self, *, headers: dict[str, str] | None = None, **body: Any) -> httpx2.Response:
        whole = {"model": "auto", "messages": HELLO, **body}
        return self.http.post("/v1/chat/completions", json=whole, headers=headers or {})

    def chunks(self, path: str = "/v1/chat/completions", **body: Any) -> list[dict[str, Any]]:
        """The events of a stream, without the end mark."""
        whole = {"model": "auto", "messages": HELLO, "stream": True, **body}
        with self.http.stream("POST", path, json=whole) as response:
            assert response.status_code == 200, response.read()
            lines = [line for line in response.iter_lines() if line.startswith("data: {")]
        return [json.loads(line.removeprefix("data: ")) for line in lines]

    def raw(self, receive_buffer: int = 0) -> socket.socket:
        """A bare connection, for what no client would send."""
        parts = urlsplit(self.url)
        assert parts.hostname and parts.port
        connection = socket.socket()
        connection.settimeout(20)
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.connect((parts.hostname, parts.port))
        return connection

    def metric(self, start: str) -> float:
        """The sum of the lines that start so."""
        lines = self.http.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(start))

    def settle(self) -> None:
        """Wait until nothing of any request is left."""
        wait_until(lambda: len(self.state.inside) == 0)


def wait_until(so: Callable[[], bool], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not so():
        assert time.monotonic() < deadline, "it did not come to be so"
        time.sleep(0.005)


def request_threads() -> set[threading.Thread]:
    names = ("edgewise-request", "edgewise-openai", "edgewise-decoder")
    return {each for each in threading.enumerate() if each.name.startswith(names)}


def body_of(head: bytes) -> tuple[int, bytes]:
    """The status and the body of a raw response."""
    top, _, body = head.partition(b"\r\n\r\n")
    return int(top.split(b" ", 2)[1]), body


def read_all(connection: socket.socket) -> bytes:
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)
