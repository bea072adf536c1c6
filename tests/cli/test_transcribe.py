from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from edgewise.cli import setup
from edgewise.cli import transcribe as command
from edgewise.engine import Engine
from edgewise.settings import Settings
from edgewise.testing import Answer, LoopbackCloud, ScriptedTranscriber, heard
from tests.cli.conftest import Run
from tests.speech.made_voice import silence, voice, wav

TWO = [heard("The first part.", 0.2, 2.0, 0.97), heard("Mumble mumble.", 2.6, 4.4, 0.15)]
KEY = "sk-never-shown-5512"


@pytest.fixture
def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of a synthetic voice, which a scripted transcriber hears as two segments."""
    monkeypatch.setattr(command, "ensure_transcriber", lambda settings, policy=None: settings)
    monkeypatch.setattr(
        command, "Engine", lambda settings: Engine(settings, transcriber=ScriptedTranscriber([TWO]))
    )
    path = tmp_path / "talk.wav"
    path.write_bytes(wav(silence(0.5), voice(5.0), silence(0.5)))
    return path


def test_the_words_go_to_standard_output_and_the_rest_to_standard_error(
    run: Run, talk: Path
) -> None:
    ran = run("transcribe", "--local", str(talk))
    assert ran.code == 0
    assert ran.out == "The first part.\nMumble mumble.\n"
    assert "device" in ran.err and "confidence" in ran.err and "parts in doubt" in ran.err


def test_why_says_which_segments_are_in_doubt_and_what_is_written_there(
    run: Run, talk: Path
) -> None:
    ran = run("transcribe", "--local", "--why", str(talk))
    (doubted,) = re.findall(r"\n  (0:\d\d local .*)\n      (.*)\n", ran.err)
    assert re.fullmatch(r"0:03 local · device's confidence 0\.\d\d(?: \(unverified\))?", doubted[0])
    assert doubted[1] == "Mumble mumble."
    assert "The first part." not in ran.err


def test_several_files_are_told_apart_by_their_names(run: Run, talk: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.wav"
    other.write_bytes(talk.read_bytes())
    ran = run("transcribe", "--local", str(talk), str(other))
    words = "The first part.\nMumble mumble.\n"
    assert ran.out == f"==> {talk} <==\n{words}==> {other} <==\n{words}"
    assert [line.split(" · ")[0] for line in ran.err.splitlines()] == [f"└ {talk}", f"└ {other}"]
    rows = run("transcribe", "--local", "--format", "json", str(talk), str(other)).lines
    assert [row["file"] for row in rows] == [str(talk), str(other)]
    one = run("transcribe", "--local", str(talk))
    assert one.out == words and str(talk) not in one.err


def test_subtitles_of_several_files_are_not_mixed_and_none_is_overwritten(
    run: Run, talk: Path, tmp_path: Path
) -> None:
    other = tmp_path / "deeper" / talk.name
    other.parent.mkdir()
    other.write_bytes(talk.read_bytes())
    mixed = run("transcribe", "--format", "srt", str(talk), str(other))
    assert mixed.code == 2 and "--format srt: several files need --output DIR" in mixed.err
    folder = tmp_path / "subtitles"
    twice = run("transcribe", "--output", str(folder), str(talk), str(other))
    assert twice.code == 2 and f"would both be written to {folder / 'talk.txt'}" in twice.err
    assert not folder.exists()


def test_json_is_one_object_and_several_files_are_a_list(run: Run, talk: Path) -> None:
    one = run("transcribe", "--json", str(talk)).json
    assert one["file"] == str(talk) and one["source"] == "local"
    assert [segment["text"] for segment in one["segments"]] == ["The first part.", "Mumble mumble."]
    assert {"start", "end", "probability"} <= set(one["segments"][0]["words"][0])
    assert len(run("transcribe", "--json", str(talk), str(talk)).json) == 2


@pytest.mark.parametrize(
    ("style", "ending", "start"),
    [
        ("text", "txt", "The"),
        ("srt", "srt", "1\n00:00:"),
        ("vtt", "vtt", "WEBVTT"),
        ("json", "json", "{"),
    ],
)
def test_each_format_can_be_written_to_a_folder(
    run: Run, talk: Path, tmp_path: Path, style: str, ending: str, start: str
) -> None:
    folder = tmp_path / "new" / "folder"
    ran = run("transcribe", "--format", style, "--output", str(folder), str(talk))
    written = folder / f"talk.{ending}"
    assert ran.out.strip() == str(written)
    assert written.read_text("utf-8").startswith(start)
    assert run("transcribe", "--format", style, str(talk)).out.startswith(start)


def test_a_key_for_this_run_corrects_what_is_in_doubt_and_is_shown_nowhere(
    run: Run, talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LoopbackCloud() as cloud:
        cloud.always(Answer(text="The second part."))
        monkeypatch.setenv("OPENAI_BASE_URL", cloud.openai_url)
        ran = run("transcribe", "--why", "--cloud-key", f"openai={KEY}", str(talk))
        (seen,) = cloud.requests
    assert ran.out == "The first part.\nThe second part.\n"
    assert "- Mumble mumble." in ran.err and "+ The second part." in ran.err
    assert KEY not in ran.out + ran.err
    assert KEY in str(seen.headers)
    assert KEY not in repr(Settings.load())


def test_a_key_without_a_provider_is_known_by_how_it_begins_or_refused(
    run: Run, talk: Path
) -> None:
    given = command.with_key(Settings.load({}), "AIzaSomething")
    assert given.environment["GEMINI_API_KEY"] == "AIzaSomething"
    ran = run("transcribe", "--cloud-key", "what-is-this", str(talk))
    assert ran.code == 2 and "PROVIDER=KEY" in ran.err and "what-is-this" not in ran.err


def test_one_bad_file_does_not_stop_the_others(run: Run, talk: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.wav"
    empty.write_bytes(b"")
    ran = run("transcribe", "--local", str(empty), str(talk))
    assert ran.code == 2
    assert "The first part." in ran.out and "empty" in ran.err
    found = run("transcribe", "--json", str(empty), str(talk)).json
    assert [each["success"] for each in found] == [False, True]


@pytest.mark.parametrize("name", ["missing.wav", "diary.wav"])
def test_a_file_that_cannot_be_transcribed_is_a_line_and_a_code(
    run: Run, talk: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "diary.wav").write_text("dear diary " * 40)
    ran = run("transcribe", str(tmp_path / name))
    assert ran.code == 2 and name in ran.err and "[invalid_request]" in ran.err
    assert json.loads(run("transcribe", "--json", str(tmp_path / name)).out)["success"] is False


def test_clocks_are_minutes_and_hours() -> None:
    assert [command.clock_of(each) for each in (5, 65, 3661)] == ["0:05", "1:05", "1:01:01"]


def test_nothing_is_fetched_for_a_file_that_is_not_there(run: Run, no_model: Path) -> None:
    ran = run("transcribe", "--local", "nowhere.wav")
    assert ran.code == 2
    assert ran.err == "edgewise: there is no file 'nowhere.wav' [invalid_request]\n"
    assert not no_model.exists()


def test_without_the_extra_nothing_is_fetched(
    run: Run, no_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "av", None)
    sound = tmp_path / "talk.wav"
    sound.write_bytes(b"RIFF")
    ran = run("transcribe", str(sound))
    assert ran.code == 1
    assert "Getting" not in ran.err
    assert "PyAV is not installed: it comes with " in ran.err


def test_a_hint_reaches_the_transcriber(
    run: Run, talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcriber = ScriptedTranscriber([TWO])
    monkeypatch.setattr(
        command, "Engine", lambda settings: Engine(settings, transcriber=transcriber)
    )
    run("transcribe", "--local", "--hint", "Kubernetes, Zürich", str(talk))
    run("listen", "--local", "--hint", "Kubernetes, Zürich", "--file", str(talk))
    assert {one.hint for one in transcriber.listened} == {"Kubernetes, Zürich"}
