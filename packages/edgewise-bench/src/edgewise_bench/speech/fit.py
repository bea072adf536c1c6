"""Fit the confidence of speech segments, and say how good it is on voices it has not heard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgewise.calibrate.fit import Logistic, Numbers, fit_logistic
from edgewise.calibrate.metrics import auroc, expected_calibration_error
from edgewise.decide.calibration import FORMAT
from edgewise.speech.words import LOOPING, LOW_ERROR, MOST_CONFIDENT
from edgewise_bench.speech.traces import Trace, TracedSegment

RIDGE = 3.0
THRESHOLD = 0.5  # below it a segment is more likely wrong than right
LEAST_SEGMENTS = 50


@dataclass(frozen=True, slots=True)
class Judged:
    """A segment with the confidence it gets from a fit that never heard its voice."""

    trace: Trace
    segment: TracedSegment
    chance: float
    error: float

    @property
    def right(self) -> bool:
        return self.segment.rate <= LOW_ERROR


def fit_speech(traces: Sequence[Trace], name: str) -> tuple[dict[str, Any], list[Judged]]:
    """The calibration file's contents, and every segment as a held-out voice's."""
    pairs = [(trace, segment) for trace in traces for segment in trace.segments]
    if len(pairs) < LEAST_SEGMENTS:
        raise ValueError(f"{len(pairs)} segments are too few to fit anything to")
    names = list(pairs[0][1].features)
    judged = _held_out(pairs, names)
    chance, error = _fit([segment for _, segment in pairs], names)
    data = {
        "format": FORMAT,
        "name": name,
        "chance": _plain(names, chance),
        "error": _plain(names, error),
        "threshold": THRESHOLD,
        "report": {
            "fitted_on": _fitted_on(traces),
            "held_out_by": "voice",
            **scores(judged, THRESHOLD),
        },
    }
    return data, judged


def _held_out(pairs: Sequence[tuple[Trace, TracedSegment]], names: Sequence[str]) -> list[Judged]:
    judged = []
    for voice in sorted({trace.voice for trace, _ in pairs}):
        others = [segment for trace, segment in pairs if trace.voice != voice]
        own = [(trace, segment) for trace, segment in pairs if trace.voice == voice]
        chance, error = _fit(others, names)
        features = _matrix([segment for _, segment in own], names)
        for (trace, segment), p, e in zip(
            own, chance.chances(features), error.chances(features), strict=True
        ):
            limit = LOOPING if segment.looping else MOST_CONFIDENT
            judged.append(Judged(trace, segment, min(limit, float(p)), float(e)))
    return judged


def _matrix(segments: Sequence[TracedSegment], names: Sequence[str]) -> Numbers:
    return np.array([[segment.features[name] for name in names] for segment in segments])


def _fit(segments: Sequence[TracedSegment], names: Sequence[str]) -> tuple[Logistic, Logistic]:
    """The chance of few errors, and the expected share of wrong words."""
    features = _matrix(segments, names)
    right = np.array([float(segment.rate <= LOW_ERROR) for segment in segments])
    rates = np.array([segment.rate for segment in segments])
    return fit_logistic(features, right, ridge=RIDGE), fit_logistic(features, rates, ridge=RIDGE)


def scores(judged: Sequence[Judged], threshold: float) -> dict[str, Any]:
    """How well the confidence orders segments, and what the threshold does."""
    chances, right = [each.chance for each in judged], [each.right for each in judged]
    kept = [each for each in judged if each.chance >= threshold]
    sent = [each for each in judged if each.chance < threshold]
    human = [each for each in judged if each.trace.kind == "human"]
    return {
        "segments": len(judged),
        "right": round(sum(right) / len(right), 4),
        "segment_error_auroc": round(auroc(chances, right), 4),
        "segment_error_auroc_human": round(
            auroc([each.chance for each in human], [each.right for each in human]), 4
        ),
        "rank_correlation": round(spearman(chances, [-each.segment.rate for each in judged]), 4),
        "calibration_error": round(expected_calibration_error(chances, right), 4),
        "expected_error_off_by": round(
            sum(abs(each.error - each.segment.rate) for each in judged) / len(judged), 4
        ),
        "kept_share": round(len(kept) / len(judged), 4),
        "kept_error_rate": _rate(kept),
        "sent_error_rate": _rate(sent),
    }


def _rate(judged: Sequence[Judged]) -> float | None:
    words = sum(each.segment.words for each in judged)
    return round(sum(each.segment.errors for each in judged) / words, 4) if words else None


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Correlation of ranks; ties share theirs. 0 where one of them never changes."""
    if len(set(first)) < 2 or len(set(second)) < 2:
        return 0.0
    ranks = [_ranks(values) for values in (first, second)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda index: values[index])
    ranks, start = [0.0] * len(values), 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for index in order[start:end]:
            ranks[index] = (start + end - 1) / 2
        start = end
    return ranks


def _fitted_on(traces: Sequence[Trace]) -> dict[str, Any]:
    return {
        "documents": len(traces),
        "minutes": round(sum(trace.seconds for trace in traces) / 60, 1),
        "human_voices": sorted({trace.voice for trace in traces if trace.kind == "human"}),
        "made_voices": sorted({trace.voice for trace in traces if trace.kind == "made"}),
        "levels_db": ["clean", 20, 10, 5, 0],
    }


def _plain(names: Sequence[str], fit: Logistic) -> dict[str, Any]:
    weights = {name: round(weight, 4) for name, weight in zip(names, fit.weights, strict=True)}
    return {"weights": weights, "bias": round(fit.bias, 4)}
