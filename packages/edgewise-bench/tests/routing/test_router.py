from __future__ import annotations

from pathlib import Path

import numpy
import pytest

from edgewise.testing import ScriptedEmbedder
from edgewise_bench.routing.router import (
    BATCH,
    Prompts,
    asked_elsewhere,
    batches,
    folds,
    near_mean,
    out_of_fold,
    predict,
    shape_of,
    shapes_of,
    terms_of,
    vectors_of,
)
from routing.made_outcomes import made_rows


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


def test_the_shape_grows_with_length_and_numbers() -> None:
    short, long = shape_of("Why?"), shape_of("Why, and how often, in 12 of 3,000 cases?")
    assert len(short) == len(long)
    assert all(long[place] > short[place] for place in range(6))
    assert shapes_of(["", "one"]).shape == (2, len(short))


def test_an_enormous_number_has_a_finite_shape() -> None:
    assert numpy.isfinite(shape_of("9" * 400)).all()


def test_rows_have_length_one_and_a_rare_word_weighs_more() -> None:
    terms = terms_of(["red red apple", "red pear", "red apple", "red plum"])
    weighed = terms.weighed_by(numpy.arange(4), least=1)
    lengths = numpy.zeros(4)
    numpy.add.at(lengths, weighed.rows, weighed.values**2)
    assert lengths == pytest.approx(numpy.ones(4))
    second = weighed.values[weighed.rows == 1]  # red, pear, red pear
    assert second[1] > second[0]


def test_weights_are_learnt_from_the_rows_given_and_no_others() -> None:
    prompts = ["red apple", "red pear", "green apple", "green plum"]
    weighed = terms_of(prompts).weighed_by(numpy.array([0, 1]))
    changed = terms_of([*prompts[:2], "green green", "apple plum"]).weighed_by(numpy.array([0, 1]))
    for row in (0, 1):
        assert (
            weighed.values[weighed.rows == row].tolist()
            == changed.values[changed.rows == row].tolist()
        )
    assert set(weighed.rows) == {0, 1}  # of green, apple and plum nothing is known


def test_products_are_those_of_the_full_matrix() -> None:
    terms = terms_of(["red apple", "red pear", "green apple pear"])
    full = numpy.zeros(terms.shape)
    full[terms.rows, terms.terms] = terms.values
    generator = numpy.random.default_rng(0)
    right, left = generator.random(terms.shape[1]), generator.random(3)
    assert terms.times(right) == pytest.approx(full @ right)
    assert terms.turned_times(left) == pytest.approx(full.T @ left)
    part = terms.of(numpy.array([2, 0]))
    assert part.times(right) == pytest.approx((full @ right)[[2, 0]])


def test_vectors_are_made_once_and_kept(tmp_path: Path) -> None:
    prompts = [f"text {number}" for number in range(BATCH + 1)]
    embedder = ScriptedEmbedder()
    steps: list[None] = []
    first = vectors_of(prompts, embedder, tmp_path, lambda: steps.append(None))
    assert len(steps) == batches(prompts) == 2
    again = vectors_of(prompts, embedder, tmp_path, lambda: None)
    assert embedder.texts == prompts
    assert (first == again).all()
    vectors_of([*prompts[:-1], "another"], embedder, tmp_path, lambda: None)
    assert embedder.texts == [*prompts, "another"]
    vectors_of(prompts[:1], ScriptedEmbedder("other@none-32"), tmp_path, lambda: None)
    assert len(list(tmp_path.iterdir())) == 4  # another space, another file
