"""`edgewise bench request`: the processor time that the server itself takes for a request.

A scripted model answers, so what is left is ours: HTTP, access, parsing, routing, the ledger, the
log, the metrics. Processor time hardly depends on what else the machine does; the wall clock does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from edgewise.settings import Settings
from edgewise_bench.processes import Process, started

TARGETS: dict[str, tuple[str, float]] = {"request_cpu_ms": ("<=", 2.5)}
PATH = "/v1/chat/completions"
ANSWER_S = 120.0
MOST_BYTES = 1 << 20  # of one answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Every figure is a median over `rounds`; each asks `requests` times."""

    rounds: int = 7
    requests: int = 400

    @property
    def steps(self) -> int:
        return len(KINDS) * self.rounds


QUICK = Rounds(rounds=1, requests=20)


@dataclass(frozen=True, slots=True)
class Kind:
    """One way of asking, and the metric that it becomes."""

    metric: str
    clients: int
    stream: bool


KINDS = (
    Kind("request_cpu_ms", 1, stream=False),
    Kind("request_cpu_ms_64_clients", 64, stream=False),
    Kind("stream_cpu_ms", 1, stream=True),
    Kind("stream_cpu_ms_64_clients", 64, stream=True),
)


def measure_request_cost(
    rounds: Rounds, before: Path | None = None, progress: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """Milliseconds of processor time per request, of the server and all its processes.

    `before` is the folder `src` of another checkout: it is measured in turns with this one, and
    its figures have `before_` in front.
    """
    with contextlib.ExitStack() as stack:
        servers = {"": stack.enter_context(scripted_server())}
        if before is not None:
            servers["before_"] = stack.enter_context(scripted_server(before))
        return measure_servers(servers, rounds, progress)


def measure_servers(
    servers: Mapping[str, Process], rounds: Rounds, progress: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """The same of servers that run already, by what stands before their metrics."""
    found: dict[str, float] = {}
    for kind in KINDS:
        cpu: dict[str, list[float]] = {name: [] for name in servers}
        rate: dict[str, list[float]] = {name: [] for name in servers}
        for number in range(-1, rounds.rounds):
            for name in sorted(servers, reverse=bool(number % 2)):
                cost = _round(servers[name], kind, rounds.requests if number >= 0 else 20)
                if number >= 0:  # the first warms up
                    cpu[name].append(cost[0])
                    rate[name].append(cost[1])
            if number >= 0:
                progress()
        for name in servers:
            found[name + kind.metric] = statistics.median(cpu[name])
            found[name + kind.metric.replace("cpu_ms", "per_second")] = statistics.median(
                rate[name]
            )
    return found


@contextlib.contextmanager
def scripted_server(source: Path | None = None, workers: int = 1) -> Iterator[Process]:
    """The server with a scripted model, of this code or of the `src` of another checkout."""
    with tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder:
        variables = dict(Settings.load().environment)
        if source is not None:
            variables["PYTHONPATH"] = str(source)
        words = ("-m", "edgewise_bench.scale.scripted_server", folder, str(workers))
        with started(*words, variables=variables) as process:
            yield process


def _round(server: Process, kind: Kind, requests: int) -> tuple[float, float]:
    """Milliseconds of processor time per request, and requests per second."""
    before, started_at = server.family_cpu_s(), time.perf_counter()
    asyncio.run(load(server.url, kind, requests))
    spent, took = server.family_cpu_s() - before, time.perf_counter() - started_at
    return 1000 * spent / requests, requests / took


async def load(url: str, kind: Kind, requests: int) -> None:
    """So many requests, shared out among the clients; each keeps its connection."""
    parts = urlsplit(url)
    message = _message(parts.netloc, kind.stream)
    left = iter(range(requests))

    async def ask() -> None:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=MOST_BYTES)
        try:
            for _ in left:
                writer.write(message)
                await asyncio.wait_for(_answer(reader, kind.stream), ANSWER_S)
        finally:
            writer.close()

    await asyncio.gather(*(ask() for _ in range(kind.clients)))


def _message(host: str, stream: bool) -> bytes:
    body = {
        "model": "auto",
        "messages": [
            {"role": "system", "content": "You are a helpful assistant."},
            {"role": "user", "content": "Which words do you know? Name thirty-two of them."},
        ],
        "max_tokens": 64,
        "temperature": 0,
        "stream": stream,
    }
    content = json.dumps(body).encode()
    head = (
        f"POST {PATH} HTTP/1.1\r\nhost: {host}\r\nuser-agent: edgewise-bench\r\n"
        "accept: application/json\r\nauthorization: Bearer none\r\n"
        f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def _answer(reader: asyncio.StreamReader, stream: bool) -> None:
    """Reads one answer to its end. Raises OSError where it is not 200, or cut short."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    lengths = [line for line in head.split("\r\n") if line.startswith("content-length:")]
    content = (
        await reader.readexactly(int(lengths[0].partition(":")[2]))
        if lengths
        else await reader.readuntil(b"\r\n0\r\n\r\n")
    )
    if " 200 " not in head.partition("\r\n")[0]:
        raise OSError(f"{head.splitlines()[0]}: {content[:200]!r}")
    if stream and b"[DONE]" not in content:
        raise OSError("the stream was cut short")
