"""Routers that decide before anything is generated: they predict what the strong model would gain.

Half of a prediction is linear, a ridge regression on a prompt's words and another on its vector and
shape; half is local, the mean of the prompts nearest in vector and shape. Nothing is searched for
when it is fitted: the numbers below are the same for every set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from edgewise.bench.prompt_features import Terms
from edgewise.bench.routing_metrics import Numbers

FOLDS = 5
PENALTY = 20.0
NEIGHBOURS = 100
SHAPE_WEIGHT = 0.3  # of the shape beside the vector, when distances are measured
MOST_STEPS = 300  # of the solver; it needs about forty
CLOSE_ENOUGH = 1e-4

Rows = NDArray[numpy.int64]


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
