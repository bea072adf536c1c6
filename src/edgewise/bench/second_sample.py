"""Is a second local answer worth its time? Two answers to each question, and what agreeing tells.

The first answer is the greedy one, the second is drawn at a temperature. Whether they agree is
added to the features of the confidence, and both are fitted and judged on kinds of question that
they have not seen. `docs/confidence.md` says what came of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy

from edgewise.bench.fit import FOLDS, THRESHOLD, Sample, split_kinds
from edgewise.bench.logistic import fit_logistic
from edgewise.bench.routing_metrics import Numbers, auroc, bootstrap
from edgewise.bench.trace_set import TraceSet
from edgewise.decide.compare_answers import normalise

BAND = 0.15  # on either side of the threshold an answer is doubtful
LONG = 16  # tokens: an answer that is longer explains, a shorter one names
SEEDS = 5  # ways to deal the kinds into folds; their mean says more than one of them
ROUNDS = 400
AGREEMENT = ("exact", "word_overlap", "new_word_overlap", "numbers_same", "numbers_differ")
_FILLER_WORDS = """
a an the of in on at and or to is are was were be been it its this that these those as by for with
from which who what when where i you he she they we his her their our there here also than then so
such into about if but
"""
_FILLERS = frozenset(_FILLER_WORDS.split())


@dataclass(frozen=True, slots=True)
class Pair:
    """Two answers to one question."""

    prompt: str
    sample: Sample  # the first answer
    first: str
    second: str
    second_tokens: int
    second_right: bool


def agreement(prompt: str, first: str, second: str) -> dict[str, float]:
    """How far two answers agree, by words and numbers alone.

    new_word_overlap   only words that the question does not contain: repeating it is no agreement
    """
    asked = set(_words(prompt))
    words = _words(first), _words(second)
    fresh = [[word for word in said if word not in asked] for said in words]
    numbers = [set(re.findall(r"\d+(?:\.\d+)?", normalise(text))) for text in (first, second)]
    return {
        "exact": float(normalise(first) == normalise(second)),
        "word_overlap": _overlap(*words),
        "new_word_overlap": _overlap(*fresh),
        "numbers_same": float(bool(numbers[0]) and numbers[0] == numbers[1]),
        "numbers_differ": float(numbers[0] != numbers[1]),
    }


def pair_up(first: TraceSet, second: TraceSet, prompts: Mapping[str, str]) -> list[Pair]:
    """Questions that both have answered and whose words are known."""
    again = second.by_reference()
    return [
        Pair(
            prompts[row.reference],
            Sample(row.kind, row.right, tuple(row.readings())),
            row.text,
            again[row.reference].text,
            len(again[row.reference].tokens),
            again[row.reference].right,
        )
        for row in first.rows
        if row.tokens and row.reference in again and row.reference in prompts
    ]


def measure_second(
    pairs: Sequence[Pair],
    features: Sequence[str],
    threshold: float = THRESHOLD,
    rounds: int = ROUNDS,
    step: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """What agreement adds to a score of these features, and what it costs."""
    plain = _columns([[getattr(each.sample.at(None), name) for name in features] for each in pairs])
    agreed = [agreement(each.prompt, each.first, each.second) for each in pairs]
    both = numpy.hstack([plain, _columns([[row[name] for name in AGREEMENT] for row in agreed])])
    right = numpy.array([each.sample.right for each in pairs], dtype=numpy.float64)
    alone = numpy.zeros((SEEDS, len(pairs)))
    joined = numpy.zeros((SEEDS, len(pairs)))
    for seed in range(SEEDS):
        folds = _folds([each.sample for each in pairs], seed)
        alone[seed], joined[seed] = (_out_of_fold(each, right, folds) for each in (plain, both))
        step()
    band = numpy.abs(alone.mean(axis=0) - threshold) < BAND
    lengths = numpy.array([len(each.sample.readings) for each in pairs])
    every = numpy.ones(len(pairs), dtype=bool)
    groups = {"": every, "band_": band, "short_": lengths <= LONG, "long_": lengths > LONG}
    found = {
        "second_rows": float(len(pairs)),
        "second_accuracy": float(numpy.mean([each.second_right for each in pairs])),
        "second_same": float(numpy.mean([row["exact"] for row in agreed])),
        "second_band_share": float(band.mean()),
        "second_extra_tokens": float(
            numpy.mean([each.second_tokens for each in pairs], where=band) * band.mean()
        ),
    }
    for name, members in groups.items():
        scores = alone[:, members], joined[:, members], right[members]
        found |= _gain(f"second_{name}auroc", _mean_auroc, *scores, rounds)
    sure = alone >= threshold + BAND  # all that is kept where the band is handed off instead
    found["second_sure_share"] = float(sure.mean())
    found["second_sure_accuracy"] = float(right[numpy.nonzero(sure)[1]].mean()) if sure.any() else 0
    asked_twice = numpy.where(band, joined, alone)  # only the doubtful are asked again
    share = found["second_kept_share"] = float((alone >= threshold).mean())

    def kept(scores: Numbers, truth: Numbers) -> float:
        return _kept_accuracy(scores, truth, share)

    return found | _gain("second_kept_accuracy", kept, alone, asked_twice, right, rounds)


def _gain(
    name: str,
    statistic: Callable[[Numbers, Numbers], float],
    alone: Numbers,
    joined: Numbers,
    right: Numbers,
    rounds: int,
) -> dict[str, float]:
    """The statistic without and with agreement, and the difference with its interval."""
    seeds = len(alone)

    def lead(*columns: Numbers) -> float:
        before, after = numpy.array(columns[:seeds]), numpy.array(columns[seeds:-1])
        return statistic(after, columns[-1]) - statistic(before, columns[-1])

    low, high = bootstrap(*alone, *joined, right, statistic=lead, rounds=rounds)
    without, with_it = statistic(alone, right), statistic(joined, right)
    return {
        name: without,
        f"{name}_agreeing": with_it,
        f"{name}_gain": with_it - without,
        f"{name}_gain_low": low,
        f"{name}_gain_high": high,
    }


def _mean_auroc(scores: Numbers, right: Numbers) -> float:
    return float(numpy.mean([auroc(each, right) for each in scores]))


def _kept_accuracy(scores: Numbers, right: Numbers, share: float) -> float:
    """Right among the best-scored answers, as many as this share of all."""
    count = max(1, round(share * len(right)))
    best = [right[numpy.argsort(-each, kind="stable")[:count]].mean() for each in scores]
    return float(numpy.mean(best))


def _out_of_fold(values: Numbers, right: Numbers, folds: Sequence[Numbers]) -> Numbers:
    chances = numpy.zeros(len(right))
    for fold in folds:
        out = fold > 0
        chances[out] = fit_logistic(values[~out], right[~out]).chances(values[out])
    return chances


def _folds(samples: Sequence[Sample], seed: int) -> list[Numbers]:
    return [
        numpy.array([sample.kind in fold for sample in samples], dtype=numpy.float64)
        for fold in split_kinds(samples, FOLDS, seed)
    ]


def _columns(rows: Iterable[Sequence[float]]) -> Numbers:
    return numpy.array(list(rows), dtype=numpy.float64)


def _words(text: str) -> list[str]:
    return [word for word in normalise(text).split() if word not in _FILLERS]


def _overlap(first: Sequence[str], second: Sequence[str]) -> float:
    """F1 of the words; two answers that say nothing agree."""
    if not first and not second:
        return 1.0
    shared = sum((Counter(first) & Counter(second)).values())
    return 2 * shared / (len(first) + len(second))
