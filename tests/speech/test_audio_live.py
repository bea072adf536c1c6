from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.errors import InvalidRequest
from edgewise.speech.audio import RATE, PcmReader
from tests.speech.made_voice import voice

SOUND = voice(0.5)
WHOLE = (SOUND * 32767).astype("<i2")


def test_bytes_integers_and_floats_are_the_same_sound() -> None:
    as_bytes = PcmReader().read(WHOLE.tobytes())
    as_integers = PcmReader().read(WHOLE)
    as_column = PcmReader().read(WHOLE[:, None])
    assert as_bytes.dtype == as_integers.dtype == numpy.float32
    assert numpy.array_equal(as_bytes, as_integers) and numpy.array_equal(as_bytes, as_column)
    assert numpy.abs(as_bytes - PcmReader().read(SOUND)).max() < 1e-4


@settings(deadline=None)
@given(st.lists(st.integers(0, 999), max_size=40))
def test_samples_that_are_cut_in_two_are_put_together(sizes: list[int]) -> None:
    data, reader, parts, start = WHOLE.tobytes(), PcmReader(), [], 0
    for size in [*sizes, len(WHOLE) * 2]:
        parts.append(reader.read(data[start : start + size]))
        start += size
    assert numpy.array_equal(numpy.concatenate(parts), PcmReader().read(WHOLE))


def test_nothing_is_nothing_in_every_form() -> None:
    empty: tuple[Any, ...] = (
        b"",
        [],
        numpy.zeros(0, "float32"),
        numpy.zeros(0, "int16"),
        bytearray(),
    )
    for nothing in empty:
        assert len(PcmReader().read(nothing)) == 0
        assert len(PcmReader(48_000).read(nothing)) == 0
    assert len(PcmReader(48_000).rest()) == 0


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000])
def test_other_rates_become_the_models_own(rate: int) -> None:
    seconds = 2.0
    tone = numpy.sin(2 * numpy.pi * 300 * numpy.arange(int(seconds * rate)) / rate)
    reader = PcmReader(rate)
    parts = [reader.read(tone[start : start + 997]) for start in range(0, len(tone), 997)]
    heard = numpy.concatenate([*parts, reader.rest()])
    assert len(heard) == pytest.approx(seconds * RATE, rel=0.01)
    spectrum = numpy.abs(numpy.fft.rfft(heard))
    assert numpy.argmax(spectrum) * RATE / len(heard) == pytest.approx(300, abs=2)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 9_999), min_size=1, max_size=8))
def test_how_it_is_cut_does_not_change_what_is_resampled(sizes: list[int]) -> None:
    sound = voice(0.4)
    reader, start, parts = PcmReader(48_000), 0, []
    for size in [*sizes, len(sound)]:
        parts.append(reader.read(sound[start : start + size]))
        start += size
    whole = PcmReader(48_000)
    expected = numpy.concatenate((whole.read(sound), whole.rest()))
    found = numpy.concatenate([*parts, reader.rest()])
    assert len(found) == len(expected)
    assert numpy.abs(found - expected).max() < 1e-5


def test_what_is_no_number_is_silence_and_what_is_too_loud_is_cut() -> None:
    loud = numpy.array([numpy.nan, numpy.inf, -numpy.inf, 3.0, -3.0, 0.5], "float64")
    assert PcmReader().read(loud).tolist() == [0.0, 1.0, -1.0, 1.0, -1.0, 0.5]


@pytest.mark.parametrize(
    ("chunk", "words"),
    [
        (numpy.zeros((10, 2), "float32"), "one channel"),
        (numpy.zeros(10, "int32"), "int32"),
        (numpy.array(["sound"]), "float32 or int16"),
    ],
)
def test_what_is_not_sound_is_refused_with_its_kind(chunk: Any, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        PcmReader().read(chunk)


def test_a_rate_nobody_records_at_is_refused() -> None:
    for rate in (0, -1, 10**9):
        with pytest.raises(InvalidRequest, match="rate"):
            PcmReader(rate)
