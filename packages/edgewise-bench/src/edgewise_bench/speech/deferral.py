"""The deferral curve: word error rate against the share of sound that is sent to a larger model.

Segments are sent in an order: by our confidence, at random, or by what an oracle knows (how many
errors fewer for each second sent). `deferral_gain` is the share of the way from random to oracle
that our order goes, as areas between the curves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from edgewise.flows.transcribe import is_nonsense, span_of, without_neighbours
from edgewise.local.backend import SpeechBackend
from edgewise.speech.audio import Chunk
from edgewise.speech.words import WordErrors, errors_by_segment
from edgewise.types.transcripts import Segment
from edgewise_bench.speech.recordings import Document
from edgewise_bench.speech.traces import Trace, word_errors

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
    documents: Iterator[Document], traces: Mapping[str, Trace], transcriber: SpeechBackend
) -> Iterator[tuple[str, list[str]]]:
    """What a larger model hears in each segment's sound, cut as for the cloud."""
    for document in documents:
        trace = traces[key_of(document)]
        whole = Chunk(0.0, document.samples, ())
        segments = [
            Segment(id=number, start=each.start, end=each.end, text=each.text)
            for number, each in enumerate(trace.segments)
        ]
        yield (
            key_of(document),
            [_heard(segment, segments, whole, transcriber) for segment in segments],
        )


def _heard(
    segment: Segment, segments: list[Segment], whole: Chunk, transcriber: SpeechBackend
) -> str:
    samples = whole.cut(*span_of(segment, segments, whole))
    text = " ".join(each.text for each in transcriber.hear(samples, language="en", words=False))
    if is_nonsense(text, segment.seconds):
        return segment.text  # as the flow does
    near = [each for each in segments if abs(each.id - segment.id) == 1]
    return without_neighbours(text, segment, near)


@dataclass(frozen=True, slots=True)
class Deferral:
    """The three curves over the same segments, and the larger model's own rates at their ends."""

    ours: Curve
    random: Curve
    oracle: Curve

    @property
    def gain(self) -> float:
        """The share of the way from random to oracle; 0 where there is no way."""
        way = self.random.area - self.oracle.area
        return (self.random.area - self.ours.area) / way if way > 0 else 0.0


def defer(
    traces: Mapping[str, Trace],
    texts: Texts,
    confidence: Mapping[tuple[str, int], float],
    seed: int = 0,
) -> Deferral:
    """Send the segments of all documents in each order. `confidence` is by document and number."""
    mixer = _Mixer(traces, texts)
    gains = mixer.errors_saved()
    places = [
        Place(key, number, each.end - each.start, confidence[key, number])
        for key in texts
        for number, each in enumerate(traces[key].segments)
    ]
    ours = sorted(places, key=lambda place: place.confidence)
    oracle = sorted(places, key=lambda p: -gains[p.document, p.number] / max(0.1, p.seconds))
    random = [mixer.curve(_shuffled(places, seed + number)) for number in range(RANDOM_ORDERS)]
    rates = zip(*(curve.rates for curve in random), strict=True)
    mean = Curve(random[0].shares, tuple(sum(each) / len(each) for each in rates))
    return Deferral(mixer.curve(ours), mean, mixer.curve(oracle))


def _shuffled(places: Sequence[Place], seed: int) -> list[Place]:
    mixed = list(places)
    Random(seed).shuffle(mixed)
    return mixed


class _Mixer:
    """Word error rates of documents with some segments in the larger model's words."""

    def __init__(self, traces: Mapping[str, Trace], texts: Texts) -> None:
        self._traces = {key: traces[key] for key in texts}
        self._texts = texts
        self._known: dict[tuple[str, frozenset[int]], WordErrors] = {}

    def errors_saved(self) -> dict[tuple[str, int], int]:
        """By how many errors the larger model is better, segment by segment."""
        saved = {}
        for key, trace in self._traces.items():
            theirs = errors_by_segment(trace.text, self._texts[key])
            for number, (own, other) in enumerate(zip(trace.segments, theirs, strict=True)):
                saved[key, number] = own.errors - other.errors
        return saved

    def curve(self, order: Sequence[Place]) -> Curve:
        total = sum(place.seconds for place in order)
        sent: dict[str, set[int]] = {key: set() for key in self._traces}
        shares, rates, so_far, following = [], [], 0.0, 0
        for point in range(POINTS):
            share = point / (POINTS - 1)
            while following < len(order) and so_far + order[following].seconds / 2 <= share * total:
                place = order[following]
                sent[place.document].add(place.number)
                so_far, following = so_far + place.seconds, following + 1
            if point == POINTS - 1:
                sent = {key: set(range(len(each.segments))) for key, each in self._traces.items()}
            shares.append(share)
            rates.append(self._rate(sent))
        return Curve(tuple(shares), tuple(rates))

    def _rate(self, sent: Mapping[str, set[int]]) -> float:
        return sum((self._errors(*each) for each in sent.items()), WordErrors(0, 0)).rate

    def _errors(self, key: str, numbers: set[int]) -> WordErrors:
        known = (key, frozenset(numbers))
        if known not in self._known:
            trace, theirs = self._traces[key], self._texts[key]
            words = (
                theirs[number] if number in numbers else each.text
                for number, each in enumerate(trace.segments)
            )
            self._known[known] = word_errors(trace.text, " ".join(words))
        return self._known[known]
