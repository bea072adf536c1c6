"""Every published row under a confidence that was not fitted on it, task by task."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy

from edgewise.bench.fit import Sample
from edgewise.bench.fit_speech import fit_speech
from edgewise.bench.logistic import fit_logistic
from edgewise.bench.outcome_rows import read_calls, read_speech
from edgewise.bench.routing_metrics import Numbers
from edgewise.bench.shipped_calibration import make_sample, measures
from edgewise.bench.trace_set import TraceSet, read_trace_set
from edgewise.calls.confidence import parse_call_calibration
from edgewise.decide.calibration import Calibration, parse_calibration

CHAT, CLOUD = "smollm2-135m-instruct", "qwen2.5-coder-1.5b-instruct"
CALLER, EARS = "edgewise-caller", "whisper-tiny.en"
_FOLDS = 10


@dataclass(frozen=True, slots=True)
class Rows:
    """One task: confidences, which answers were right, and the plain signal to compare with.

    threshold  the shipped one: what is below is handed off
    crossed    confidences of the same score, fitted anew without each row, on all rows there are
    """

    task: str
    confidence: Numbers
    right: Numbers
    plain: Numbers
    threshold: float
    crossed: tuple[Numbers, Numbers] | None = None


def shipped(name: str) -> Mapping[str, Any]:
    file = resources.files("edgewise.calibrations") / name
    data: Mapping[str, Any] = json.loads(file.read_text("utf-8"))
    return data


def chat_calibration() -> Calibration:
    return parse_calibration(shipped(f"{CHAT}-q8_0.json"), CHAT)


def chat_samples(traces: TraceSet) -> tuple[list[str], list[Sample]]:
    """All answers with evidence, and the names of their questions."""
    told = [row for row in traces.rows if row.tokens]
    return [row.reference for row in told], [make_sample(row) for row in told]


def chat_rows(traces: TraceSet) -> Rows:
    calibration = chat_calibration()
    references, samples = chat_samples(traces)
    chosen = [s for name, s in zip(references, samples, strict=True) if measures(name)]
    return Rows(
        "chat",
        numpy.array([calibration.final.probability(s.at(None)) for s in chosen]),
        numpy.array([s.right for s in chosen], dtype=numpy.float64),
        numpy.array([s.at(None).mean_logprob for s in chosen]),
        calibration.threshold,
        _crossed(samples, list(calibration.final.weights)),
    )


def _crossed(samples: Sequence[Sample], names: Sequence[str]) -> tuple[Numbers, Numbers]:
    values = numpy.array([[getattr(s.at(None), name) for name in names] for s in samples])
    right = numpy.array([s.right for s in samples], dtype=numpy.float64)
    fold = numpy.random.default_rng(0).permutation(len(samples)) % _FOLDS
    chances = numpy.zeros(len(samples))
    for number in range(_FOLDS):
        out = fold == number
        chances[out] = fit_logistic(values[~out], right[~out]).chances(values[out])
    return chances, right


def call_rows(path: Path) -> Rows:
    """Answers that the shipped calibration was not fitted on."""
    calibration = parse_call_calibration(shipped(f"{CALLER}-q8_0.calls.json"), CALLER)
    fresh = [row for row in read_calls(path) if not row.fitted]
    return Rows(
        "call",
        numpy.array([calibration.answer_confidence(row.features) for row in fresh]),
        numpy.array([row.right for row in fresh], dtype=numpy.float64),
        numpy.array([row.logprob for row in fresh]),
        calibration.threshold,
    )


def speech_rows(path: Path) -> Rows:
    """Segments under fits that never heard their voice."""
    document, judged = fit_speech(read_speech(path), EARS)
    return Rows(
        "speech",
        numpy.array([each.chance for each in judged]),
        numpy.array([each.right for each in judged], dtype=numpy.float64),
        numpy.array([each.segment.features["mean_logprob"] for each in judged]),
        float(document["threshold"]),
    )


def all_rows(folder: Path) -> Iterator[Rows]:
    """Those of the tasks whose files are there."""
    if (path := chat_path(folder)).exists():
        yield chat_rows(read_trace_set(path))
    if (path := folder / f"{CALLER}.jsonl.gz").exists():
        yield call_rows(path)
    if (path := folder / f"{EARS}.jsonl.gz").exists():
        yield speech_rows(path)


def chat_path(folder: Path) -> Path:
    return folder / f"{CHAT}.jsonl.gz"


def cloud_path(folder: Path) -> Path:
    return folder / f"{CLOUD}.jsonl.gz"
