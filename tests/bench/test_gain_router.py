from __future__ import annotations

import numpy
import pytest

from edgewise.bench.gain_router import (
    Prompts,
    asked_elsewhere,
    folds,
    near_mean,
    out_of_fold,
    predict,
)
from edgewise.bench.prompt_features import terms_of
from tests.bench.made_outcomes import made_rows


def test_it_is_ridge_regression() -> None:
    generator = numpy.random.default_rng(0)
    block = generator.normal(size=(60, 4))
    target = block @ [1, -2, 0.5, 0] + generator.normal(size=60)
    train, test = numpy.arange(40), numpy.arange(40, 60)
    found = predict(Prompts(None, (block,)), target, train, test, penalty=3.0)

    scaled = (block - block[:40].mean(axis=0)) / block[:40].std(axis=0) / 2
    inner = scaled[:40].T @ scaled[:40] + 3 * numpy.eye(4)
    weights = numpy.linalg.solve(inner, scaled[:40].T @ (target[:40] - target[:40].mean()))
    assert found == pytest.approx(scaled[40:] @ weights + target[:40].mean(), abs=1e-3)


def test_words_and_columns_together_are_one_regression() -> None:
    prompts = [prompt for prompt, _, _ in made_rows(50, 0)]
    terms = terms_of(prompts)
    block = numpy.random.default_rng(0).normal(size=(50, 2))
    target = numpy.random.default_rng(1).normal(size=50)
    train, test = numpy.arange(35), numpy.arange(35, 50)
    found = predict(Prompts(terms, (block,)), target, train, test, penalty=2.0)

    weighed = terms.weighed_by(train)
    words = numpy.zeros(terms.shape)
    words[weighed.rows, weighed.terms] = weighed.values
    scaled = (block - block[train].mean(axis=0)) / block[train].std(axis=0) / numpy.sqrt(2)
    full = numpy.hstack([words, scaled])
    full -= full[train].mean(axis=0)
    known = full[train]
    centred = target[train] - target[train].mean()
    dual = numpy.linalg.solve(known @ known.T + 2 * numpy.eye(35), centred)
    assert found == pytest.approx(full[test] @ (known.T @ dual) + target[train].mean(), abs=1e-3)


def test_outcomes_of_tested_rows_are_not_looked_at() -> None:
    prompts = [prompt for prompt, _, _ in made_rows(50, 0)]
    known = Prompts(terms_of(prompts), ())
    target = numpy.random.default_rng(1).normal(size=50)
    train, test = numpy.arange(35), numpy.arange(35, 50)
    before = predict(known, target, train, test)
    target[test] = numpy.nan
    assert predict(known, target, train, test).tolist() == before.tolist()


def test_every_row_is_tested_once_and_never_by_a_router_that_saw_it() -> None:
    prompts = [f"question {number}" for number in range(23)]
    tested = []
    for train, test in folds(prompts, seed=0):
        assert not set(train) & set(test)
        assert len(train) + len(test) == 23
        tested += test.tolist()
    assert sorted(tested) == list(range(23))
    assert [test.tolist() for _, test in folds(prompts, 0)] == [
        test.tolist() for _, test in folds(prompts, 0)
    ]
    assert [test.tolist() for _, test in folds(prompts, 0)] != [
        test.tolist() for _, test in folds(prompts, 1)
    ]


def test_a_row_that_asks_the_same_does_not_train() -> None:
    prompts = ["What is it?", "Why?", "what is  it", "WHY", "How?"]
    assert asked_elsewhere(prompts, numpy.array([2, 3, 4]), numpy.array([0])).tolist() == [3, 4]
    for train, test in folds(prompts, seed=3, count=2):
        assert not {prompts[row].lower()[:3] for row in train} & {
            prompts[row].lower()[:3] for row in test
        }


def test_scores_come_back_in_the_order_of_rows() -> None:
    prompts = [f"question {number}" for number in range(11)]
    scores = out_of_fold(prompts, 0, lambda train, test: test.astype(float))
    assert scores.tolist() == list(range(11))


def test_the_local_half_is_the_mean_of_the_nearest() -> None:
    places = numpy.array([[0.0], [0.1], [0.2], [5.0], [5.1], [0.05]])
    flat = numpy.zeros((6, 1))  # a shape that tells nothing
    target = numpy.array([1.0, 1.0, 1.0, 0.0, 0.0, numpy.nan])
    train, test = numpy.arange(5), numpy.array([5])
    known = Prompts(None, (places, flat))
    assert near_mean(known, target, train, test, count=3).tolist() == [1.0]
    assert near_mean(known, target, train, test).tolist() == [0.6]  # fewer rows than it wants
