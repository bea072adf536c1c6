"""Routers that decide before anything is generated: they predict what the strong model would gain.

Half of a prediction is linear, a ridge regression on a prompt's words and another on its vector and
shape; half is local, the mean of the prompts nearest in vector and shape. Nothing is searched for
when it is fitted: the numbers below are the same for every set.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy
from numpy.typing import NDArray

from edgewise.local.backend import EmbedBackend
from edgewise_bench.routing.metrics import Numbers

FOLDS = 5
PENALTY = 20.0
NEIGHBOURS = 100
SHAPE_WEIGHT = 0.3  # of the shape beside the vector, when distances are measured
MOST_STEPS = 300  # of the solver; it needs about forty
CLOSE_ENOUGH = 1e-4

Rows = NDArray[numpy.int64]
BATCH = 512  # texts embedded, and kept on the disk, at a time
_WORD = re.compile(r"\w\w+")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_COUNTED = tuple(
    re.compile(pattern)
    for pattern in (
        r"\S+",
        r"[.?!](?:\s|$)",
        r"\n",
        r",",
        r"\d\.\d",
        r"%",
        r"\$",
        r"_",
        r"[=+*/^<>\\]",
        r"['\"]",
        r"\b[A-Z][a-z]+",
        r"(?i)\b(?:half|twice|third|quarter|double|triple|times|percent|fraction|ratio)\b",
        r"(?i)\b(?:more|less|fewer|than|each|every|per)\b",
        r"(?i)\b(?:if|when|then|after|before|remaining|left|rest)\b",
        r"(?i)\b(?:not|no|never|except|false|incorrect|least)\b",
    )
)


@dataclass(frozen=True, slots=True)
class Prompts:
    """What is known of each prompt; nothing here was learnt from an outcome."""

    terms: Terms | None
    dense: tuple[Numbers, ...]  # a block of columns each: vectors, shapes


def foresee(prompts: Prompts, target: Numbers, train: Rows, test: Rows) -> Numbers:
    """The router that is measured."""
    words = predict(Prompts(prompts.terms, ()), target, train, test)
    meaning = predict(Prompts(None, prompts.dense), target, train, test)
    return (words + meaning) / 4 + near_mean(prompts, target, train, test) / 2


def near_mean(
    prompts: Prompts,
    target: Numbers,
    train: Rows,
    test: Rows,
    *,
    count: int = NEIGHBOURS,
    shape_weight: float = SHAPE_WEIGHT,
) -> Numbers:
    """The mean of the training prompts nearest in meaning and shape."""
    vectors, shapes = prompts.dense
    places = numpy.hstack([vectors, shape_weight * _scaled(shapes, train)]).astype(numpy.float32)
    known, sizes = places[train].T, (places[train] ** 2).sum(axis=1)
    count = min(count, len(train))
    found = numpy.zeros(len(test))
    for start in range(0, len(test), 512):
        distances = sizes - 2 * (places[test[start : start + 512]] @ known)
        nearest = numpy.argpartition(distances, count - 1, axis=1)[:, :count]
        found[start : start + 512] = target[train][nearest].mean(axis=1)
    return found


def predict(
    prompts: Prompts, target: Numbers, train: Rows, test: Rows, penalty: float = PENALTY
) -> Numbers:
    """Ridge regression fitted on `train`, asked about `test`. `target` is read at `train` only."""
    blocks = [_scaled(block, train) for block in prompts.dense]
    dense = numpy.hstack(blocks) if blocks else numpy.zeros((len(target), 0))
    words = None if prompts.terms is None else prompts.terms.weighed_by(train)
    known, known_words = dense[train], words and words.of(train)

    def times_itself(vector: Numbers) -> Numbers:
        product: Numbers = known @ (known.T @ vector)
        if known_words is not None:
            product += known_words.times(known_words.turned_times(vector))
        product -= product.mean()
        return product

    mean = target[train].mean()
    dual = _solve(times_itself, target[train] - mean, penalty)
    score = dense @ (known.T @ dual)
    if words is not None and known_words is not None:
        score += words.times(known_words.turned_times(dual))
    found: Numbers = score[test] - score[train].mean() + mean
    return found


def _scaled(block: Numbers, train: Rows) -> Numbers:
    """Columns of mean 0 and equal spread on the training rows, rows of about length 1."""
    known = block[train]
    scaled: Numbers = (block - known.mean(axis=0)) / (known.std(axis=0) + 1e-9)
    scaled /= numpy.sqrt(block.shape[1])
    return scaled


def _solve(times: Callable[[Numbers], Numbers], right: Numbers, penalty: float) -> Numbers:
    """Conjugate gradients for (K + penalty) x = right, where K is only ever multiplied by."""
    solution = numpy.zeros_like(right)
    rest = right.copy()
    direction = rest.copy()
    size = first = rest @ rest
    for _ in range(MOST_STEPS):
        if size <= CLOSE_ENOUGH**2 * first:
            break
        image = times(direction) + penalty * direction
        length = size / (direction @ image)
        solution += length * direction
        rest -= length * image
        before, size = size, rest @ rest
        direction = rest + (size / before) * direction
    return solution


def folds(prompts: Sequence[str], seed: int, count: int = FOLDS) -> Iterator[tuple[Rows, Rows]]:
    """(training rows, test rows): every row is tested once, in shuffled parts of equal size."""
    order = numpy.random.default_rng(seed).permutation(len(prompts))
    for part in numpy.array_split(order, count):
        tested = numpy.sort(part)
        yield asked_elsewhere(prompts, numpy.setdiff1d(order, tested), tested), tested


def asked_elsewhere(prompts: Sequence[str], rows: Rows, tested: Rows) -> Rows:
    """Those of `rows` that ask something else than every tested row, but for case and signs."""
    hidden = {_plain(prompts[row]) for row in tested}
    return numpy.array([row for row in rows if _plain(prompts[row]) not in hidden], numpy.int64)


def _plain(prompt: str) -> str:
    return re.sub(r"[\W_]+", " ", prompt.lower()).strip()


def out_of_fold(
    prompts: Sequence[str],
    seed: int,
    fit: Callable[[Rows, Rows], Numbers],
    step: Callable[[], None] = lambda: None,
) -> Numbers:
    """A score for every row, each from a model that has not seen it."""
    scores = numpy.zeros(len(prompts))
    for train, test in folds(prompts, seed):
        scores[test] = fit(train, test)
        step()
    return scores


def shape_of(prompt: str) -> list[float]:
    """Counts and sizes: how long it is, how many numbers it has and how large they are."""
    numbers = [float(found.replace(",", "")[:15]) for found in _NUMBER.findall(prompt)]
    sizes = [math.log1p(number) for number in numbers] or [0.0]
    words = prompt.split() or [""]
    length = max(len(prompt), 1)
    return [
        math.sqrt(length),
        math.log(length),
        math.log1p(len(numbers)),
        math.log1p(len(set(numbers))),
        max(sizes),
        sum(sizes) / len(sizes),
        sum(map(len, words)) / len(words),
        len(set(words)) / len(words),
        sum(map(str.isupper, prompt)) / length,
        sum(map(str.isdigit, prompt)) / length,
        *(math.log1p(len(pattern.findall(prompt))) for pattern in _COUNTED),
    ]


def shapes_of(prompts: Sequence[str]) -> Numbers:
    return numpy.array([shape_of(prompt) for prompt in prompts])


@dataclass(frozen=True, slots=True)
class Terms:
    """A sparse matrix of texts and terms, as three arrays of its entries."""

    rows: NDArray[numpy.int64]
    terms: NDArray[numpy.int64]
    values: Numbers
    shape: tuple[int, int]

    def times(self, vector: Numbers) -> Numbers:
        """A number for each text."""
        return _sums(self.rows, self.values * vector[self.terms], self.shape[0])

    def turned_times(self, vector: Numbers) -> Numbers:
        """A number for each term."""
        return _sums(self.terms, self.values * vector[self.rows], self.shape[1])

    def weighed_by(self, texts: NDArray[numpy.int64], least: int = 2) -> Terms:
        """TF-IDF: frequencies of terms are learnt from these texts alone; rows get length 1."""
        learnt = numpy.zeros(self.shape[0], dtype=bool)
        learnt[texts] = True
        found = numpy.bincount(self.terms[learnt[self.rows]], minlength=self.shape[1])
        weight = numpy.where(found < least, 0.0, 1 + numpy.log((1 + len(texts)) / (1 + found)))
        values = self.values * weight[self.terms]
        squares = _sums(self.rows, values**2, self.shape[0])
        values /= numpy.sqrt(numpy.maximum(squares, 1e-12))[self.rows]
        kept = values > 0
        return Terms(self.rows[kept], self.terms[kept], values[kept], self.shape)

    def of(self, texts: NDArray[numpy.int64]) -> Terms:
        """The rows of these texts, numbered anew in their order."""
        number = numpy.full(self.shape[0], -1)
        number[texts] = numpy.arange(len(texts))
        rows = number[self.rows]
        kept = rows >= 0
        return Terms(rows[kept], self.terms[kept], self.values[kept], (len(texts), self.shape[1]))


def _sums(places: NDArray[numpy.int64], amounts: Numbers, size: int) -> Numbers:
    return numpy.bincount(places, amounts, size).astype(numpy.float64, copy=False)


def terms_of(prompts: Sequence[str]) -> Terms:
    """Words and pairs of words, each counted as 1 + log of how often it is there."""
    vocabulary: dict[str, int] = {}
    rows: list[int] = []
    terms: list[int] = []
    values: list[float] = []
    for row, prompt in enumerate(prompts):
        words = _WORD.findall(prompt.lower())
        pairs = (f"{first} {second}" for first, second in pairwise(words))
        for term, count in Counter([*words, *pairs]).items():
            rows.append(row)
            terms.append(vocabulary.setdefault(term, len(vocabulary)))
            values.append(1 + math.log(count))
    return Terms(
        numpy.array(rows, dtype=numpy.int64),
        numpy.array(terms, dtype=numpy.int64),
        numpy.array(values),
        (len(prompts), len(vocabulary)),
    )


def vectors_of(
    prompts: Sequence[str], embedder: EmbedBackend, cache: Path, step: Callable[[], None]
) -> Numbers:
    """The embedder's vectors, made once: they stay in `cache`, a file for every batch of texts."""
    space = embedder.facts().space
    parts = []
    for start in range(0, len(prompts), BATCH):
        batch = list(prompts[start : start + BATCH])
        key = hashlib.sha256("\0".join([space, *batch]).encode()).hexdigest()[:16]
        path = cache / f"vectors-{key}.npy"
        if not path.exists():
            made = numpy.array(embedder.embed(batch).vectors, dtype=numpy.float32)
            cache.mkdir(parents=True, exist_ok=True)
            fresh = path.with_suffix(".fresh.npy")
            numpy.save(fresh, made)
            fresh.replace(path)  # whole or not at all
        parts.append(numpy.load(path))
        step()
    return numpy.concatenate(parts).astype(numpy.float64)


def batches(prompts: Sequence[str]) -> int:
    """How often `vectors_of` steps."""
    return -(-len(prompts) // BATCH)
