"""`edgewise bench overhead`: what edgewise costs on top of the bare runtime, in one run."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgewise.bench.own_code import measure_requests, measure_tokens
from edgewise.bench.side_by_side import (
    LONG_PROMPTS,
    SideBySide,
    measure_first_text,
    measure_speed,
)
from edgewise.bench.startup import measure_startup
from edgewise.local.store.store import ModelStore
from edgewise.settings import Settings

# What the design promises; the bench prints them beside what it finds.
TARGETS: dict[str, tuple[str, float]] = {
    "tokens_per_second_ratio": (">=", 0.97),
    "decision_ms_p99": ("<", 1.0),
    "token_us_p99": ("<", 50.0),
    "import_s": ("<", 0.15),
    "version_s": ("<", 0.4),
    "first_token_ms_p50": ("<", 120.0),
}


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
        chunks = pair.bare(LONG_PROMPTS[0], 64, evidence=True)
        found |= measure_tokens(settings, chunks, pair.backend.facts(), rounds.replays)
        progress()
    finally:
        pair.close()
    found |= measure_requests(settings, rounds.requests)
    progress()
    found |= measure_startup(rounds.startups)
    progress()
    return found


def verdicts(
    metrics: Mapping[str, float], targets: Mapping[str, tuple[str, float]] = TARGETS
) -> dict[str, str]:
    """Each target in words, and whether it was reached."""
    return {
        name: f"{targets[name][0]} {targets[name][1]:g}, "
        + ("reached" if reached(name, metrics[name], targets) else "missed")
        for name in targets
        if name in metrics
    }


_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
}


def reached(name: str, value: float, targets: Mapping[str, tuple[str, float]] = TARGETS) -> bool:
    sign, target = targets[name]
    return _SIGNS[sign](value, target)
