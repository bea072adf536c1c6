from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.speech.words import (
    LONGEST_S,
    Captions,
    StableText,
    WordErrors,
    compression,
    errors_by_segment,
    into_utterances,
    loop_in,
    made_up,
    plain_words,
    said_in_segments,
    without_loops,
    word_errors,
)
from edgewise.testing import heard
from edgewise.types.messages import Word
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


def test_loops_are_removed_from_text_without_words_too() -> None:
    plain = Heard(start=0.0, end=5.0, text="thank you " * 6)
    assert without_loops(plain) == ("thank you", (), True)


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=30))
def test_removing_loops_ends_and_leaves_none(words: list[str]) -> None:
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


def always(start: float, end: float) -> bool:
    return True


def words(*given: tuple[str, float, float]) -> Heard:
    timed = tuple(Word(text, start, end, 0.9) for text, start, end in given)
    text = " ".join(word.text for word in timed)
    return Heard(start=timed[0].start, end=timed[-1].end, text=text, words=timed)


def test_a_segment_that_ends_in_the_middle_of_a_sentence_is_joined_with_the_rest() -> None:
    first, second = heard("he might have been", 0.0, 2.0), heard("made amiable himself.", 2.0, 4.0)
    (whole,) = into_utterances([first, second], always)
    assert whole.text == "he might have been made amiable himself."
    assert (whole.start, whole.end, len(whole.words)) == (0.0, 4.0, 7)


def test_a_pause_after_a_sentence_ends_an_utterance() -> None:
    said = words(("Yes.", 0.0, 0.4), ("Do", 1.2, 1.4), ("you?", 1.4, 1.8))
    assert [each.text for each in into_utterances([said], always)] == ["Yes.", "Do you?"]


def test_a_short_gap_ends_one_only_where_nobody_is_heard_in_it() -> None:
    said = words(("Yes.", 0.0, 0.4), ("Do", 0.6, 0.8), ("you?", 0.8, 1.2))
    assert len(into_utterances([said], always)) == 1
    assert len(into_utterances([said], lambda start, end: False)) == 2


def test_a_breath_inside_a_sentence_does_not() -> None:
    said = words(("we", 0.0, 0.3), ("said,", 0.3, 0.8), ("perhaps", 1.2, 1.9))
    assert len(into_utterances([said], always)) == 1


def test_a_long_speech_is_cut_at_its_widest_gap() -> None:
    one = heard(" ".join(["on"] * 40), 0.0, 10.0)
    two = heard(" ".join(["and"] * 40), 10.2, 20.0)
    found = into_utterances([one, two], always)
    assert [(each.start, each.end) for each in found] == [(0.0, 10.0), (10.2, 20.0)]


def test_text_keeps_the_spelling_it_came_with() -> None:
    timed = (Word("你", 0.0, 0.2, 0.9), Word("好。", 0.2, 0.5, 0.9), Word("再见", 2.0, 2.5, 0.9))
    said = Heard(start=0.0, end=2.5, text="你好。再见", words=timed)
    assert [each.text for each in into_utterances([said], always)] == ["你好。", "再见"]


def test_stretches_without_words_stay_as_they_are() -> None:
    plain = Heard(start=0.0, end=9.0, text="nobody knows when")
    assert into_utterances([plain], always) == [plain]
    assert into_utterances([], always) == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0.05, 2.0), st.floats(0.0, 1.5)), min_size=1, max_size=60))
def test_no_word_is_lost_or_moved_and_nothing_grows_too_long(
    spans: list[tuple[float, float]],
) -> None:
    timed, now = [], 0.0
    for number, (length, gap) in enumerate(spans):
        timed.append(Word(f"w{number}", now, now + length, 0.5))
        now += length + gap
    text = " ".join(word.text for word in timed)
    said = Heard(start=0.0, end=now, text=text, words=tuple(timed))
    found = into_utterances([said], always)
    assert [word for each in found for word in each.words] == timed
    assert " ".join(each.text for each in found) == text
    assert all(each.end - each.start <= LONGEST_S for each in found)
    assert all(one.end <= two.start for one, two in itertools.pairwise(found))


def said(text: str) -> list[Word]:
    """Words of a third of a second each."""
    return [Word(token, n / 3, (n + 1) / 3, 0.9) for n, token in enumerate(text.split())]


def texts(words: object) -> str:
    assert isinstance(words, list | tuple)
    return " ".join(word.text for word in words)


def test_a_word_is_confirmed_when_two_hypotheses_in_a_row_agree_on_it() -> None:
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
def test_confirmed_words_are_found_again_and_never_said_twice(later: str, rest: str) -> None:
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
def test_confirmed_words_only_grow_whatever_the_hypotheses(offers: list[str], last: str) -> None:
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


ILL = (Word("ill", 0.0, 0.3), Word("-disposed", 0.3, 0.8, glued=True))


def test_captions_write_a_hyphen_as_it_is_spoken() -> None:
    captions = Captions()
    captions.say([Word("very", 0.0, 0.1)])
    captions.say(ILL[:1])
    captions.say(ILL[1:])
    assert captions.text == "very ill-disposed"
    assert captions.end(0) == "very ill-disposed"


def test_a_word_with_a_hyphen_is_confirmed_as_a_whole() -> None:
    text = StableText()
    assert text.offer(ILL) == ()
    misheard = (ILL[0], Word("-exposed", 0.3, 0.8, glued=True))
    assert text.offer(misheard) == (), "half a word is not shown"
    assert text.offer(misheard) == misheard


def test_a_pause_does_not_end_an_utterance_inside_a_word() -> None:
    late = (ILL[0], Word("-disposed", 0.9, 1.4, glued=True))
    said = Heard(start=0.0, end=1.4, text="ill-disposed", words=late)
    assert [each.text for each in into_utterances([said], lambda *_: True)] == ["ill-disposed"]


def test_a_loop_that_is_removed_leaves_the_hyphens() -> None:
    words = [Word("no", float(number), number + 1.0) for number in range(7)]
    said = Heard(start=0.0, end=9.0, text="no " * 7 + "ill-disposed", words=(*words, *ILL))
    assert without_loops(said)[0] == "no ill-disposed"


# -- word errors -----------------------------------------------------------------------------------


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
