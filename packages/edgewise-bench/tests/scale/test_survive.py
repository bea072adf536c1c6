"""How a stream ended, and what the ledger has of it."""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from typing_extensions import override

from edgewise.parts import open_ledger
from edgewise.settings import Settings
from edgewise.types.messages import Message, Request
from edgewise_bench.scale import survive
from edgewise_bench.scale.driver import CUT, ERROR, REFUSED, SILENT, WHOLE, Stream
from edgewise_bench.scale.ledgers import PAID, PAYEE
from edgewise_bench.scale.postgres_server import PostgresServer
from edgewise_bench.scale.survive import Heard, SeenCalls

FIRST = b'data: {"id":"chatcmpl-r1","choices":[{"delta":{"content":"Au"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
FAULT = b'data: {"error":{"message":"it broke"}}\n\n'
OK = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: text/event-stream\r\n\r\n"
REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@contextlib.contextmanager
def answering(raw: bytes) -> Iterator[str]:
    """A server that sends these bytes to whoever asks, and hangs up."""

    class Handler(socketserver.BaseRequestHandler):
        @override
        def handle(self) -> None:
            self.request.recv(65_536)
            self.request.sendall(raw)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("raw", "end"),
    [
        (OK + chunk(FIRST) + chunk(DONE) + END, WHOLE),
        (OK + chunk(FIRST) + chunk(FAULT) + chunk(DONE) + END, ERROR),
        (OK + chunk(FIRST), CUT),
        (OK + chunk(FIRST) + END, SILENT),
        (REFUSAL, REFUSED),
    ],
)
def test_only_a_clean_end_without_done_is_lost_in_silence(raw: bytes, end: str) -> None:
    stream = Stream()
    with answering(raw) as url, httpx2.Client(timeout=30) as client:
        assert stream.ask(client, url, "Which?", "local_only") == end
    assert stream.id in ("r1", "") and (end == REFUSED or stream.text == "Au")


@pytest.fixture(scope="module")
def store() -> Iterator[PostgresServer]:
    with contextlib.closing(PostgresServer()) as server:
        server.start()
        yield server


def test_what_the_cloud_saw_beyond_the_budget_is_overspent(
    store: PostgresServer, tmp_path: Path
) -> None:
    url = store.fresh()
    with contextlib.closing(open_ledger(Settings(ledger=url, data_dir=tmp_path))) as ledger:
        for number in range(3):
            request = Request(id=f"r{number}", messages=(Message("user", "Which?"),))
            ledger.reserve(f"r{number}/0", request, PAYEE, 1)
            ledger.settle(f"r{number}/0", PAID)
            ledger.record_failure(request, ValueError("none"), ())
    heard, calls = Heard(), SeenCalls()
    for request_id, end in (("r0", WHOLE), ("r1", WHOLE), ("gone", WHOLE), ("r2", SILENT)):
        heard(request_id, end)
    calls.count = 5  # two of them without a reservation
    found = survive._judge(url, tmp_path, heard, 4, calls)
    assert found["overspend_microdollars"] == 1  # five calls at one micro-dollar
    assert found["unbooked_microdollars"] == 2
    assert (found["rows_lost"], found["streams_lost_without_error"]) == (1, 1)


def test_a_killed_database_comes_back_with_what_it_had(store: PostgresServer) -> None:
    url = store.fresh()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (n INT)")
        connection.execute("INSERT INTO kept VALUES (7)")
    store.kill()
    store.start()
    with psycopg.connect(url) as connection:
        found: Any = connection.execute("SELECT n FROM kept").fetchone()
    assert found == (7,)
