from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.speech.words import (
    compression,
    loop_in,
    made_up,
    without_loops,
)
from edgewise.testing import heard
from edgewise.types.transcripts import Heard

SPEAKING = [0.9] * 20


@pytest.mark.parametrize(
    "text",
    [
        "no no no no no no no no",
        "thank you " * 5,
        "and then he said " * 3,
        "the quick brown fox jumps " * 4,
        "So, so, so, so, so, so, so.",
    ],
)
def test_a_run_of_words_that_comes_again_and_again_is_a_loop(text: str) -> None:
    assert loop_in(text.split()) is not None


@pytest.mark.parametrize(
    "text",
    [
        "no, no, no",
        "It was the best of times, it was the worst of times, it was the age of wisdom",
        "yeah yeah yeah",
        "one two three four five six seven",
        "bye bye",
        "",
    ],
)
def test_what_people_repeat_is_no_loop(text: str) -> None:
    assert loop_in(text.split()) is None


def test_a_loop_is_kept_once_with_its_words_times() -> None:
    said = heard("round and round and round and round and off we went", 0.0, 5.5)
    text, words, looping = without_loops(said)
    assert looping
    assert text == "round and off we went"
    assert [word.text for word in words] == text.split()
    assert (words[0], words[-1]) == (said.words[0], said.words[-1])


def test_text_without_words_is_unlooped_too() -> None:
    plain = Heard(start=0.0, end=5.0, text="thank you " * 6)
    assert without_loops(plain) == ("thank you", (), True)


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=30))
def test_unlooping_ends_and_leaves_no_loop(words: list[str]) -> None:
    text, kept, _ = without_loops(heard(" ".join(words), 0.0, 10.0))
    assert loop_in([word.text for word in kept]) is None
    assert text.split() == [word.text for word in kept]


def test_text_that_packs_too_well_is_a_loop_without_being_one_word_for_word() -> None:
    text = "".join(f"and so it goes on {'and on ' * 3}my friend " for _ in range(8))
    assert compression(text) > 2.4
    assert without_loops(Heard(start=0.0, end=20.0, text=text))[2]
    assert compression("short text") == 1.0


def test_words_where_nobody_speaks_were_made_up() -> None:
    said = heard("Thanks for watching!", 0.0, 1.0)
    assert made_up(said, [0.01] * 20) == "silence"
    assert made_up(said, SPEAKING) == ""
    assert made_up(Heard(start=0.0, end=1.0, text=" ... "), SPEAKING) == "silence"


def test_a_model_that_hears_nobody_and_guesses_is_not_believed() -> None:
    guess = Heard(start=0.0, end=1.0, text="you", no_speech=0.9, mean_logprob=-1.4)
    assert made_up(guess, SPEAKING) == "no_speech"
    sure = Heard(start=0.0, end=1.0, text="you", no_speech=0.9, mean_logprob=-0.2)
    assert made_up(sure, SPEAKING) == ""
