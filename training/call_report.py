"""How well the confidence of calls tells right from wrong, in figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from edgewise.calibrate.metrics import expected_calibration_error
from edgewise.calls.check import WORDED, call_confidence
from edgewise.decide.calibration import Calibration
from training.call_samples import Answered, Sample
from training.score import auroc, coverage_at


def figures(scores: Sequence[float], right: Sequence[bool], *, chances: bool) -> dict[str, Any]:
    """Coverages are those of the best threshold on these very data: an oracle's."""
    ordering = auroc(scores, right)
    found = {
        "auroc": None if math.isnan(ordering) else round(ordering, 4),
        "oracle_coverage_95": round(coverage_at(scores, right, 0.95), 4),
        "oracle_coverage_90": round(coverage_at(scores, right, 0.90), 4),
    }
    if chances:
        found["ece"] = round(expected_calibration_error(scores, right), 4)
    return found


def at_threshold(
    scores: Sequence[float], right: Sequence[bool], threshold: float
) -> dict[str, float]:
    kept = [is_right for score, is_right in zip(scores, right, strict=True) if score >= threshold]
    precision = sum(kept) / len(kept) if kept else 0.0
    return {"precision": round(precision, 4), "coverage": round(len(kept) / len(scores), 4)}


def threshold_for(scores: Sequence[float], right: Sequence[bool], precision: float) -> float:
    """The lowest score from which on this share is right."""
    kept = round(coverage_at(scores, right, precision) * len(scores))
    return sorted(scores, reverse=True)[kept - 1] if kept else 1.0


def without_tokens(sample: Sample) -> Sample:
    """What is left where a runtime reports no evidence."""
    kept = tuple(
        {name: value for name, value in one.items() if name in WORDED or name == "none"}
        for one in sample.features
    )
    return replace(sample, features=kept)


def validation_report(
    samples: Sequence[Sample], calibrations: Sequence[Calibration], precision: float
) -> tuple[dict[str, Any], float, float]:
    """Figures out of fold, and the thresholds that follow: of the score and of the plain sum."""
    pairs = list(zip(samples, calibrations, strict=True))
    exact = [sample.exact for sample in samples]
    sums = [sample.logprob for sample in samples]
    each = [[call_confidence(one, known) for known in sample.features] for sample, one in pairs]
    worst = [sample.confidence(one) for sample, one in pairs]
    calls = [
        (known.get("call_sum", 0.0), chance, is_right)
        for (sample, _), chances in zip(pairs, each, strict=True)
        for known, chance, is_right in zip(sample.features, chances, sample.right, strict=True)
        if not known.get("none")
    ]
    blind = [without_tokens(sample).confidence(one) for sample, one in pairs]
    right_calls = [is_right for _, _, is_right in calls]
    products = [
        math.prod(chances) if chances else sample.withheld or 0.0
        for (sample, _), chances in zip(pairs, each, strict=True)
    ]
    threshold = threshold_for(worst, exact, precision)
    sum_threshold = threshold_for(sums, exact, precision)
    report = {
        "answers": len(samples),
        "answers_right": round(sum(exact) / len(exact), 4),
        "calls": len(calls),
        "calls_right": round(sum(right_calls) / len(calls), 4),
        "answer_by_sum_of_logprobs": figures(sums, exact, chances=False),
        "answer": figures(worst, exact, chances=True),
        "answer_by_product": figures(products, exact, chances=True),
        "answer_without_evidence": figures(blind, exact, chances=True),
        "call_by_sum_of_logprobs": figures([row[0] for row in calls], right_calls, chances=False),
        "call": figures([row[1] for row in calls], right_calls, chances=True),
        "call_at_threshold": at_threshold([row[1] for row in calls], right_calls, threshold),
    }
    return report, threshold, sum_threshold


def set_report(
    answered: Answered, calibration: Calibration, sum_threshold: float
) -> dict[str, Any]:
    """How the finished calibration does on answers it was not fitted to."""
    samples = answered.samples
    exact = [sample.exact for sample in samples]
    sums = [sample.logprob for sample in samples]
    scores = [sample.confidence(calibration) for sample in samples]
    return {
        "cases": answered.cases,
        "answers": len(samples),
        "answers_right": round(sum(exact) / len(exact), 4),
        "sum_of_logprobs": figures(sums, exact, chances=False),
        "sum_at_its_threshold": at_threshold(sums, exact, sum_threshold),
        "answer": figures(scores, exact, chances=True),
        "at_threshold": at_threshold(scores, exact, calibration.threshold),
    }
