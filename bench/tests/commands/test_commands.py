"""`edgewise bench`: what the commands print, and where they write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgewise.decide.calibration import parse_calibration
from edgewise.local.store.store import InstalledModel
from edgewise_bench.commands import bench

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
