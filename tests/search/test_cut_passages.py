"""Cutting texts into passages."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as some

from edgewise.search.documents import cut_into_passages
from edgewise.types.embeddings import Passage

lines = some.lists(some.sampled_from(["", "one", "two words", "a b c d e f g h i j k l"]))


def test_short_paragraphs_share_a_passage_with_their_lines() -> None:
    text = "# Title\n\nFirst paragraph\ngoes on.\n\n\nSecond one.\n"
    (passage,) = cut_into_passages(text)
    assert passage == Passage(1, 7, "# Title\n\nFirst paragraph\ngoes on.\n\nSecond one.")


def test_a_paragraph_that_does_not_fit_begins_the_next_passage() -> None:
    found = cut_into_passages("a b c\n\nd e f\n\ng h", most_words=5)
    assert found == [Passage(1, 1, "a b c"), Passage(3, 5, "d e f\n\ng h")]


def test_long_paragraphs_are_cut_at_lines_and_long_lines_at_words() -> None:
    found = cut_into_passages("a b c\nd e f\ng h i j k l m", most_words=3)
    assert [(one.first_line, one.text) for one in found] == [
        (1, "a b c"),
        (2, "d e f"),
        (3, "g h i"),
        (3, "j k l"),
        (3, "m"),
    ]


def test_nothing_but_blanks_is_no_passage() -> None:
    assert cut_into_passages(" \n\n\t\n") == []


@given(lines, some.integers(1, 20))
def test_every_word_is_in_one_passage_in_order_and_none_is_too_long(
    text: list[str], most: int
) -> None:
    whole = "\n".join(text)
    found = cut_into_passages(whole, most_words=most)
    assert " ".join(one.text for one in found).split() == whole.split()
    for one in found:
        assert one.text.strip()
        assert len(one.text.split()) <= most
        assert 1 <= one.first_line <= one.last_line <= len(text)
    assert all(one.last_line <= other.first_line for one, other in pairwise(found))
