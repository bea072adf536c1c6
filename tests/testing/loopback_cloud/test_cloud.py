"""The scripted cloud: its script, its addresses, and what it notices."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import httpx2
import pytest

from edgewise.testing import Answer, Cut, LoopbackCloud, Scripted, SeenRequest, Silence, Status
from tests.testing.bare_client import CHAT, ask, cloud_threads, send_chat

# -- the script -------------------------------------------------------------------------------


def test_scripted_replies_come_in_order_and_then_the_one_for_always(
    cloud: LoopbackCloud, client: httpx2.Client
) -> None:
    cloud.script("one", Status(503))
    cloud.script(Answer(text="three"))
    cloud.always("ever after")
    replies = [ask(client, cloud) for _ in range(5)]
    assert [reply.status_code for reply in replies] == [200, 503, 200, 200, 200]
    texts = [reply.json().get("text") for reply in replies]
    assert texts == ["one", None, "three", "ever after", "ever after"]


def test_without_a_script_the_answer_is_a_fixed_sentence(
    cloud: LoopbackCloud, client: httpx2.Client
) -> None:
    assert ask(client, cloud).json()["text"] == Answer().text != ""


def test_a_reply_may_be_a_function_of_the_request(
    cloud: LoopbackCloud, client: httpx2.Client
) -> None:
    def shout(seen: SeenRequest) -> Scripted:
        return Answer(text=seen.body["text"].upper())

    cloud.always(shout)
    assert ask(client, cloud, "hello").json()["text"] == "HELLO"


def test_an_unknown_path_is_not_found_and_uses_up_nothing(
    cloud: LoopbackCloud, client: httpx2.Client
) -> None:
    cloud.script("first")
    response = client.post(f"{cloud.url}/v2/nothing", json={})
    assert response.status_code == 404
    assert "/v2/nothing" in response.json()["error"]["message"]
    assert cloud.requests[0].protocol == ""
    assert ask(client, cloud).json()["text"] == "first"


@pytest.mark.parametrize("content", [b"{broken", b"[1, 2]", b""])
def test_a_body_that_is_no_json_object_is_refused(
    cloud: LoopbackCloud, client: httpx2.Client, content: bytes
) -> None:
    response = client.post(f"{cloud.openai_url}/chat/completions", content=content)
    assert response.status_code == 400
    assert cloud.requests[0].body == {}


def test_a_body_sent_in_chunks_is_read(cloud: LoopbackCloud, client: httpx2.Client) -> None:
    pieces = iter([b'{"text": ', b'"in two pieces"}'])
    client.post(f"{cloud.cactus_url}/text", content=pieces)
    assert cloud.requests[0].body == {"text": "in two pieces"}


def test_a_piece_has_at_least_one_character() -> None:
    with pytest.raises(ValueError, match="chunk_size"):
        Answer(chunk_size=0)


# -- delays -----------------------------------------------------------------------------------


def test_the_first_byte_is_delayed_by_what_was_asked(
    cloud: LoopbackCloud, client: httpx2.Client
) -> None:
    cloud.script(Answer(delay_first_s=0.2))
    began = time.monotonic()
    ask(client, cloud)
    assert time.monotonic() - began >= 0.2


def test_pieces_are_sent_one_by_one_with_the_delay_between_them(
    cloud: LoopbackCloud, client: httpx2.Client
) -> None:
    cloud.script(Answer(text="abcd", chunk_size=1, delay_between_s=0.1))
    arrivals: list[float] = []
    with client.stream("POST", f"{cloud.openai_url}/chat/completions", json=CHAT) as response:
        for line in response.iter_lines():
            if '"content": "' in line and '"role"' not in line:
                arrivals.append(time.monotonic())
    assert len(arrivals) == 4
    # Sent in one go they would arrive together; the kernel may delay one but never hurry it.
    assert arrivals[-1] - arrivals[0] >= 0.2


# -- life and death ---------------------------------------------------------------------------


def test_stopping_is_prompt_with_silent_idle_and_blocked_clients() -> None:
    with LoopbackCloud() as cloud:
        cloud.script(
            Silence(),
            Silence(after_chunks=1),
            Answer(text="x" * 9_000_000, chunk_size=65_536),
        )
        held = [send_chat(cloud) for _ in range(3)]
        held.append(socket.create_connection(("127.0.0.1", cloud.port), timeout=30))
        cloud.wait_for(lambda cloud: len(cloud.requests) == 3 and cloud.connections == 4)
        held[0].sendall(b"the beginning of a request sent ahead")
    assert cloud_threads() == []
    assert cloud.disconnects == 0  # we left, not they
    for sock in held:
        sock.close()


def test_stopping_twice_or_before_starting_does_nothing() -> None:
    cloud = LoopbackCloud()
    cloud.stop()
    cloud.start()
    cloud.stop()
    cloud.stop()
    assert cloud_threads() == []


def test_a_cloud_that_went_down_comes_back_at_the_same_address(client: httpx2.Client) -> None:
    cloud = LoopbackCloud()
    cloud.start()
    address = cloud.url
    ask(client, cloud)
    cloud.stop()
    with pytest.raises(httpx2.TransportError):
        ask(client, cloud)
    cloud.start()
    assert cloud.url == address
    assert ask(client, cloud).status_code == 200
    assert len(cloud.requests) == 2
    cloud.stop()


def test_starting_twice_is_refused(cloud: LoopbackCloud) -> None:
    with pytest.raises(RuntimeError, match="running already"):
        cloud.start()


def test_an_address_is_known_only_after_the_start() -> None:
    with pytest.raises(RuntimeError, match="start this"):
        _ = LoopbackCloud().url


def test_a_port_that_is_taken_raises_and_leaves_nothing_behind(cloud: LoopbackCloud) -> None:
    second = LoopbackCloud(port=cloud.port)
    with pytest.raises(OSError, match="in use"):
        second.start()
    second.stop()
    assert len(cloud_threads()) == 1


def test_a_client_that_does_not_speak_http_is_dropped(cloud: LoopbackCloud) -> None:
    with socket.create_connection(("127.0.0.1", cloud.port), timeout=30) as sock:
        sock.sendall(b"\x16\x03\x01 this is not HTTP at all, sir\r\n\r\n")
        assert sock.recv(100) == b""
    assert cloud.requests == []


def test_connections_are_counted_and_numbered(cloud: LoopbackCloud) -> None:
    for _ in range(2):
        with httpx2.Client() as client:
            ask(client, cloud)
            ask(client, cloud)
    assert cloud.connections == 2
    assert [seen.connection for seen in cloud.requests] == [1, 1, 2, 2]


def test_connection_close_is_honoured(cloud: LoopbackCloud) -> None:
    with socket.create_connection(("127.0.0.1", cloud.port), timeout=30) as sock:
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
    cloud.wait_for(lambda cloud: cloud.disconnects == 1, timeout=30)


def test_a_client_that_leaves_while_a_long_answer_is_being_written_is_noticed(
    cloud: LoopbackCloud,
) -> None:
    cloud.script(Answer(text="x" * 2_000_000, chunk_size=1000))
    with send_chat(cloud) as sock:
        sock.recv(100)  # then read nothing more, so that the server's send blocks
    cloud.wait_for(lambda cloud: cloud.disconnects == 1, timeout=30)


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
    with socket.create_connection(("127.0.0.1", cloud.port), timeout=30) as sock:
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
