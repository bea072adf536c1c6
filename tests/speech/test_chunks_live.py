from __future__ import annotations

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.speech import audio as live_utterances
from edgewise.speech.audio import (
    LONGEST_UTTERANCE_S as LONGEST_S,
)
from edgewise.speech.audio import (
    RATE,
    Chunk,
    LiveUtterances,
)
from tests.flows.live_sound import LoudnessActivity, Samples, pause, spoken


@pytest.fixture(autouse=True)
def loudness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_utterances, "VoiceActivity", LoudnessActivity)


def cut(sound: Samples, sizes: list[int] | None = None) -> list[Chunk]:
    """Every utterance, as a flow takes them."""
    utterances, found, start = LiveUtterances(), list[Chunk | None](), 0
    for size in [*(sizes or []), len(sound)]:
        for _ in utterances.feed(sound[start : start + size]):
            if utterances.ended:
                found.append(utterances.take())
            elif utterances.full:
                found.append(utterances.take(after_s=0.0))
        start += size
    for _ in utterances.flush():
        pass
    found.append(utterances.take())
    assert utterances.seconds == pytest.approx(len(sound) / RATE)
    return [chunk for chunk in found if chunk is not None]


def test_an_utterance_ends_at_a_pause_and_has_its_soft_edges() -> None:
    first, second = cut(
        numpy.concatenate([pause(2.0), spoken(1 * 100, 200), pause(1.0), spoken(300)])
    )
    assert first.start == pytest.approx(1.6, abs=0.05)
    assert first.start + first.seconds == pytest.approx(2.67 + 0.4, abs=0.1)
    assert second.start == pytest.approx(3.67 - 0.4, abs=0.1)
    assert second.start >= first.start + first.seconds - 1e-6, "no sound belongs to two"


def test_a_short_pause_ends_nothing_and_a_click_is_nobody() -> None:
    assert len(cut(numpy.concatenate([spoken(100), pause(0.4), spoken(200), pause(1.0)]))) == 1
    click = numpy.full(300, 0.5, "float32")
    assert cut(numpy.concatenate([pause(1.0), click, pause(2.0)])) == []
    assert cut(pause(3.0)) == [] and cut(pause(0.0)) == []


def test_one_without_an_end_is_cut_and_nothing_of_it_is_lost() -> None:
    sound = spoken(*range(100, 220))  # 40 s
    chunks = cut(sound)
    assert all(chunk.seconds <= LONGEST_S + 0.2 for chunk in chunks)
    assert numpy.array_equal(numpy.concatenate([chunk.samples for chunk in chunks]), sound)


def test_a_cut_comes_after_the_confirmed_words() -> None:
    utterances = LiveUtterances()
    for _ in utterances.feed(spoken(*range(100, 140))):
        if utterances.full:
            chunk = utterances.take(after_s=9.0)
            break
    assert chunk is not None and 9.0 <= chunk.start + chunk.seconds < 9.3


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 20_000), max_size=20))
def test_chunks_of_any_size_give_the_same_utterances(sizes: list[int]) -> None:
    sound = numpy.concatenate(
        [pause(0.3), spoken(100, 200, 300), pause(0.9), spoken(400), pause(0.7), spoken(500, 600)]
    )
    one, other = cut(sound), cut(sound, sizes)
    assert [(each.start, each.voice) for each in one] == [
        (each.start, each.voice) for each in other
    ]
    for before, after in zip(one, other, strict=True):
        assert numpy.array_equal(before.samples, after.samples)


def test_only_the_open_utterance_is_kept() -> None:
    utterances = LiveUtterances()
    for _ in range(60):
        for _ in utterances.feed(pause(10.0)):
            assert len(utterances._sound) <= RATE
    assert utterances.seconds == 600
