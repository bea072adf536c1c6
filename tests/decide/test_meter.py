"""The meter: the same numbers as a slow calculation, at every moment."""

from __future__ import annotations

import base64
import statistics
import struct
import sys
from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.decide.calibration import (
    WINDOW,
    Head,
    Meter,
    Reading,
)
from edgewise.errors import SettingsError
from edgewise.types.replies import Token

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


def floats(*values: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def head(layer: int, *weights: float) -> Head:
    """Its centre is 1 and its spread 2, everywhere."""
    size = len(weights)
    return Head(layer, floats(*[1.0] * size), floats(*[2.0] * size), floats(*weights), clip=3.0)


def test_a_head_weighs_distances_in_deviations_and_none_counts_beyond_the_clip() -> None:
    assert head(1, 1.0, 10.0).of(np.array([2.0, 0.0], np.float32)) == 0.5 - 5.0
    assert head(1, 1.0, 0.0).of(np.array([1000.0, 0.0], np.float32)) == 3.0
    with pytest.raises(SettingsError, match="belongs to another model"):
        head(1, 1.0).of(np.array([2.0, 0.0], np.float32))


def test_states_are_read_where_each_token_of_the_answer_enters() -> None:
    """The first token brings the state behind the prompt, the end that of the last token."""
    meter = Meter({"state": head(4, 2.0), "before": head(5, 1.0)})
    states = [np.array([value], np.float32) for value in (5.0, 1.0, 3.0, 8.0)]
    meter.add(Token("a", state=states[0]))
    assert (meter.reading().before, meter.reading().state) == (2.0, None)
    meter.add(Token("b", state=states[1]))
    assert meter.reading().state == 0.0
    meter.add(Token("c", state=states[2]))
    assert meter.reading().state == 1.0  # the mean, 2, is half a deviation above the centre
    meter.end(states[3])
    assert meter.reading().state == 3.0
    assert meter.reading().before == 2.0
    assert meter.reading().features()["state"] == 3.0


@pytest.mark.parametrize("loaded_at", [0, 3, 9])
def test_states_of_another_process_are_read_without_loading_numpy(
    loaded_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command would wait for it longer than for the words. Another thread may load it anyway."""
    meter = Meter({"state": head(4, 2.0), "before": head(5, 1.0)})
    numpy = sys.modules["numpy"]
    monkeypatch.delitem(sys.modules, "numpy")
    for number, value in enumerate((5.0, 1.0, 3.0, 8.0)):
        if number == loaded_at:
            monkeypatch.setitem(sys.modules, "numpy", numpy)
        meter.add(Token("a", state=array("f", [value])))
    assert (meter.reading().before, meter.reading().state) == (2.0, 3.0)
    assert ("numpy" in sys.modules) == (loaded_at < 4)


def test_without_states_or_without_a_head_there_is_no_such_feature() -> None:
    plain, blind = Meter(), Meter({"state": head(4, 2.0), "before": head(5, 1.0)})
    for meter, state in ((plain, np.array([5.0], np.float32)), (blind, None)):
        meter.add(Token("a", state=state))
        meter.add(Token("b", state=state))
        meter.end(state)
        assert not {"state", "before"} & set(meter.reading().features())
        assert meter.reading().get("state", 7.0) == 7.0
