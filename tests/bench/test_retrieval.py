"""The retrieval set and its scores."""

from __future__ import annotations

import pytest

from edgewise.bench.retrieval import (
    Pair,
    lexical_score,
    mean_reciprocal_rank,
    ranks,
    read_pairs,
    recall_at,
)


def test_the_set_is_sixty_different_pairs_of_a_passage_and_a_question() -> None:
    pairs = read_pairs()
    assert len(pairs) == 60
    assert len({pair.passage for pair in pairs}) == len({pair.question for pair in pairs}) == 60
    assert all(pair.question.endswith("?") and "\n" not in pair.passage for pair in pairs)


def test_ranks_count_ties_against_the_right_passage() -> None:
    table = [[0.9, 0.1, 0.1], [0.5, 0.5, 0.1], [0.3, 0.2, 0.1]]
    places = ranks(3, lambda question, passage: table[question][passage])
    assert places == [1, 2, 3]
    assert recall_at(places, 1) == pytest.approx(1 / 3)
    assert recall_at(places, 2) == pytest.approx(2 / 3)
    assert mean_reciprocal_rank(places) == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)


def test_the_baseline_finds_what_shares_rare_words() -> None:
    pairs = [
        Pair("The ferry leaves the quay.", "Which quay?"),
        Pair("The dough needs the fridge.", "What does dough need?"),
        Pair("The cat drinks the milk.", "Does a cat like milk?"),
    ]
    assert ranks(3, lexical_score(pairs)) == [1, 1, 1]
