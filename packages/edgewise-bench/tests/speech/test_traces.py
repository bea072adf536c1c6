"""Word errors: jiwer's count is that of the engine's own alignment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.speech import words as own
from edgewise_bench.speech.traces import word_errors

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=12)


@pytest.mark.parametrize(
    ("said", "heard", "errors"),
    [
        ("the cat sat on the mat", "The cat sat on a mat.", 1),
        ("press 1 or 23", "Press one, or twenty three!", 0),
        ("I'm sorry, Mr. Tom", "I am sorry mister Tom", 0),
        ("anything at all", "", 3),
        ("", "made up", 2),
        ("", "", 0),
    ],
)
def test_errors_are_wrong_missing_and_extra_words(said: str, heard: str, errors: int) -> None:
    assert word_errors(said, heard).errors == errors
    assert word_errors(said, heard) == own.word_errors(said, heard)


@given(WORDS, WORDS)
def test_jiwer_counts_as_the_engine_does(said: list[str], heard: list[str]) -> None:
    assert word_errors(" ".join(said), " ".join(heard)) == own.word_errors(
        " ".join(said), " ".join(heard)
    )
