"""`edgewise bench tools` with a scripted model: metric names, sources, the stand-in's name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from edgewise.cli.main import cli
from edgewise.errors import ModelNotFound, SettingsError
from edgewise.parts import find_function_model
from edgewise.settings import Settings
from edgewise.testing import ScriptedFunctionModel
from edgewise.types.messages import Tool
from edgewise_bench.calls import tools
from edgewise_bench.calls.cases import CallCase
from edgewise_bench.calls.scores import Results, confidence, quality
from edgewise_bench.calls.stand_in_cloud import STAND_IN
from edgewise_bench.calls.systems import Answered
from edgewise_bench.calls.tools import Outcome, Plan, load_sets, measure_tools
from edgewise_bench.commands import bench

PROMISED = {
    "f1", "exact", "argument_accuracy", "false_call_rate", "local_share", "latency_ms_p50",
    "latency_ms_p95", "hackathon_score",
}  # fmt: skip
SURE = 'start_kettle {"degrees":85}'
CASE = CallCase("mine", "1", "go on", (Tool("go"),), (("go", {"far": 1}),), "easy")
RIGHT = Answered(calls=(("go", {"far": 1}),), sources=("local",), confidences=(0.9,), ms=100)
WRONG = Answered(calls=(("go", {"far": 2}),), sources=("cloud",), confidences=(0.4,), ms=300,
                 intents=2, cloud_asked=True)  # fmt: skip
NOTHING = Answered(confidences=(0.6,), ms=200, error="malformed")


def schema(name: str, description: str, **properties: str) -> dict[str, Any]:
    fields = {key: {"type": kind} for key, kind in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": list(fields)}
    return {"name": name, "description": description, "parameters": parameters}


KETTLE = schema("start_kettle", "Heat water in the kettle", degrees="integer")
TRAIN = schema("find_train", "Find a train to a city", city="string")
ROWS = [
    {
        "id": 1,
        "difficulty": "easy",
        "query": "heat the kettle to 85 degrees",
        "tools": [KETTLE, TRAIN],
        "expected_calls": [{"name": "start_kettle", "arguments": {"degrees": 85}}],
    },
    {
        "id": 2,
        "difficulty": "hard",
        "query": "find a train to Delft",
        "tools": [KETTLE, TRAIN],
        "expected_calls": [{"name": "find_train", "arguments": {"city": "Delft"}}],
        "flags": ["label: somebody doubts it"],
    },
]


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    path = tmp_path / "kitchen.json"
    path.write_text(json.dumps({"cases": ROWS}), "utf-8")
    return path


def measure(plan: Plan, function_model: ScriptedFunctionModel) -> Outcome:
    return measure_tools(Settings.load(), plan, *load_sets(plan), function_model=function_model)


def test_metrics_have_the_promised_names_and_others_a_prefix(cases: Path) -> None:
    plan = Plan(files=[cases], cloud_ms=0)
    found = measure(plan, ScriptedFunctionModel([SURE])).metrics()
    assert set(found) >= PROMISED
    assert set(found) >= {
        f"{name}_{key}" for name in ("regex", "raw", "hybrid") for key in PROMISED
    }
    assert {"aurc", "coverage_95", "split_broken_rate", "unflagged_f1"} <= set(found)
    assert "hybrid_cloud_share" in found
    assert found["cases"] == 2 and found["unflagged_cases"] == 1
    assert found["raw_f1"] == 0.5 and found["raw_unflagged_f1"] == 1.0
    assert found["raw_false_call_rate"] == 1.0, "it says the same whatever is on offer"
    assert found["regex_f1"] == 1.0
    assert found["local_share"] == 1.0 and found["impossible_sources"] == 0


def test_several_files_have_their_own_figures_and_a_total(cases: Path) -> None:
    other = cases.with_name("station.json")
    other.write_text(json.dumps({"cases": ROWS[1:]}), "utf-8")
    plan = Plan(files=[cases, other], columns=["raw"], cloud_ms=0)
    found = measure(plan, ScriptedFunctionModel([SURE])).metrics()
    assert found["raw_f1"] == pytest.approx(1 / 3)
    assert found["kitchen_raw_f1"] == 0.5
    assert found["station_raw_f1"] == 0.0
    assert "station_f1" in found, "the chosen policy is always measured"
    assert "station_unflagged_f1" not in found, "every label there is in doubt"
    assert "regex_f1" not in found


def test_a_doubtful_device_is_rescued_by_the_stand_in_and_the_table_says_so(
    cases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function_model = ScriptedFunctionModel.doubtful(SURE)
    monkeypatch.setattr(tools, "open_function_model", lambda settings: function_model)
    arguments = ["tools", str(cases), "--policy", "prefer_local", "--columns", "hybrid"]
    ran = CliRunner().invoke(bench, [*arguments, "--cloud-ms", "0"], catch_exceptions=False)
    assert ran.exit_code == 0
    assert f"hybrid: hybrid (prefer_local), {STAND_IN}, 0 ms an answer" in ran.stdout
    ran = CliRunner().invoke(bench, [*arguments, "--cloud-ms", "0", "--json"])
    card = json.loads(ran.stdout)
    assert card["versions"]["cloud"] == f"{STAND_IN}, 0 ms an answer"
    assert card["command"] == (
        "edgewise bench tools kitchen.json --columns hybrid --policy prefer_local"
    ), "without the folders of this machine"
    assert card["metrics"]["f1"] == 1.0
    assert card["metrics"]["cloud_share"] == 1.0
    assert card["metrics"]["local_share"] == 0.0


def test_without_a_file_our_own_thirty_requests_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    right = 'get_weather {"location":"Hanoi"}'  # what it says to all of them
    monkeypatch.setattr(
        tools, "open_function_model", lambda settings: ScriptedFunctionModel([right])
    )
    arguments = ["tools", "--columns", "raw", "--irrelevant", "0", "--json"]
    ran = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    card = json.loads(ran.stdout)
    assert card["command"] == "edgewise bench tools --columns raw --irrelevant 0"
    assert card["metrics"]["raw_cases"] == 30
    assert card["metrics"]["raw_exact"] == pytest.approx(1 / 30, abs=1e-4)
    # 25 for the device, of the 60 for calls one easy request of ten, and at most 15 for speed.
    assert 26.2 <= card["metrics"]["raw_hackathon_score"] <= 41.2


def test_without_the_hybrid_nothing_speaks_of_a_cloud(
    cases: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own_home: Path
) -> None:
    monkeypatch.setattr(
        tools, "open_function_model", lambda settings: ScriptedFunctionModel([SURE])
    )
    answers = tmp_path / "answers.jsonl"
    arguments = ["tools", str(cases), "--columns", "raw,local", "--answers", str(answers)]
    arguments += ["--save", str(tmp_path)]
    ran = CliRunner().invoke(bench, arguments, catch_exceptions=False, env={"COLUMNS": "160"})
    assert "stand-in" not in ran.stdout
    assert "full local pipeline (local_only)" in ran.stdout
    assert json.loads((tmp_path / "tools.json").read_text("utf-8"))["name"] == "tools"
    rows = [json.loads(line) for line in answers.read_text("utf-8").splitlines()]
    assert [row["system"] for row in rows] == ["raw"] * 4 + ["local"] * 4  # two irrelevant ones
    assert rows[0]["calls"] == [["start_kettle", {"degrees": 85}]]
    assert not list(own_home.rglob("*.sqlite3")), "the user's ledger stays out of it"


def test_the_turns_of_a_case_are_asked_with_messages_and_its_query_alone_without(
    tmp_path: Path,
) -> None:
    turns = [
        {"role": "user", "content": "heat the kettle to 85"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"function": {"name": "start_kettle", "arguments": '{"degrees": 85}'}}
        ]},
        {"role": "tool", "content": "done"},
        {"role": "user", "content": "make it 90"},
    ]  # fmt: skip
    kettle = {
        "name": "start_kettle",
        "parameters": {"properties": {"degrees": {"type": "integer"}}},
    }
    expected = [{"name": "start_kettle", "arguments": {"degrees": 90}}]
    rows = [{"messages": turns, "tools": [kettle], "expected_calls": expected}]
    path = tmp_path / "turns.json"
    path.write_text(json.dumps({"cases": rows}), "utf-8")
    for messages, roles in ((True, ["user", "assistant", "tool", "user"]), (False, [])):
        (case,), _ = load_sets(Plan(files=[path], messages=messages))
        assert (case.query, [one.role for one in case.messages]) == ("make it 90", roles)
    (case,), _ = load_sets(Plan(files=[path], messages=True))
    assert dict(case.messages[1].tool_calls[0].arguments) == {"degrees": 85}


def test_a_real_cloud_needs_a_key() -> None:
    with pytest.raises(SettingsError, match="no provider has a key"):
        tools.cloud_name(Settings.load(), Plan(files=[], real_cloud=True))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.json",), "no file nowhere.json"),
        (("nowhere.json", "--columns", "raw,magic"), "regex, raw, local, hybrid"),
    ],
)
def test_what_cannot_be_run_is_said(arguments: tuple[str, ...], words: str) -> None:
    ran = CliRunner().invoke(cli, ["bench", "tools", *arguments])
    assert ran.exit_code == 2
    assert words in ran.output


def test_quality_by_hand() -> None:
    results = Results([(CASE, RIGHT), (CASE, WRONG), (CASE, NOTHING)], [(CASE, RIGHT)])
    found = quality(results)
    assert found["f1"] == found["exact"] == found["argument_accuracy"] == pytest.approx(1 / 3)
    assert (found["local_share"], found["cloud_share"]) == pytest.approx((2 / 3, 1 / 3))
    assert (found["latency_ms_p50"], found["latency_ms_p95"]) == (200, 300)
    level = 0.60 / 3 + 0.15 * (1 - 200 / 500) + 0.25 * 2 / 3
    assert found["hackathon_score"] == pytest.approx(100 * level)
    assert (found["false_call_rate"], found["errors"]) == (1.0, 1.0)


def test_confidence_by_hand() -> None:
    found = confidence(Results([(CASE, RIGHT), (CASE, WRONG), (CASE, NOTHING)]))
    assert found["auroc"] == 1.0
    assert found["coverage_95"] == pytest.approx(1 / 3)
    assert found["aurc"] == pytest.approx((0 + 1 / 2 + 2 / 3) / 3)
    assert found["split_broken_rate"] == pytest.approx(1 / 3)
    assert found["rescued_f1_sent_10"] == pytest.approx(1 / 3)
    assert found["rescued_f1_sent_50"] == pytest.approx(2 / 3)


@pytest.mark.real_model
def test_the_shipped_caller_makes_a_call_of_a_plain_request(cases: Path) -> None:
    settings = Settings.load(fetch_default_model=False)
    try:
        find_function_model(settings)
    except ModelNotFound as error:
        pytest.skip(str(error))
    plan = Plan(files=[cases], columns=["local"], irrelevant=0)
    assert measure_tools(settings, plan, *load_sets(plan)).metrics()["f1"] == 1.0
