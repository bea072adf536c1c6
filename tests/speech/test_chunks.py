from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy
import pytest

from edgewise.speech.audio import (
    FRAME,
    FRAME_S,
    LONGEST_S,
    RATE,
    Chunk,
    VoiceActivity,
    cut_into_chunks,
)
from tests.speech.made_voice import Samples, noise, silence, voice


def pieces(sound: Samples, length: int = 50_000) -> Iterator[Samples]:
    for start in range(0, len(sound), length):
        yield sound[start : start + length]


def chunks(*parts: Samples, longest_s: float = LONGEST_S) -> list[Chunk]:
    return list(cut_into_chunks(pieces(numpy.concatenate(parts)), longest_s=longest_s))


def test_silence_around_speech_is_left_out_and_times_are_kept() -> None:
    (chunk,) = chunks(silence(7.0), voice(4.0), silence(7.0))
    assert 6.0 < chunk.start < 7.5
    assert 3.5 < chunk.seconds < 5.5


def test_a_long_silence_ends_a_chunk_and_a_short_one_does_not() -> None:
    assert len(chunks(voice(3.0), silence(6.0), voice(4.0, seed=1))) == 2
    assert len(chunks(voice(3.0), silence(1.0), voice(4.0, seed=1))) == 1


@pytest.mark.parametrize("longest_s", [10.0, LONGEST_S])
def test_no_chunk_is_longer_than_allowed_and_together_they_are_the_speech(longest_s: float) -> None:
    found = chunks(voice(75.0), longest_s=longest_s)
    assert all(chunk.seconds <= longest_s for chunk in found)
    assert sum(chunk.seconds for chunk in found) == pytest.approx(75.0, abs=3.0)
    for one, two in itertools.pairwise(found):
        assert two.start == pytest.approx(one.start + one.seconds, abs=2.0)
        assert two.start >= one.start + one.seconds - 1e-6, "nothing is heard twice"


def test_a_cut_is_made_in_the_silence_that_comes_late() -> None:
    first, second = chunks(voice(24.0), silence(0.8), voice(15.0, seed=1))
    assert 23.5 <= first.start + first.seconds <= 25.0
    assert second.start >= 23.9


def test_a_chunk_holds_the_samples_of_its_times() -> None:
    sound = numpy.concatenate((silence(2.0), voice(5.0), silence(2.0)))
    (chunk,) = chunks(sound)
    first = round(chunk.start * RATE)
    assert numpy.array_equal(chunk.samples, sound[first : first + len(chunk.samples)])
    part = chunk.cut(3.0, 4.0)
    assert numpy.array_equal(part, sound[3 * RATE : 4 * RATE])
    assert len(chunk.cut(0.0, 100.0)) == len(chunk.samples)


def test_noise_and_silence_hold_no_chunks() -> None:
    assert chunks(silence(10.0)) == chunks(noise(10.0)) == chunks(silence(0.01)) == []
    assert list(cut_into_chunks(iter(()))) == []


def test_pieces_of_any_length_give_the_same_chunks() -> None:
    sound = numpy.concatenate((silence(1.0), voice(8.0), silence(5.0), voice(3.0, seed=2)))
    results = [
        [(chunk.start, len(chunk.samples)) for chunk in cut_into_chunks(pieces(sound, length))]
        for length in (777, 16_000, len(sound))
    ]
    assert results[0] == results[1] == results[2]


def test_voice_activity_hears_a_voice_and_not_noise_whatever_the_pieces() -> None:
    sound = numpy.concatenate((voice(3.0), noise(3.0)))
    whole, parts = VoiceActivity(), VoiceActivity()
    at_once = whole.feed(sound)
    in_parts = [chance for piece in pieces(sound, 1000) for chance in parts.feed(piece)]
    assert len(at_once) == len(sound) // FRAME
    assert in_parts == pytest.approx(at_once, abs=1e-4)
    spoken = at_once[: int(3.0 / FRAME_S)]
    assert sum(chance > 0.35 for chance in spoken) > 0.5 * len(spoken)
    assert max(at_once[int(3.5 / FRAME_S) :]) < 0.3
