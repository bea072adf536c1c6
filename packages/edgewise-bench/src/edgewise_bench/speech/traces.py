"""What the device hears in each document, segment by segment, with each segment's true errors."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import jiwer

from edgewise.flows.transcribe import Hearing
from edgewise.local.backend import SpeechBackend
from edgewise.speech.audio import RATE, cut_into_chunks
from edgewise.speech.words import SPEECH, WordErrors, errors_by_segment, plain_words
from edgewise_bench.speech.recordings import LEVELS, Document, Samples, with_noise

NOISES = ("white", "pink", "babble")
_BLOCK = 4 * RATE


@dataclass(frozen=True, slots=True)
class TracedSegment:
    """One segment: where, what, how it looked, and how wrong it is."""

    start: float
    end: float
    text: str
    looping: bool
    features: dict[str, float]
    errors: int
    words: int

    @property
    def rate(self) -> float:
        return min(1.0, WordErrors(self.errors, self.words).rate)


@dataclass(frozen=True, slots=True)
class Trace:
    """One document as the device hears it. `missed` are the words said where it hears nothing."""

    name: str
    voice: str
    kind: str
    level: float | None
    noise: str
    text: str
    seconds: float
    wall_s: float
    segments: tuple[TracedSegment, ...]
    errors: int
    words: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def noisy(documents: Sequence[Document], seed: int = 0) -> Iterator[Document]:
    """Human documents at every level; made ones, of which there are more, each at one."""
    for number, document in enumerate(documents):
        levels = LEVELS if document.kind == "human" else (LEVELS[number % len(LEVELS)],)
        for place, level in enumerate(levels):
            noise = NOISES[(number + place) % len(NOISES)]
            others = [other for other in documents if other.voice != document.voice]
            yield with_noise(document, level, noise, others or documents, seed + number)


def trace(document: Document, transcriber: SpeechBackend) -> Trace:
    """Hear a document as the flow does, without anybody to correct it."""
    numbers = count()
    hearing = Hearing(transcriber, SPEECH.uncalibrated, lambda: next(numbers))
    started = time.perf_counter()
    segments = [
        segment
        for chunk in cut_into_chunks(
            blocks(document.samples), longest_s=transcriber.facts().chunk_s
        )
        for segment in hearing.hear(chunk)
        if segment.text
    ]
    wall_s = time.perf_counter() - started
    errors = errors_by_segment(document.text, [segment.text for segment in segments])
    whole = word_errors(document.text, " ".join(segment.text for segment in segments))
    return Trace(
        document.name,
        document.voice,
        document.kind,
        document.level,
        document.noise,
        document.text,
        document.seconds,
        wall_s,
        tuple(
            TracedSegment(
                segment.start,
                segment.end,
                segment.text,
                "repetition" in segment.codes,
                dict(segment.features),
                each.errors,
                each.words,
            )
            for segment, each in zip(segments, errors, strict=True)
        ),
        whole.errors,
        whole.words,
    )


def word_errors(said: str, heard: str) -> WordErrors:
    """Substitutions, deletions and insertions of the best alignment, of plain words."""
    reference, hypothesis = plain_words(said), plain_words(heard)
    if not reference:  # which jiwer refuses
        return WordErrors(len(hypothesis), 0)
    found = jiwer.process_words(" ".join(reference), " ".join(hypothesis))
    return WordErrors(found.substitutions + found.deletions + found.insertions, len(reference))


def blocks(samples: Samples) -> Iterator[Samples]:
    for start in range(0, len(samples), _BLOCK):
        yield samples[start : start + _BLOCK]


def write_traces(traces: Iterable[Trace], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for each in traces:
            file.write(json.dumps(each.to_dict()) + "\n")
            file.flush()


def read_traces(path: Path) -> list[Trace]:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [
        Trace(**(row | {"segments": tuple(TracedSegment(**each) for each in row["segments"])}))
        for row in rows
    ]
