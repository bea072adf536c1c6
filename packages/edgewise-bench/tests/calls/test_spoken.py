"""`edgewise bench spoken` with a scripted model: forms of a request, halves, and slow machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgewise.cli.main import cli
from edgewise.settings import Settings
from edgewise.testing import ScriptedFunctionModel
from edgewise.types.messages import Tool
from edgewise_bench.calls import spoken as module
from edgewise_bench.calls.spoken import (
    Asked,
    Heard,
    SpokenCase,
    figures,
    measure_spoken,
    read_spoken,
)

TIMER = Tool("set_timer", "Set a timer", {"properties": {"minutes": {"type": "integer"}}})


def case(half: str = "second", **changes: object) -> SpokenCase:
    told: dict[str, object] = {
        "set": "phone",
        "kind": "plain",
        "say": "set a timer for 5 minutes",
        "context": {"time": "11:40"},
        "expected": (("set_timer", {"minutes": 5}),),
    }
    return SpokenCase(half=half, tools=(TIMER,), **{**told, **changes})  # type: ignore[arg-type]


def test_two_hundred_requests_ship_and_no_tool_is_in_both_halves() -> None:
    cases = read_spoken()
    assert len(cases) >= 200
    halves = {half: [one for one in cases if one.half == half] for half in module.HALVES}
    tools = {
        half: {tool.name for one in rows for tool in one.tools} for half, rows in halves.items()
    }
    assert tools["first"].isdisjoint(tools["second"])
    assert abs(len(halves["first"]) - len(halves["second"])) < 10
    assert len({one.say for one in cases}) == len(cases)


def test_every_expected_call_and_question_names_what_its_tools_have() -> None:
    for one in read_spoken():
        known = {tool.name: tool.parameters["properties"] for tool in one.tools}
        for name, given in one.expected:
            assert set(given) <= set(known[name]), one.say
        assert one.asks <= {name for fields in known.values() for name in fields}, one.say
        assert not (one.asks and one.expected), one.say


def test_what_is_said_is_written_with_a_capital_and_a_mark() -> None:
    assert case().written == "Set a timer for 5 minutes."
    assert case(say="how long is it").written == "How long is it?"


def test_each_form_is_asked_once_and_a_slow_machine_asks_nothing_new() -> None:
    model = ScriptedFunctionModel(['set_timer {"minutes":5}'], logprobs=[[-0.001]])
    (asked,) = measure_spoken(Settings.load(), [case()], function_model=model)
    assert asked.plain.is_right(asked.case) and asked.plain.kept
    assert len(asked.loaded) == len(module.LOADS) - 1
    assert len(model.asked) == 1, "this model reads one message, and that in one form"


def heard(minutes: int, *, kept: bool = True) -> Heard:
    return Heard((("set_timer", {"minutes": minutes}),), kept=kept)


def test_the_held_out_half_has_the_plain_names_and_changes_are_counted() -> None:
    rows = [
        Asked(case(), heard(5), heard(6), heard(5, kept=False), (heard(5), heard(6))),
        Asked(case("first"), heard(6), heard(6), heard(5), (heard(5, kept=False),)),
    ]
    found = figures(rows)
    assert (found["exact"], found["kept"], found["kept_right"]) == (1.0, 1.0, 1.0)
    assert (found["first_exact"], found["first_kept_right"]) == (0.0, 0.0)
    assert (found["written_exact"], found["context_kept"]) == (0.0, 0.0)
    assert found["punctuation_changes"] == 1.0
    assert found["deadline_changes_answers"] == 1.0, "an answer in doubt changes nothing"


def test_a_question_is_right_if_it_asks_for_what_is_missing() -> None:
    lacks = case(expected=(), asks=frozenset({"minutes"}))
    assert Heard(needs=frozenset({"minutes"})).is_right(lacks)
    assert not Heard().is_right(lacks)
    assert not heard(1).is_right(lacks)
    assert not Heard(needs=frozenset({"minutes"})).is_right(case())


def test_the_command_prints_a_scorecard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedFunctionModel(["none"] * 4, logprobs=[[-0.001]] * 4)
    monkeypatch.setattr(module, "open_function_model", lambda settings: model)
    answers = tmp_path / "answers.jsonl"
    arguments = ["bench", "spoken", "--limit", "2", "--json", "--answers", str(answers)]
    ran = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    card = json.loads(ran.stdout)
    assert card["command"] == "edgewise bench spoken --limit 2"
    assert card["metrics"]["requests"] == 2.0
    assert len(answers.read_text("utf-8").splitlines()) == 2
