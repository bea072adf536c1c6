"""A confidence judged by heads that never saw the question, nor its kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgewise.calibrate.rows import builtin_questions
from edgewise.local.store import InstalledModel
from edgewise.settings import Settings
from edgewise_bench.chat import held_out
from edgewise_bench.chat.held_out import Judged, figures, read_judged, write_judged
from edgewise_bench.commands import bench
from edgewise_bench.scorecard import reached

TRACES = Path(__file__).parents[2] / "results" / "traces"
TINY, STANDARD = "smollm2-135m-instruct-q8_0", "qwen2.5-coder-1.5b-instruct-q4_k_m"


@pytest.fixture(scope="module")
def standard() -> held_out.HeldOut:
    return held_out.read_held_out(held_out.path_of(TRACES, STANDARD))


def test_the_standard_model_knows_what_it_knows(standard: held_out.HeldOut) -> None:
    found = figures(standard.traces)
    for name in found.keys() & held_out.TARGETS.keys():
        assert reached(name, found[name], held_out.TARGETS), (name, found[name])
    assert found["auroc"] > found["auroc_kinds"] > found["auroc_before"]


def test_every_built_in_question_has_a_head_that_did_not_see_it(standard: held_out.HeldOut) -> None:
    questions = builtin_questions()
    assert len(standard.row_folds) == len(questions)
    assert {question.kind for question in questions} <= set(standard.kind_folds)
    assert {len(folds) for folds in standard.folds.values()} == {5}


def test_judged_answers_survive_their_file(tmp_path: Path) -> None:
    rows = [Judged(3, True, 0.91, 0.87, None, "sums"), Judged(4, False, 0.2, 0.1, 0.4, "words")]
    write_judged(rows, tmp_path / "some.judged.jsonl.gz")
    assert read_judged(tmp_path / "some.judged.jsonl.gz") == rows


@pytest.mark.real_model
def test_answers_given_here_are_judged_and_kept(
    default_model: InstalledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").symlink_to(Settings.load().models_dir)
    monkeypatch.setenv("EDGEWISE_CACHE_DIR", str(tmp_path))
    arguments = ["calibration", "--ask", "20", "--traces", str(TRACES), "--json"]
    card = json.loads(CliRunner().invoke(bench, arguments, catch_exceptions=False).stdout)
    assert card["command"] == "edgewise bench calibration --ask 20"
    assert card["metrics"]["questions"] <= 20
    assert 0 < card["metrics"]["auroc_kinds"] < 1
    assert card["metrics"]["traces_questions"] == 14_400  # in four digits

    # Killed while it wrote a line, it goes on with that question.
    (kept,) = (tmp_path / "bench").glob("judged-*.jsonl")
    lines = kept.read_text("utf-8").splitlines(keepends=True)
    kept.write_text("".join(lines[:-1]) + lines[-1][:20] + "\n", "utf-8")
    again = json.loads(CliRunner().invoke(bench, arguments, catch_exceptions=False).stdout)
    assert again["metrics"] == card["metrics"]


def test_without_heads_it_says_what_to_do(default_model: InstalledModel, tmp_path: Path) -> None:
    result = CliRunner().invoke(bench, ["calibration", "--traces", str(tmp_path)])
    assert result.exit_code == 2
    assert "edgewise calibrate --builtin" in result.stderr
