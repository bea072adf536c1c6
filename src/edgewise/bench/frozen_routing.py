"""Routing before generation, on frozen outcomes: folds, figures and intervals.

Rows that fit a router never test it, nor do rows that ask the same. `SEED` and the penalty are
fixed; other seeds are measured beside it, so that nobody has to trust one lucky split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy

from edgewise.bench.frozen_outcomes import (
    Outcomes,
    read_gsm8k,
    read_mmlu,
    read_pair,
    read_prices,
)
from edgewise.bench.gain_router import (
    FOLDS,
    Prompts,
    Rows,
    asked_elsewhere,
    foresee,
    out_of_fold,
)
from edgewise.bench.prompt_features import batches, shapes_of, terms_of, vectors_of
from edgewise.bench.routing_metrics import Numbers, apgr, auroc, bootstrap, cpt
from edgewise.local.backend import EmbedBackend

SEED = 0
OTHER_SEEDS = (1, 2, 3)
ROUNDS = 1000
TARGETS: dict[str, tuple[str, float]] = {"mmlu_apgr": (">=", 0.70), "gsm8k_apgr": (">=", 0.64)}
STRONG = "llama-3.1-nemotron-51b-instruct"
PAIRS = {  # LLMRouter's, weak to strong: ours is the first, the others say whether it was luck
    "llmrouter": ("llama-3.1-8b-instruct", STRONG),
    "llmrouter_gemma": ("gemma-2-9b-it", STRONG),
    "llmrouter_qwen": ("qwen2.5-7b-instruct", STRONG),
}

Step = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Routed:
    """Outcomes with a score for each, from a router that had not seen it."""

    title: str
    outcomes: Outcomes
    score: Numbers


@dataclass(frozen=True, slots=True)
class Frozen:
    """The data, read; `steps` is how often measuring it steps."""

    sets: dict[str, Outcomes]
    pairs: dict[str, tuple[Outcomes, Outcomes]]
    prices: dict[str, float]

    @property
    def steps(self) -> int:
        embedded = [*(each.prompts for each in self.sets.values()), pair_prompts(self.pairs)]
        fitted = len(self.sets) * FOLDS * (1 + len(OTHER_SEEDS)) + len(self.pairs)
        return sum(map(batches, embedded)) + fitted


def read_frozen(folder: Path) -> Frozen:
    return Frozen(
        {"mmlu": read_mmlu(folder), "gsm8k": read_gsm8k(folder)},
        {name: read_pair(folder, *models) for name, models in PAIRS.items()},
        read_prices(folder),
    )


def measure_frozen(
    data: Frozen, embedder: EmbedBackend, cache: Path, step: Step
) -> tuple[dict[str, float], list[Routed]]:
    """The metrics, flat, and the scores they come from."""
    found: dict[str, float] = {}
    routed = []
    for name, outcomes in data.sets.items():
        prompts = describe(outcomes.prompts, embedder, cache, step)
        score = score_folds(outcomes, prompts, SEED, step)
        others = [score_folds(outcomes, prompts, seed, step) for seed in OTHER_SEEDS]
        found |= figures(name, score, outcomes)
        found[f"{name}_apgr_other_seeds"] = fmean(
            apgr(each, outcomes.weak, outcomes.strong) for each in others
        )
        routed.append(Routed(f"{name.upper()}, {len(outcomes):,} prompts", outcomes, score))
    prompts = describe(pair_prompts(data.pairs), embedder, cache, step)
    for name, (train, test) in data.pairs.items():
        score, shared = score_pair(train, test, prompts)
        found |= figures(name, score, test) | {f"{name}_training_rows_left_out": float(shared)}
        found |= dollars(name, score, test, [data.prices[model] for model in PAIRS[name]])
        routed.append(Routed(f"{PAIRS[name][0]} to {PAIRS[name][1]}", test, score))
        step()
    return found, routed


def pair_prompts(pairs: dict[str, tuple[Outcomes, Outcomes]]) -> tuple[str, ...]:
    """Training prompts, then test prompts: those of every pair are the same."""
    train, test = next(iter(pairs.values()))
    return train.prompts + test.prompts


def describe(prompts: Sequence[str], embedder: EmbedBackend, cache: Path, step: Step) -> Prompts:
    vectors = vectors_of(prompts, embedder, cache, step)
    return Prompts(terms_of(prompts), (vectors, shapes_of(prompts)))


def score_folds(outcomes: Outcomes, prompts: Prompts, seed: int, step: Step) -> Numbers:
    fit = partial(foresee, prompts, outcomes.gain)
    return out_of_fold(outcomes.prompts, seed, fit, step)


def score_pair(train: Outcomes, test: Outcomes, prompts: Prompts) -> tuple[Numbers, int]:
    """The test rows' scores, and how many training rows were left out as they are test rows too."""
    gain = numpy.concatenate([train.gain, test.gain])
    rows: Rows = numpy.arange(len(gain))
    tested = rows[len(train) :]
    kept = asked_elsewhere(train.prompts + test.prompts, rows[: len(train)], tested)
    return foresee(prompts, gain, kept, tested), len(train) - len(kept)


def figures(name: str, score: Numbers, outcomes: Outcomes) -> dict[str, float]:
    weak, strong = outcomes.weak, outcomes.strong
    wrong, gained = weak < 0.5, outcomes.gain > 0
    low, high = bootstrap(score, weak, strong, statistic=apgr, rounds=ROUNDS)
    found = {
        "rows": float(len(outcomes)),
        "weak": float(weak.mean()),
        "strong": float(strong.mean()),
        "apgr": apgr(score, weak, strong),
        "apgr_low": low,
        "apgr_high": high,
        "apgr_oracle": apgr(outcomes.gain, weak, strong),
        "cpt50": cpt(score, weak, strong, 0.5),
        "cpt80": cpt(score, weak, strong, 0.8),
    }
    for which, positive in (("weak", wrong), ("gain", gained)):
        low, high = bootstrap(score, positive, statistic=auroc, rounds=ROUNDS)
        found |= {
            f"auroc_{which}": auroc(score, positive),
            f"auroc_{which}_low": low,
            f"auroc_{which}_high": high,
        }
    return {f"{name}_{key}": value for key, value in found.items()}


def dollars(
    name: str, score: Numbers, outcomes: Outcomes, prices: Sequence[float]
) -> dict[str, float]:
    """Dollars per million tokens for the strong model's quality, if both write as many tokens."""
    cheap, dear = prices
    sent = cpt(score, outcomes.weak, outcomes.strong, 1.0)
    mixed = cheap + sent * (dear - cheap)
    return {
        f"{name}_cpt100": sent,
        f"{name}_dollars_strong": dear,
        f"{name}_dollars_at_strong_quality": mixed,
    }
