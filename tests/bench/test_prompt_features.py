from __future__ import annotations

from pathlib import Path

import numpy
import pytest

from edgewise.bench.prompt_features import (
    BATCH,
    batches,
    shape_of,
    shapes_of,
    terms_of,
    vectors_of,
)
from edgewise.testing import ScriptedEmbedder


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
