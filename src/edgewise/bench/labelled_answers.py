"""Lets the device answer labelled requests as users run it, judges it, and keeps all of it.

What was answered lies in the cache, so that a run that was interrupted goes on where it stopped.
The user's ledger and own calibrations have no part in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from edgewise.bench.answers import Question
from edgewise.bench.call_scores import Call, exact
from edgewise.bench.fit import Sample
from edgewise.bench.labelled_rows import LabelledCall, LabelledSound
from edgewise.bench.traces import Trace, collect_traces
from edgewise.engine import Engine
from edgewise.local.backend import ChatBackend
from edgewise.settings import Settings
from edgewise.speech.confidence import LOW_ERROR
from edgewise.speech.word_errors import errors_by_segment

Progress = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Scored:
    """One answer, or one segment: what the device gave it, and whether it is right.

    `row` says which row it belongs to: rows are split whole.
    """

    row: int
    confidence: float
    right: bool
    features: dict[str, float]
    gated: bool = False  # held back for what it says, whatever its confidence


def answers_path(settings: Settings, name: str, *unique: object) -> Path:
    """Answers belong to exact weights, a runtime and what else `unique` says."""
    digest = hashlib.sha256(repr(unique).encode()).hexdigest()[:12]
    return settings.cache_dir / "calibrate" / f"{name}-{digest}.jsonl"


def answer_chat(
    backend: ChatBackend,
    questions: Sequence[Question],
    path: Path,
    max_tokens: int,
    progress: Progress = lambda: None,
) -> list[Sample]:
    """An answer without evidence cannot be judged by it and is left out."""
    traces = collect_traces(backend, questions, path, progress, max_tokens)
    samples = [_sample(trace) for trace in traces]
    return [sample for sample in samples if sample.readings]


def _sample(trace: Trace) -> Sample:
    return Sample(trace.question.kind, trace.right, tuple(trace.readings()))


def answer_calls(
    settings: Settings, rows: Sequence[LabelledCall], path: Path, progress: Progress = lambda: None
) -> list[Scored]:
    """Right are the same calls in any order, with the same arguments and no others."""

    def answer(engine: Engine, row: LabelledCall) -> list[dict[str, Any]]:
        reply = engine.call(row.prompt, row.tools, policy="local_only")
        calls: list[Call] = [(call.name, dict(call.arguments)) for call in reply.calls]
        sure, threshold = reply.confidence or 0.0, reply.decision.threshold or 0.0
        return [
            {
                "confidence": sure,
                "gated": reply.needs_cloud_handoff and sure >= threshold,
                "right": exact(calls, row.calls),
                "features": dict(reply.decision.features),
            }
        ]

    return _answered(settings, rows, path, answer, progress, _call_key)


def answer_speech(
    settings: Settings, rows: Sequence[LabelledSound], path: Path, progress: Progress = lambda: None
) -> list[Scored]:
    """Segments; right are those with few wrong words."""

    def answer(engine: Engine, row: LabelledSound) -> list[dict[str, Any]]:
        segments = engine.transcribe(row.path, policy="local_only").segments
        errors = errors_by_segment(row.text, [segment.text for segment in segments])
        return [
            {
                "confidence": segment.confidence or 0.0,
                "right": found.rate <= LOW_ERROR,
                "features": dict(segment.features),
            }
            for segment, found in zip(segments, errors, strict=True)
        ]

    return _answered(settings, rows, path, answer, progress, _sound_key)


def _answered(
    settings: Settings,
    rows: Sequence[Any],
    path: Path,
    answer: Callable[[Engine, Any], list[dict[str, Any]]],
    progress: Progress,
    key_of: Callable[[Any], str],
) -> list[Scored]:
    path.parent.mkdir(parents=True, exist_ok=True)
    known = dict(_read(path))
    found: list[Scored] = []
    with (
        TemporaryDirectory(prefix="edgewise-calibrate-") as folder,
        Engine(settings.with_changes(data_dir=folder, audit_share=0.0)) as engine,
        path.open("a", encoding="utf-8") as file,
    ):
        for number, row in enumerate(rows):
            key = key_of(row)
            if key not in known:
                known[key] = answer(engine, row)
                # The newline first: it may follow a line that was cut.
                file.write("\n" + json.dumps({"key": key, "answers": known[key]}))
                file.flush()
            found += [Scored(number, **each) for each in known[key]]
            progress()
    return found


def _call_key(row: LabelledCall) -> str:
    parts = (row.prompt, [asdict(tool) for tool in row.tools], row.calls)
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def _sound_key(row: LabelledSound) -> str:
    content = hashlib.sha256(row.path.read_bytes()).hexdigest()
    return hashlib.sha256(f"{content} {row.text}".encode()).hexdigest()


def _read(path: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    if not path.exists():
        return
    for line in path.read_text("utf-8").split("\n"):
        try:
            entry = json.loads(line)
            yield entry["key"], entry["answers"]
        except ValueError:  # empty, or cut when a run was interrupted
            continue
