from __future__ import annotations

from pathlib import Path

import numpy
import pytest
from tests.flows.live_sound import LevelTranscriber, LoudnessActivity, pause, spoken

from edgewise import Engine, Settings
from edgewise.speech import audio
from edgewise.types.messages import Word
from edgewise.types.transcripts import LiveUpdate
from edgewise_bench.speech.measure import LiveMeasures, measure_live, plain
from edgewise_bench.speech.recordings import Document

TALK = numpy.concatenate([spoken(*range(101, 113)), pause(1.0)])


@pytest.fixture(autouse=True)
def loudness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audio, "VoiceActivity", LoudnessActivity)


def follow(tmp_path: Path, took_s: float) -> LiveMeasures:
    """Each chunk takes so long on a machine of the test's own."""
    ticks = iter(range(10**9))
    measures = LiveMeasures()
    with (
        Engine(Settings.load(data_dir=tmp_path), transcriber=LevelTranscriber()) as engine,
        engine.listen(policy="local_only") as live,
    ):
        text = measures.follow(live, TALK, lambda: next(ticks) * took_s)
    assert text == " ".join(f"w{n}" for n in range(101, 113))
    return measures


def test_the_delay_is_what_the_method_takes_and_what_the_machine_takes(tmp_path: Path) -> None:
    quick, slow = follow(tmp_path / "a", 0.0), follow(tmp_path / "b", 0.09)
    assert len(quick.delays) == len(slow.delays) == 12
    # Two hypotheses, a second apart, on sound that ends anywhere within that second.
    assert 0.6 < quick.metrics()["live_delay_ms_p50"] / 1000 < 2.5
    assert slow.metrics()["live_delay_ms_p50"] > quick.metrics()["live_delay_ms_p50"]
    assert quick.metrics()["live_real_time_factor"] == 0
    assert slow.metrics()["live_real_time_factor"] == pytest.approx(0.9, abs=0.05)


def test_a_machine_that_is_too_slow_falls_behind_and_it_shows(tmp_path: Path) -> None:
    assert follow(tmp_path, 0.5).metrics()["live_delay_ms_p95"] > 8_000


def test_a_revision_is_a_shown_word_that_changes() -> None:
    measures = LiveMeasures(seconds=60.0)
    for confirmed, pending in (
        ("", "it was"),
        ("", "It was, the beast"),  # more words and a comma: none
        ("it was the", "best"),  # one
        ("it was the", "best of times"),
        ("it was the best of times", ""),
        ("it was the best", ""),  # two: words have gone
    ):
        measures._note(LiveUpdate(confirmed=confirmed, pending=pending), now=1.0)
    measures._note(LiveUpdate(confirmed="it was the best", new_words=(Word("x", 0.0, 0.5),)), 1.0)
    assert measures.metrics()["revisions_per_minute"] == 2
    assert measures.delays == [0.5]
    assert plain("It's, well") == ["it's", "well"]


def test_all_documents_are_heard_on_the_device_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise.parts.open_transcriber", lambda _: LevelTranscriber())
    steps: list[int] = []
    document = Document("v", 0, "human", " ".join(f"w{n}" for n in range(101, 113)), TALK)
    found = measure_live(Settings.load(data_dir=tmp_path), [document] * 2, lambda: steps.append(1))
    assert found["wer_live"] == 0 and len(steps) == 2
    assert set(found) == {
        "live_delay_ms_p50", "live_delay_ms_p95", "revisions_per_minute", "live_real_time_factor",
        "wer_live",
    }  # fmt: skip
