from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.speech.words import (
    LONGEST_S,
    into_utterances,
)
from edgewise.testing import heard
from edgewise.types.transcripts import Heard, Word


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
