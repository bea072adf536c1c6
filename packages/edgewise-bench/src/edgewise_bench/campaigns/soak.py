"""`edgewise bench soak`: a mixed load for an hour; what grows, and what gets slower."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgewise.settings import Settings
from edgewise_bench.campaigns.attacks import CHAT, TRANSCRIBE, Answer, Target, make_attack
from edgewise_bench.campaigns.hostile import IMPATIENT, MOST_MB
from edgewise_bench.campaigns.uploads import form
from edgewise_bench.campaigns.watch import (
    MemoryWatch,
    Pulse,
    WatchedCloud,
    control_server,
    control_stalls,
    count_stalls,
)
from edgewise_bench.processes import Process, our_server
from edgewise_bench.speech.made_voice import silence, voice, wav

CLIENTS = 3
PAUSE_S = 0.5  # on average, after each request of a client
WARM_SHARE = 0.1  # of the whole time; then what is loaded once is loaded
LIGHT = ("schemas", "tools", "fields", "malformed", "http", "websocket", "leaving")
SUBJECTS = ("the sea", "a mill", "two friends", "a long road", "the moon", "a fox", "bread", "rain")
TARGETS: dict[str, tuple[str, float]] = {
    "process_deaths": ("<=", 0),
    "errors": ("<=", 0),
    "growth_mb": ("<=", 100),
    "descriptors_growth": ("<=", 16),
    "threads_growth": ("<=", 8),
}


@dataclass(frozen=True, slots=True)
class Sample:
    at: float
    resident_mb: float
    descriptors: int
    threads: int


@dataclass(slots=True)
class Load:
    """What was asked so far: when, of which kind, and how long it took in milliseconds."""

    took: list[tuple[float, str, float]] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)


def _chat(rng: random.Random, **more: Any) -> dict[str, Any]:
    content = f"Story {rng.randrange(10**6)}, of {rng.choice(SUBJECTS)}:"
    message = {"role": "user", "content": content}
    return {"model": "local", "messages": [message], "max_tokens": 16, **more}


def _plain(rng: random.Random, target: Target) -> Answer:
    return target.post(CHAT, _chat(rng))


def _handoff(rng: random.Random, target: Target) -> Answer:
    return target.post(CHAT, _chat(rng, model="auto", metadata={"threshold": "0.99"}))


def _stream(rng: random.Random, target: Target) -> Answer:
    return target.post(CHAT, _chat(rng, stream=True))


def _left_stream(rng: random.Random, target: Target) -> Answer:
    body = json.dumps(_chat(rng, stream=True, max_tokens=60)).encode()
    connection = http.client.HTTPConnection(target.host, target.port, timeout=120)
    with contextlib.closing(connection):
        connection.request("POST", CHAT, body, {"content-type": "application/json"})
        response = connection.getresponse()
        response.read(rng.choice([1, 200, 900]))
        return Answer(response.status)


def _call(rng: random.Random, target: Target) -> Answer:
    place = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": place}}
    city = rng.choice(["Oslo", "Lima", "Kyoto", "Accra"])
    asked = [{"role": "user", "content": f"What is the weather in {city}?"}]
    return target.post(CHAT, {"model": "local", "messages": asked, "tools": [tool]})


def _schema(rng: random.Random, target: Target) -> Answer:
    city = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 9}}}
    held = {"type": "json_schema", "json_schema": {"name": "c", "schema": city}}
    return target.post(CHAT, _chat(rng, response_format=held))


def _embed(rng: random.Random, target: Target) -> Answer:
    texts = [f"{rng.choice(SUBJECTS)} and {rng.choice(SUBJECTS)}" for _ in range(8)]
    return target.post("/v1/embeddings", {"model": "local", "input": texts})


def _speech(rng: random.Random, target: Target) -> Answer:
    said = wav(silence(0.5), voice(2.0, seed=rng.randrange(4)), silence(0.5))
    kind, body = form({"model": "local"}, ("x.wav", said, "audio/wav"))
    return target.post(TRANSCRIBE, body, kind=kind)


def _hostile(rng: random.Random, target: Target) -> Answer:
    answer = make_attack(rng.randrange(10**9), 0, LIGHT).send(target)
    # Refused or left unanswered is as it should be; only our own faults count.
    return answer if answer.status >= 500 or answer.late else Answer(200)


KINDS: dict[str, tuple[int, Callable[[random.Random, Target], Answer]]] = {
    "chat": (6, _plain),
    "stream": (3, _stream),
    "left_stream": (2, _left_stream),
    "handoff": (3, _handoff),
    "call": (2, _call),
    "schema": (2, _schema),
    "embed": (3, _embed),
    "speech": (1, _speech),
    "hostile": (2, _hostile),
}


def measure_soak(
    settings: Settings,
    minutes: float,
    seed: int,
    options: tuple[str, ...] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, float]:
    """All metrics; Ctrl-C ends it early, with the figures of what was. One line a minute."""
    with (
        WatchedCloud() as cloud,
        control_server() as control,
        our_server(
            settings,
            cloud.url,
            *("--port", "0", *options),
            variables=IMPATIENT,
            errors=Path(settings.data_dir) / "stderr",
        ) as server,
    ):
        soak = Soak(server, minutes * 60, seed)
        pulse, beside = Pulse(server.url, "/healthz"), Pulse(control.url, "/")
        memory = MemoryWatch(server, MOST_MB)
        with contextlib.suppress(KeyboardInterrupt):
            soak.run(tell)
        soak.stop()
        good = _plain(random.Random(seed), Target.at(server.url)).status == 200
        pulse.stop()
        beside.stop()
        return {
            **soak.metrics(),
            "peak_mb": memory.stop(),
            "process_deaths": float(not server.alive),
            "next_good_served": float(good),
            "stalls_over_2s": len(count_stalls(pulse.spans, beside.spans)),
            "control_stalls_over_2s": control_stalls(beside.spans),
            "cloud_requests": cloud.seen,
        }


class Soak:
    """Clients that ask at a modest rate, and one who looks at the server every few seconds."""

    def __init__(self, server: Process, seconds: float, seed: int) -> None:
        self.load = Load()
        self._server, self._target = server, Target.at(server.url)
        self._seconds, self._seed = seconds, seed
        self._over = threading.Event()
        self._started = time.monotonic()
        self._look()
        self._threads = [
            threading.Thread(target=self._ask, args=(number,), daemon=True)
            for number in range(CLIENTS)
        ]

    def run(self, tell: Callable[[str], None]) -> None:
        for thread in self._threads:
            thread.start()
        look_s = max(1.0, min(10.0, self._seconds / 60))
        minute = 0
        while (now := self._now()) < self._seconds and self._server.alive:
            time.sleep(min(look_s, self._seconds - now))
            self._look()
            if self._now() // 60 > minute:
                minute = int(self._now() // 60)
                tell(self._line(minute))

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        time.sleep(1.0)  # for threads of requests that have just ended
        self._look()

    def metrics(self) -> dict[str, float]:
        samples, load = self.load.samples, self.load
        first, last, lasted = samples[0], samples[-1], samples[-1].at
        warm = next(each for each in samples if each.at >= lasted * WARM_SHARE)
        found = {
            "minutes": lasted / 60,
            "requests": len(load.took),
            "errors": load.errors.total(),
            "growth_mb": last.resident_mb - warm.resident_mb,
            "descriptors_growth": last.descriptors - warm.descriptors,
            "threads_growth": last.threads - warm.threads,
        }
        for name, sample in (("start", first), ("warm", warm), ("end", last)):
            found[f"resident_mb_{name}"] = sample.resident_mb
            found[f"descriptors_{name}"] = sample.descriptors
            found[f"threads_{name}"] = sample.threads
        for kind in KINDS:
            found |= self._latencies(kind, lasted)
        return found | {f"errors_{name}": count for name, count in load.errors.items()}

    def _latencies(self, kind: str, lasted: float) -> dict[str, float]:
        """In the first and in the last third."""
        found = {}
        for name, low, high in (("first", 0.0, lasted / 3), ("last", lasted * 2 / 3, lasted)):
            took = sorted(
                ms for at, each, ms in self.load.took if each == kind and low <= at <= high
            )
            if took:
                found[f"{kind}_p50_ms_{name}"] = statistics.median(took)
                found[f"{kind}_p99_ms_{name}"] = took[math.ceil(0.99 * len(took)) - 1]
        return found

    def _ask(self, number: int) -> None:
        rng = random.Random(f"{self._seed}-{number}")
        kinds, weights = list(KINDS), [weight for weight, _ in KINDS.values()]
        while not self._over.is_set():
            kind = rng.choices(kinds, weights)[0]
            at, started = self._now(), time.perf_counter()
            try:
                answer = KINDS[kind][1](rng, self._target)
            except (OSError, http.client.HTTPException):
                answer = Answer()
            self.load.took.append((at, kind, 1000 * (time.perf_counter() - started)))
            if answer.status != 200:
                self.load.errors[f"{kind}_{answer.status}"] += 1
            self._over.wait(rng.expovariate(1 / PAUSE_S))

    def _look(self) -> None:
        server = self._server
        self.load.samples.append(
            Sample(self._now(), server.resident_mb(), server.descriptors(), server.threads())
        )

    def _line(self, minute: int) -> str:
        sample, load = self.load.samples[-1], self.load
        return (
            f"minute {minute}: {len(load.took)} requests, {load.errors.total()} errors,"
            f" {sample.resident_mb:,.0f} MB, {sample.descriptors} descriptors,"
            f" {sample.threads} threads"
        )

    def _now(self) -> float:
        return time.monotonic() - self._started
