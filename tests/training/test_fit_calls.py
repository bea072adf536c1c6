from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from training.call_report import at_threshold, figures, threshold_for, without_tokens
from training.call_samples import (
    Answered,
    judge_answer,
    read_answered,
    read_prompt,
    right_calls,
)
from training.fit_calls import CALL, main, make_calibration, write_calibration

from edgewise.calls.check import CALLS, answer_confidence
from edgewise.calls.prompt import (
    parse_answer,
    render_prompt,
)
from edgewise.decide.calibration import parse_calibration
from edgewise.types.messages import Tool
from edgewise.types.replies import Token
from tests.training.made_samples import made_samples

VALVE = Tool(
    "valve.open",
    "Open a valve",
    {"type": "object", "required": ["valve"], "properties": {"valve": {"type": "string"}}},
)


def test_a_prompt_gives_back_its_request_and_tools() -> None:
    request, tools = read_prompt(render_prompt([VALVE], "open the north valve"))
    assert request == "open the north valve"
    assert [tool.name for tool in tools] == ["valve.open"]
    assert tools[0].parameters["required"] == ["valve"]


def test_each_expected_call_counts_once() -> None:
    expected = 'a {"x":1}\nb {"y":"Rome"}'
    assert right_calls(parse_answer('b {"y":"rome"}\na {"x":2}'), expected) == (True, False)
    assert right_calls(parse_answer('a {"x":1}\na {"x":1}'), expected) == (True, False)
    assert right_calls(parse_answer('a {"x":1,"z":2}'), expected) == (False,)
    assert right_calls([], expected) == (False,)
    assert right_calls([], "none") == (True,)


def test_a_malformed_answer_has_no_features() -> None:
    prompt = render_prompt([VALVE], "open the north valve")
    broken = 'valve.open {"valve":"nor'
    assert judge_answer(broken, [Token(broken)], prompt) == ()
    assert len(judge_answer("none", [Token("none")], prompt)) == 1


def kept_answers(folder: Path, *, runners_up: bool = True) -> tuple[Path, Path]:
    """Cases and answers as the generator and `training.cpu_eval` leave them, half of them wrong."""
    random = Random(5)
    cases, answers = folder / "cases.jsonl", folder / "answers"
    answers.mkdir(exist_ok=True)
    with cases.open("w", encoding="utf-8") as first, (answers / "answers-0.jsonl").open("w") as two:
        for number in range(120):
            tools = [Tool(f"open_{number % 17}", "Open it"), Tool(f"shut_{number % 17}", "Shut it")]
            right = random.random() < 0.5
            answers_right = ["none", f"{tools[0].name} {{}}"][number % 4 > 0]
            case = {
                "prompt": render_prompt(tools, "open or shut it"),
                "answer": answers_right,
                "kind": "k",
                "source": "ab"[number % 3 == 0],
            }
            told = tools[0 if right else 1].name
            texts = [told, " {}", ""]
            if number % 4 == 0:
                texts = ["none", "", ""] if right else texts
            lead = random.gauss(4.0 if right else 1.0, 1.0)
            row: dict[str, object] = {
                "key": f"valid/{number}",
                "answer": "".join(texts),
                "tokens": texts,
                "logprobs": [-0.3, -0.01, -0.01],
            }
            if runners_up:
                row["runners_up"] = [-0.3 - max(0.1, lead), -9.0, -9.0]
            if number != 7:  # not answered yet
                two.write(json.dumps(row) + "\n")
            first.write(json.dumps(case) + "\n")
    return cases, answers


def test_the_lead_on_the_runner_up_tool_is_read_and_fitted(tmp_path: Path) -> None:
    samples = list(read_answered(*kept_answers(tmp_path)))
    assert len(samples) == 119
    assert {sample.exact for sample in samples} == {True, False}
    assert all(sample.features[0]["name_margin"] >= 0.1 for sample in samples)
    calibration = make_calibration(samples, "made", {})
    assert calibration.scores["call"].weights["name_margin"] > 0.3
    assert calibration.report["held_out_tools"]["call"]["auroc"] > 0.9


def test_without_runners_up_no_margin_is_fitted(tmp_path: Path) -> None:
    samples = list(read_answered(*kept_answers(tmp_path, runners_up=False)))
    assert not {"margin", "name_margin"} & set(
        make_calibration(samples, "made", {}).scores["call"].weights
    )


def test_the_command_takes_a_folder_and_says_what_else_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases, answers = kept_answers(tmp_path)
    out = tmp_path / "made.calls.json"
    given = ["--cases", str(cases), "--name", "made", "--out", str(out), "--predictions"]
    main([*given, str(answers)])
    assert "--predictions answers" in json.loads(capsys.readouterr().out)["command"]
    parsed = parse_calibration(json.loads(out.read_text("utf-8")), out.name, CALLS)
    assert parsed.scores["call"].weights["name_margin"] > 0
    with pytest.raises(SystemExit):
        main([*given, str(cases)])
    assert "--base is needed" in capsys.readouterr().err


def test_thresholds_keep_what_they_promise() -> None:
    scores, right = [0.9, 0.8, 0.7, 0.6, 0.5], [True, True, False, True, False]
    assert threshold_for(scores, right, 0.95) == 0.8
    assert at_threshold(scores, right, 0.8) == {"precision": 1.0, "coverage": 0.4}
    assert at_threshold(scores, right, 0.6) == {"precision": 0.75, "coverage": 0.8}
    assert threshold_for([0.5], [False], 0.95) == 1.0
    assert figures([0.5, 0.6], [True, True], chances=False)["auroc"] is None


def test_without_tokens_the_words_are_left() -> None:
    (sample,) = made_samples(1)
    assert set(without_tokens(sample).features[0]) == {"ungrounded", "fit", "calls", "none"}


def test_a_fit_finds_what_matters_and_is_read_back(tmp_path: Path) -> None:
    samples = made_samples()
    tests = {"bfcl_made": Answered(samples[:50], 60), "few": Answered(samples[:3], 3)}
    calibration = make_calibration(samples, "made", tests)
    assert calibration.scores["call"].weights["ungrounded"] < 0
    assert calibration.scores["call"].weights["answer_surety"] > 0
    assert {"answer_surety", "call_surety", "call_sum", "name_surety"} & set(
        calibration.scores["none"].weights
    )
    assert set(calibration.scores["call"].weights) <= set(CALL)
    held_out = calibration.report["held_out_tools"]
    assert held_out["answer"]["auroc"] > held_out["answer_by_sum_of_logprobs"]["auroc"]
    assert set(calibration.report["never_fitted"]) == {"bfcl_made", "bfcl"}
    assert calibration.report["never_fitted"]["bfcl"]["cases"] == 60
    path = tmp_path / "made.calls.json"
    write_calibration(calibration, path)
    again = parse_calibration(json.loads(path.read_text("utf-8")), path.name, CALLS)
    for sample in samples[:20]:
        assert answer_confidence(again, sample.features) == pytest.approx(
            answer_confidence(calibration, sample.features), abs=1e-3
        )


def test_one_source_alone_has_no_other_to_be_judged_by() -> None:
    samples = [replace(sample, source="a") for sample in made_samples()]
    assert make_calibration(samples, "one", {}).report["held_out_sources"] == {}
