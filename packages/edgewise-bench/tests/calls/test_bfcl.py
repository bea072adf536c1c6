"""`edgewise bench bfcl` on a package in miniature: its files, its checker, and a cut run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from edgewise.cli.main import cli
from edgewise.errors import SettingsError
from edgewise.settings import Settings
from edgewise.testing import ScriptedFunctionModel
from edgewise_bench.calls import bfcl
from edgewise_bench.calls.bfcl import PUBLISHED_TITLE, Plan, load_cases, measure_bfcl
from edgewise_bench.calls.bfcl_package import CATEGORIES, find_package, package_version
from edgewise_bench.commands import bench

# Right is the very call that the truth names; the model's name must be in the table.
CHECKER = """
from bfcl_eval.constants.model_config import MODEL_CONFIG_MAPPING

def ast_checker(functions, output, truth, language, category, model):
    assert not MODEL_CONFIG_MAPPING[model].underscore_to_dot and language == "python"
    return {"valid": output == truth}
"""
FUNCTION = {
    "name": "kettle.start",
    "description": "Heat water in the kettle",
    "parameters": {
        "type": "dict",
        "properties": {"degrees": {"type": "integer", "description": "How hot"}},
        "required": ["degrees"],
    },
}
SAYS = 'kettle.start {"degrees":85}'


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "unpacked"
    code = {
        "constants/enums.py": "class Language:\n    PYTHON = 'python'\n",
        "eval_checker/ast_eval/ast_checker.py": CHECKER,
    }
    for name, text in code.items():
        path = root / "bfcl_eval" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    data = root / "bfcl_eval" / "data"
    lines(data / "BFCL_v4_simple_python.json", [row("a", 85), row("b", 60)])
    truth = [
        {"id": name, "ground_truth": [{"kettle.start": {"degrees": degrees}}]}
        for name, degrees in (("a", 85), ("b", 60))
    ]
    lines(data / "possible_answer/BFCL_v4_simple_python.json", truth)
    lines(data / "BFCL_v4_irrelevance.json", [row("c", 85)])
    (root / "bfcl_eval-9.9.dist-info").mkdir()
    before = list(sys.path)
    yield root
    sys.path[:] = before
    for name in [name for name in sys.modules if name.split(".")[0] == "bfcl_eval"]:
        del sys.modules[name]


def row(name: str, degrees: int) -> dict[str, Any]:
    said = [[{"role": "user", "content": f"heat the kettle to {degrees} degrees"}]]
    return {"id": name, "question": said, "function": [FUNCTION]}


def lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in rows), "utf-8")


def plan(package: Path, *columns: str, **changes: Any) -> Plan:
    return Plan(
        package=package,
        categories=("simple_python", "irrelevance"),
        columns=columns or ("raw",),
        **changes,
    )


def test_a_call_is_right_if_the_packages_checker_says_so(package: Path, tmp_path: Path) -> None:
    chosen = plan(package, "raw", "local")
    cases = load_cases(chosen)
    assert [case.id for case in cases] == ["a", "b", "c"]
    assert cases[0].is_right([("kettle.start", {"degrees": 85})])
    assert not cases[0].is_right([])
    assert cases[2].is_right([])
    function_model = ScriptedFunctionModel([SAYS])
    outcome = measure_bfcl(
        Settings.load(), chosen, cases, tmp_path / "a.jsonl", function_model=function_model
    )
    found = outcome.metrics()
    assert (found["raw_simple_python"], found["raw_irrelevance"]) == (50.0, 0.0)
    assert {"simple_python", "irrelevance", "latency_ms_p50", "auroc", "coverage_95"} <= set(found)
    assert found["cases"] == 3


def test_a_cut_run_goes_on_where_it_stopped(package: Path, tmp_path: Path) -> None:
    chosen, path = plan(package), tmp_path / "answers.jsonl"
    cases, settings = load_cases(chosen), Settings.load()
    first = ScriptedFunctionModel([SAYS])
    whole = measure_bfcl(settings, chosen, cases, path, function_model=first).metrics()
    text = path.read_text("utf-8")
    path.write_text(text[: text.index('"raw/irrelevance') + 5], "utf-8")  # killed in the last line

    steps: list[None] = []
    second = ScriptedFunctionModel([SAYS])
    again = measure_bfcl(
        settings, chosen, cases, path, lambda: steps.append(None), function_model=second
    )
    assert len(first.asked) == 4 and len(second.asked) == 2  # one to get warm
    assert len(steps) == 3
    assert again.metrics()["raw_simple_python"] == whole["raw_simple_python"]
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [each.get("key") for each in rows] == [
        None, "raw/simple_python/a", "raw/simple_python/b", "raw/irrelevance/c",
    ]  # fmt: skip


def test_runs_of_several_categories_may_be_joined(package: Path, tmp_path: Path) -> None:
    parts = []
    for category in ("simple_python", "irrelevance"):
        chosen = Plan(package=package, categories=(category,), columns=("raw",))
        parts.append(tmp_path / f"{category}.jsonl")
        function_model = ScriptedFunctionModel([SAYS])
        measure_bfcl(
            Settings.load(), chosen, load_cases(chosen), parts[-1], function_model=function_model
        )
    joined = tmp_path / "all.jsonl"
    joined.write_text("".join(part.read_text("utf-8") for part in parts), "utf-8")
    chosen, function_model = plan(package), ScriptedFunctionModel([SAYS])
    outcome = measure_bfcl(
        Settings.load(), chosen, load_cases(chosen), joined, function_model=function_model
    )
    assert len(function_model.asked) == 1, "to get warm, no case"
    assert outcome.metrics()["raw_cases"] == 3


def test_answers_of_another_policy_are_not_mixed_in(package: Path, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    lines(path, [{"made_by": {"model": "another", "policy": "local_only"}}])
    chosen = plan(package)
    with pytest.raises(SettingsError, match="give another file to --resume"):
        measure_bfcl(
            Settings.load(),
            chosen,
            load_cases(chosen),
            path,
            function_model=ScriptedFunctionModel([SAYS]),
        )


def test_a_policy_that_may_ask_the_cloud_needs_a_key(package: Path, tmp_path: Path) -> None:
    chosen = plan(package, "local", policy="prefer_local")
    with pytest.raises(SettingsError, match="no provider has a key"):
        measure_bfcl(
            Settings.load(),
            chosen,
            [],
            tmp_path / "a",
            function_model=ScriptedFunctionModel([SAYS]),
        )


def test_the_command_prints_the_published_figures_beside(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bfcl, "open_function_model", lambda settings: ScriptedFunctionModel([SAYS]))
    arguments = ["bfcl", "--package", str(package), "--categories", "simple_python"]
    arguments += ["--limit", "1", "--resume", str(tmp_path / "answers.jsonl")]
    ran = CliRunner().invoke(bench, arguments, catch_exceptions=False, env={"COLUMNS": "160"})
    assert PUBLISHED_TITLE in ran.stdout
    assert "61.6" in ran.stdout
    ran = CliRunner().invoke(bench, [*arguments, "--save", str(tmp_path), "--json"])
    card = json.loads(ran.stdout)
    assert card == json.loads((tmp_path / "bfcl.json").read_text("utf-8"))
    assert card["command"] == "edgewise bench bfcl --categories simple_python --limit 1"
    assert card["versions"]["bfcl_eval"] == "9.9"
    assert card["metrics"]["cases"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--package", "."), "holds no bfcl_eval/data"),
        (("--categories", "multi_turn"), "is not among simple_python"),
    ],
)
def test_what_cannot_be_run_is_said(arguments: tuple[str, ...], words: str) -> None:
    ran = CliRunner().invoke(cli, ["bench", "bfcl", *arguments])
    assert ran.exit_code == 2
    assert words in ran.output


def test_a_missing_package_or_category_says_what_to_do(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"pip install .*--no-deps bfcl-eval"):
        find_package()
    with pytest.raises(SettingsError, match=r"BFCL_v4_multiple\.json: not in this"):
        load_cases(Plan(package=package, categories=("multiple",)))
    assert package_version(package) == "9.9"
    assert package_version(package / "bfcl_eval") == ""


def test_every_published_category_is_one_of_ours() -> None:
    assert set(bfcl.PUBLISHED) == set(CATEGORIES)
