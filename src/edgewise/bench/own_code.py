"""What our own code costs per request and per token, measured with models that answer at once."""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import override

from edgewise.bench.open_cloud import OpenCloud
from edgewise.engine import Engine
from edgewise.local.backend import DeviceFacts, TokenStream
from edgewise.local.llama_cpp import read_tokens
from edgewise.record.ledger import Ledger
from edgewise.settings import Settings
from edgewise.testing import ScriptedBackend
from edgewise.types.messages import Request
from edgewise.types.replies import Reply
from edgewise.types.tokens import Finish

Chunk = Mapping[str, Any]


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
    """Feeds recorded chunks of the runtime through our code; notes the time until the next pull.

    That span is all we do for a token: reading the chunk, meter, gate and event.
    """

    def __init__(self, chunks: Sequence[Chunk], facts: DeviceFacts) -> None:
        self._chunks = chunks
        self._facts = facts
        self.seconds: list[float] = []

    def facts(self) -> DeviceFacts:
        return self._facts

    def generate(self, request: Request, *, already: str = "") -> TokenStream:
        return self._replay()

    def _replay(self) -> Generator[Any, None, None]:
        for chunk in self._chunks:
            started = time.perf_counter()
            for choice in chunk["choices"]:
                yield from read_tokens(choice)
            self.seconds.append(time.perf_counter() - started)
        yield Finish("stop", 1, len(self._chunks))

    def close(self) -> None:
        return


def measure_requests(settings: Settings, rounds: int) -> dict[str, float]:
    """Planning, fit, policy, gate and reply building; the ledger's write apart from it."""
    ledger = TimedLedger(settings.ledger_path)
    seconds = []
    backend = ScriptedBackend.confident("Paris.")
    with Engine(settings, backend=backend, cloud=OpenCloud(), ledger=ledger) as engine:
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
    settings: Settings, chunks: Sequence[Chunk], facts: DeviceFacts, rounds: int
) -> dict[str, float]:
    """The meter on, the gate holding, as with a cloud that is open."""
    backend = ReplayBackend(chunks, facts)
    with Engine(settings, backend=backend, cloud=OpenCloud()) as engine:
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
