"""What can be read off a prompt before anything answers it: its shape, its words, its meaning."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy
from numpy.typing import NDArray

from edgewise.bench.routing_metrics import Numbers
from edgewise.local.backend import EmbedBackend

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
