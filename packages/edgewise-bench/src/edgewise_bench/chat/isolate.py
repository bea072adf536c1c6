"""`edgewise bench isolate`: what a process of its own costs a local model, and how fast it is back.

The same model is loaded twice, in this process and in its own, and both answer the same requests in
turns.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy

from edgewise.errors import LocalError
from edgewise.local.backend import SPEECH_RATE, ChatBackend
from edgewise.local.isolated import IsolatedModel
from edgewise.parts import Parts, open_backend
from edgewise.settings import Settings
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Finish
from edgewise_bench.chat.overhead import LONG_PROMPTS, MIDDLE_LAYER, Run

TARGETS: dict[str, tuple[str, float]] = {
    "tokens_per_second_ratio": (">=", 0.97),
    "tokens_per_second_ratio_4": (">=", 0.97),
    "cpu_ratio": (">=", 0.97),
    "cpu_ratio_4": (">=", 0.97),
    "restart_ms_p50": ("<", 1000.0),
}
STREAMS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How often each thing is measured; medians are taken over these."""

    pairs: int = 20
    pair_tokens: int = 64
    first_tokens: int = 24
    restarts: int = 10

    @property
    def steps(self) -> int:
        """How often `progress` is called."""
        return 2 * self.pairs + 4 * self.first_tokens + self.restarts


QUICK = Rounds(pairs=2, pair_tokens=8, first_tokens=2, restarts=1)


def measure_isolation(
    settings: Settings, rounds: Rounds, progress: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """All metrics."""
    settings = settings.with_changes(slots=STREAMS)
    there = open_backend(settings.with_changes(isolate=True))
    assert isinstance(there, IsolatedModel), "an interpreter can be started"
    with closing(open_backend(settings)) as here, closing(there):
        found = {"empty_process_mb": there.supervisor.resident_bytes / 1e6}
        for name, streams in (("", 1), (f"_{STREAMS}", STREAMS)):
            metrics = measure_speed(here, there, rounds, streams, progress)
            found |= {key + name: value for key, value in metrics.items()}
        found |= measure_first_token(here, there, rounds.first_tokens, progress)
        found["process_mb"] = there.supervisor.resident_bytes / 1e6
        found |= measure_restart(there, rounds.restarts, progress)
    return found | measure_senses(settings, rounds.first_tokens, progress)


def measure_senses(
    settings: Settings, rounds: int, progress: Callable[[], None]
) -> dict[str, float]:
    """How much later what hears, embeds and sees answers from a process of its own, and its size.

    In turns: three seconds of a tone, a sentence, a picture of 640 x 480. What is not installed is
    left out.
    """
    tone = numpy.sin(numpy.arange(3 * SPEECH_RATE, dtype="float32") / 8) / 4
    picture = numpy.full((480, 640, 3), 200, "uint8")
    settings = settings.with_changes(fetch_default_model=False)
    work: dict[str, tuple[Callable[[Parts], Any], Callable[[Any], object]]] = {
        "hear": (lambda parts: parts.transcriber(), lambda model: model.hear(tone)),
        "embed": (lambda parts: parts.embedder(), lambda model: model.embed(["A boat at sea."])),
        "look": (lambda parts: parts.vision_skill("names objects"), lambda m: m.look(picture)),
    }
    found: dict[str, float] = {}
    with closing(Parts(settings)) as here, closing(Parts(settings, isolate=True)) as there:
        for name, (open_model, use) in work.items():
            try:
                models = open_model(here), open_model(there)
                for model in models:
                    use(model)  # loads it
            except LocalError:
                continue
            later = []
            for number in range(rounds):
                took = {}
                for way in (0, 1) if number % 2 else (1, 0):
                    began = time.perf_counter()
                    use(models[way])
                    took[way] = time.perf_counter() - began
                later.append(1000 * (took[1] - took[0]))
                progress()
            found[f"{name}_extra_ms_p50"] = statistics.median(later)
            found[f"{name}_process_mb"] = models[1].supervisor.resident_bytes / 1e6
    return found


def measure_speed(
    here: ChatBackend,
    there: IsolatedModel,
    rounds: Rounds,
    streams: int,
    progress: Callable[[], None],
) -> dict[str, float]:
    """Interleaved runs in changing order, on prompts that both have read, with hidden states."""
    ways: tuple[tuple[ChatBackend, int | None], ...] = ((here, None), (there, there.supervisor.pid))
    runs: list[tuple[Run, Run]] = []
    with ThreadPoolExecutor(streams) as pool:
        for number in range(rounds.pairs):
            asked = [
                LONG_PROMPTS[(number + stream) % len(LONG_PROMPTS)] for stream in range(streams)
            ]
            done: dict[int, Run] = {}
            for way in (0, 1) if number % 2 else (1, 0):
                model, process = ways[way]
                _answer(pool, model, asked, 1)
                wall, cpu = time.perf_counter(), processor_s(process)
                tokens = _answer(pool, model, asked, rounds.pair_tokens)
                spent = processor_s(process) - cpu
                done[way] = Run(tokens, time.perf_counter() - wall, max(spent, 1e-9))
            runs.append((done[0], done[1]))
            progress()
    median = statistics.median
    return {
        "tokens_per_second_ratio": median(own.speed / plain.speed for plain, own in runs),
        "cpu_ratio": median(own.cpu_speed / plain.cpu_speed for plain, own in runs),
        "tokens_per_second": median(own.speed for _, own in runs),
        "in_process_tokens_per_second": median(plain.speed for plain, _ in runs),
    }


def _answer(pool: ThreadPoolExecutor, model: ChatBackend, asked: list[str], most: int) -> int:
    def one(prompt: str) -> int:
        request = Request(messages=(Message("user", prompt),), max_tokens=most)
        *_, finish = model.generate(request, layer=MIDDLE_LAYER)
        return finish.output_tokens if isinstance(finish, Finish) else 0

    return sum(pool.map(one, asked))


def processor_s(process: int | None) -> float:
    """Processor time of this process and of another one, its ended threads included."""
    own = time.process_time()
    if process is None or sys.platform != "linux":
        return own
    return own + time.clock_gettime(~process << 3 | 2)  # the kernel's name for that clock


def measure_first_token(
    here: ChatBackend, there: IsolatedModel, rounds: int, progress: Callable[[], None]
) -> dict[str, float]:
    """Of a prompt that was read before, so that what is left is mostly the way."""
    took: dict[bool, list[float]] = {False: [], True: []}
    for number in range(rounds):
        for isolated in (False, True) if number % 2 else (True, False):
            model = there if isolated else here
            for counts in (False, True):  # the first time to warm up
                seconds = _first_token_s(model, LONG_PROMPTS[number % len(LONG_PROMPTS)])
                if counts:
                    took[isolated].append(seconds)
        progress()
    plain, own = statistics.median(took[False]), statistics.median(took[True])
    extra = statistics.median(b - a for a, b in zip(took[False], took[True], strict=True))
    return {
        "first_token_ms": 1000 * own,
        "in_process_first_token_ms": 1000 * plain,
        "first_token_extra_ms": 1000 * extra,
    }


def _first_token_s(model: ChatBackend, prompt: str) -> float:
    request = Request(messages=(Message("user", prompt),), max_tokens=2)
    started = time.perf_counter()
    with closing(model.generate(request, layer=MIDDLE_LAYER)) as tokens:
        next(tokens)
        seconds = time.perf_counter() - started
        list(tokens)  # to the end, so that the next one does not wait for this one to stop
    return seconds


def measure_restart(
    there: IsolatedModel, rounds: int, progress: Callable[[], None]
) -> dict[str, float]:
    """From `kill -9`: until a new process takes requests, and until the next first token.

    The latter has loaded the model and read the prompt.
    """
    ready: list[float] = []
    token: list[float] = []
    for number in range(rounds):
        process = there.supervisor.pid
        assert process is not None, "it was served from there"
        started = time.perf_counter()
        os.kill(process, signal.SIGKILL)
        while there.supervisor.pid == process or not there.supervisor.ready:
            time.sleep(0.001)
        ready.append(time.perf_counter() - started)
        _first_token_s(there, LONG_PROMPTS[number % len(LONG_PROMPTS)])
        token.append(time.perf_counter() - started)
        progress()
    return {
        "restart_ms_p50": 1000 * statistics.median(ready),
        "restart_ms_max": 1000 * max(ready),
        "restart_first_token_ms_p50": 1000 * statistics.median(token),
        "restart_first_token_ms_max": 1000 * max(token),
    }
