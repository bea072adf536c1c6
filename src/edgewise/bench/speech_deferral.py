"""The deferral curve: word error rate against the share of sound that is sent to a larger model.

Segments are sent in an order: by our confidence, at random, or by what an oracle knows (how many
errors fewer for each second sent). `deferral_gain` is the share of the way from random to oracle
that our order goes, as areas between the curves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from edgewise.bench.speech_sets import Document
from edgewise.bench.speech_traces import Trace
from edgewise.flows.hear_segments import span_of
from edgewise.local.backend import SpeechBackend
from edgewise.speech.chunks import Chunk
from edgewise.types.transcripts import Segment

POINTS = 21  # of a curve, from nothing sent to everything
RANDOM_ORDERS = 5

# Texts of a larger model, by document (name and level) and number of the segment.
Texts = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Place:
    """One segment among all: its document, its number there, and its length as sent."""

    document: str
    number: int
    seconds: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Curve:
    """Shares of sound that was sent, and the word error rate at each."""

    shares: tuple[float, ...]
    rates: tuple[float, ...]

    @property
    def area(self) -> float:
        """Under the curve: the mean error rate over all shares."""
        points = list(zip(self.shares, self.rates, strict=True))
        return sum(
            (second[0] - first[0]) * (first[1] + second[1]) / 2
            for first, second in pairwise(points)
        )


def key_of(each: Trace | Document) -> str:
    return f"{each.name}@{'clean' if each.level is None else f'{each.level:g}'}"


def larger_texts(
    documents: Iterator[Document], traces: Mapping[str, Trace], ears: SpeechBackend
) -> Iterator[tuple[str, list[str]]]:
    """What a larger model hears in each segment's sound, cut as for the cloud."""
    for document in documents:
        trace = traces[key_of(document)]
        whole = Chunk(0.0, document.samples, ())
        segments = [
            Segment(id=number, start=each.start, end=each.end, text=each.text)
            for number, each in enumerate(trace.segments)
        ]
        yield key_of(document), [_heard(segment, segments, whole, ears) for segment in segments]


def _heard(segment: Segment, segments: list[Segment], whole: Chunk, ears: SpeechBackend) -> str:
    samples = whole.cut(*span_of(segment, segments, whole))
    return " ".join(each.text for each in ears.hear(samples, language="en", words=False))


def read_texts(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(path.read_text("utf-8"))
    return found
