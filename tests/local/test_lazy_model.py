from __future__ import annotations

import pytest
from typing_extensions import override

from edgewise.local.backend import LazyTranscriber
from edgewise.testing.scripted import SCRIPTED_TRANSCRIBER_FACTS


class Timed(LazyTranscriber[None]):
    @override
    def _load(self) -> None:
        return None

    def hear(self, worked_s: float, heard_s: float) -> float | None:
        self._took(worked_s, heard_s)
        return self.facts().real_time_factor


def test_a_transcriber_knows_its_speed_when_it_has_heard_something() -> None:
    model = Timed(SCRIPTED_TRANSCRIBER_FACTS)
    assert model.facts().real_time_factor is None
    assert model.hear(0.0, 0.0) is None
    assert model.hear(3.0, 30.0) == pytest.approx(0.1)


def test_a_long_sound_counts_more_than_a_short_one() -> None:
    model = Timed(SCRIPTED_TRANSCRIBER_FACTS)
    model.hear(3.0, 30.0)
    after_a_word = model.hear(1.0, 1.0)  # the encoder works on 30 s whatever is said
    assert after_a_word == pytest.approx(4 / 31, rel=0.01)


def test_a_speed_is_forgotten_after_some_minutes_of_sound() -> None:
    model = Timed(SCRIPTED_TRANSCRIBER_FACTS)
    model.hear(300.0, 30.0)
    for _ in range(60):
        last = model.hear(3.0, 30.0)
    assert last == pytest.approx(0.1, rel=0.05)
