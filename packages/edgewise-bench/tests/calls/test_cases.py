from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from edgewise.calibrate.rows import AnyOf
from edgewise.errors import SettingsError
from edgewise_bench.calls.cases import OWN_CASES, irrelevant_cases, read_cases


def tool(name: str, /, **properties: str) -> dict[str, Any]:
    fields = {key: {"type": kind} for key, kind in properties.items()}
    return {"name": name, "parameters": {"type": "object", "properties": fields}}


def write(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document), "utf-8")
    return path


def case(number: int, *tools: dict[str, Any], expected: list[Any]) -> dict[str, Any]:
    return {
        "id": number,
        "query": f"request {number}",
        "difficulty": "easy",
        "tools": list(tools),
        "expected_calls": expected,
    }


def test_reads_cases_with_their_own_tools(tmp_path: Path) -> None:
    call = {"name": "brew", "arguments": {"cups": 2}}
    row = case(7, tool("brew", cups="integer"), expected=[call]) | {"flags": ["label: odd"]}
    [found] = read_cases(write(tmp_path / "kitchen.json", {"cases": [row]}))
    assert (found.key, found.difficulty, found.flags) == ("kitchen/7", "easy", ("label: odd",))
    assert found.expected == (("brew", {"cups": 2}),)
    assert found.tools[0].parameters["properties"] == {"cups": {"type": "integer"}}


def test_reads_intents_as_calls_of_the_shared_tools(tmp_path: Path) -> None:
    document = {
        "tools": [tool("dim", level="string", area="string", name="string")],
        "cases": [
            {
                "query": "dim the big lamp to 30",
                "intent": "dim",
                "slots": {"level": 30, "area": "Attic", "name": ["lamp", "big lamp"]},
                "context": {"area": "Attic"},
            },
            {"id": "b", "query": "dim it", "intent": "dim", "arguments": {}},
        ],
    }
    first, second = read_cases(write(tmp_path / "home.json", document))
    assert first.expected == (
        ("dim", {"level": "30", "area": "Attic", "name": AnyOf(("lamp", "big lamp"))}),
    )
    assert first.flags == ("context: area is not said",)
    assert (second.id, second.expected, second.flags) == ("b", (("dim", {}),), ())


def test_a_case_may_name_tools_that_the_file_describes(tmp_path: Path) -> None:
    row = case(0, expected=[]) | {"tools": ["bake", "brew"]}
    document = {"tools": [tool("brew", cups="integer"), tool("fry"), tool("bake")], "cases": [row]}
    [found] = read_cases(write(tmp_path / "kitchen.json", document))
    assert [each.name for each in found.tools] == ["bake", "brew"]
    assert found.tools[1].parameters["properties"] == {"cups": {"type": "integer"}}


def test_our_own_thirty_requests_have_the_mix_they_promise() -> None:
    cases = read_cases(OWN_CASES)
    mix = Counter((each.difficulty, len(each.expected)) for each in cases)
    assert mix == {("easy", 1): 10, ("medium", 1): 10, ("hard", 2): 7, ("hard", 3): 3}
    assert len({tool.name for each in cases for tool in each.tools}) == 7
    assert {len(each.tools) for each in cases if each.difficulty == "easy"} == {1}
    assert {len(each.tools) for each in cases if each.difficulty != "easy"} == {2, 3, 4, 5}


def test_the_labels_of_our_own_requests_follow_their_tools_and_their_words() -> None:
    for each in read_cases(OWN_CASES):
        tools = {tool.name: tool.parameters for tool in each.tools}
        for name, arguments in each.expected:
            assert set(arguments) == set(tools[name]["required"]), each.query
            said = [value for value in arguments.values() if isinstance(value, str)]
            assert all(value in each.query for value in said), each.query


def test_a_limit_spreads_over_the_whole_file(tmp_path: Path) -> None:
    rows = [case(number, tool("brew"), expected=[]) for number in range(10)]
    found = read_cases(write(tmp_path / "many.json", {"cases": rows}), limit=3)
    assert [each.id for each in found] == ["0", "3", "6"]


def test_irrelevant_requests_have_lost_the_tools_that_they_need(tmp_path: Path) -> None:
    brew = {"name": "brew", "arguments": {}}
    rows = [
        case(0, tool("brew"), expected=[brew]),  # nothing would be left on offer
        case(1, tool("brew"), tool("bake"), expected=[brew]),
        case(2, tool("bake"), expected=[]),
    ]
    cases = read_cases(write(tmp_path / "two.json", {"cases": rows}))
    found = irrelevant_cases(cases, 10)
    assert [(each.id, [t.name for t in each.tools]) for each in found] == [
        ("1", ["bake"]),
        ("2", ["bake"]),
    ]
    assert all(each.expected == () for each in found)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no file"),
        ("[]", "not a file of function-calling cases"),
        ('{"cases": [{"query": "x"}]}', "expected_calls"),
        ('{"cases": []}', "holds no case"),
    ],
)
def test_a_file_that_will_not_do_is_named(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "cases.json"
    if content is not None:
        path.write_text(content, "utf-8")
    with pytest.raises(SettingsError, match=words) as raised:
        read_cases(path)
    assert "cases.json" in str(raised.value)


def test_both_halves_have_some_of_every_group(tmp_path: Path) -> None:
    row: dict[str, list[str]] = {"tools": [], "expected_calls": []}
    rows = [
        {**row, "query": f"{group}{number}", "file": group}
        for group, size in (("a", 3), ("b", 2))
        for number in range(size)
    ]
    path = write(tmp_path / "halves.json", {"cases": rows})
    asked = [[case.query for case in read_cases(path, part=part)] for part in ("first", "second")]
    assert asked == [["a0", "a1", "b0"], ["a2", "b1"]]


def test_what_is_known_goes_with_every_case_and_tells_no_answer(tmp_path: Path) -> None:
    row = {"query": "lights on", "tools": [], "expected_calls": []}
    here = {**row, "context": {"area": "Cellar", "domain": "light"}}
    path = write(tmp_path / "known.json", {"cases": [row, here]})
    home = {"entities": [{"name": "Lamp", "domain": "light"}]}
    first, second = read_cases(path, context=home)
    assert first.context == home
    assert second.context == {**home, "area": "Cellar"}
    assert read_cases(path)[1].context == {}
