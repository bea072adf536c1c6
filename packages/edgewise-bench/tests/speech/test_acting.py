from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.speech.made_voice import noise, silence, voice, wav

from edgewise import Engine
from edgewise.errors import SettingsError
from edgewise.settings import Settings
from edgewise.testing import ScriptedFunctionModel, ScriptedTranscriber, heard
from edgewise_bench.commands import bench
from edgewise_bench.speech import acting

ORDER = 'orderDrink {"coffeeDrink":"mocha","size":"large"}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sounds = tmp_path / "commands"
    sounds.mkdir()
    labels = {
        name: {"intent": "orderDrink", "slots": {"coffeeDrink": "mocha", "size": " large"}}
        for name in ("a.wav", "b.wav", "c.wav", "d.wav")
    }
    for name in labels:
        (sounds / name).write_bytes(wav(voice(2.0), silence(0.5)))
    (sounds / "labels.json").write_text(json.dumps(labels))
    return sounds


def test_labels_become_commands_in_two_halves(folder: Path) -> None:
    found = acting.read_commands(folder)
    assert [one.half for one in found] == ["first", "second", "first", "second"]
    assert dict(found[0].slots) == {"coffeeDrink": "mocha", "size": "large"}
    assert found[0].said == "I would like a large mocha."
    with pytest.raises(SettingsError, match="is missing"):
        acting.read_commands(folder / "nowhere")


def test_noise_lies_12_db_below_the_voice() -> None:
    clean = voice(1.0)
    under = acting.mixed(clean, noise(3.0), 0) - clean
    ratio = (clean**2).mean() / (under**2).mean()
    assert ratio == pytest.approx(10**1.2, rel=0.05)


def test_the_least_sure_are_heard_by_a_perfect_transcriber(folder: Path, tmp_path: Path) -> None:
    stretches = [
        [heard("a large mocha", 0.3, 1.8)],
        [heard("a large mocker", 0.3, 1.8, 0.3)],
        [heard("a large mocha", 0.3, 1.8)],
        [heard("a large mocha", 0.3, 1.8)],
    ]
    wrong = 'orderDrink {"coffeeDrink":"latte"}'
    model = ScriptedFunctionModel([ORDER, wrong, ORDER, ORDER, ORDER])
    engine = Engine(
        Settings.load(data_dir=tmp_path),
        policy="local_only",
        transcriber=ScriptedTranscriber(stretches),
        function_model=model,
    )
    with engine:
        rows = acting.measure(
            engine.settings, acting.read_commands(folder), acting.read_tools(), None,
            lambda: None, engine=engine,
        )  # fmt: skip
    found = acting.figures(rows, "clean")
    assert [row.right for row in rows] == [True, False, True, True]
    assert found["clean_all_slots_right"] == 0.75 and found["clean_all_slots_right_sent"] == 1.0
    assert found["clean_seconds_sent"] == 0.25 and found["clean_surety_auroc"] == 1.0


def test_the_shipped_tool_knows_every_slot_of_an_order() -> None:
    (tool,) = acting.read_tools()
    assert {*acting.BEFORE} < {*tool.parameters["properties"]}


def test_a_folder_without_recordings_is_skipped_in_words(tmp_path: Path) -> None:
    result = CliRunner().invoke(bench, ["act", str(tmp_path), "--json"], catch_exceptions=False)
    assert result.exit_code == 0 and result.stdout == ""
    assert "skipped: there are no spoken commands here" in result.stderr
