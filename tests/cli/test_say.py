from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgewise.cli.main import cli
from edgewise.local import espeak
from edgewise.speech.audio import in_wave

WORDS = "The ferry leaves at ten."


@pytest.mark.usefixtures("system_voice")
def test_a_file_is_what_its_ending_says(tmp_path: Path) -> None:
    for ending, head in (("wav", b"RIFF"), ("mp3", b"ID3"), ("", b"RIFF")):
        file = tmp_path / f"said.{ending}"
        result = CliRunner().invoke(cli, ["say", WORDS, "--local", "-o", str(file)])
        assert result.exit_code == 0 and result.stdout == ""
        assert "device" in result.stderr and "espeak-ng" in result.stderr
        assert file.read_bytes().startswith(head)


@pytest.mark.usefixtures("system_voice")
def test_a_pipe_gets_the_sound_and_gives_the_text() -> None:
    result = CliRunner().invoke(cli, ["say", "--local", "--voice", "de"], input="Guten Morgen")
    assert result.exit_code == 0
    pcm, rate = in_wave(result.stdout_bytes)
    assert len(pcm) / 2 / rate > 0.5
    assert "voice de" in result.stderr


@pytest.mark.usefixtures("system_voice")
def test_json_needs_a_file(tmp_path: Path) -> None:
    file = tmp_path / "said.wav"
    result = CliRunner().invoke(cli, ["say", WORDS, "--local", "--json", "-o", str(file)])
    told = json.loads(result.stdout)
    assert (told["file"], told["source"], told["response"]) == (str(file), "local", WORDS)
    assert told["bytes"] == file.stat().st_size
    assert CliRunner().invoke(cli, ["say", WORDS, "--json"]).exit_code == 2


def test_without_a_voice_the_line_that_installs_one_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(espeak, "find_program", lambda: "")
    result = CliRunner().invoke(cli, ["say", WORDS, "--private"])
    assert result.exit_code == 5 and "apt install espeak-ng" in result.stderr
