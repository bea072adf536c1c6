from __future__ import annotations

import json
from pathlib import Path

from training.ablate import called, foreign, never, read_cases

from edgewise import Engine, Settings, Tool
from edgewise.calls.prompt import render_prompt
from edgewise.flows import call
from edgewise.testing import ScriptedFunctionModel


def row(query: str, name: str, calls: int) -> dict[str, object]:
    made = [{"name": name, "arguments": {}}] * calls
    return {"query": query, "tools": [{"name": name}], "calls": made}


def test_a_foreign_tool_takes_the_place_of_the_right_one() -> None:
    rows = [row("a", "one", 1), row("b", "two", 1), row("c", "two", 1), row("d", "three", 2)]
    assert foreign(rows) == [{"query": "b", "tools": [{"name": "one"}], "calls": []}]


def test_a_part_is_taken_out_for_the_answer_only(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    tools = [Tool("greet", "Greet somebody", schema), Tool("roll", "Throw dice")]
    device = ScriptedFunctionModel(['greet {"to":"Ada"}'], logprobs=[[-0.5]])
    likelier = vars(call)["none_is_likelier"]
    with Engine(Settings.load(data_dir=tmp_path), function_model=device) as engine:
        answer = called(engine, ("DOUBTED", -99.0), ("none_is_likelier", never))
        assert answer("Greet Ada", tools) == [("greet", {"to": "Ada"})]
        assert len(device.asked) == 1
        assert called(engine)("Greet Ada", tools) == [("greet", {"to": "Ada"})]
    assert len(device.asked) == 3
    assert vars(call)["none_is_likelier"] is likelier


def test_a_generated_line_becomes_a_case_with_its_tools(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {
            "to": {"type": "string", "description": "Whom"},
            "loud": {"type": "boolean", "description": "Whether to shout"},
        },
        "required": ["to"],
    }
    prompt = render_prompt((Tool("greet", "Greet somebody", schema),), "Greet Ada")
    lines = [{"prompt": prompt, "answer": answer} for answer in ('greet {"to":"Ada"}', "none")]
    path = tmp_path / "valid-00000.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    served, refused = read_cases(path)
    assert served["query"] == "Greet Ada"
    assert served["tools"] == [
        {"name": "greet", "description": "Greet somebody", "parameters": schema}
    ]
    assert served["calls"] == [{"name": "greet", "arguments": {"to": "Ada"}}]
    assert refused["calls"] == []
