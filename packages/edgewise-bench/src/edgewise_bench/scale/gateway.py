"""Four times what the device can do: how long answers take where what would wait leaves."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import httpx2

from edgewise.record.report import percentile
from edgewise.server.serve import running
from edgewise.settings import Settings
from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend, word_tokens
from edgewise.testing.scripted import SCRIPTED_FACTS
from edgewise.types.replies import Token

TARGETS: dict[str, tuple[str, float]] = {"overflow_p95_ratio": ("<=", 1.3)}
TOKEN_S = 0.05
WORDS = 32
TEXT = " ".join(f"word{number}" for number in range(WORDS))  # what repeats is in doubt
SURE = word_tokens(TEXT, logprob=-0.01, margin=6.0, entropy=0.05)
UNSURE = word_tokens(TEXT, logprob=-2.5, margin=0.1, entropy=2.5)


def _asked(http: httpx2.Client, url: str, model: str) -> int:
    """The words of a streamed answer."""
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "Say words."}]}
    text = ""
    with http.stream("POST", f"{url}/v1/chat/completions", json=body) as response:
        if response.status_code != 200:
            return 0
        for line in response.iter_lines():
            if line.startswith("data: {"):
                for choice in json.loads(line[6:]).get("choices", ()):
                    text += choice["delta"].get("content") or ""
    return len(text.split())


SLOTS = 4
TIMES = 4.0  # what comes, of what the device can do
DOUBTFUL = 0.27


def measure_overflow(
    folder: Path, seconds: float, seed: int = 1, progress: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """The 95th percentile of whole answers at four times the device's capacity, and the cloud's
    alone under the same load.

    A device of four slots and a cloud need the same time for an answer. `…_ratio` is with answers
    that the device is sure of; `…_with_doubt` with 27 % that leave after it. The share of waste is
    of the money: what was paid for answers that nobody was shown.
    """
    found: dict[str, float] = {}
    whole_s = TOKEN_S * WORDS
    rate = TIMES * SLOTS / whole_s
    random = Random(seed)
    arrivals = [random.expovariate(rate) for _ in range(int(seconds * rate))]
    facts = replace(SCRIPTED_FACTS, slots=SLOTS)
    doubts = [SURE if random.random() >= DOUBTFUL else UNSURE for _ in range(10_000)]
    runs: tuple[tuple[str, str, list[tuple[Token, ...]], float], ...] = (
        ("cloud", "cloud", [SURE], 0.25),
        ("overflow", "auto", [SURE], 0.25),
        ("overflow_with_doubt", "auto", doubts, 0.25),
        ("no_overflow", "auto", [SURE], 0.0),
    )
    with LoopbackCloud() as cloud:
        cloud.always(
            Answer(text=TEXT, delay_first_s=TOKEN_S, delay_between_s=TOKEN_S, chunk_size=7)
        )
        for name, model, answers, busy_after_s in runs:
            device = ScriptedBackend(answers, delay_s=TOKEN_S, facts=facts)
            place = folder / name
            with _server(place, device, cloud, busy_after_s=busy_after_s, queue=4096) as url:
                times, refused = _arrive(url, model, arrivals)
            found[f"{name}_p95_s"] = percentile(sorted(times), 95)
            found[f"{name}_refused"] = refused
            found |= {f"{name}_{key}": value for key, value in _spent(place).items()}
            progress()
    found["overflow_p95_ratio"] = found["overflow_p95_s"] / found["cloud_p95_s"]
    found["overflow_p95_ratio_with_doubt"] = (
        found["overflow_with_doubt_p95_s"] / found["cloud_p95_s"]
    )
    found["no_overflow_p95_ratio"] = found["no_overflow_p95_s"] / found["cloud_p95_s"]
    found["wasted_cloud_share"] = found["overflow_with_doubt_wasted_share"]
    return found


def _arrive(url: str, model: str, arrivals: Sequence[float]) -> tuple[list[float], int]:
    """Seconds of each answer from its arrival on, whoever waits; and how many had none."""
    times: list[float] = []
    refused = 0
    with httpx2.Client(timeout=300, limits=httpx2.Limits(max_connections=None)) as http:

        def ask() -> tuple[float, int]:
            began = time.perf_counter()
            words = _asked(http, url, model)
            return time.perf_counter() - began, words

        with ThreadPoolExecutor(512) as pool:
            asked, at = [], time.perf_counter()
            for pause in arrivals:
                at += pause
                time.sleep(max(0.0, at - time.perf_counter()))
                asked.append(pool.submit(ask))
            for each in asked:
                took, words = each.result()
                times.append(took)
                refused += words == 0
    return times, refused


def _spent(folder: Path) -> dict[str, float]:
    """Who answered, and which share of the cloud's money bought nothing."""
    with sqlite3.connect(folder / "data" / "ledger.sqlite3") as connection:
        (kept, asked) = connection.execute(
            "SELECT COUNT(*) FILTER (WHERE source = 'local'), COUNT(*) FROM requests"
        ).fetchone()
        (wasted, spent) = connection.execute(
            """SELECT COALESCE(SUM(attempts.cost_microdollars) FILTER
                    (WHERE requests.source = 'local' OR attempts.outcome <> 'answered'), 0),
                COALESCE(SUM(attempts.cost_microdollars), 0)
            FROM attempts JOIN requests ON requests.id = attempts.request_id
            WHERE attempts.place = 'cloud'"""
        ).fetchone()
    return {"kept_share": kept / max(1, asked), "wasted_share": wasted / spent if spent else 0.0}


@contextlib.contextmanager
def _server(
    folder: Path, device: ScriptedBackend, cloud: LoopbackCloud | None = None, **server: Any
) -> Iterator[str]:
    """In this process, at its defaults but for what is said."""
    variables = {}
    if cloud is not None:
        variables = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": cloud.openai_url}
    settings = Settings.load(
        variables,
        data_dir=folder / "data",
        config_dir=folder / "config",
        chain=("openai",) if cloud is not None else (),
        slow_after_s=0.0,
        threshold=0.5,
        server={"port": 0, **server},
    )
    with running(settings, lambda _: None, backend=device) as url:
        yield url
