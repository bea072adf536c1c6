"""Routing before generation, on frozen outcomes of other people's models, and variants of it.

An outcome says which of two models answered a prompt rightly, as somebody published it.

Nothing of theirs is in this repository: the files are read where they lie (docs/notes/routing.md
says whose they are). RouteLLM's sets come without the prompts it found in its training data.
"""

from __future__ import annotations

import csv
import json
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy

from edgewise.errors import SettingsError
from edgewise.local.backend import EmbedBackend
from edgewise_bench.routing.metrics import Numbers, apgr, auroc, bootstrap, cpt
from edgewise_bench.routing.router import (
    FOLDS,
    Prompts,
    Rows,
    asked_elsewhere,
    batches,
    folds,
    foresee,
    near_mean,
    out_of_fold,
    predict,
    shapes_of,
    terms_of,
    vectors_of,
)

WEAK = "mistralai/Mixtral-8x7B-Instruct-v0.1"
ROUTELLM_STRONG = "gpt-4-1106-preview"
_ROUTELLM, _LLMROUTER = "routellm", "llmrouter"
SEED = 0
OTHER_SEEDS = (1, 2, 3)
ROUNDS = 1000
TARGETS: dict[str, tuple[str, float]] = {"mmlu_apgr": (">=", 0.70), "gsm8k_apgr": (">=", 0.64)}
LLMROUTER_STRONG = "llama-3.1-nemotron-51b-instruct"
PAIRS = {  # LLMRouter's, weak to strong: ours is the first, the others say whether it was luck
    "llmrouter": ("llama-3.1-8b-instruct", LLMROUTER_STRONG),
    "llmrouter_gemma": ("gemma-2-9b-it", LLMROUTER_STRONG),
    "llmrouter_qwen": ("qwen2.5-7b-instruct", LLMROUTER_STRONG),
}
Step = Callable[[], None]
NEAR = 0.9  # cosine from which two prompts count as nearly the same
Variant = Callable[[], Numbers]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Prompts, and how well a weak and a strong model answered each: 1 is right, 0 is wrong.

    `files` names the file a row comes from. A router does not see it: only a variant that says so
    may use it.
    """

    prompts: tuple[str, ...]
    weak: Numbers
    strong: Numbers
    files: tuple[str, ...] = ()

    @property
    def gain(self) -> Numbers:
        return self.strong - self.weak

    def __len__(self) -> int:
        return len(self.prompts)

    def rows(self, chosen: Sequence[int] | numpy.ndarray[Any, Any]) -> Outcomes:
        numbers = [int(each) for each in chosen]
        return Outcomes(
            tuple(self.prompts[each] for each in numbers),
            self.weak[numbers],
            self.strong[numbers],
            tuple(self.files[each] for each in numbers) if self.files else (),
        )


@contextmanager
def open_data(path: Path) -> Iterator[Path]:
    """The folder with the data: `path` itself, or where the archive was unpacked for the while."""
    if path.is_file() and tarfile.is_tarfile(path):
        with tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder:
            with tarfile.open(path) as archive:
                archive.extractall(folder, filter="data")
            yield check_data(Path(folder))
        return
    yield check_data(path)


def check_data(folder: Path) -> Path:
    missing = [name for name in (_ROUTELLM, _LLMROUTER) if not (folder / name).is_dir()]
    if missing:
        raise SettingsError(
            f"--data {str(folder)!r} has no folder {missing[0]!r}: docs/notes/routing.md says"
            " what to put there. Without --data the bench measures our own traces only"
        )
    return folder


def read_mmlu(folder: Path) -> Outcomes:
    """RouteLLM's MMLU: Mixtral-8x7B against GPT-4."""
    place = folder / _ROUTELLM / "mmlu"
    rows = [
        (path.stem.removeprefix("mmlu_"), row)
        for path in sorted(place.glob("mmlu_*.csv"))
        for row in _table(path)
    ]
    return _uncontaminated(place, rows)


def read_gsm8k(folder: Path) -> Outcomes:
    """RouteLLM's GSM8K, of the same two models."""
    place = folder / _ROUTELLM / "gsm8k"
    return _uncontaminated(place, [("", row) for row in _table(place / "gsm8k_responses.csv")])


def read_pair(folder: Path, weak: str, strong: str) -> tuple[Outcomes, Outcomes]:
    """LLMRouter's (training, test) rows of two of its models, as it split them."""
    found = []
    for part in ("train", "test"):
        path = folder / _LLMROUTER / f"dcrouter_{part}.json"
        rows = json.loads(path.read_text("utf-8"))
        found.append(
            Outcomes(
                tuple(row["question"] for row in rows),
                numpy.array([row["scores"][weak] for row in rows], dtype=numpy.float64),
                numpy.array([row["scores"][strong] for row in rows], dtype=numpy.float64),
            )
        )
    return found[0], found[1]


def read_prices(folder: Path) -> dict[str, float]:
    """Dollars per million output tokens, by LLMRouter's names of its models."""
    path = folder / _LLMROUTER / "default_llm.json"
    rows = json.loads(path.read_text("utf-8"))
    return {name: float(row["output_price"]) for name, row in rows.items()}


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _uncontaminated(place: Path, rows: Sequence[tuple[str, dict[str, str]]]) -> Outcomes:
    lines = (place / "contaminated_prompts.jsonl").read_text("utf-8").splitlines()
    seen = {json.loads(line)["eval_prompt"] for line in lines if line.strip()}
    kept = [(file, row) for file, row in rows if row["prompt"] not in seen]
    return Outcomes(
        tuple(row["prompt"] for _, row in kept),
        numpy.array([row[WEAK] == "True" for _, row in kept], dtype=numpy.float64),
        numpy.array([row[ROUTELLM_STRONG] == "True" for _, row in kept], dtype=numpy.float64),
        tuple(file for file, _ in kept),
    )


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


def measure_study(
    data: Frozen, embedder: EmbedBackend, cache: Path, step: Step
) -> dict[str, float]:
    """The APGR of every variant, as `NAME_apgr_VARIANT`."""
    found = {}
    for name, outcomes in data.sets.items():
        prompts = describe(outcomes.prompts, embedder, cache, step)
        for variant, score in variants(outcomes, prompts).items():
            found[f"{name}_apgr_{variant}"] = apgr(score(), outcomes.weak, outcomes.strong)
            step()
    prompts = describe(pair_prompts(data.pairs), embedder, cache, step)
    for name, (train, test) in data.pairs.items():
        leaking = foresee(
            prompts,
            numpy.concatenate([train.gain, test.gain]),
            numpy.arange(len(train)),
            numpy.arange(len(train), len(train) + len(test)),
        )
        found[f"{name}_apgr_same_rows_kept"] = apgr(leaking, test.weak, test.strong)
        step()
    return found


def study_steps(data: Frozen) -> int:
    embedded = [*(each.prompts for each in data.sets.values()), pair_prompts(data.pairs)]
    tried = sum(len(variants(each, Prompts(None, ()))) for each in data.sets.values())
    return sum(map(batches, embedded)) + tried + len(data.pairs)


def variants(outcomes: Outcomes, prompts: Prompts) -> dict[str, Variant]:
    """Nothing is computed before a variant is called."""

    def score(fit: Callable[..., Numbers], *given: Any, **more: Any) -> Variant:
        return lambda: out_of_fold(outcomes.prompts, SEED, partial(fit, *given, **more))

    gain, words, dense = outcomes.gain, prompts.terms, prompts.dense
    found = {
        "length": lambda: numpy.array([float(len(prompt)) for prompt in outcomes.prompts]),
        "words": score(predict, Prompts(words, ()), gain),
        "vectors": score(predict, Prompts(None, dense[:1]), gain),
        "shape": score(predict, Prompts(None, dense[1:]), gain),
        "vectors_and_shape": score(predict, Prompts(None, dense), gain),
        "neighbours": score(near_mean, prompts, gain),
        "neighbours_of_vectors_alone": score(near_mean, prompts, gain, shape_weight=0.0),
        "neighbours_50": score(near_mean, prompts, gain, count=50),
        "neighbours_200": score(near_mean, prompts, gain, count=200),
        "one_ridge": score(predict, prompts, gain),
        "one_ridge_penalty_5": score(predict, prompts, gain, penalty=5.0),
        "one_ridge_penalty_40": score(predict, prompts, gain, penalty=40.0),
        "of_weak_wrong": score(foresee, prompts, 1 - outcomes.weak),
        "same_rows_kept": lambda: score_splits(outcomes, prompts),
        "near_rows_left_out": score(without_near, prompts, gain),
    }
    if len(set(outcomes.files)) > 1:
        told = (*dense, file_columns(outcomes.files)) if dense else ()
        found["one_ridge_with_file_name"] = score(predict, Prompts(words, told), gain)
    return found


def without_near(prompts: Prompts, gain: Numbers, train: Rows, test: Rows) -> Numbers:
    """As `foresee`, but training rows that are nearly a tested one are left out too."""
    vectors = prompts.dense[0]
    near = numpy.zeros(len(train), dtype=bool)
    for start in range(0, len(test), 512):
        near |= (vectors[train] @ vectors[test[start : start + 512]].T >= NEAR).any(axis=1)
    return foresee(prompts, gain, train[~near], test)


def file_columns(files: tuple[str, ...]) -> Numbers:
    """What a router would know if it were told the subject."""
    names = sorted(set(files))
    found: Numbers = (numpy.array(files)[:, None] == numpy.array(names)[None]).astype(numpy.float64)
    return found


def score_splits(outcomes: Outcomes, prompts: Prompts) -> Numbers:
    """The same folds, but a prompt asked twice may be in both halves."""
    scores = numpy.zeros(len(outcomes))
    everything = numpy.arange(len(outcomes))
    for _, test in folds(outcomes.prompts, SEED):
        train = numpy.setdiff1d(everything, test)
        scores[test] = foresee(prompts, outcomes.gain, train, test)
    return scores
