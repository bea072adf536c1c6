"""`edgewise listen`: captions on standard error, the transcript on standard output."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy
import pytest
from click.testing import CliRunner

from edgewise import parts as assembly
from edgewise.cli import transcribe as command
from edgewise.cli.main import cli
from edgewise.cli.transcribe import paced
from edgewise.settings import Settings
from edgewise.speech import audio as live_utterances
from edgewise.speech.audio import as_wav
from edgewise.testing import Answer, LoopbackCloud, Status
from tests.cli.conftest import Run
from tests.flows.live_sound import LevelTranscriber, LoudnessActivity, pause, said_in, spoken

TALK = numpy.concatenate(
    [spoken(101, 102, 103), pause(), spoken(501, 502), pause(), spoken(104, 105)]
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file that the device transcribes without weights."""

    def same(settings: Settings, policy: str | None = None) -> Settings:
        return settings

    monkeypatch.setattr(live_utterances, "VoiceActivity", LoudnessActivity)
    monkeypatch.setattr(assembly, "open_transcriber", lambda _: LevelTranscriber())
    monkeypatch.setattr(command, "ensure_transcriber", same)
    path = tmp_path / "talk.wav"
    path.write_bytes(as_wav(TALK))
    return str(path)


def test_the_transcript_is_on_standard_output_and_the_captions_are_beside_it(
    run: Run, file: str
) -> None:
    ran = run("listen", "--local", "--file", file)
    assert (ran.code, ran.out) == (0, "w101 w102 w103\nw501 w502\nw104 w105\n")
    assert "0:00 w101 w102 w103 · 0." in ran.err and "0:02 w501 w502 · 0." in ran.err
    assert re.search(r"w101 w102 w103 · 0\.\d\d \(unverified\)\n", ran.err), (
        "nobody measured these ears"
    )
    assert "└ device · scripted-ears" in ran.err and "parts in doubt" in ran.err


def test_corrections_are_shown_with_what_they_replace(
    run: Run, file: str, cloud: LoopbackCloud
) -> None:
    cloud.always(lambda seen: Answer(text=said_in(seen.audio)))
    ran = run("listen", "--file", file, "--drain", "20")
    assert ran.out == "w101 w102 w103\nW501 W502\nw104 w105\n"
    assert "cloud: w501 w502 → W501 W502" in ran.err
    cloud.always(Status(400))
    ran = run("listen", "--file", file, "--drain", "20")
    assert "w501 w502" in ran.out and "0:02 not corrected: cloud_rejected" in ran.err


def test_json_has_a_line_for_each_change_and_the_transcript_last(
    run: Run, file: str, cloud: LoopbackCloud
) -> None:
    cloud.always(lambda seen: Answer(text=said_in(seen.audio)))
    *updates, last = run("listen", "--json", "--file", file, "--drain", "20").lines
    assert last["final"] and last["response"] == "w101 w102 w103 W501 W502 w104 w105"
    assert any(update["pending"] for update in updates)
    assert updates[-1]["confirmed"] == last["response"]
    corrections = [each for update in updates for each in update["corrections"]]
    assert corrections == [
        {"segment_id": 1, "cloud_result": "W501 W502", "replaced": "w501 w502", "error": ""}
    ]
    segments = [each for update in updates for each in update["new_segments"]]
    assert [each["id"] for each in segments] == [0, 1, 2]


def test_ctrl_c_is_the_end_and_the_transcript_is_printed(
    run: Run, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(blocks: Any, realtime: bool) -> Any:
        for number, pair in enumerate(paced(blocks, realtime)):
            if number == 25:
                raise KeyboardInterrupt
            yield pair

    monkeypatch.setattr(command, "paced", interrupted)
    ran = run("listen", "--local", "--file", file)
    assert ran.code == 0 and ran.out.startswith("w101 w102 w103\n") and "w104" not in ran.out


def test_real_time_is_waited_for_and_who_is_behind_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [0.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("edgewise.cli.transcribe.time.monotonic", lambda: now[0])
    monkeypatch.setattr("edgewise.cli.transcribe.time.sleep", sleep)
    chunks = paced(iter([pause(0.5)]), realtime=True)
    next(chunks)
    assert slept == [pytest.approx(0.1)]
    now[0] += 5.0
    assert next(chunks)[1] == pytest.approx(4.9)
    assert [behind for _, behind in paced(iter([pause(0.3)]), realtime=False)] == [0.0] * 3
    assert len(slept) == 1


def test_what_does_not_go_together_is_refused(run: Run, file: str) -> None:
    for words in (("--realtime",), ("--file", file, "--device", "x")):
        assert run("listen", *words).code == 2
    ran = run("listen", "--json", "--file", file, "--step", "0")
    assert (ran.code, ran.json["code"]) == (2, "invalid_request")
    ran = run("listen", "--json", "--file", "nowhere.wav")
    assert (ran.code, ran.json["code"]) == (2, "invalid_request")


def test_a_machine_without_a_microphone_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sounddevice", None)
    result = CliRunner().invoke(cli, ["listen"])
    assert result.exit_code == 1
    assert "pip install" in result.stderr and "[microphone]'" in result.stderr
