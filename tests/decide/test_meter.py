"""The meter: the same numbers as a slow calculation, at every moment."""

from __future__ import annotations

import statistics

from hypothesis import given
from hypothesis import strategies as st

from edgewise.decide.meter import (
    WINDOW,
    Meter,
    Reading,
)
from edgewise.types.tokens import Token

tokens = st.builds(
    Token,
    text=st.just("x"),
    logprob=st.floats(-20, 0),
    margin=st.floats(0, 20),
    entropy=st.floats(0, 5),
)


def test_a_meter_that_heard_nothing_reads_nothing() -> None:
    assert Meter().reading() == Reading()


def test_text_without_evidence_is_passed_over() -> None:
    meter = Meter()
    meter.add(Token("a", -1.0))
    meter.add(Token("b", has_evidence=False))
    assert meter.reading().tokens == 1
    assert meter.reading().mean_logprob == -1.0


@given(st.lists(tokens, min_size=1, max_size=60))
def test_readings_equal_a_slow_calculation(stream: list[Token]) -> None:
    meter = Meter()
    highest = 0.0
    for count, token in enumerate(stream, start=1):
        meter.add(token)
        heard = stream[:count]
        window = statistics.fmean(t.entropy for t in heard[-WINDOW:])
        highest = max(highest, window)
        reading = meter.reading()
        logprobs = sorted(t.logprob for t in heard)
        assert reading.tokens == count
        assert abs(reading.mean_logprob - statistics.fmean(logprobs)) < 1e-9
        assert reading.min_logprob == logprobs[0]
        assert reading.q10_logprob == logprobs[int(0.1 * (count - 1))]
        assert reading.first_margin == stream[0].margin
        assert abs(reading.mean_entropy - statistics.fmean(t.entropy for t in heard)) < 1e-9
        assert abs(reading.window_entropy - window) < 1e-9
        assert abs(reading.max_window_entropy - highest) < 1e-9


def test_numbers_and_pieces_of_words_are_counted_from_the_text() -> None:
    meter = Meter()
    for text in ("Bour", "bous", "a", " is", " 7", "3", ".", ""):
        meter.add(Token(text, -1.0, margin=0.5 if text == " is" else 2.0))
    reading = meter.reading()
    assert reading.piece_share == 2 / 8  # "bous" and "a"; the first token begins a word
    assert reading.number_share == 2 / 8
    assert reading.min_margin == 0.5
