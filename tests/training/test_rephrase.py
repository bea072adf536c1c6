"""Other words for the same request."""

from __future__ import annotations

from random import Random

from training.contexts import context_sentence
from training.rephrase import rephrase
from training.sample import Piece


def said(pieces: list[Piece]) -> set[str]:
    return {"".join(piece.text for piece in rephrase(pieces, Random(seed))) for seed in range(60)}


def test_verbs_change_where_an_order_begins_and_values_never() -> None:
    found = said([Piece("Find "), Piece("find me a book", "title")])
    assert "Look up find me a book" in found
    assert all(line.endswith(" find me a book") for line in found)


def test_the_same_word_in_another_place_is_left_alone() -> None:
    assert said([Piece("the book set is on my list")]) == {"the book set is on my list"}
    assert said([Piece("find out the price")]) == {"find out the price"}


def test_set_phrases_keep_their_capital() -> None:
    assert {"What is new", "What's new"} <= said([Piece("What's new")])


def test_contexts_are_many_sentences() -> None:
    rng = Random(2)
    found = {context_sentence(rng) for _ in range(500)}
    assert len(found) > 200
    assert all(line[-1] in ".!" for line in found)
