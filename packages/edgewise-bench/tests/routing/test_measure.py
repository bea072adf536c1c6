"""`edgewise bench routing`: what it prints, draws and keeps, on made-up outcomes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgewise import parts
from edgewise.errors import SettingsError
from edgewise.testing import ScriptedEmbedder
from edgewise_bench.commands import bench
from edgewise_bench.routing import frozen
from routing.made_outcomes import write_outcomes

FROZEN = ["routing", "--traces", "no such folder"]  # our own traces are not looked at here


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGEWISE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(parts, "open_embedder", lambda settings: ScriptedEmbedder())
    monkeypatch.setattr(frozen, "ROUNDS", 50)  # intervals are not looked at here
    return write_outcomes(tmp_path / "data", rows=60)


def test_it_prints_saves_and_draws_what_it_found(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    arguments = [*FROZEN, "--data", str(data), "--plots", str(tmp_path), "--save", str(tmp_path)]
    result = CliRunner().invoke(bench, [*arguments, "--json"], catch_exceptions=False)
    card = json.loads(result.stdout)
    assert list(card) == ["name", "command", "versions", "date", "metrics"]
    assert card["command"] == "edgewise bench routing --data DIR"  # nobody's folders
    assert {"mmlu_apgr", "gsm8k_apgr", "llmrouter_apgr"} <= set(card["metrics"])
    assert json.loads((tmp_path / "routing.json").read_text("utf-8")) == card
    assert (tmp_path / "routing_deferral.png").read_bytes().startswith(b"\x89PNG")


def test_a_second_run_finds_the_vectors_and_the_same_figures(data: Path) -> None:
    arguments = [*FROZEN, "--data", str(data), "--json"]
    first, second = (
        json.loads(CliRunner().invoke(bench, arguments, catch_exceptions=False).stdout)["metrics"]
        for _ in range(2)
    )
    assert first == second


def test_variants_are_a_scorecard_of_their_own(data: Path, tmp_path: Path) -> None:
    arguments = ["routing", "--data", str(data), "--study", "--save", str(tmp_path)]
    result = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    assert "mmlu_apgr_words" in result.stdout
    card = json.loads((tmp_path / "routing_study.json").read_text("utf-8"))
    assert card["command"] == "edgewise bench routing --data DIR --study"


def test_without_data_it_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"no folder 'routellm'"):
        CliRunner().invoke(bench, [*FROZEN, "--data", str(tmp_path)], catch_exceptions=False)
    result = CliRunner().invoke(bench, ["routing", "--traces", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert "nothing to measure without --data" in result.stderr
