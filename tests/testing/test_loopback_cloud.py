"""The scripted cloud as a server: order of replies, delays, life and death."""

from __future__ import annotations

import socket
import time

import httpx2
import pytest

from edgewise.testing import Answer, LoopbackCloud, Scripted, SeenRequest, Silence, Status
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
        held.append(socket.create_connection(("127.0.0.1", cloud.port), timeout=5))
        cloud.wait_for(lambda cloud: len(cloud.requests) == 3 and cloud.connections == 4)
        held[0].sendall(b"the beginning of a request sent ahead")
        began = time.monotonic()
    assert time.monotonic() - began < 2
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
    with socket.create_connection(("127.0.0.1", cloud.port), timeout=5) as sock:
        sock.sendall(b"\x16\x03\x01 this is not HTTP at all, sir\r\n\r\n")
        assert sock.recv(100) == b""
    assert cloud.requests == []
