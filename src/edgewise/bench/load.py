"""Load for a server: clients on bare sockets, so that little of the time is the client's own."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

ANSWER_S = 120.0


@dataclass(slots=True)
class Load:
    """What came of it: seconds each request took, and all of them together."""

    seconds: list[float] = field(default_factory=list)
    total_s: float = 0.0
    tokens: int = 0

    @property
    def per_second(self) -> float:
        return len(self.seconds) / self.total_s

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.total_s


class Client:
    """One connection that is used again and again."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """A whole answer. Raises OSError where the status is not 200."""
        status, length = await self._begin(path, body)
        assert self._reader is not None
        content = await self._reader.readexactly(length) if length else b"{}"
        if status != 200:
            raise OSError(f"status {status}: {content[:200]!r}")
        found: dict[str, Any] = json.loads(content)
        return found

    async def open_stream(self, path: str, body: dict[str, Any]) -> None:
        """Returns when the first text of a stream is here; the rest is left unread."""
        status, _ = await self._begin(path, body)
        if status != 200:
            raise OSError(f"status {status}")
        assert self._reader is not None
        await self._reader.readuntil(b'"content":"')  # the role comes with an empty one
        await self._reader.readuntil(b'"content":"')

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    async def _begin(self, path: str, body: dict[str, Any]) -> tuple[int, int]:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        assert self._reader is not None
        content = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: {self._host}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\n\r\n"
        )
        self._writer.write(head.encode() + content)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        lengths = [line for line in lines if line.startswith("content-length:")]
        return int(lines[0].split()[1]), int(lengths[0].split(":")[1]) if lengths else 0


async def _share(client: Client, path: str, bodies: list[dict[str, Any]], load: Load) -> None:
    while bodies:
        body = bodies.pop()
        started = time.perf_counter()
        answer = await asyncio.wait_for(client.post(path, body), ANSWER_S)
        load.seconds.append(time.perf_counter() - started)
        load.tokens += int(answer["usage"]["completion_tokens"])


async def run_load(url: str, path: str, bodies: list[dict[str, Any]], clients: int) -> Load:
    """All `bodies`, shared out among so many clients at once."""
    load, waiting = Load(), list(bodies)
    at_once = [Client(url) for _ in range(clients)]
    started = time.perf_counter()
    try:
        await asyncio.gather(*(_share(each, path, waiting, load) for each in at_once))
    finally:
        load.total_s = time.perf_counter() - started
        for each in at_once:
            each.close()
    return load
