"""What else was tried on frozen outcomes: one part changed at a time, everything else as it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy

from edgewise.bench.frozen_outcomes import Outcomes
from edgewise.bench.frozen_routing import (
    SEED,
    Frozen,
    Step,
    describe,
    pair_prompts,
)
from edgewise.bench.gain_router import (
    Prompts,
    Rows,
    folds,
    foresee,
    near_mean,
    out_of_fold,
    predict,
)
from edgewise.bench.prompt_features import batches
from edgewise.bench.routing_metrics import Numbers, apgr
from edgewise.local.backend import EmbedBackend

NEAR = 0.9  # cosine from which two prompts count as nearly the same

Variant = Callable[[], Numbers]


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
