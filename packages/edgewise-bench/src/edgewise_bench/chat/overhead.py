"""`edgewise bench overhead`: what edgewise costs on top of the bare runtime, in one run."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

from edgewise.children import python_child
from edgewise.cloud.provider import Chunk as CloudChunk
from edgewise.cloud.provider import Stop
from edgewise.engine import Engine
from edgewise.errors import CloudClosed
from edgewise.local.backend import DeviceFacts, TokenStream
from edgewise.local.llama_cpp import open_backend
from edgewise.local.llama_server import ALTERNATIVES, LlamaServer
from edgewise.local.store import InstalledModel, ModelStore
from edgewise.record.ledger import Ledger
from edgewise.settings import Settings
from edgewise.testing import ScriptedBackend
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Attempt, Finish, Finished, Reply, Switched, TextDelta, Token
from edgewise_bench.processes import without_limits

# What the design promises; the bench prints them beside what it finds.
TARGETS: dict[str, tuple[str, float]] = {
    "tokens_per_second_ratio": (">=", 0.99),
    "states_ratio": (">=", 0.97),
    "decision_ms_p99": ("<", 1.0),
    "token_us_p99": ("<", 50.0),
    "import_s": ("<", 0.15),
    "version_s": ("<", 0.4),
    "first_token_ms_p50": ("<", 60.0),
    "held_first_text_ms_p50": ("<", 120.0),
}
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
MIDDLE_LAYER = 20  # of 30, of the default model
Chunk = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How often each thing is measured; medians and percentiles are taken over these."""

    pairs: int = 36
    pair_tokens: int = 96
    first_texts: int = 30
    requests: int = 1000
    replays: int = 100
    startups: int = 9

    @property
    def steps(self) -> int:
        """How often `progress` is called."""
        return self.pairs + self.first_texts + 3


QUICK = Rounds(pairs=2, pair_tokens=8, first_texts=2, requests=20, replays=2, startups=1)


def measure_overhead(
    settings: Settings, rounds: Rounds, progress: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """All metrics. `settings.data_dir` gets a ledger: give it a folder that may be thrown away."""
    model = ModelStore(settings.models_dir).find(settings.model)
    found: dict[str, float] = {}
    pair = SideBySide(model, settings)
    try:
        found |= measure_speed(pair, rounds.pairs, rounds.pair_tokens, progress)
        found |= measure_first_text(pair, rounds.first_texts, progress)
        request = Request(messages=(Message("user", LONG_PROMPTS[0]),), max_tokens=64)
        tokens = [item for item in pair.backend.generate(request) if isinstance(item, Token)]
        found |= measure_tokens(settings, tokens, pair.backend.facts(), rounds.replays)
        progress()
    finally:
        pair.close()
    found |= measure_requests(settings, rounds.requests)
    progress()
    found |= measure_startup(rounds.startups)
    progress()
    return found


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
    """One model, used through the engine, and loaded once more in the bare runtime."""

    def __init__(self, model: InstalledModel, settings: Settings) -> None:
        context = settings.context_tokens or (model.row.context_tokens if model.row else 2048)
        self.backend = open_backend(model, threads=settings.threads, context_tokens=context)
        self._bare = LlamaServer(model, threads=settings.threads, context_tokens=context)
        self.engine = Engine(without_limits(settings), backend=self.backend, cloud=OpenCloud())
        self._system = model.row.default_system if model.row else ""
        self._server = self._bare.load()

    def close(self) -> None:
        self.engine.close()
        self._bare.close()

    def warm_up(self, prompt: str) -> None:
        """Both sides read the prompt, so that nobody has to when it counts."""
        self.bare(prompt, 1)
        self.run_engine(prompt, 1)

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

    def run_states(self, prompt: str, max_tokens: int) -> Run:
        """Our loop with evidence and the hidden states of a middle layer."""
        request = Request(messages=(Message("user", prompt),), max_tokens=max_tokens)
        return _timed(lambda: len(list(self.backend.generate(request, layer=MIDDLE_LAYER))) - 1)

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

    The third run asks the bare runtime for log-probabilities. The fourth is our loop with the
    hidden states of a middle layer.
    """
    ways: tuple[Callable[[str, int], Run], ...] = (
        pair.run_bare,
        pair.run_engine,
        lambda prompt, most: pair.run_bare(prompt, most, evidence=True),
        pair.run_states,
    )
    runs: list[tuple[Run, ...]] = []
    for number in range(rounds):
        prompt = LONG_PROMPTS[number % len(LONG_PROMPTS)]
        pair.warm_up(prompt)
        first = number % len(ways)
        order = [(first + step) % len(ways) for step in range(len(ways))]
        done = {way: ways[way](prompt, max_tokens) for way in order}
        runs.append(tuple(done[way] for way in range(len(ways))))
        progress()
    median = statistics.median
    return {
        "tokens_per_second_ratio": median(ours.speed / bare.speed for bare, ours, *_ in runs),
        "cpu_ratio": median(ours.cpu_speed / bare.cpu_speed for bare, ours, *_ in runs),
        "evidence_ratio": median(seen.speed / bare.speed for bare, _, seen, _ in runs),
        "evidence_cpu_ratio": median(seen.cpu_speed / bare.cpu_speed for bare, _, seen, _ in runs),
        "states_ratio": median(states.speed / bare.speed for bare, *_, states in runs),
        "states_cpu_ratio": median(states.cpu_speed / bare.cpu_speed for bare, *_, states in runs),
        "tokens_per_second": median(ours.speed for _, ours, *_ in runs),
        "bare_tokens_per_second": median(bare.speed for bare, *_ in runs),
    }


def measure_first_text(
    pair: SideBySide, rounds: int, progress: Callable[[], None]
) -> dict[str, float]:
    """Until the first text is shown: at once (local_only), and with the gate holding it back."""
    prompts = [phrasing.format(place) for place in PLACES for phrasing in SHORT_PROMPTS]
    shown: list[float] = []
    held: list[float] = []
    handed_off: list[float] = []
    pair.warm_up("Warm up.")
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


class TimedLedger(Ledger):
    """The real ledger, in a real file, that notes how long each write took."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.seconds: list[float] = []

    @override
    def record(self, request: Request, reply: Reply, *, cost_avoided_microdollars: int = 0) -> None:
        started = time.perf_counter()
        super().record(request, reply, cost_avoided_microdollars=cost_avoided_microdollars)
        self.seconds.append(time.perf_counter() - started)


class ReplayBackend:
    """Feeds recorded tokens through our code; notes the time until the next pull.

    That span is all we do for a token: meter, gate and event.
    """

    def __init__(self, tokens: Sequence[Token], facts: DeviceFacts) -> None:
        self._tokens = tokens
        self._facts = facts
        self.seconds: list[float] = []

    def facts(self) -> DeviceFacts:
        return self._facts

    def generate(
        self, request: Request, *, already: str = "", layer: int = 0, prompt_layer: int = 0
    ) -> TokenStream:
        return self._replay()

    def _replay(self) -> Generator[Any, None, None]:
        for token in self._tokens:
            started = time.perf_counter()
            yield token
            self.seconds.append(time.perf_counter() - started)
        yield Finish("stop", 1, len(self._tokens))

    def close(self) -> None:
        return


def measure_requests(settings: Settings, rounds: int) -> dict[str, float]:
    """Planning, fit, policy, gate and reply building; the ledger's write apart from it."""
    ledger = TimedLedger(settings.ledger_path)
    seconds = []
    backend = ScriptedBackend.confident("Paris.")
    with Engine(
        without_limits(settings), backend=backend, cloud=OpenCloud(), ledger=ledger
    ) as engine:
        engine.complete("Warm up: plug-ins and the price list load once.")
        ledger.seconds.clear()
        for number in range(rounds):
            started = time.perf_counter()
            engine.complete(f"What is the capital of country {number}?")
            seconds.append(time.perf_counter() - started - ledger.seconds[-1])
    return {
        "decision_ms_p50": 1000 * statistics.median(seconds),
        "decision_ms_p99": 1000 * percentile(seconds, 99),
        "ledger_ms_p50": 1000 * statistics.median(ledger.seconds),
        "ledger_ms_p99": 1000 * percentile(ledger.seconds, 99),
    }


def measure_tokens(
    settings: Settings, tokens: Sequence[Token], facts: DeviceFacts, rounds: int
) -> dict[str, float]:
    """The meter on, the gate holding, as with a cloud that is open."""
    backend = ReplayBackend(tokens, facts)
    with Engine(without_limits(settings), backend=backend, cloud=OpenCloud()) as engine:
        for number in range(rounds + 1):
            if number == 1:
                backend.seconds.clear()  # the first round warmed up
            for _ in engine.stream("Measure this.", threshold=1e-6):
                pass
    return {
        "token_us_p50": 1e6 * statistics.median(backend.seconds),
        "token_us_p99": 1e6 * percentile(backend.seconds, 99),
    }


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that at least so many percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def measure_startup(rounds: int) -> dict[str, float]:
    """Medians over interleaved rounds; the first round warms the disk and is dropped."""
    bare: list[float] = []
    importing: list[float] = []
    version: list[float] = []
    for _ in range(rounds + 1):
        bare.append(_seconds(python_child("-c", "pass")))
        importing.append(_seconds(python_child("-c", "import edgewise")))
        version.append(_seconds(python_child("-m", "edgewise.cli.main", "--version")))
    extra = [with_it - without for with_it, without in zip(importing, bare, strict=True)]
    return {
        "import_s": statistics.median(extra[1:]),
        "version_s": statistics.median(version[1:]),
    }


def _seconds(command: Sequence[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


class OpenCloud:
    """A cloud that answers at once and costs nothing: the gate holds text, and nothing leaves."""

    def closed(self, request: Request) -> CloudClosed | None:
        return None

    def stream(
        self,
        request: Request,
        journal: list[Attempt],
        *,
        live: bool,
        patience_s: float | None,
        stop: Stop | None = None,
    ) -> Generator[CloudChunk, None, None]:
        journal.append(
            Attempt(
                place="cloud", backend="open", model="open", outcome="answered", output_tokens=1
            )
        )
        yield "The cloud's answer."
        yield Finish("stop", 1, 1)
