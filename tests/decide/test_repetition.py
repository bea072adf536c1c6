"""What counts as going round in circles, and what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.decide.gate import (
    LEAST_REPEATED,
    LONGEST_CIRCLE,
    LOOKED_EVERY,
    RepetitionWatch,
    repeats_a_turn,
)


def noticed(tokens: list[str]) -> int | None:
    """After how many tokens a loop is noticed."""
    watch = RepetitionWatch()
    return next((number for number, text in enumerate(tokens, 1) if watch.add(text)), None)


def test_a_sentence_again_and_again_is_a_loop() -> None:
    sentence = ["The", " fox", " ran", " home", " and", " slept", "."]
    assert noticed(["Once", " upon", *sentence * 9]) is not None


def test_one_word_again_and_again_is_a_loop_only_if_it_goes_on() -> None:
    assert noticed([" ha"] * (LEAST_REPEATED - LOOKED_EVERY)) is None
    assert noticed([" ha"] * LEAST_REPEATED) == LEAST_REPEATED


@pytest.mark.parametrize(
    "tokens",
    [
        ["-"] * 80,  # the line of a table
        [f" {number}" for number in range(80)],
        [word for n in range(12) for word in ("Step", f" {n}", ":", " stir", ".", "\n")],
        ["the", " cat", " saw", " the", " cat", " that", " saw", " the", " cat", "."] * 2,
    ],
)
def test_lists_tables_and_echoes_are_none(tokens: list[str]) -> None:
    assert noticed(tokens) is None


@given(
    beginning=st.lists(st.text("abc ", min_size=1, max_size=3), max_size=20),
    length=st.integers(1, LONGEST_CIRCLE),
)
def test_every_circle_is_noticed_soon(beginning: list[str], length: int) -> None:
    circle = [f"word{number} " for number in range(length)]
    found = noticed(beginning + circle * 40)
    assert found is not None
    assert found <= len(beginning) + max(3 * length, LEAST_REPEATED) + LOOKED_EVERY


def test_the_same_answer_as_before_is_a_repetition() -> None:
    before = ["The capital of France is Paris.", "Yes."]
    assert repeats_a_turn("the capital of France is Paris", before)
    assert not repeats_a_turn("The capital of Spain is Madrid.", before)
    assert not repeats_a_turn("Yes.", before)
