"""`edgewise bench serve`: the server from outside, beside the runtime's own, in one run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.bench.load import Client, Load, run_load
from edgewise.local.model_store import ModelStore
from edgewise.settings import Settings

TARGETS: dict[str, tuple[str, float]] = {
    "throughput_ratio_16": (">=", 0.90),
    "cloud_streams_held": (">=", 1000),
    "overhead_ms_p99": ("<", 5.0),
}
CLIENTS = (1, 4, 16)
PATH = "/v1/chat/completions"
SUBJECTS = ("the sea", "a mill", "two friends", "a long road", "the moon", "a fox", "bread", "rain")
START_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Rounds are taken in turns, ours and the runtime's; ratios are medians over them."""

    rounds: int = 4
    requests: int = 24
    tokens: int = 24
    slots: int = 4
    alone: int = 300
    streams: int = 1000

    @property
    def steps(self) -> int:
        return len(CLIENTS) * self.rounds + 2


QUICK = Rounds(rounds=1, requests=4, tokens=4, alone=10, streams=20)


def measure_serve(
    settings: Settings, rounds: Rounds, progress: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """All metrics. `settings.data_dir` gets a ledger: give it a folder that may be thrown away."""
    found: dict[str, float] = {}
    with _cloud(rounds) as cloud, _ours(settings, rounds, cloud) as url:
        with _bare(settings, rounds) as bare:
            for clients in CLIENTS:
                found |= _throughput(url, bare, rounds, clients, progress)
        found |= asyncio.run(_overhead(url, rounds))
        progress()
        found |= asyncio.run(_streams(url, rounds.streams))
        progress()
    return found


def _throughput(
    url: str, bare: str, rounds: Rounds, clients: int, progress: Callable[[], None]
) -> dict[str, float]:
    ours: list[Load] = []
    theirs: list[Load] = []
    for number in range(-1, rounds.rounds):  # the first warms up
        pair = [(url, "local", ours), (bare, "any", theirs)]
        for address, model, loads in pair if number % 2 else reversed(pair):
            bodies = _bodies(model, rounds, number)
            load = asyncio.run(run_load(address, PATH, bodies, clients))
            if number >= 0:
                loads.append(load)
        if number >= 0:
            progress()
    ratios = [
        a.tokens / a.total_s / (b.tokens / b.total_s) for a, b in zip(ours, theirs, strict=True)
    ]
    return {
        f"throughput_ratio_{clients}": statistics.median(ratios),
        f"requests_per_second_{clients}": _median(ours, lambda load: load.per_second),
        f"bare_requests_per_second_{clients}": _median(theirs, lambda load: load.per_second),
        f"ms_p50_{clients}": 1000 * _percentile(ours, 0.50),
        f"ms_p99_{clients}": 1000 * _percentile(ours, 0.99),
        f"bare_ms_p50_{clients}": 1000 * _percentile(theirs, 0.50),
        f"bare_ms_p99_{clients}": 1000 * _percentile(theirs, 0.99),
    }


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
        for number in range(-20, rounds.alone):
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


def _median(loads: list[Load], value: Callable[[Load], float]) -> float:
    return statistics.median(value(load) for load in loads)


def _percentile(loads: list[Load], share: float) -> float:
    seconds = sorted(each for load in loads for each in load.seconds)
    return seconds[int(share * (len(seconds) - 1))]


# -- processes --------------------------------------------------------------------------------


@contextlib.contextmanager
def _process(*words: str, variables: Mapping[str, str] | None = None) -> Iterator[str]:
    """A process that prints its address as JSON; ended with the block."""
    started = subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=dict(variables) if variables is not None else None,
    )
    try:
        assert started.stdout is not None
        said = ""
        while "}" not in said:
            line = started.stdout.readline()
            if not line:
                raise OSError(f"{' '.join(words)} did not start")
            said += line
        yield json.loads(said)["url"]
    finally:
        started.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.wait(START_S / 2)
        started.kill()


def _cloud(rounds: Rounds) -> contextlib.AbstractContextManager[str]:
    return _process(
        *("-m", "edgewise.testing.loopback_cloud"),
        *("--answer", "word " * 400, "--chunk-size", "5", "--delay-between", "2"),
    )


@contextlib.contextmanager
def _ours(settings: Settings, rounds: Rounds, cloud: str) -> Iterator[str]:
    variables = {
        **settings.environment,
        "EDGEWISE_DATA_DIR": str(settings.data_dir),
        "EDGEWISE_CACHE_DIR": str(settings.cache_dir),
        "EDGEWISE_CONFIG_DIR": str(Path(settings.data_dir) / "config"),
        "EDGEWISE_THREADS": str(settings.threads),
        "EDGEWISE_MODEL": settings.model,
        "EDGEWISE_CHAIN": "openai",
        "OPENAI_API_KEY": "loopback",
        "OPENAI_BASE_URL": f"{cloud}/v1",
    }
    variables.pop("EDGEWISE_SERVER_KEY", None)
    words = ("--port", "0", "--json", "--slots", str(rounds.slots))
    with _process("-m", "edgewise", "serve", *words, variables=variables) as url:
        yield url


def _bare(settings: Settings, rounds: Rounds) -> contextlib.AbstractContextManager[str]:
    model = ModelStore(settings.models_dir).find(settings.model)
    context = settings.context_tokens or (model.row.context_tokens if model.row else 2048)
    numbers = (str(settings.threads), str(rounds.slots), str(context))
    return _process("-m", "edgewise.bench.bare_server", str(model.path), *numbers)
