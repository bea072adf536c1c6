"""`edgewise act`: transcribed words, the calls they ask for, and the results."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy
import pytest

from edgewise import parts
from edgewise.calls.tools import as_toolbox
from edgewise.cli import act as command
from edgewise.cli import act as tools
from edgewise.cli.act import EXAMPLES, read_toolbox
from edgewise.settings import Settings
from edgewise.testing import ScriptedFunctionModel, ScriptedTranscriber, heard
from tests.cli.conftest import Run
from tests.speech.made_voice import silence, voice, wav

NOTE = 'add_note {"text":"the milk is empty"}'
WORDS = "note that the milk is empty"

Script = Callable[..., None]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """What the device will transcribe and write, without weights."""

    def same(settings: Settings, policy: str | None = None) -> Settings:
        return settings

    def scripted(words: str, *answers: str) -> None:
        transcriber = ScriptedTranscriber([[heard(words, 0.3, 1.8)] if words else []])
        monkeypatch.setattr(parts, "open_transcriber", lambda _: transcriber)
        monkeypatch.setattr(
            parts, "open_function_model", lambda _: ScriptedFunctionModel(answers or ["none"])
        )
        monkeypatch.setattr(command, "ensure_transcriber", same)
        monkeypatch.setattr(command, "ensure_function_model", same)

    return scripted


@pytest.fixture
def audio(tmp_path: Path) -> str:
    path = tmp_path / "request.wav"
    path.write_bytes(wav(voice(2.0), silence(0.5)))
    return str(path)


def notes(own_home: Path) -> str:
    path = own_home / "data" / "notes.txt"
    return path.read_text("utf-8") if path.is_file() else ""


def test_what_was_heard_and_chosen_is_shown_and_the_result_is_on_standard_output(
    run: Run, script: Script, audio: str, own_home: Path
) -> None:
    script(WORDS, NOTE)
    ran = run("act", "--local", "--file", audio, "--yes")
    assert ran.code == 0
    assert f"heard   {WORDS}" in ran.err and "device · confidence 0." in ran.err
    assert f"call    {NOTE}" in ran.err and "add_note: device · confidence" in ran.err
    assert ran.out.startswith("result  add_note: noted in ")
    assert "the milk is empty" in notes(own_home)


def test_what_is_in_doubt_does_not_run_with_yes(
    run: Run, script: Script, audio: str, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(WORDS, NOTE)
    doubtful = ScriptedFunctionModel.doubtful(NOTE)
    monkeypatch.setattr(parts, "open_function_model", lambda _: doubtful)
    found = run("act", "--local", "--file", audio, "--yes", "--json").json
    assert not found["ran"] and not notes(own_home)
    assert found["calls"]["results"][0]["error"].startswith("not run: in doubt (add_note: ")
    assert run("act", "--local", "--file", audio, "--always", "--json").json["ran"]
    assert "the milk is empty" in notes(own_home)


def test_nothing_runs_unasked(run: Run, script: Script, audio: str, own_home: Path) -> None:
    script(WORDS, NOTE)
    ran = run("act", "--local", "--file", audio)
    assert (ran.code, ran.out) == (0, "") and "not run: there is nobody to ask" in ran.err
    ran = run("act", "--local", "--file", audio, "--json")
    assert not ran.json["ran"] and ran.json["calls"]["tool_calls"][0]["name"] == "add_note"
    assert not notes(own_home)


@pytest.mark.parametrize(("answer", "runs"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_a_person_is_asked(
    run: Run,
    script: Script,
    audio: str,
    own_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    runs: bool,
) -> None:
    script(WORDS, NOTE)
    asked: list[str] = []

    def confirm(question: str, **_: Any) -> bool:
        asked.append(question)
        return answer == "y\n"

    monkeypatch.setattr("edgewise.cli.act.click.confirm", confirm)
    monkeypatch.setattr("edgewise.cli.call.is_attended", lambda: True)
    run("act", "--local", "--file", audio)
    assert asked == ["run     1 call?"]
    assert bool(notes(own_home)) == runs


def test_json_has_what_was_heard_the_calls_and_the_results(
    run: Run, script: Script, audio: str
) -> None:
    script(WORDS, NOTE)
    found = run("act", "--local", "--file", audio, "--yes", "--json").json
    assert found["heard"]["response"] == WORDS and 0 < found["heard"]["confidence"] < 1
    (call,) = found["calls"]["tool_calls"]
    assert (call["name"], call["source"]) == ("add_note", "local")
    assert found["ran"] and "noted in" in found["calls"]["results"][0]["value"]


def test_the_tools_words_are_what_the_transcriber_listens_for(
    run: Run, script: Script, audio: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(WORDS, "none")
    transcriber = ScriptedTranscriber([[heard(WORDS, 0.3, 1.8)]])
    monkeypatch.setattr(parts, "open_transcriber", lambda _: transcriber)
    drinks = tmp_path / "drinks.py"
    drinks.write_text(
        "from typing import Literal\n\n"
        "def order(drink: Literal['iced mocha', 'latte']) -> str:\n"
        '    """Order a drink."""\n    return drink\n'
    )
    run("act", "--local", "--tools", str(drinks), "--file", audio, "--json")
    run("act", "--local", "--tools", str(drinks), "--file", audio, "--json", "--hint", "mine")
    assert [one.hint for one in transcriber.listened] == ["iced mocha, latte", "mine"]


def test_a_name_that_was_hardly_heard_is_in_doubt(
    run: Run, script: Script, audio: str, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(WORDS, NOTE)
    unsure = ScriptedTranscriber([[heard(WORDS, 0.3, 1.8, 0.4)]])
    monkeypatch.setattr(parts, "open_transcriber", lambda _: unsure)
    found = run("act", "--local", "--file", audio, "--yes", "--json").json
    assert not found["ran"] and not notes(own_home)
    assert "was heard at 0.40" in found["calls"]["results"][0]["error"]


def test_nothing_heard_and_nothing_to_call_are_said(run: Run, script: Script, audio: str) -> None:
    script("")
    ran = run("act", "--local", "--file", audio, "--yes")
    assert (ran.code, ran.out) == (0, "") and "heard   nothing" in ran.err
    script("who painted the Mona Lisa", "none")
    ran = run("act", "--local", "--file", audio, "--yes")
    assert (ran.code, ran.out) == (0, "") and "no tool fits this" in ran.err
    script("")
    assert run("act", "--local", "--file", audio, "--json").json["calls"] is None


def test_a_tool_that_fails_says_so_and_does_not_stop_the_rest(
    run: Run, script: Script, audio: str
) -> None:
    script("set a timer for 0 minutes", 'set_timer {"minutes":0}')
    ran = run("act", "--local", "--file", audio, "--yes")
    assert ran.code == 0
    assert "set_timer" in ran.out and ("failed" in ran.out or "not run" in ran.out)


def test_a_microphone_is_listened_to_until_a_pause(
    run: Run, script: Script, monkeypatch: pytest.MonkeyPatch, own_home: Path
) -> None:
    taken: list[float] = []

    def endless() -> Any:
        sound = numpy.concatenate([voice(2.0), silence(60.0)])
        for start in range(0, len(sound), 1600):
            taken.append(start / 16_000)
            yield sound[start : start + 1600], 0.0

    @contextmanager
    def opened(*_: Any) -> Any:
        yield endless()

    script(WORDS, NOTE)
    monkeypatch.setattr(command, "open_source", opened)
    ran = run("act", "--local", "--yes")
    assert ran.code == 0 and "speak; a pause ends it" in ran.err
    assert taken[-1] < 10
    assert "the milk is empty" in notes(own_home)


def test_tools_are_examples_python_files_or_json(tmp_path: Path) -> None:
    assert set(read_toolbox("examples").functions) == {each.__name__ for each in EXAMPLES}
    python = tmp_path / "mine.py"
    python.write_text(
        "from os.path import join\n\n\ndef _hidden() -> None: ...\n\n\n"
        'def double(number: int) -> int:\n    """Double a number."""\n    return 2 * number\n'
    )
    box = read_toolbox(str(python))
    assert list(box.functions) == ["double"] and box.tools[0].description == "Double a number."
    described = tmp_path / "tools.json"
    described.write_text(json.dumps([{"name": "fly", "description": "Fly", "parameters": {}}]))
    assert not read_toolbox(str(described)).functions


def test_calls_of_described_tools_are_shown_and_not_run(
    run: Run, script: Script, audio: str, tmp_path: Path
) -> None:
    described = tmp_path / "tools.json"
    schema = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    }
    tool = {"name": "add_note", "description": "Write down a note", "parameters": schema}
    described.write_text(json.dumps([tool]))
    script(WORDS, NOTE)
    ran = run("act", "--local", "--file", audio, "--yes", "--tools", str(described))
    assert f"call    {NOTE}" in ran.err and "JSON only describes tools" in ran.err and not ran.out


def test_tools_that_cannot_be_read_are_refused(run: Run, tmp_path: Path) -> None:
    broken, empty = tmp_path / "broken.py", tmp_path / "empty.py"
    broken.write_text("raise RuntimeError('oh no')")
    empty.write_text("x = 1")
    for file, words in (
        (broken, "oh no"),
        (empty, "no public functions"),
        (tmp_path / "no.py", "no file"),
    ):
        ran = run("act", "--tools", str(file), "--file", "x.wav")
        assert ran.code == 2 and words in ran.err


def test_every_example_describes_itself_and_its_arguments() -> None:
    box = as_toolbox(tools.EXAMPLES)
    for tool in box.tools:
        assert tool.description.endswith("."), tool.name
        for name, field in tool.parameters.get("properties", {}).items():
            assert field.get("description"), f"{tool.name}.{name}"
    assert all(inspect.isfunction(each) for each in tools.EXAMPLES)


def test_notes_are_kept_listed_and_found(own_home: Path) -> None:
    assert tools.list_notes() == []
    tools.add_note("the milk\nis empty")
    tools.add_note("call Zoë")
    first, second = tools.list_notes()
    assert first.endswith("the milk is empty") and second.endswith("call Zoë")
    assert tools.find_notes("MILK") == [first]
    assert (own_home / "data" / "notes.txt").is_file()


def test_a_timer_rings_when_it_is_up_and_nobody_waits_for_it(own_home: Path) -> None:
    begun = time.monotonic()
    assert tools.set_timer(seconds=0.2).startswith("rings at ")
    log = own_home / "data" / "timers.txt"
    while not (log.is_file() and log.read_text()):
        assert time.monotonic() < begun + 30, "it never rang"
        time.sleep(0.02)
    assert "the timer of 0.2 s is up" in log.read_text()
    assert tools._TIMERS[-1].wait(30) == 0


@pytest.mark.parametrize("minutes", [0, -1, 100_000, float("nan")])
def test_a_timer_of_no_length_or_of_days_is_refused(minutes: float) -> None:
    with pytest.raises(ValueError, match="at most a day"):
        tools.set_timer(minutes=minutes)


def test_the_machine_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "GB free of" in tools.get_disk_space()
    assert str(time.localtime().tm_year) in tools.get_time()
    monkeypatch.setattr(tools, "POWER", tmp_path)
    assert tools.get_battery_level() == "no battery was found"
    (tmp_path / "BAT0").mkdir()
    (tmp_path / "BAT0" / "capacity").write_text("87\n")
    assert tools.get_battery_level() == "87 %"
