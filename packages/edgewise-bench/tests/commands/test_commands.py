"""`edgewise bench`: what the commands print, and where they write."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.speech.made_voice import silence, voice, wav

from edgewise.decide.calibration import parse_calibration
from edgewise.local.store import InstalledModel
from edgewise.testing import ScriptedTranscriber, heard
from edgewise_bench.commands import bench
from edgewise_bench.routing.rows import read_speech

KEYS = ["name", "command", "versions", "date", "metrics"]


def test_the_group_loads_nothing_heavy() -> None:
    script = "import sys, edgewise_bench.commands; print('\\n'.join(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(result.stdout.split())
    assert not loaded & {"numpy", "rich", "xllamacpp", "edgewise.engine", "edgewise.calibrate.fit"}


@pytest.mark.real_model
def test_calibration_fits_writes_and_reports(default_model: InstalledModel, tmp_path: Path) -> None:
    written, traces = tmp_path / "mine.json", tmp_path / "traces.jsonl"
    arguments = [
        "calibration",
        "--fit",
        "--limit",
        "20",
        "--write",
        str(written),
        "--traces",
        str(traces),
    ]
    result = CliRunner().invoke(bench, [*arguments, "--json"], catch_exceptions=False)
    card = json.loads(result.stdout)
    assert list(card) == KEYS
    assert card["command"] == "edgewise bench calibration --fit --limit 20"
    assert card["metrics"]["questions"] == 20
    document = json.loads(written.read_text("utf-8"))
    calibration = parse_calibration(document, str(written))
    assert calibration.name == "smollm2-135m-instruct-q8_0"
    assert document["sha256"] == default_model.sha256

    # Again, from the traces: the same figures, without the model.
    size = traces.stat().st_size
    again = CliRunner().invoke(bench, [*arguments, "--json"], catch_exceptions=False)
    assert json.loads(again.stdout)["metrics"] == card["metrics"]
    assert traces.stat().st_size == size


@pytest.mark.real_model
def test_overhead_prints_a_table_and_saves_its_scorecard(
    default_model: InstalledModel, tmp_path: Path, own_home: Path
) -> None:
    arguments = ["overhead", "--quick", "--save", str(tmp_path)]
    result = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    assert "tokens_per_second_ratio" in result.stdout
    assert ">= 0.97" in result.stdout
    card = json.loads((tmp_path / "overhead.json").read_text("utf-8"))
    assert list(card) == KEYS
    assert card["command"] == "edgewise bench overhead --quick"
    assert not list(own_home.rglob("*.sqlite3")), "the user's ledger stays out of it"


@pytest.mark.real_model
def test_caller_prints_one_object_and_names_its_command(default_model: InstalledModel) -> None:
    arguments = ["caller", "--quick", "--model", str(default_model.path), "--json"]
    result = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    card = json.loads(result.stdout)
    assert list(card) == KEYS
    assert card["command"] == f"edgewise bench caller --model {default_model.path} --quick"
    assert card["metrics"]["call_ms_p50"] > 0


def test_speech_can_judge_only_the_confidence_and_publish_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "what people say to one another"
    for name, words in (("right", said), ("wrong", "nothing of the kind was heard here")):
        (tmp_path / f"{name}.wav").write_bytes(wav(silence(0.5), voice(5.0), silence(0.5)))
        row = {"path": f"{name}.wav", "text": words, "voice": name, "kind": "human"}
        with (tmp_path / "clips.jsonl").open("a", encoding="utf-8") as clips:
            clips.write(json.dumps(row) + "\n")
    model = ScriptedTranscriber([[heard(said, 0.5, 4.0)]])
    monkeypatch.setattr("edgewise.parts.open_transcriber", lambda _: model)
    traces = tmp_path / "traces.jsonl.gz"
    arguments = ["speech", "--confidence-only", "--clips", str(tmp_path / "clips.jsonl"), "--json"]
    arguments += ["--work", str(tmp_path / "work"), "--traces", str(traces)]
    result = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    card = json.loads(result.stdout)
    assert card["command"] == "edgewise bench speech --clips clips.jsonl --confidence-only"
    assert card["metrics"]["segment_error_auroc"] >= 0.5
    assert not {"runtime_ratio", "live_delay_ms_p50", "deferral_gain"} & set(card["metrics"])
    published = read_speech(traces)
    assert {trace.voice for trace in published} == {"right", "wrong"}
    assert said.encode() not in gzip.decompress(traces.read_bytes())
