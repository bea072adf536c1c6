"""What the scripted cloud notices: requests, connections, clients that leave, and its log."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import httpx2
import pytest

from edgewise.testing import Answer, Cut, LoopbackCloud, Scripted, Silence
from tests.testing.bare_client import CHAT, ask, cloud_threads, send_chat


def test_connections_are_counted_and_numbered(cloud: LoopbackCloud) -> None:
    for _ in range(2):
        with httpx2.Client() as client:
            ask(client, cloud)
            ask(client, cloud)
    assert cloud.connections == 2
    assert [seen.connection for seen in cloud.requests] == [1, 1, 2, 2]


def test_connection_close_is_honoured(cloud: LoopbackCloud) -> None:
    with socket.create_connection(("127.0.0.1", cloud.port), timeout=5) as sock:
        sock.sendall(b"GET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n")
        received = b""
        while piece := sock.recv(65536):  # it times out unless the server closes
            received += piece
    assert b"loopback-large" in received


@pytest.mark.parametrize(
    "reply",
    [
        Silence(),
        Silence(after_chunks=2),
        Answer(delay_first_s=600),
        Answer(delay_between_s=600),
    ],
)
def test_a_client_that_leaves_is_noticed_while_it_is_kept_waiting(
    cloud: LoopbackCloud, reply: Scripted
) -> None:
    cloud.script(reply)
    with send_chat(cloud):
        cloud.wait_for(lambda cloud: len(cloud.requests) == 1)
        assert cloud.disconnects == 0
    cloud.wait_for(lambda cloud: cloud.disconnects == 1, timeout=5)


def test_a_client_that_leaves_while_a_long_answer_is_being_written_is_noticed(
    cloud: LoopbackCloud,
) -> None:
    cloud.script(Answer(text="x" * 2_000_000, chunk_size=1000))
    with send_chat(cloud) as sock:
        sock.recv(100)  # then read nothing more, so that the server's send blocks
    cloud.wait_for(lambda cloud: cloud.disconnects == 1, timeout=5)


def test_a_client_that_reads_to_the_end_is_no_disconnect(cloud: LoopbackCloud) -> None:
    for _ in range(20):
        with send_chat(cloud) as sock:
            received = b""
            while not received.endswith(b"0\r\n\r\n"):
                received += sock.recv(65536)
    cloud.script(Cut(how="close"))
    with send_chat(cloud) as sock:
        while sock.recv(65536):
            pass
    cloud.wait_for(lambda _: len(cloud_threads()) == 1)  # all of them have been seen off
    assert cloud.disconnects == 0


def test_a_client_that_hangs_up_at_the_last_event_is_no_disconnect(cloud: LoopbackCloud) -> None:
    for _ in range(50):
        with send_chat(cloud) as sock:
            received = b""
            while b"[DONE]" not in received:
                received += sock.recv(65536)
    cloud.wait_for(lambda _: len(cloud_threads()) == 1)
    assert cloud.disconnects == 0


def test_a_cut_never_lets_the_end_through(cloud: LoopbackCloud, client: httpx2.Client) -> None:
    cloud.script(Cut(after_chunks=99, text="abc", chunk_size=1, how="end"))
    response = client.post(f"{cloud.openai_url}/chat/completions", json=CHAT)
    assert response.text.count('"content": "') == 4  # the opening one and three letters
    assert "[DONE]" not in response.text
    assert '"finish_reason": "stop"' not in response.text


def test_a_request_sent_ahead_is_answered_in_its_turn(cloud: LoopbackCloud) -> None:
    cloud.script(Answer(text="one", delay_first_s=0.4), Answer(text="two"))
    began = time.monotonic()
    one = b"POST /api/v1/text HTTP/1.1\r\nContent-Length: 11\r\n\r\n" + b'{"text":""}'
    with socket.create_connection(("127.0.0.1", cloud.port), timeout=5) as sock:
        sock.sendall(one)
        cloud.wait_for(lambda cloud: len(cloud.requests) == 1)
        sock.sendall(one)
        received = b""
        while received.count(b"function_calls") < 2:
            received += sock.recv(65536)
    assert received.index(b'"one"') < received.index(b'"two"')
    assert time.monotonic() - began >= 0.4


def test_requests_at_the_same_time_are_all_served(cloud: LoopbackCloud) -> None:
    cloud.always(Answer(delay_first_s=0.05))

    def work() -> None:
        with httpx2.Client(timeout=30) as client:
            for _ in range(5):
                ask(client, cloud)

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(cloud.requests) == 40
    assert cloud.connections == 8


def test_waiting_for_something_that_never_happens_says_what_was_seen(
    cloud: LoopbackCloud, client: httpx2.Client
) -> None:
    ask(client, cloud)
    with pytest.raises(TimeoutError, match="1 requests on 1 connections, 0 clients left early"):
        cloud.wait_for(lambda cloud: cloud.disconnects == 1, timeout=0.05)


def test_the_log_has_one_line_per_request_and_no_keys(
    tmp_path: Path, client: httpx2.Client
) -> None:
    log = tmp_path / "seen.jsonl"
    with LoopbackCloud(log=log) as cloud:
        headers = {"x-client-request-id": "try-1", "authorization": "Bearer secret"}
        client.post(f"{cloud.openai_url}/chat/completions", json=CHAT, headers=headers)
        lines = log.read_text(encoding="utf-8").splitlines()  # while it is still running
    assert len(lines) == 1
    entry = json.loads(lines[0])
    assert (entry["path"], entry["protocol"]) == ("/v1/chat/completions", "openai")
    assert entry["headers"]["x-client-request-id"] == "try-1"
    assert "secret" not in lines[0]
