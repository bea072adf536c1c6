"""Published outcomes, and every row of them under a confidence that was not fitted on it.

No request, transcript or sound of calls and speech is in these files: only numbers, and names to
hold rows out by.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy

from edgewise.calibrate.fit import fit_logistic
from edgewise.calibrate.traces import Sample
from edgewise.calibrations import shipped_document
from edgewise.calls.check import CALLS, answer_confidence
from edgewise.decide import calibration as kinds
from edgewise.decide.calibration import Calibration, Kind, parse_calibration
from edgewise_bench.chat.calibration import make_sample, measures
from edgewise_bench.chat.traces import TraceSet, read_trace_set
from edgewise_bench.routing.metrics import Numbers
from edgewise_bench.speech.fit import fit_speech
from edgewise_bench.speech.traces import Trace, TracedSegment

DIGITS = 6
CHAT, CLOUD = "smollm2-135m-instruct", "qwen2.5-coder-1.5b-instruct"
FUNCTION_MODEL, TRANSCRIBER = "edgewise-caller", "whisper-tiny.en"
TRANSCRIBERS = (TRANSCRIBER, "whisper-base", "moonshine-tiny", "moonshine-base")
_FOLDS = 10


@dataclass(frozen=True, slots=True)
class AnsweredCalls:
    """The function model's answer to one request: what was known of each call, and if all is right.

    reference  the validation case
    source     where its sentence comes from, as in training/DATA.md
    fitted     whether the shipped calibration was fitted on it
    logprob    sum over the answer's tokens
    """

    reference: str
    source: str
    fitted: bool
    right: bool
    logprob: float
    features: tuple[Mapping[str, float], ...]


def write_calls(rows: Iterable[AnsweredCalls], path: Path) -> None:
    _write((_short(asdict(row)) for row in rows), path)


def read_calls(path: Path) -> list[AnsweredCalls]:
    return [AnsweredCalls(**(row | {"features": tuple(row["features"])})) for row in _read(path)]


def write_speech(traces: Iterable[Trace], path: Path) -> None:
    """Without what was said: neither the text nor its transcript is published."""
    _write((_short(_silent(trace.to_dict())) for trace in traces), path)


def read_speech(path: Path) -> list[Trace]:
    return [
        Trace(**(row | {"text": "", "segments": tuple(_segment(each) for each in row["segments"])}))
        for row in _read(path)
    ]


def _segment(told: Mapping[str, Any]) -> TracedSegment:
    return TracedSegment(**{"text": "", **told})


def _silent(trace: dict[str, Any]) -> dict[str, Any]:
    segments = [
        {name: value for name, value in segment.items() if name != "text"}
        for segment in trace["segments"]
    ]
    return {name: value for name, value in trace.items() if name != "text"} | {"segments": segments}


def _short(value: Any) -> Any:
    """Numbers to a few digits, all the way down."""
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, Mapping):
        return {name: _short(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(each) for each in value]
    return value


def _write(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


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


def shipped(name: str, kind: Kind) -> Calibration:
    document = shipped_document(name, kind.name)
    assert document is not None, f"{name} ships with a calibration of {kind.name}"
    return parse_calibration(document, name, kind)


def chat_calibration() -> Calibration:
    return shipped(f"{CHAT}-q8_0", kinds.CHAT)


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
        numpy.array([calibration.final.of(s.at(None).features()) for s in chosen]),
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
    calibration = shipped(f"{FUNCTION_MODEL}-q8_0", CALLS)
    fresh = [row for row in read_calls(path) if not row.fitted]
    return Rows(
        "call",
        numpy.array([answer_confidence(calibration, row.features) for row in fresh]),
        numpy.array([row.right for row in fresh], dtype=numpy.float64),
        numpy.array([row.logprob for row in fresh]),
        calibration.threshold,
    )


def speech_rows(path: Path) -> Rows:
    """Segments under fits that never heard their voice."""
    document, judged = fit_speech(read_speech(path), TRANSCRIBER)
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
    if (path := folder / f"{FUNCTION_MODEL}.jsonl.gz").exists():
        yield call_rows(path)
    if (path := folder / f"{TRANSCRIBER}.jsonl.gz").exists():
        yield speech_rows(path)


def chat_path(folder: Path) -> Path:
    return folder / f"{CHAT}.jsonl.gz"


def cloud_path(folder: Path) -> Path:
    return folder / f"{CLOUD}.jsonl.gz"
