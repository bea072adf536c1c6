from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from training.fit_difficulty import Case, fit, half_of, main, read_cases, read_tools

from edgewise.calls.prompt import (
    render_prompt,
    render_tools,
)
from edgewise.types.messages import Tool

LAMP = Tool(
    "lamp.set",
    "Set a lamp",
    {
        "type": "object",
        "required": ["room"],
        "properties": {
            "room": {"type": "string", "description": "Which room"},
            "mode": {"enum": ["warm", "cold"], "default": "warm"},
            "spots": {
                "type": "array",
                "items": {"type": "object", "properties": {"level": {"type": "integer"}}},
            },
            "when": {
                "type": "object",
                "required": ["hour"],
                "properties": {"hour": {"type": "integer"}},
            },
        },
    },
)


def test_tools_are_read_back_from_their_prompt() -> None:
    bare = Tool("bare", "", {"type": "object", "properties": {}})
    again = read_tools(render_tools([LAMP, bare]))
    assert [tool.name for tool in again] == ["lamp.set", "bare"]
    assert render_tools(again) == render_tools([LAMP, bare])


def test_one_tool_is_never_in_both_halves() -> None:
    cases = [Case("x", (LAMP,), f"{name} {{}}", "") for name in ("lamp.set", "lampSet", "lamp_set")]
    assert len({half_of(case) for case in cases}) == 1


def hard_and_easy() -> list[Case]:
    names = [f"tool{number}" for number in range(40)]
    return [
        Case(
            " and ".join([f"{name} please"] * (1 + 4 * hard)),
            (Tool(name, "", {"type": "object", "properties": {}}),),
            f"{name} {{}}",
            "",
        )
        for name in names
        for hard in (0, 1)
    ]


def test_what_is_hard_is_learned_and_carries_to_other_tools() -> None:
    cases = hard_and_easy()
    fitted = fit(cases, [" and " in case.request for case in cases])
    assert fitted.auroc == 1.0
    assert fitted.tiers["local"][1] == 0.0 and fitted.tiers["cloud_first"][1] == 1.0


def test_the_command_prints_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases, predictions = tmp_path / "cases.jsonl", tmp_path / "predictions.jsonl.gz"
    made = hard_and_easy()
    with cases.open("w", encoding="utf-8") as file, gzip.open(predictions, "wt") as answers:
        for case in made:
            prompt = render_prompt(case.tools, case.request)
            row = {"prompt": prompt, "answer": case.answer, "kind": "k"}
            file.write(json.dumps(row) + "\n")
            answers.write(json.dumps({"exact": " and " not in case.request}) + "\n")
    assert [case.request for case in read_cases(cases)] == [case.request for case in made]
    main(["--cases", str(cases), "--predictions", str(predictions)])
    printed = capsys.readouterr().out
    folder = tmp_path / "answers"
    folder.mkdir()
    with (folder / "answers-0.jsonl").open("w", encoding="utf-8") as file:
        for number, case in enumerate(made):
            wrong = " and " in case.request
            row = {"key": f"valid/{number}", "answer": "none" if wrong else case.answer}
            file.write(json.dumps(row) + "\n")
    main(["--cases", str(cases), "--predictions", str(folder)])
    assert capsys.readouterr().out == printed, "the same answers, as they are kept on a CPU"
    assert "wrong 0.500 of 80, AUROC on the other tools 1.000" in printed
    assert "    bias: float = -" in printed
