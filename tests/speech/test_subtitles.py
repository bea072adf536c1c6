from __future__ import annotations

import itertools

from edgewise.speech.words import LINE, LONGEST_S, as_srt, as_vtt, cues
from edgewise.types.messages import Word
from edgewise.types.transcripts import Segment, text_of


def segment(text: str, start: float, end: float, *, words: bool = True) -> Segment:
    tokens = text.split()
    step = (end - start) / max(1, len(tokens))
    timed = tuple(
        Word(token, start + index * step, start + (index + 1) * step)
        for index, token in enumerate(tokens)
    )
    return Segment(id=0, start=start, end=end, text=text, words=timed if words else ())


def test_srt_numbers_its_cues_and_writes_times_with_a_comma() -> None:
    text = as_srt([segment("Good evening.", 0.5, 1.25), segment("Bye.", 3661.0, 3662.0)])
    assert text == (
        "1\n00:00:00,500 --> 00:00:01,250\nGood evening.\n\n"
        "2\n01:01:01,000 --> 01:01:02,000\nBye.\n"
    )


def test_vtt_has_a_head_and_escapes_marks_that_mean_something() -> None:
    text = as_vtt([segment("x < y & z", 0.0, 1.0)])
    assert text == "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nx &lt; y &amp; z\n"
    assert as_vtt([]).startswith("WEBVTT")


def test_a_long_segment_becomes_cues_that_fit_and_keep_order_and_words() -> None:
    text = " ".join(f"word{number}" for number in range(60))
    found = list(cues([segment(text, 0.0, 30.0)]))
    assert " ".join(" ".join(cue.text.split()) for cue in found) == text
    for cue in found:
        assert all(len(line) <= LINE for line in cue.text.split("\n"))
        assert cue.text.count("\n") <= 1 and cue.end - cue.start <= LONGEST_S + 0.5
    assert all(one.end <= two.start + 1e-9 for one, two in itertools.pairwise(found))


def test_segments_without_words_or_text_are_one_cue_or_none() -> None:
    found = list(cues([segment("a whole one", 1.0, 2.0, words=False), segment("", 2.0, 3.0)]))
    assert [(cue.start, cue.end, cue.text) for cue in found] == [(1.0, 2.0, "a whole one")]
    assert text_of([segment("one", 0, 1), segment("", 1, 2), segment("two", 2, 3)]) == "one two"


def glued(*texts: str) -> Segment:
    """Words as Whisper reports them: a space before each, except where none is written."""
    words = tuple(
        Word(text.strip(), place / 4, (place + 1) / 4, glued=place > 0 and text[0] != " ")
        for place, text in enumerate(texts)
    )
    text = "".join(texts).strip()
    return Segment(id=0, start=0.0, end=len(texts) / 4, text=text, words=words)


def test_a_hyphen_is_written_as_in_the_plain_text() -> None:
    (cue,) = cues([glued(" He", " is", " ill", "-disposed", " and", " 50", "%", " late.")])
    assert cue.text == "He is ill-disposed and 50% late."
    assert "ill-disposed" in as_srt([glued(" ill", "-disposed")])


def test_no_line_ends_inside_a_word_with_a_hyphen() -> None:
    (cue,) = cues([glued(" Thirty characters are in here", " and", " well", "-disposed")])
    assert cue.text == "Thirty characters are in here and\nwell-disposed"


def test_a_language_without_spaces_gets_none() -> None:
    (cue,) = cues([glued("你", "好", "吗")])
    assert cue.text == "你好吗"


def test_no_word_is_left_alone_at_the_end() -> None:
    text = " ".join(["subtitles"] * 8 + ["alone"])  # one word more than fits
    first, last = cues([segment(text, 0.0, 6.0)])
    assert len(first.text.split()) == 5 and len(last.text.split()) == 4
    assert first.end == last.start
    (single,) = cues([segment("Okay.", 0.0, 1.0)])
    assert single.text == "Okay."
