from __future__ import annotations

import json
from pathlib import Path

import numpy
import pytest
from tests.speech.made_voice import voice

from edgewise.errors import InvalidRequest
from edgewise.speech.audio import as_wav
from edgewise.testing import ScriptedTranscriber, heard
from edgewise_bench.speech.recordings import LEVELS, Document, documents, read_clips, with_noise
from edgewise_bench.speech.traces import noisy, trace


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    rows = []
    for number in range(6):
        (tmp_path / f"{number}.wav").write_bytes(as_wav(voice(9.0, seed=number)))
        kind = "human" if number < 3 else "made"
        rows.append(
            {"path": f"{number}.wav", "text": f"text {number}", "voice": kind, "kind": kind}
        )
    path = tmp_path / "clips.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_clips_of_one_voice_become_a_document_with_all_their_words(clips: Path) -> None:
    found = list(documents(read_clips(clips)))
    assert [(each.name, each.text) for each in found] == [
        ("human-0", "text 0 text 1 text 2"),
        ("made-0", "text 3 text 4 text 5"),
    ]
    assert all(27.0 < each.seconds < 33.0 for each in found)


@pytest.mark.parametrize("noise", ["white", "pink", "babble"])
def test_noise_is_as_loud_as_its_level_says(noise: str) -> None:
    document = Document("v", 0, "human", "text", voice(6.0))
    others = [Document("w", 0, "human", "text", voice(8.0, seed=3))]
    levels = []
    for level in (20.0, 0.0):
        mixed = with_noise(document, level, noise, others, 0)
        scale = numpy.dot(mixed.samples, document.samples) / numpy.dot(
            document.samples, document.samples
        )
        added = mixed.samples / scale - document.samples
        levels.append(
            10 * numpy.log10(numpy.square(document.samples).mean() / numpy.square(added).mean())
        )
    assert levels[0] == pytest.approx(20.0, abs=4.0)
    assert levels[1] == pytest.approx(0.0, abs=4.0)
    assert with_noise(document, None, noise, others, 0) is document


def test_people_are_heard_at_every_level_and_made_voices_at_one(clips: Path) -> None:
    found = list(noisy(list(documents(read_clips(clips)))))
    assert [each.level for each in found if each.kind == "human"] == list(LEVELS)
    assert len([each for each in found if each.kind == "made"]) == 1


def test_a_trace_has_each_segments_errors(clips: Path) -> None:
    document = next(documents(read_clips(clips)))
    transcriber = ScriptedTranscriber(
        [[heard("text 0 test 1", 1.0, 8.0), heard("text 2", 20.0, 25.0)]]
    )
    found = trace(document, transcriber)
    assert (found.errors, found.words) == (1, 6)
    assert [each.errors for each in found.segments] == [1, 0]
    assert found.segments[0].rate == pytest.approx(0.25)


def test_a_list_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "clips.jsonl"
    path.write_text('{"path": "x.wav"}')
    with pytest.raises(InvalidRequest, match="not a list of recordings"):
        read_clips(path)
