"""What deciding early saves, and what it changes: tokens, agreement, error among the kept.

Everything is out of fold: the scores have not seen the kind of question they judge, nor have the
boundaries and cut-offs seen the fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy
from numpy.typing import NDArray

from edgewise.bench import fit
from edgewise.bench.boundaries import MOST_CHANGED, give_boundaries
from edgewise.bench.fit import Judged, Sample
from edgewise.bench.routing_metrics import bootstrap
from edgewise.decide.calibration import Calibration
from edgewise.decide.gate import Verdict
from edgewise.types.measured import NO_BOUNDARIES

SHARES = (0.01, 0.02, MOST_CHANGED, 0.1, 0.2)  # of the kept that may change sides
STUDY_STEPS = 3 + len(SHARES)
ROUNDS = 1000
THRESHOLDS = (0.3, 0.4, 0.5)  # at which all rules are told
_TOLD = ("agreement", "lost", "slipped", "tokens", "wasted")

Flags = NDArray[numpy.bool_]
Numbers = NDArray[numpy.float64]


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
        return replace(
            calibration,
            keep_above=fit.choose_keep_above(others),
            drop_below=fit.choose_drop_below(others),
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
    plain = replace(calibration, boundaries=NO_BOUNDARIES, keep_above=1.0, drop_below=0.0)
    copies = [replace(plain) for _ in folds]
    return [
        Judged(sample, copy)
        for sample in samples
        for fold, copy in zip(folds, copies, strict=True)
        if sample.kind in fold
    ]


def measure_shipped(
    calibration: Calibration, samples: Sequence[Sample], rounds: int = ROUNDS
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
    rounds: int = ROUNDS,
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
