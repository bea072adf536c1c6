"""What no client of ours would send: the right 4xx, never a 5xx, and the server lives on."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import Any

import pytest
from typing_extensions import override

from edgewise.errors import GenerationFailed
from edgewise.local.backend import TokenStream
from edgewise.server.errors import without_folders
from edgewise.testing import ScriptedBackend
from edgewise_bench.campaigns.bodies import MALFORMED
from edgewise_bench.campaigns.raw_http import HEAD, NOT_HTTP
from tests.server.conftest import Serving
from tests.server.served import HELLO, Served, body_of, read_all


def lives(served: Served) -> None:
    assert served.chat().status_code == 200


def status_of(served: Served, *parts: bytes) -> int:
    with served.raw() as connection:
        for part in parts:
            connection.sendall(part)
        return body_of(read_all(connection))[0]


def test_a_client_that_dribbles_its_headers_is_let_go(serving: Serving) -> None:
    served = serving(header_s=0.4)
    with served.raw() as connection:
        connection.sendall(HEAD)
        answer = b""
        try:
            for _ in range(100):
                connection.sendall(b"x-a: b\r\n")
                time.sleep(0.05)
        except OSError:
            pass
        connection.settimeout(60)
        answer = read_all(connection)
    assert answer == b"" or body_of(answer)[0] == 408
    lives(served)


def test_one_that_says_nothing_is_let_go(serving: Serving) -> None:
    served = serving(header_s=0.3)
    with served.raw() as connection:
        assert body_of(read_all(connection))[0] == 408
    lives(served)


def test_one_that_begins_a_second_request_and_stops_is_let_go(serving: Serving) -> None:
    served = serving(header_s=0.4)
    with served.raw() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b"200 OK" in connection.recv(65536)
        connection.sendall(b"GET /hea")
        assert b"408" in read_all(connection)


def test_a_body_that_dribbles_is_408(serving: Serving) -> None:
    served = serving(body_s=0.3)
    with served.raw() as connection:
        connection.sendall(HEAD + b"content-length: 1000\r\n\r\n{")
        assert body_of(read_all(connection))[0] == 408
    lives(served)


def test_a_huge_body_is_413_by_its_length_and_by_its_bytes(serving: Serving) -> None:
    served = serving(body_bytes=10_000)
    assert status_of(served, HEAD, b"content-length: 99999999999\r\n\r\n") == 413
    chunk = b"2000\r\n" + b"x" * 0x2000 + b"\r\n"
    with served.raw() as connection:
        connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunk + chunk)
        assert body_of(connection.recv(65536))[0] == 413
    response = served.chat(user="x" * 20_000)
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "request_too_large"
    lives(served)


def test_a_body_in_tiny_chunks_is_refused(serving: Serving) -> None:
    """Each chunk costs the event loop as much as a large one: three such clients would stop it."""
    served = serving()
    head = HEAD + b"transfer-encoding: chunked\r\n\r\n"
    with served.raw() as connection:
        connection.sendall(head)
        with contextlib.suppress(OSError):  # it is thrown out while it still sends
            connection.sendall(b"1\r\nx\r\n" * 100_000)
        with contextlib.suppress(OSError):
            assert body_of(read_all(connection))[0] == 400
    served.settle()
    body = json.dumps({"model": "auto", "messages": HELLO, "user": "x" * 90_000}).encode()
    chunks = [body[start : start + 1_000] for start in range(0, len(body), 1_000)]
    sent = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in chunks)
    head = HEAD + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    assert status_of(served, head, sent, b"0\r\n\r\n") == 200


def test_huge_headers_are_refused(serving: Serving) -> None:
    served = serving()
    with served.raw() as connection:
        try:
            connection.sendall(HEAD + b"x-big: " + b"y" * 200_000 + b"\r\n\r\n")
            assert body_of(read_all(connection))[0] in (400, 431)
        except ConnectionError:
            pass  # it was thrown out while it still sent
    lives(served)


@pytest.mark.parametrize("request_bytes", NOT_HTTP.values(), ids=NOT_HTTP)
def test_what_is_not_http_is_400(session_served: Served, request_bytes: bytes) -> None:
    with session_served.raw() as connection:
        connection.sendall(request_bytes)
        connection.shutdown(socket.SHUT_WR)
        answer = read_all(connection)
    assert not answer or body_of(answer)[0] in (400, 403, 404, 408)
    lives(session_served)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_malformed_requests_are_4xx_everywhere(
    session_served: Served, path: str, body: bytes
) -> None:
    response = session_served.http.post(path, content=body)
    assert 400 <= response.status_code < 500, response.text
    assert response.json()["error"]["message"]


def test_pipelined_requests_are_answered_in_order(session_served: Served) -> None:
    with session_served.raw() as connection:
        connection.sendall(
            b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
            b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        )
        both = read_all(connection)
    assert both.index(b'"ok"') < both.index(b'"ready"')


# -- where files are ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("could not load /home/jo/.cache/m/a.gguf: bad", "could not load a.gguf: bad"),
        ("the ledger '/Users/Jo S/Application Support/l.db': full", "the ledger 'l.db': full"),
        (r"no file 'C:\\Users\\jo\\a.gguf'", "no file 'a.gguf'"),
        ("see https://example.com/a/b and/or cloud/openai/gpt", None),
        ("3/4 of 1/2, and `GET /healthz`", None),
    ],
)
def test_a_file_is_told_by_its_name(said: str, shown: str | None) -> None:
    assert without_folders(said) == (shown or said)


class Unloadable(ScriptedBackend):
    @override
    def generate(self, *_: Any, **__: Any) -> TokenStream:
        raise GenerationFailed("llama.cpp could not load /home/jo/models/a.gguf")


def test_no_client_learns_where_the_servers_files_are(serving: Serving) -> None:
    served = serving(Unloadable(["never said"]))
    for stream in (False, True):
        answer = served.chat(model="local", stream=stream)
        assert "could not load a.gguf" in answer.text and "/home" not in answer.text
