"""A client that leaves, at whatever moment, leaves nothing behind: no slot, no thread, no money."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from edgewise.bridge import Cancellation
from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend, Silence
from edgewise.testing.scripted import SCRIPTED_FACTS
from edgewise_bench.campaigns.raw_http import FORM, HEAD
from tests.campaigns import rounds
from tests.server.conftest import Serving
from tests.server.served import HELLO, Served, read_all, request_threads, wait_until

ROUNDS = rounds(1000)


def post(served: Served, *, whole: bool = True, **body: object) -> socket.socket:
    """Sends a request, or all but the end of it, on a connection of its own."""
    content = json.dumps({"model": "auto", "messages": HELLO, **body}).encode()
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(content)
    )
    connection = served.raw(receive_buffer=4096)
    connection.sendall(head + (content if whole else content[:-5]))
    return connection


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    connection.close()


def clean(served: Served) -> None:
    """Nothing of any request is left."""
    served.settle()
    wait_until(lambda: request_threads() <= served.others)
    for fair_queue in served.state.engine.parts.fair_queues.values():
        assert (fair_queue.busy, fair_queue.waiting) == (0, 0)


def numbered(words: int) -> str:
    """A text that does not repeat itself: the engine would stop it."""
    return " ".join(f"word{number}" for number in range(words))


def slow_model(slots: int = 1) -> ScriptedBackend:
    facts = replace(SCRIPTED_FACTS, slots=slots)
    return ScriptedBackend.confident(numbered(400), delay_s=0.02, facts=facts)


@pytest.mark.parametrize("stream", [False, True])
def test_leaving_stops_the_local_model(serving: Serving, stream: bool) -> None:
    backend = slow_model()
    served = serving(backend, settings={"max_tokens": 400})
    connection = post(served, model="local", stream=stream)
    wait_until(lambda: backend.generated > 2)
    connection.close()
    wait_until(lambda: backend.closed_early == 1)
    clean(served)
    assert served.metric('edgewise_disconnects_total{endpoint="chat.completions"}') == 1
    row = served.state.engine.ledger.recent()[0]
    assert row["error_code"] == "cancelled"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("after", [0, 2])
def test_leaving_breaks_the_cloud_call_and_settles_it(
    serving: Serving, cloud: LoopbackCloud, stream: bool, after: int
) -> None:
    served = serving()
    cloud.always(Silence(after_chunks=after))
    connection = post(served, model="cloud/openai", stream=stream)
    cloud.wait_for(lambda seen: len(seen.requests) == 1)
    connection.close()
    cloud.wait_for(lambda seen: seen.disconnects == 1)
    clean(served)
    (row,) = served.state.engine.ledger.recent()
    found = served.state.engine.ledger.get(row["id"])
    assert found and [each["state"] for each in found["attempts"]] == ["settled"]


def test_leaving_the_queue_frees_the_place(serving: Serving) -> None:
    backend = slow_model()
    served = serving(backend, queue=1, settings={"max_tokens": 400})
    first = post(served, model="local")
    wait_until(lambda: backend.generated > 0)
    fair_queue = served.state.engine.parts.fair_queues["scripted-1"]
    waiting = post(served, model="local")
    wait_until(lambda: fair_queue.waiting == 1)
    assert served.chat(model="local").status_code == 429
    waiting.close()
    wait_until(lambda: fair_queue.waiting == 0)
    assert backend.started == 1, "it never began"
    first.close()
    clean(served)


def test_leaving_while_the_body_is_sent_leaves_nothing(serving: Serving) -> None:
    served = serving()
    for _ in range(20):
        post(served, whole=False).close()
        reset(post(served, whole=False))
    clean(served)
    assert served.chat().status_code == 200


def test_leaving_before_the_answer_is_read_leaves_nothing(serving: Serving) -> None:
    served = serving()
    for _ in range(20):
        reset(post(served, stream=True))
    clean(served)


def phases(served: Served) -> list[Callable[[], None]]:
    """One way to leave for each phase of a request."""
    dice = random.Random(7)

    def half_sent() -> None:
        reset(post(served, whole=False))

    def at_once() -> None:
        reset(post(served, model="local", stream=True))

    def soon(model: str, stream: bool) -> Callable[[], None]:
        def leave() -> None:
            connection = post(served, model=model, stream=stream)
            time.sleep(dice.random() * 0.02)
            reset(connection) if dice.random() < 0.5 else connection.close()

        return leave

    def after_first_bytes() -> None:
        connection = post(served, model="local", stream=True)
        with connection, contextlib.suppress(ConnectionError):
            connection.recv(200)

    def half_closed() -> None:
        with post(served, model="cloud/openai") as connection:
            connection.shutdown(socket.SHUT_WR)
            time.sleep(dice.random() * 0.01)

    return [
        half_sent,
        at_once,
        soon("local", True),
        soon("local", False),
        soon("cloud/openai", True),
        soon("cloud/openai", False),
        soon("auto", True),
        after_first_bytes,
        half_closed,
    ]


def hostilities(served: Served, held: list[socket.socket]) -> list[Callable[[], None]]:
    """What no client would do. Those that are held say nothing more, and never hang up."""

    def told(content: bytes, status: bytes) -> Callable[[], None]:
        def send() -> None:
            with served.raw() as connection:
                connection.sendall(content)
                assert status in connection.recv(65536)

        return send

    def silent_after(content: bytes) -> Callable[[], None]:
        def send() -> None:
            held.append(served.raw())
            held[-1].sendall(content)

        return send

    def looks_on_for_a_moment() -> None:
        with served.raw() as connection:
            connection.sendall(b"GET /edgewise/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert b"200 OK" in connection.recv(65536)

    def leaves_an_upload() -> None:
        connection = served.raw()
        connection.sendall(FORM)
        reset(connection)

    bad_text = HEAD + b"content-length: 12\r\n\r\n" + b'{"model": "\xff'
    return [
        told(HEAD + b"content-length: 99999999999\r\n\r\n", b"413"),
        told(HEAD + b"transfer-encoding: chunked\r\n\r\n5000\r\n" + b"x" * 0x5000, b"413"),
        told(bad_text, b"400 Bad Request"),
        told(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n\r\n", b"400"),
        silent_after(b""),
        silent_after(HEAD + b"x-slow: "),
        silent_after(HEAD + b"content-length: 1000\r\n\r\n{"),
        looks_on_for_a_moment,
        leaves_an_upload,
    ]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def let_go(held: list[socket.socket]) -> None:
    """The server hangs up on those who say nothing."""
    for connection in held:
        read_all(connection)
        connection.close()
    held.clear()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
def test_many_rounds_of_leaving_in_every_phase_leak_nothing(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    """A thousand rounds over all of them: leaving in every phase, and what no client would do."""
    facts = replace(SCRIPTED_FACTS, slots=2)
    backend = ScriptedBackend.confident(numbered(40), delay_s=0.002, facts=facts)
    served = serving(backend, queue=8, header_s=1.0, body_s=1.0, body_bytes=10_000)
    cloud.always(Answer(text="word " * 40, delay_between_s=0.002))
    held: list[socket.socket] = []
    ways = [*phases(served), *hostilities(served, held)]
    for way in ways:  # what is made once is made
        way()
    let_go(held)
    clean(served)
    before = descriptors()
    for number in range(ROUNDS):
        ways[number % len(ways)]()
    let_go(held)
    clean(served)
    wait_until(lambda: descriptors() <= before + 8)  # idle connections to the cloud
    assert served.chat(model="local").status_code == 200
    assert served.chat(model="cloud/openai").status_code == 200
    states = {
        attempt["state"]
        for row in served.state.engine.ledger.recent(limit=1000)
        for attempt in (served.state.engine.ledger.get(row["id"]) or {})["attempts"]
    }
    assert states == {"settled"}, "no reservation is left open"


def test_a_client_that_does_not_read_is_let_go(serving: Serving) -> None:
    words = 30_000  # more than all the buffers in between hold
    served = serving(
        ScriptedBackend.confident(numbered(words)), stall_s=0.5, settings={"max_tokens": words}
    )
    with post(served, model="local", stream=True) as connection:
        fair_queue = served.state.engine.parts.fair_queues["scripted-1"]
        wait_until(lambda: fair_queue.busy == 1)
        wait_until(lambda: fair_queue.busy == 0)
        clean(served)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        taken = 0
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(1 << 20):
                taken += part.count(b'"content":" word')
    assert taken < words


def test_a_visit_wakes_whoever_waits_and_only_while_it_does() -> None:
    woken: list[str] = []
    cancellation = Cancellation()
    with cancellation.waking(lambda: woken.append("first")):
        pass
    with cancellation.waking(lambda: woken.append("second")):
        cancellation.leave()
        cancellation.leave()
    assert woken == ["second"]
    assert cancellation.gone
