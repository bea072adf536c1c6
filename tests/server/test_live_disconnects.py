"""A caller that leaves a live session, at whatever moment, leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial

import numpy
import pytest
from websockets.sync.client import connect

from edgewise.speech import audio
from edgewise.testing import Answer, LoopbackCloud
from tests.campaigns import rounds
from tests.flows.live_sound import LevelTranscriber, LoudnessActivity, Samples, pause, spoken
from tests.server.conftest import Serving
from tests.server.served import Served, wait_until
from tests.server.test_disconnects import clean, descriptors, reset
from tests.server.test_realtime import COMPLETED, SETTINGS, Caller

ROUNDS = rounds(300)
AT_ONCE = b"\x01\0\0\0\0\0\0\0"  # linger for no time: the other side sees a reset


def tasks() -> int:
    """Tasks of all event loops that are not done."""
    gc.collect()
    # By its type: what torch has made asks back, and warns, when it is asked for its class.
    found = [each for each in gc.get_objects() if issubclass(type(each), asyncio.Task)]
    return sum(not each.done() for each in found)


def live_threads() -> int:
    names = ("edgewise-request", "edgewise-correct", "edgewise-openai")
    return sum(thread.name.startswith(names) for thread in threading.enumerate())


@contextlib.contextmanager
def called(served: Served, *, politely: bool = False) -> Iterator[Caller]:
    """A session that ends without a word, unless politely: the line is cut."""
    url = served.url.replace("http", "ws", 1) + "/v1/realtime"
    with connect(url, close_timeout=0.05, compression=None, ping_interval=None) as connection:
        yield Caller(connection)
        if not politely:
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
            connection.close_socket()


def phases(served: Served, cloud: LoopbackCloud) -> list[Callable[[], None]]:
    """One way to leave for each phase of a session."""
    doubtful = numpy.concatenate((spoken(600, 601), pause()))  # the cloud is asked

    def in_the_handshake() -> None:
        with served.raw() as connection:
            connection.sendall(b"GET /v1/realtime HTTP/1.1\r\nhost: localhost\r\nupgrade: web")
            reset(connection)

    def at_once(politely: bool) -> None:
        with called(served, politely=politely):
            pass

    def after(*sounds: Samples, until: str = "", commit: bool = False) -> None:
        with called(served) as caller:
            caller.send("session.update", session=SETTINGS)
            for sound in sounds:
                caller.say(sound)
            if until:
                caller.until(until)
            if commit:
                caller.send("input_audio_buffer.commit")

    def while_the_cloud_is_asked() -> None:
        asked = len(cloud.requests)
        with called(served) as caller:
            caller.send("session.update", session=SETTINGS)
            caller.say(doubtful)
            wait_until(lambda: len(cloud.requests) > asked)

    return [
        in_the_handshake,
        partial(at_once, politely=False),
        partial(at_once, politely=True),
        after,
        partial(after, spoken(100)),
        partial(after, doubtful, until=COMPLETED),
        partial(after, doubtful, commit=True),
        while_the_cloud_is_asked,
    ]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
def test_many_rounds_of_hanging_up_in_every_phase_leak_nothing(
    serving: Serving, cloud: LoopbackCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audio, "VoiceActivity", LoudnessActivity)
    served = serving(transcriber=LevelTranscriber(), header_s=2.0)
    cloud.always(Answer(text="what was really said", delay_between_s=0.05))
    ways = phases(served, cloud)
    for way in ways:  # what is made once is made
        way()
    clean(served)
    wait_until(lambda: live_threads() == 0)
    before, running = descriptors(), tasks()
    for number in range(ROUNDS):
        ways[number % len(ways)]()
    clean(served)
    wait_until(lambda: live_threads() == 0)
    wait_until(lambda: descriptors() <= before + 8)  # idle connections to the cloud
    wait_until(lambda: tasks() <= running)
    states = {
        attempt["state"]
        for row in served.state.engine.ledger.recent(limit=ROUNDS)
        for attempt in (served.state.engine.ledger.get(row["id"]) or {})["attempts"]
    }
    assert cloud.requests and states == {"settled"}, "no reservation is left open"
    assert served.chat(model="local").status_code == 200
