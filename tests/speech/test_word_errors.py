from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.speech.word_errors import (
    WordErrors,
    errors_by_segment,
    plain_words,
    said_in_segments,
    word_errors,
)

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=12)


@pytest.mark.parametrize(
    ("said", "heard", "errors"),
    [
        ("the cat sat on the mat", "The cat sat on the mat.", 0),
        ("the cat sat on the mat", "the cat sat on a mat", 1),
        ("the cat sat on the mat", "the cat on the mat", 1),
        ("the cat sat", "well the cat sat", 1),
        ("press 1 or 23", "Press one, or twenty three!", 0),
        ("I'm sorry, Mr. Tom", "I am sorry mister Tom", 0),
        ("hello", "[music] hello (laughs)", 0),
        ("anything at all", "", 3),
        ("", "made up", 2),
    ],
)
def test_errors_are_wrong_missing_and_extra_words(said: str, heard: str, errors: int) -> None:
    assert word_errors(said, heard).errors == errors


def test_each_segment_has_its_own_errors_and_missing_words_belong_where_they_are_missing() -> None:
    found = errors_by_segment("one two three four five six", ["one too three", "four six"])
    assert found == [WordErrors(1, 3), WordErrors(1, 3)]
    assert errors_by_segment("one two", []) == []


@given(WORDS, WORDS, st.integers(0, 12))
def test_segments_errors_add_up_to_the_whole(said: list[str], heard: list[str], cut: int) -> None:
    texts = [" ".join(heard[:cut]), " ".join(heard[cut:])]
    parts = errors_by_segment(" ".join(said), texts)
    whole = word_errors(" ".join(said), " ".join(heard))
    assert sum(parts, WordErrors(0, 0)) == whole
    assert whole.words == len(said)
    assert abs(len(said) - len(heard)) <= whole.errors <= max(len(said), len(heard))


def test_rates_of_nothing_said_are_all_or_nothing() -> None:
    assert (WordErrors(0, 0).rate, WordErrors(2, 0).rate) == (0.0, 1.0)
    assert plain_words("Twenty-one 21") == ["twenty", "one", "twenty", "one"]


@given(WORDS, WORDS, st.integers(0, 12))
def test_a_perfect_listener_writes_what_was_said(
    said: list[str], heard: list[str], cut: int
) -> None:
    parts = said_in_segments(" ".join(said), [" ".join(heard[:cut]), " ".join(heard[cut:])])
    assert " ".join(parts).split() == said
