"""The engine and the bare runtime, side by side: the same model, prompts and parameters."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from edgewise.bench.open_cloud import OpenCloud
from edgewise.bench.own_code import Chunk
from edgewise.engine import Engine
from edgewise.local.llama_cpp import (
    ALTERNATIVES,
    LlamaCpp,
)
from edgewise.local.store.store import InstalledModel
from edgewise.settings import Settings
from edgewise.types.replies import Finished, Switched, TextDelta

LONG_PROMPTS = (
    "Tell me a long story about a fisherman and a talking fish.",
    "Explain in detail how bread is made, step by step.",
    "Describe a walk through a forest in autumn, with many details.",
    "Write a long letter to a friend about a summer holiday at the sea.",
    "Explain how a bicycle works, part by part.",
    "Describe the life of a farmer through the four seasons.",
)
SHORT_PROMPTS = (
    "What is the capital of {}?",
    "Name a river in {}.",
    "Is {} in Europe?",
    "Which language is spoken in {}?",
)
PLACES = (
    *("France", "Portugal", "Sweden", "Brazil", "Kenya", "Japan", "Canada", "Greece", "Peru"),
    *("Norway", "Egypt", "India", "Mexico", "Ireland", "Austria", "Chile", "Poland", "Turkey"),
)


@dataclass(frozen=True, slots=True)
class Run:
    tokens: int
    wall_s: float
    cpu_s: float

    @property
    def speed(self) -> float:
        return self.tokens / self.wall_s

    @property
    def cpu_speed(self) -> float:
        """Tokens per second of processor time, all threads together."""
        return self.tokens / self.cpu_s


class SideBySide:
    """One loaded model, used through the engine and without it."""

    def __init__(self, model: InstalledModel, settings: Settings) -> None:
        context = settings.context_tokens or (model.row.context_tokens if model.row else 2048)
        self.backend = LlamaCpp(model, threads=settings.threads, context_tokens=context)
        self.engine = Engine(settings, backend=self.backend, cloud=OpenCloud())
        self._system = model.row.default_system if model.row else ""
        self._server = self.backend.load()

    def close(self) -> None:
        self.engine.close()

    def bare(self, prompt: str, max_tokens: int, *, evidence: bool = False) -> list[Chunk]:
        """The runtime alone: what a caller of xllamacpp would write for the same request."""
        messages = [{"role": "user", "content": prompt}]
        if self._system:
            messages.insert(0, {"role": "system", "content": self._system})
        body: dict[str, Any] = {
            "messages": messages,
            "max_tokens": max_tokens,
            "temperature": 0,
            "seed": 0,
            "samplers": ["top_k"],
            "top_k": 1,
            "stream": True,
            "cache_prompt": True,
        }
        if evidence:
            body |= {"logprobs": True, "top_logprobs": ALTERNATIVES}
        chunks: list[Mapping[str, Any]] = []

        def on_chunk(chunk: Mapping[str, Any]) -> bool:
            chunks.append(chunk)
            return False

        self._server.handle_chat_completions(body, on_chunk)
        return [chunk for chunk in chunks if chunk.get("choices")]

    def run_bare(self, prompt: str, max_tokens: int, *, evidence: bool = False) -> Run:
        return _timed(
            lambda: sum(1 for _ in texts(self.bare(prompt, max_tokens, evidence=evidence)))
        )

    def run_engine(self, prompt: str, max_tokens: int) -> Run:
        """The public API with the meter on, the gate watching and the ledger writing."""

        def consume() -> int:
            reply = None
            for event in self.engine.stream(prompt, max_tokens=max_tokens, threshold=1e-6):
                reply = event.reply if isinstance(event, Finished) else reply
            return reply.usage.output_tokens if reply else 0

        return _timed(consume)


def texts(chunks: list[Chunk]) -> Iterator[str]:
    for chunk in chunks:
        for choice in chunk["choices"]:
            if content := (choice.get("delta") or {}).get("content"):
                yield content


def _timed(work: Callable[[], int]) -> Run:
    wall, cpu = time.perf_counter(), time.process_time()
    tokens = work()
    return Run(tokens, time.perf_counter() - wall, time.process_time() - cpu)


def measure_speed(
    pair: SideBySide, rounds: int, max_tokens: int, progress: Callable[[], None]
) -> dict[str, float]:
    """Interleaved runs in changing order, on prompts the runtime has already read.

    The third run asks the bare runtime for the same log-probabilities: what the evidence costs
    there is not ours to save.
    """
    ways: tuple[Callable[[str, int], Run], ...] = (
        pair.run_bare,
        pair.run_engine,
        lambda prompt, most: pair.run_bare(prompt, most, evidence=True),
    )
    runs: list[tuple[Run, ...]] = []
    for number in range(rounds):
        prompt = LONG_PROMPTS[number % len(LONG_PROMPTS)]
        pair.bare(prompt, 1)  # now none of them has to read the prompt
        first = number % len(ways)
        order = [(first + step) % len(ways) for step in range(len(ways))]
        done = {way: ways[way](prompt, max_tokens) for way in order}
        runs.append(tuple(done[way] for way in range(len(ways))))
        progress()
    median = statistics.median
    return {
        "tokens_per_second_ratio": median(ours.speed / bare.speed for bare, ours, _ in runs),
        "cpu_ratio": median(ours.cpu_speed / bare.cpu_speed for bare, ours, _ in runs),
        "evidence_ratio": median(seen.speed / bare.speed for bare, _, seen in runs),
        "evidence_cpu_ratio": median(seen.cpu_speed / bare.cpu_speed for bare, _, seen in runs),
        "tokens_per_second": median(ours.speed for _, ours, _ in runs),
        "bare_tokens_per_second": median(bare.speed for bare, _, _ in runs),
    }


def measure_first_text(
    pair: SideBySide, rounds: int, progress: Callable[[], None]
) -> dict[str, float]:
    """Until the first text is shown: at once (local_only), and with the gate holding it back."""
    prompts = [phrasing.format(place) for place in PLACES for phrasing in SHORT_PROMPTS]
    shown: list[float] = []
    held: list[float] = []
    handed_off: list[float] = []
    pair.bare("Warm up.", 4)
    for number in range(min(rounds, len(prompts) // 2)):
        seconds, _ = _until_news(pair, prompts[2 * number], "local_only")
        shown.append(seconds)
        seconds, kept = _until_news(pair, prompts[2 * number + 1], "prefer_local")
        (held if kept else handed_off).append(seconds)
        progress()
    return {
        "first_token_ms_p50": 1000 * statistics.median(shown),
        "held_first_text_ms_p50": 1000 * statistics.median(held) if held else 0.0,
        "handoff_ms_p50": 1000 * statistics.median(handed_off) if handed_off else 0.0,
        "held_kept_share": len(held) / (len(held) + len(handed_off)),
    }


def _until_news(pair: SideBySide, prompt: str, policy: str) -> tuple[float, bool]:
    """Seconds until text was shown or handed off, and whether it was shown.

    The stream is read to its end, so that the next prompt does not wait for this one to stop.
    """
    seconds, kept = 0.0, True
    started = time.perf_counter()
    for event in pair.engine.stream(prompt, max_tokens=32, policy=policy):
        if not seconds and isinstance(event, TextDelta | Switched):
            seconds, kept = time.perf_counter() - started, isinstance(event, TextDelta)
    return seconds, kept
