"""What a request of each task takes of a processor and of memory, and a plan made of it.

`python -m edgewise_bench.scale.capacity TASK` measures one task. Each is measured in a process of
its own, so that its memory is its own.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from edgewise.children import python_child
from edgewise.engine import Engine
from edgewise.settings import Settings
from edgewise_bench.processes import highest_mb, with_model

REQUESTS = 12
ANSWER_TOKENS = 64  # at most, of a chat
BUSY = 0.7  # of all cores: above it, requests wait for each other
TASK_S = 600.0  # at most, for all requests of a task

Ask = Callable[[Engine], object]


def _chat() -> Iterator[Ask]:
    from edgewise_bench.chat.overhead import LONG_PROMPTS  # noqa: PLC0415 - one task, one import

    for prompt in LONG_PROMPTS:
        yield partial(Engine.complete, prompt=prompt, max_tokens=ANSWER_TOKENS)


def _call() -> Iterator[Ask]:
    from edgewise_bench.calls.cases import OWN_CASES, read_cases  # noqa: PLC0415

    for case in read_cases(OWN_CASES):
        yield partial(Engine.call, prompt=case.query, tools=case.tools)


def _transcribe() -> Iterator[Ask]:
    """Two readers, in turns: some seconds, and most of a minute."""
    from edgewise_bench.speech.recordings import usual_clips  # noqa: PLC0415

    for clip in usual_clips(Settings.load().cache_dir / "bench" / "speech"):
        yield partial(Engine.transcribe, audio=clip.path)


def _see() -> Iterator[Ask]:
    from edgewise.types.messages import Image  # noqa: PLC0415
    from edgewise_bench.vision.cases import text_cases  # noqa: PLC0415

    for case in text_cases(REQUESTS, seed=1):
        file = io.BytesIO()
        case.draw().save(file, "PNG")
        image = Image.from_bytes(file.getvalue(), case.name)
        yield partial(Engine.complete, prompt=case.question, images=[image])


def _embed() -> Iterator[Ask]:
    from edgewise_bench.embed import read_pairs  # noqa: PLC0415

    for pair in read_pairs():
        yield partial(Engine.embed, texts=pair.passage)


TASKS: Mapping[str, Callable[[], Iterator[Ask]]] = {
    "chat": _chat,
    "call": _call,
    "transcribe": _transcribe,
    "see": _see,
    "embed": _embed,
}


def measure_capacity(progress: Callable[[], None] = lambda: None) -> dict[str, float]:
    """Processor seconds of a request of each task, and the most memory of its process."""
    found: dict[str, float] = {}
    for task in TASKS:
        done = subprocess.run(
            python_child("-m", "edgewise_bench.scale.capacity", task),
            capture_output=True,
            text=True,
            timeout=TASK_S,
        )
        if done.returncode != 0:
            last = done.stderr.strip().splitlines()[-1:] or ["it ended without a word"]
            raise OSError(f"{task}: {last[0].removeprefix('edgewise.errors.')}")
        told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        found |= {f"{task}_{name}": value for name, value in told.items()}
        progress()
    return found


def measure_task(task: str) -> dict[str, float]:
    """The mean, because a plan adds requests up; without the first request, which loads models."""
    asks = list(TASKS[task]())
    settings = with_model(Settings.load(threads=1, policy="local_only"))
    with Engine(settings) as engine:
        asks[0](engine)
        began = time.process_time()
        for number in range(REQUESTS):
            asks[number % len(asks)](engine)
        spent = time.process_time() - began
    return {"cpu_s": spent / REQUESTS, "mb": highest_mb(os.getpid())}


# -- the plan --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """What so many machines answer in a second, and what that asks of the database."""

    per_second: float
    pairs_per_second: float
    store_bound: bool  # the database would be full before the processors are


def predicted(metrics: Mapping[str, float], replicas: int, cores: int) -> float:
    """Scripted streams per second of a cluster on one machine, its client included.

    A replica is a Python process, so it has one core; all together have `cores`.
    """
    front = metrics["front_cpu_ms"]
    around = metrics["proxy_cpu_ms"] + metrics["client_cpu_ms"]
    return min(replicas * 1000 / front, cores * 1000 / (front + around))


def plan(
    metrics: Mapping[str, float], task: str, machines: int, cores: int, handed_off: float
) -> Plan:
    """Machines full of one task, of which a share is handed off under a budget.

    The device works on every request, also on those that leave. Every one that leaves reserves
    and settles once, and the database does these one after the other.
    """
    own_s = (metrics["front_cpu_ms"] + metrics["proxy_cpu_ms"]) / 1000
    processors = machines * cores * BUSY / (own_s + metrics[f"{task}_cpu_s"])
    store = metrics["postgres_4_pairs_per_second"] * BUSY
    bound = handed_off > 0 and processors * handed_off > store
    per_second = store / handed_off if bound else processors
    return Plan(per_second, per_second * handed_off, bound)


def check(metrics: Mapping[str, float], replicas: Sequence[int], cores: int) -> dict[str, float]:
    """What was predicted over what was measured, for each number of replicas."""
    found: dict[str, float] = {}
    for number in replicas:
        name = f"{number}_replicas" if number > 1 else "1_replica"
        told = predicted(metrics, number, cores)
        found[f"predicted_per_second_{name}"] = told
        found[f"predicted_over_measured_{name}"] = told / metrics[f"requests_per_second_{name}"]
    return found


def main(task: str) -> None:
    told: dict[str, Any] = measure_task(task)
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
