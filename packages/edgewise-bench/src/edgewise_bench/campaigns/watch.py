"""What is watched while a server is attacked: its pulse, its memory, and what leaves it."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import itertools
import json
import re
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from typing_extensions import override

from edgewise.testing import LoopbackCloud, SeenRequest
from edgewise_bench.processes import Process, started

EVERY_S = 0.2  # between two questions to /healthz
PATIENCE_S = 60.0
STALL_S = 2.0
MARK = "Quagga7741Private"  # begins the marker of every private request
CARD_MARK = "4539148803"  # begins every card number that must leave as a placeholder


class Span(NamedTuple):
    """One question: when it was asked, and when it was answered or given up."""

    start: float
    end: float


class Pulse:
    """Asks a path again and again on a connection of its own, from a thread of its own."""

    def __init__(self, url: str, path: str) -> None:
        self._address = (urlsplit(url).hostname or "", urlsplit(url).port or 80)
        self._path = path
        self._over = threading.Event()
        self.spans: list[Span] = []
        self._thread = threading.Thread(target=self._run, name=f"pulse{path}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        connection = http.client.HTTPConnection(*self._address, timeout=PATIENCE_S)
        while not self._over.is_set():
            start = time.monotonic()
            try:
                connection.request("GET", self._path)
                connection.getresponse().read()
            except TimeoutError:
                connection.close()
            except (OSError, http.client.HTTPException):  # it is down, or hung up on us
                connection.close()
                self._over.wait(EVERY_S)
                continue
            self.spans.append(Span(start, time.monotonic()))
            self._over.wait(EVERY_S)
        connection.close()


def count_stalls(
    pulse: Sequence[Span], control: Sequence[Span], down: Sequence[Span] = ()
) -> list[Span]:
    """Answers that took over two seconds longer than the control took in the same time.

    A shared machine stands still now and then: the control, which does nothing, then stands still
    too. `down` are times in which the server was started again.
    """
    ends = [span.end for span in control]
    found = []
    for span in pulse:
        if any(span.start < each.end and each.start < span.end for each in down):
            continue
        if span.end - span.start - _slowest(ends, span) > STALL_S:
            found.append(span)
    return found


def control_stalls(control: Sequence[Span]) -> int:
    """How often the control itself stood still."""
    ends = [span.end for span in control]
    return sum(after - before - EVERY_S > STALL_S for before, after in itertools.pairwise(ends))


def _slowest(ends: Sequence[float], span: Span) -> float:
    """The longest time between two answers of the control while `span` lasted."""
    first, last = bisect_left(ends, span.start), bisect_right(ends, span.end)
    near = ends[max(0, first - 1) : last + 1]
    gaps = [after - before - EVERY_S for before, after in itertools.pairwise(near)]
    return max(0.0, *gaps) if gaps else 0.0


def control_server() -> AbstractContextManager[Process]:
    """A server of the standard library that does nothing, in a process of its own."""
    return started("-m", "edgewise_bench.campaigns.watch")


class MemoryWatch:
    """The most memory that a process and its children had, and a stop before it takes it all."""

    def __init__(self, process: Process, most_mb: float, every_s: float = 0.1) -> None:
        self.peak_mb = 0.0
        self.peak_at = 0.0
        self.too_much = False
        self._process, self._most_mb, self._every_s = process, most_mb, every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)
        self._thread.start()

    def stop(self) -> float:
        self._over.set()
        self._thread.join()
        return self.peak_mb

    def _run(self) -> None:
        while not self._over.wait(self._every_s) and self._process.alive:
            now = self._process.resident_mb()
            if (most := max(now, self._process.highest_mb())) > self.peak_mb:
                self.peak_mb, self.peak_at = most, time.monotonic()
            if now > self._most_mb:
                self.too_much = True
                self._process.popen.kill()


class WatchedCloud(LoopbackCloud):
    """Keeps no request, but counts the bytes of those that must not have left."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0
        self.private_bytes = 0
        self.all_private = False  # nothing at all may come
        self.on_private: Callable[[SeenRequest], None] = lambda _: None

    @override
    def note_request(self, seen: SeenRequest) -> None:
        self.seen += 1
        told = repr((seen.path, seen.query, seen.headers, seen.body))
        # However it is spelt: its digits stand one behind the other.
        card = CARD_MARK in re.sub(r"\\u[0-9a-f]{4}|\D", "", told)
        if self.all_private or MARK in told or card:
            self.private_bytes += int(seen.headers.get("content-length") or 1)
            self.on_private(seen)


@dataclass(slots=True)
class Downtime:
    """When a server was down because it was started again."""

    spans: list[Span]

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        start = time.monotonic() - STALL_S
        yield
        self.spans.append(Span(start, time.monotonic() + STALL_S))


def main() -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        @override
        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        sys.stdout.write(json.dumps({"url": f"http://127.0.0.1:{server.server_port}"}) + "\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    main()
