"""What watches a server: stalls that are not the machine's, memory, and private bytes."""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from edgewise_bench.campaigns.watch import (
    MARK,
    MemoryWatch,
    Pulse,
    Span,
    WatchedCloud,
    control_server,
    control_stalls,
    count_stalls,
)
from edgewise_bench.processes import started


def beats(*ends: float) -> list[Span]:
    return [Span(end - 0.01, end) for end in ends]


STEADY = beats(*(number * 0.2 for number in range(100)))


def test_an_answer_that_takes_long_while_the_control_answers_is_a_stall() -> None:
    assert count_stalls([Span(5.0, 7.5), Span(8.0, 8.1)], STEADY) == [Span(5.0, 7.5)]
    assert count_stalls([Span(5.0, 6.9)], STEADY) == []


def test_one_while_the_whole_machine_stands_still_is_not() -> None:
    frozen = [span for span in STEADY if not 5.1 < span.end < 8.0]
    assert count_stalls([Span(5.0, 8.1)], frozen) == []
    assert control_stalls(frozen) == 1
    assert control_stalls(STEADY) == 0
    assert count_stalls([Span(5.0, 11.0)], frozen) == [Span(5.0, 11.0)], "longer than the machine"


def test_a_server_that_is_started_again_is_not_stalled() -> None:
    assert count_stalls([Span(5.0, 9.0)], STEADY, [Span(6.0, 7.0)]) == []


def test_a_pulse_asks_again_and_again() -> None:
    with control_server() as control:
        pulse = Pulse(control.url, "/")
        until = time.monotonic() + 60
        while len(pulse.spans) < 3 and time.monotonic() < until:
            time.sleep(0.05)
        pulse.stop()
    assert len(pulse.spans) >= 3


HOG = """
import json, sys, time
print(json.dumps({"url": "http://127.0.0.1:1"}), flush=True)
held = bytearray(300_000_000)
held[::4096] = b"x" * len(held[::4096])
time.sleep(600)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory in /proc")
@pytest.mark.parametrize("most_mb", [200.0, 100_000.0])
def test_memory_is_watched_and_has_an_end(most_mb: float) -> None:
    with started("-c", HOG) as process:
        watch = MemoryWatch(process, most_mb, every_s=0.01)
        until = time.monotonic() + 60
        while process.alive and watch.peak_mb < 300 and time.monotonic() < until:
            time.sleep(0.01)
        if most_mb == 200:
            process.popen.wait(60)
        assert watch.too_much == (most_mb == 200)
        assert process.alive == (most_mb != 200)
        assert watch.stop() > 200


def test_a_process_that_does_not_start_is_said() -> None:
    with pytest.raises(OSError, match="did not start"), started("-c", "pass"):
        pass
    assert sys.executable


def post(url: str, body: object) -> None:
    request = urllib.request.Request(url, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60):
        pass


def test_the_cloud_counts_bytes_that_should_not_have_left() -> None:
    with WatchedCloud() as cloud:
        told: list[str] = []
        cloud.on_private = lambda seen: told.append(seen.path)
        asked = {"text": "Where?", "language": "en", "model": "any"}
        post(f"{cloud.cactus_url}/text", asked)
        assert (cloud.seen, cloud.private_bytes) == (1, 0)
        post(f"{cloud.cactus_url}/text", asked | {"text": f"It is {MARK}0123"})
        assert cloud.private_bytes > 0
        before = cloud.private_bytes
        cloud.all_private = True
        post(f"{cloud.cactus_url}/text", asked)
        assert cloud.private_bytes > before
        assert len(told) == 2
