"""What waiting is worth, for more tokens or for a second answer, on the published traces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from edgewise.calibrate import fit
from edgewise.calibrate.fit import (
    FOLDS,
    MOST_CHANGED,
    THRESHOLD,
    Judged,
    fit_logistic,
    give_boundaries,
    split_kinds,
)
from edgewise.calibrate.traces import Sample
from edgewise.decide.calibration import NO_BOUNDARIES, Calibration
from edgewise.decide.compare_answers import normalise
from edgewise.decide.gate import Verdict
from edgewise_bench.chat.calibration import measures
from edgewise_bench.chat.traces import TraceSet, own_reference, read_trace_set
from edgewise_bench.plots import draw_early
from edgewise_bench.questions.make import make_questions
from edgewise_bench.routing.metrics import Numbers, auroc, bootstrap
from edgewise_bench.routing.rows import CHAT, chat_calibration, chat_path, chat_samples

ROUNDS = 400  # of the bootstrap
SHARES = (0.01, 0.02, MOST_CHANGED, 0.1, 0.2)  # of the kept that may change sides
STUDY_STEPS = 3 + len(SHARES)
EARLY_ROUNDS = 1000
THRESHOLDS = (0.3, 0.4, 0.5)  # at which all rules are told
_TOLD = ("agreement", "lost", "slipped", "tokens", "wasted")
Flags = NDArray[numpy.bool_]
BAND = 0.15  # on either side of the threshold an answer is doubtful
LONG = 16  # tokens: an answer that is longer explains, a shorter one names
SEEDS = 5  # ways to deal the kinds into folds; their mean says more than one of them
STEPS = 1 + SEEDS
AGREEMENT = ("exact", "word_overlap", "new_word_overlap", "numbers_same", "numbers_differ")
_FILLER_WORDS = """
a an the of in on at and or to is are was were be been it its this that these those as by for with
from which who what when where i you he she they we his her their our there here also than then so
such into about if but
"""
_FILLERS = frozenset(_FILLER_WORDS.split())


def measure_waiting(
    folder: Path,
    step: Callable[[], None] = lambda: None,
    plots: Path | None = None,
    rounds: int = ROUNDS,
) -> dict[str, float]:
    """All figures, flat; nothing where the files are not there."""
    if not chat_path(folder).exists():
        return {}
    first = read_trace_set(chat_path(folder))
    fresh = _fresh(first)
    calibration = chat_calibration()
    found = measure_shipped(calibration, fresh, rounds)
    if plots is not None:
        dealt = deal(calibration, fresh)
        studies = {f"threshold {at:g}": study_early(dealt, at) for at in THRESHOLDS}
        draw_early(plots / "early_decision.png", studies)
    step()
    if again_path(folder).exists():
        prompts = {own_reference(each.prompt): each.prompt for each in make_questions(0)}
        pairs = pair_up(first, read_trace_set(again_path(folder)), prompts)
        features = list(calibration.final.weights)
        found |= measure_second(pairs, features, rounds=rounds, step=step)
    return found


def again_path(folder: Path) -> Path:
    """The same model's answers at a temperature; texts alone."""
    return folder / f"{CHAT}-again.jsonl.gz"


def _fresh(traces: TraceSet) -> list[Sample]:
    """Answers that the shipped calibration was not fitted on."""
    pairs = zip(*chat_samples(traces), strict=True)
    return [sample for reference, sample in pairs if measures(reference)]


@dataclass(frozen=True, slots=True)
class Decided:
    """What a rule did with each answer, in one order for all rules."""

    kept: Flags
    tokens: Numbers  # generated when it decided


@dataclass(frozen=True, slots=True)
class Saving:
    """One rule beside the decision in the end.

    agreement   decisions that are those in the end
    lost        of the answers kept in the end, the share that is dropped
    slipped     answers kept that are not kept in the end, as a share of those that are
    tokens      before the decision, mean
    wasted      tokens generated for an answer that is then handed off, mean
    kept        share of the answers kept, and of these `error` is wrong
    end_error   what deciding in the end gets wrong when it keeps as many
    """

    agreement: float
    lost: float
    slipped: float
    tokens: float
    wasted: float
    kept: float
    error: float
    end_error: float


def in_the_end(judged: Sequence[Judged], threshold: float) -> Decided:
    """The whole answer is generated, then judged."""
    kept = [each.confidence >= threshold for each in judged]
    return Decided(numpy.array(kept), _floats(len(each.sample.readings) for each in judged))


def by_gate(judged: Sequence[Judged], threshold: float) -> Decided:
    """The real gate on the stream, with what each fold's calibration says is clear."""
    verdicts = [
        each.decide(each.calibration.keep_above, each.calibration.drop_below, threshold)
        for each in judged
    ]
    kept = [verdict is Verdict.KEEP for verdict, _ in verdicts]
    return Decided(numpy.array(kept), _floats(tokens for _, tokens in verdicts))


def give_cuts(judged: Sequence[Judged]) -> list[Judged]:
    """One cut-off on each side, whatever the tokens seen: the rule before boundaries."""

    def cut(calibration: Calibration, others: Sequence[Judged]) -> Calibration:
        return calibration.with_numbers(
            keep_above=fit.choose_keep_above(others), drop_below=fit.choose_drop_below(others)
        )

    folds = {id(each.calibration): each.calibration for each in judged}
    changed = {
        fold: cut(calibration, [each for each in judged if id(each.calibration) != fold])
        for fold, calibration in folds.items()
    }
    return [Judged(each.sample, changed[id(each.calibration)]) for each in judged]


def compare(rule: Decided, end: Decided, confidence: Numbers, right: Flags) -> Saving:
    as_many = numpy.argsort(-confidence, kind="stable")[: int(rule.kept.sum())]
    return Saving(
        agreement=float((rule.kept == end.kept).mean()),
        lost=_ratio((end.kept & ~rule.kept).sum(), end.kept.sum()),
        slipped=_ratio((rule.kept & ~end.kept).sum(), end.kept.sum()),
        tokens=float(rule.tokens.mean()),
        wasted=_mean(rule.tokens[~rule.kept]),
        kept=float(rule.kept.mean()),
        error=_mean(~right[rule.kept]),
        end_error=_mean(~right[as_many]),
    )


def deal(calibration: Calibration, samples: Sequence[Sample], seed: int = 0) -> list[Judged]:
    """Answers under one calibration that has not seen them, dealt into folds by their kinds.

    What it says about clear cases is left out: that is found on some folds and judged on others.
    """
    folds = fit.split_kinds(samples, fit.FOLDS, seed)
    plain = replace(calibration, boundaries=NO_BOUNDARIES)
    plain = plain.with_numbers(keep_above=1.0, drop_below=0.0)
    copies = [replace(plain) for _ in folds]
    return [
        Judged(sample, copy)
        for sample in samples
        for fold, copy in zip(folds, copies, strict=True)
        if sample.kind in fold
    ]


def measure_shipped(
    calibration: Calibration, samples: Sequence[Sample], rounds: int = EARLY_ROUNDS
) -> dict[str, float]:
    """The boundaries that a calibration came with, on answers that it has not seen.

    Beside them the rules it might have had: to wait for the bound, and one cut-off on each side.
    """
    judged = [Judged(sample, calibration) for sample in samples]
    found = measure_early(judged, judged, calibration.threshold, rounds)
    bound = deal(calibration, samples)
    rules = {"bound": bound, "cut": give_cuts(bound), "early": judged}
    for at in THRESHOLDS:
        end, confidence, right = in_the_end(judged, at), _confidences(judged), _right(judged)
        for rule, under in rules.items():
            told = asdict(compare(by_gate(under, at), end, confidence, right))
            found |= {f"{rule}_{name}_at_{100 * at:.0f}": told[name] for name in _TOLD}
    return found


def measure_early(
    judged: Sequence[Judged],
    bounded: Sequence[Judged] | None = None,
    threshold: float = fit.THRESHOLD,
    rounds: int = EARLY_ROUNDS,
) -> dict[str, float]:
    """Metrics of the boundaries beside deciding in the end, the main ones with intervals.

    `bounded` are the same answers under calibrations with boundaries; without it they are found.
    """
    end = in_the_end(judged, threshold)
    early = by_gate(bounded or give_boundaries(judged), threshold)
    found = compare(early, end, _confidences(judged), _right(judged))
    metrics = {
        "early_agreement": found.agreement,
        "early_lost": found.lost,
        "early_slipped": found.slipped,
        "tokens_before_decision_early": found.tokens,
        "tokens_before_decision_end": float(end.tokens.mean()),
        "tokens_wasted_early": found.wasted,
        "tokens_wasted_end": _mean(end.tokens[~end.kept]),
        "kept_share_early": found.kept,
        "kept_error_early": found.error,
        "kept_error_end": found.end_error,
    }
    intervals: dict[str, tuple[float, float]] = {
        "early_agreement": bootstrap(
            early.kept == end.kept, statistic=lambda same: float(same.mean()), rounds=rounds
        ),
        "tokens_wasted_early": bootstrap(
            early.tokens, early.kept, statistic=_wasted, rounds=rounds
        ),
        "tokens_wasted_end": bootstrap(end.tokens, end.kept, statistic=_wasted, rounds=rounds),
    }
    for name, (low, high) in intervals.items():
        metrics |= {f"{name}_low": low, f"{name}_high": high}
    return metrics


def study_early(
    judged: Sequence[Judged],
    threshold: float = fit.THRESHOLD,
    step: Callable[[], None] = lambda: None,
) -> dict[str, dict[str, float]]:
    """Every rule by its name, from deciding in the end to ever bolder boundaries."""
    end, confidence, right = in_the_end(judged, threshold), _confidences(judged), _right(judged)

    def told(rule: Decided) -> dict[str, float]:
        step()
        return asdict(compare(rule, end, confidence, right))

    found = {
        "in the end": told(end),
        "at the bound": told(by_gate(judged, threshold)),
        "one cut-off": told(by_gate(give_cuts(judged), threshold)),
    }
    for share in SHARES:
        bounded = give_boundaries(judged, share)
        found[f"boundaries {share:g}"] = told(by_gate(bounded, threshold))
    return found


def _wasted(tokens: Numbers, kept: Numbers) -> float:
    return _mean(tokens[kept == 0])


def _confidences(judged: Sequence[Judged]) -> Numbers:
    return _floats(each.confidence for each in judged)


def _right(judged: Sequence[Judged]) -> Flags:
    return numpy.array([each.sample.right for each in judged])


def _floats(values: Iterable[float]) -> Numbers:
    return numpy.array(list(values), dtype=numpy.float64)


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else 0.0


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


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
