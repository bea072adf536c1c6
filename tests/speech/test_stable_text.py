from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.speech.words import (
    Captions,
    StableText,
)
from edgewise.types.transcripts import Word


def said(text: str) -> list[Word]:
    """Words of a third of a second each."""
    return [Word(token, n / 3, (n + 1) / 3, 0.9) for n, token in enumerate(text.split())]


def texts(words: object) -> str:
    assert isinstance(words, list | tuple)
    return " ".join(word.text for word in words)


def test_a_word_is_settled_when_two_hypotheses_in_a_row_agree_on_it() -> None:
    text = StableText()
    assert texts(text.offer(said("it was the beast"))) == ""
    assert texts(text.pending) == "it was the beast"
    assert texts(text.offer(said("it was the best of times"))) == "it was the"
    assert texts(text.pending) == "best of times"
    assert texts(text.offer(said("it was the best of times it"))) == "best of times"
    assert texts(text.finish(said("it was the best of times it was"))) == "it was"
    assert texts(text.settled) == "it was the best of times it was"
    assert text.pending == ()


def test_case_and_punctuation_do_not_matter_and_the_later_spelling_is_taken() -> None:
    text = StableText()
    text.offer(said("Hello World"))
    assert texts(text.offer(said("hello, world."))) == "hello, world."


def test_an_agreement_that_was_interrupted_does_not_count() -> None:
    text = StableText()
    for hypothesis in ("a b", "x y", "a b"):
        assert text.offer(said(hypothesis)) == ()


@pytest.mark.parametrize(
    ("later", "rest"),
    [
        ("one two three four five", "four five"),
        ("one too three four five", "four five"),  # a settled word is heard differently now
        ("one three four five", "four five"),  # or not at all
        ("well one two three four five", "four five"),  # or something before it
        ("one two three", ""),
        ("", ""),
    ],
)
def test_what_was_settled_is_found_again_and_never_said_twice(later: str, rest: str) -> None:
    text = StableText()
    text.offer(said("one two three"))
    text.offer(said("one two three"))
    text.finish(said(later))
    assert texts(text.settled) == f"one two three {rest}".strip()


def test_times_never_run_backwards() -> None:
    text = StableText()
    text.finish([Word("a", 0.0, 1.0), Word("b", 0.4, 0.6), Word("c", 0.5, 2.0)])
    for before, after in itertools.pairwise(text.settled):
        assert before.start <= before.end <= after.start <= after.end


VOCABULARY = st.lists(st.sampled_from(["a", "b", "c", "A.", "d,"]), max_size=8).map(" ".join)


@given(st.lists(VOCABULARY, max_size=12), VOCABULARY)
def test_whatever_is_supposed_what_is_settled_only_grows(offers: list[str], last: str) -> None:
    text = StableText()
    shown: list[Word] = []
    for hypothesis in offers:
        shown += text.offer(said(hypothesis))
        assert text.settled == shown
    shown += text.finish(said(last))
    assert text.settled == shown and text.pending == ()


@given(st.lists(st.sampled_from(["one", "two", "three", "four"]), max_size=20), st.data())
def test_growing_hypotheses_of_the_same_words_come_to_those_words(
    words: list[str], data: st.DataObject
) -> None:
    text = StableText()
    ends = sorted(data.draw(st.lists(st.integers(0, len(words)), max_size=6)))
    for end in ends:
        text.offer(said(" ".join(words))[:end])
    text.finish(said(" ".join(words)))
    assert [word.text for word in text.settled] == words


def test_captions_are_the_ended_segments_and_the_open_words() -> None:
    captions = Captions()
    captions.say(said("one two"))
    assert captions.text == "one two"
    assert captions.end(0) == "one two"
    captions.say(said("three"))
    captions.say(said("four"))
    assert captions.text == "one two three four"
    captions.correct(0, "won too")
    assert captions.text == "won too three four"
    captions.correct(0, "")
    assert captions.text == "three four"


@given(st.lists(st.tuples(st.integers(0, 5), VOCABULARY), max_size=12))
def test_a_correction_changes_its_own_segment_whatever_the_order(
    corrections: list[tuple[int, str]],
) -> None:
    captions, expected = Captions(), {}
    for number in range(6):
        captions.say(said(f"segment {number}"))
        expected[number] = captions.end(number)
    for number, text in corrections:
        captions.correct(number, text)
        expected[number] = text
        assert captions.text == " ".join(each for each in expected.values() if each)
