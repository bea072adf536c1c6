from __future__ import annotations

from pathlib import Path

from training.ablate import called, foreign, never

from edgewise import Engine, Settings, Tool
from edgewise.flows import write_calls
from edgewise.testing import ScriptedCaller


def row(query: str, name: str, calls: int) -> dict[str, object]:
    made = [{"name": name, "arguments": {}}] * calls
    return {"query": query, "tools": [{"name": name}], "calls": made}


def test_a_foreign_tool_takes_the_place_of_the_right_one() -> None:
    rows = [row("a", "one", 1), row("b", "two", 1), row("c", "two", 1), row("d", "three", 2)]
    assert foreign(rows) == [{"query": "b", "tools": [{"name": "one"}], "calls": []}]


def test_a_part_is_taken_out_for_the_answer_only(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    tools = [Tool("greet", "Greet somebody", schema), Tool("roll", "Throw dice")]
    device = ScriptedCaller(['greet {"to":"Ada"}'], logprobs=[[-0.5]])
    likelier = vars(write_calls)["none_is_likelier"]
    with Engine(Settings.load(data_dir=tmp_path), caller=device) as engine:
        answer = called(engine, 8, ("DOUBTED", -99.0), ("none_is_likelier", never))
        assert answer("Greet Ada", tools) == [("greet", {"to": "Ada"})]
        assert len(device.asked) == 1
        assert called(engine, 8)("Greet Ada", tools) == [("greet", {"to": "Ada"})]
    assert len(device.asked) == 3
    assert vars(write_calls)["none_is_likelier"] is likelier
