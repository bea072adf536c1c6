"""Two answers agree or not, in either order; doubtful pairs are left to a reader."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from edgewise.decide.compare_answers import (
    DIFFERENT_BELOW,
    Agreement,
    agree_in_calls,
    agree_in_meaning,
    agree_in_sound,
    agree_in_words,
    read_verdict,
    same_value,
)
from edgewise.types.messages import ToolCall
from edgewise_bench.questions.meaning_pairs import pairs

SAME, OTHER = Agreement(1.0, "exact"), Agreement(0.0, "exact")

WORDS = st.text(
    alphabet=st.sampled_from("abcdé 0123456789.,'!?-yesno"), max_size=40
) | st.sampled_from(["Yes.", "No, it is not.", "Paris", "It is Paris.", "42", '{"a": 1}', ""])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
CALLS = st.lists(
    st.builds(
        ToolCall,
        st.sampled_from(["play", "stop"]),
        st.dictionaries(st.sampled_from(["song", "at"]), VALUES, max_size=2),
    ),
    max_size=3,
)


@pytest.mark.parametrize(
    ("one", "other", "question"),
    [
        ("Paris", "paris.", ""),
        ("The capital of France is Paris.", "Paris", "What is the capital of France?"),
        ("It is 42.", "Forty-two", ""),
        ("12 x 3 is 36.", "36", "What is 12 x 3?"),
        ("60", "There are 60 minutes in an hour.", "How many minutes are in an hour?"),
        ("1,000", "1000", ""),
        ("Yes, whales are mammals.", "True", ""),
        ("No.", "No, spiders are not insects.", ""),
        ('{"city": "Rome", "n": 2}', '{"n": 2.0, "city": "rome"}', ""),
        ("", "...", ""),
    ],
)
def test_the_same_said_otherwise_agrees(one: str, other: str, question: str) -> None:
    assert agree_in_words(one, other, question) == SAME


@pytest.mark.parametrize(
    ("one", "other", "question"),
    [
        ("42", "It is 41.", ""),
        ("12 x 3 is 36.", "12 x 3 is 35.", "What is 12 x 3?"),
        ("Yes.", "No, they are not.", ""),
        ('{"city": "Rome"}', '{"city": "Rome", "n": 2}', ""),
    ],
)
def test_another_number_or_word_of_consent_disagrees(one: str, other: str, question: str) -> None:
    assert agree_in_words(one, other, question) == OTHER


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Mum", "Mother"),
        ("Paris", "It is not Paris."),
        ("Lyon", "Paris"),
        ("A dog barks.", "Dogs are animals that bark at strangers."),
        ("between 3 and 5", "4"),
    ],
)
def test_what_words_cannot_decide_is_left_to_a_reader(one: str, other: str) -> None:
    assert agree_in_words(one, other) is None


@given(WORDS, WORDS, WORDS)
def test_neither_of_two_answers_in_words_is_assumed_to_be_right(
    one: str, other: str, question: str
) -> None:
    assert agree_in_words(one, other, question) == agree_in_words(other, one, question)


@given(WORDS, WORDS)
def test_an_answer_agrees_with_itself(text: str, question: str) -> None:
    assert agree_in_words(text, text, question) == SAME


@given(WORDS, WORDS)
def test_case_marks_and_spaces_change_no_verdict(one: str, other: str) -> None:
    loud = f"  {one.upper()} "
    assume(loud.lower().split() == one.lower().split())  # "ŉ".upper() is two letters, and more
    assert agree_in_words(loud, other) == agree_in_words(one, other)


def test_no_pair_that_contradicts_is_called_the_same() -> None:
    wrong = [
        pair
        for pair in pairs()
        if (verdict := agree_in_words(pair.one, pair.other, pair.question)) is not None
        and bool(verdict.agree) != pair.same
    ]
    assert wrong == []


@given(CALLS, CALLS)
def test_calls_are_compared_without_their_order(
    calls: list[ToolCall], others: list[ToolCall]
) -> None:
    verdict = agree_in_calls(calls, others)
    assert verdict == agree_in_calls(others, calls)
    assert verdict == agree_in_calls(calls[::-1], others)
    assert agree_in_calls(calls, calls[::-1]).agree == 1.0


def test_values_of_calls_are_compared_as_people_write_them() -> None:
    ours = [ToolCall("play", {"song": "Café del Mar", "at": 7, "loud": True})]
    theirs = [ToolCall("play", {"song": "cafe del mar", "at": "7", "loud": True})]
    assert agree_in_calls(ours, theirs).agree == 1.0


@pytest.mark.parametrize(
    "others",
    [
        [],
        [ToolCall("stop", {"song": "Hello"})],
        [ToolCall("play", {"song": "Hallo"})],
        [ToolCall("play", {"song": "Hello", "at": 7})],
        [ToolCall("play", {"song": "Hello"}), ToolCall("play", {"song": "Hello"})],
    ],
)
def test_another_call_argument_or_number_of_calls_disagrees(others: list[ToolCall]) -> None:
    assert agree_in_calls([ToolCall("play", {"song": "Hello"})], others).agree == 0.0


def test_no_call_on_either_side_agrees() -> None:
    assert agree_in_calls([], []).agree == 1.0


@given(VALUES, VALUES)
def test_values_are_the_same_in_both_directions(one: Any, other: Any) -> None:
    assert same_value(one, other) == same_value(other, one)
    assert same_value(one, one)


def test_true_is_not_one_and_empty_text_is_not_a_mark() -> None:
    assert not same_value(True, 1)
    assert not same_value("!", "?")
    assert not same_value([1, 2], [1])


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_agreement_in_sound_falls_with_errors(errors: int, words: int, others: int) -> None:
    verdict = agree_in_sound(errors, words, others).agree
    assert verdict == agree_in_sound(errors, others, words).agree
    assert 0.0 <= agree_in_sound(errors + 1, words, others).agree <= verdict <= 1.0


def test_a_cosine_tells_apart_and_never_confirms() -> None:
    assert agree_in_meaning(DIFFERENT_BELOW - 0.01) == Agreement(0.0, "embedding")
    assert agree_in_meaning(DIFFERENT_BELOW) is None
    assert agree_in_meaning(1.0) is None


@pytest.mark.parametrize(
    ("said", "agree"),
    [("Yes.", 1.0), ("yes, both do", 1.0), ("No", 0.0), ("**No**, they differ", 0.0)],
)
def test_a_judges_first_word_is_its_verdict(said: str, agree: float) -> None:
    assert read_verdict(said) == Agreement(agree, "judge")


@pytest.mark.parametrize("said", ["", "Perhaps", "The answers are alike, yes"])
def test_a_judge_that_says_neither_has_said_nothing(said: str) -> None:
    assert read_verdict(said) is None
