"""`edgewise bench serve`: the server from outside, beside the runtime's own, in one run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from edgewise.settings import Settings
from edgewise_bench.processes import START_S, Process, bare_server, our_server, started

TARGETS: dict[str, tuple[str, float]] = {
    "throughput_ratio_16": (">=", 1.0),
    "cloud_streams_held": (">=", 1000),
    "overhead_ms_p99": ("<", 5.0),
}
CLIENTS = (1, 4, 16)
PATH = "/v1/chat/completions"
SUBJECTS = ("the sea", "a mill", "two friends", "a long road", "the moon", "a fox", "bread", "rain")
ANSWER_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Rounds are taken in turns, ours and the runtime's; ratios are medians over them."""

    rounds: int = 5
    requests: int = 16
    tokens: int = 16
    slots: int = 4
    alone: int = 300
    streams: int = 1000

    @property
    def steps(self) -> int:
        return len(CLIENTS) * self.rounds + 2


QUICK = Rounds(rounds=1, requests=2, tokens=2, alone=4, streams=20)


def measure_serve(
    settings: Settings, rounds: Rounds, progress: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """All metrics. `settings.data_dir` gets a ledger: give it a folder that may be thrown away."""
    found: dict[str, float] = {}
    slots = ("--port", "0", "--slots", str(rounds.slots))
    with _cloud() as cloud, our_server(settings, cloud.url, *slots) as ours:
        with bare_server(settings, rounds.slots) as bare:
            for clients in CLIENTS:
                found |= _throughput(ours, bare, rounds, clients, progress)
        found |= asyncio.run(_overhead(ours.url, rounds))
        progress()
        found |= asyncio.run(_streams(ours.url, rounds.streams))
        progress()
    return found


@dataclass(slots=True)
class Side:
    """One of the two servers, and what its rounds came to."""

    process: Process
    model: str
    loads: list[Load] = field(default_factory=list)
    # Processor seconds a token, those of the model's own process included.
    cpu: list[float] = field(default_factory=list)

    def run(self, rounds: Rounds, number: int, clients: int) -> None:
        bodies = _bodies(self.model, rounds, number)
        before = self.process.family_cpu_s()
        load = asyncio.run(run_load(self.process.url, PATH, bodies, clients))
        if number >= 0:  # the first warms up
            self.loads.append(load)
            self.cpu.append((self.process.family_cpu_s() - before) / load.tokens)

    def percentile_ms(self, share: float) -> float:
        seconds = sorted(each for load in self.loads for each in load.seconds)
        return 1000 * seconds[int(share * (len(seconds) - 1))]


def _throughput(
    ours: Process, bare: Process, rounds: Rounds, clients: int, progress: Callable[[], None]
) -> dict[str, float]:
    mine, theirs = Side(ours, "local"), Side(bare, "any")
    for number in range(-1, rounds.rounds):
        for side in (mine, theirs) if number % 2 else (theirs, mine):
            side.run(rounds, number, clients)
        if number >= 0:
            progress()
    pairs = list(zip(mine.loads, theirs.loads, strict=True))
    found = {
        f"throughput_ratio_{clients}": statistics.median(
            one.tokens_per_second / other.tokens_per_second for one, other in pairs
        )
    }
    if all(mine.cpu):
        # What other work on the machine does not change; the wall clock it does.
        found[f"cpu_ratio_{clients}"] = statistics.median(
            other / one for one, other in zip(mine.cpu, theirs.cpu, strict=True)
        )
    for prefix, side in (("", mine), ("bare_", theirs)):
        per_second = statistics.median(load.per_second for load in side.loads)
        found[f"{prefix}requests_per_second_{clients}"] = per_second
        found[f"{prefix}ms_p50_{clients}"] = side.percentile_ms(0.50)
        found[f"{prefix}ms_p99_{clients}"] = side.percentile_ms(0.99)
    return found


def _bodies(model: str, rounds: Rounds, number: int) -> list[dict[str, Any]]:
    """Different prompts, so that no slot has its answer's beginning already."""
    return [
        {
            "model": model,
            "messages": [
                {"role": "system", "content": "You are a poet."},
                {
                    "role": "user",
                    "content": f"Story {number}.{each}, of {SUBJECTS[each % len(SUBJECTS)]}:",
                },
            ],
            "max_tokens": rounds.tokens,
            "temperature": 0,
        }
        for each in range(rounds.requests)
    ]


async def _overhead(url: str, rounds: Rounds) -> dict[str, float]:
    """One client, one request at a time: all that was neither the model's time nor the cloud's."""
    client = Client(url)
    spent: list[float] = []
    body: dict[str, Any] = {"model": "local", "max_tokens": 2, "temperature": 0}
    try:
        for number in range(-min(20, rounds.alone), rounds.alone):
            body["messages"] = [{"role": "user", "content": f"Say {number}."}]
            started = time.perf_counter()
            answer = await client.post(PATH, body)
            took = 1000 * (time.perf_counter() - started)
            if number >= 0:
                attempts = answer["edgewise"]["attempts"]
                spent.append(took - sum(each["total_ms"] for each in attempts))
    finally:
        client.close()
    spent.sort()
    return {
        "overhead_ms_p50": statistics.median(spent),
        "overhead_ms_p99": spent[int(0.99 * (len(spent) - 1))],
    }


async def _streams(url: str, wanted: int) -> dict[str, float]:
    """So many streams from the cloud, all open at the same time."""
    before = _memory_mb(url)
    body = {"model": "cloud", "stream": True, "messages": [{"role": "user", "content": "Go on."}]}
    clients = [Client(url) for _ in range(wanted)]
    gate = asyncio.Semaphore(64)  # opened one after the other, held all together

    async def open_one(client: Client) -> bool:
        async with gate:
            try:
                await asyncio.wait_for(client.open_stream(PATH, body), START_S)
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                return False
            return True

    started = time.perf_counter()
    opened = sum(await asyncio.gather(*(open_one(each) for each in clients)))
    seconds = time.perf_counter() - started
    held = await asyncio.to_thread(_gauge, url, "edgewise_requests_in_flight") - 1  # itself
    memory = _memory_mb(url)
    for client in clients:
        client.close()
    left = held
    until = time.perf_counter() + START_S
    while left > 0 and time.perf_counter() < until:
        await asyncio.sleep(0.2)
        left = await asyncio.to_thread(_gauge, url, "edgewise_requests_in_flight") - 1
    return {
        "cloud_streams_held": min(float(opened), held),
        "cloud_streams_opened_s": seconds,
        "cloud_streams_left_behind": left,
        "memory_mb_before_streams": before,
        "memory_mb_with_streams": memory,
    }


def _gauge(url: str, name: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics", timeout=START_S) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def _memory_mb(url: str) -> float:
    return _gauge(url, "edgewise_resident_bytes") / 1e6


def _cloud() -> contextlib.AbstractContextManager[Process]:
    return started(
        *("-m", "edgewise.testing.loopback_cloud"),
        *("--answer", "word " * 400, "--chunk-size", "5", "--delay-between", "2"),
    )


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
        await self._reader.readuntil(b'"content":')  # the role comes with an empty one
        await self._reader.readuntil(b'"content":')

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
