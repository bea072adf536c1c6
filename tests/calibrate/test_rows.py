"""Labelled requests are read line by line; an error names its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgewise.calibrate.rows import is_right, read_labelled
from edgewise.errors import InvalidRequest

EXAMPLE = Path(__file__).parents[2] / "examples" / "labelled_questions.jsonl"
TOOL = {"type": "function", "function": {"name": "lamp", "parameters": {"type": "object"}}}


def written(folder: Path, *rows: Any) -> Path:
    path = folder / "rows.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines), "utf-8")
    return path


def test_the_example_is_read() -> None:
    labelled = read_labelled(EXAMPLE)
    assert labelled.task == "chat"
    assert len(labelled) == 60
    assert {question.rule for question in labelled.questions} == {"mention", "number", "yes_no"}


@pytest.mark.parametrize(
    ("row", "said", "right"),
    [
        ({"answer": "Lima"}, "It is Lima.", True),
        ({"answer": ["cold", "cool"]}, "Cool", True),
        ({"answer": 12}, "The sum is twelve.", True),
        ({"answer": "true"}, "Yes, it is.", True),
        ({"answer": "no"}, "Yes.", False),
        ({"answer": "Lima", "match": "exact"}, "It is Lima.", False),
        ({"answer": "fine", "match": "contains"}, "It is refined.", True),
    ],
)
def test_answers_are_judged_as_the_row_says_or_as_it_looks(
    tmp_path: Path, row: dict[str, Any], said: str, right: bool
) -> None:
    (question,) = read_labelled(written(tmp_path, {"prompt": "What?", **row})).questions
    assert is_right(question, said) == right


def test_rows_for_calls_have_tools_and_calls(tmp_path: Path) -> None:
    row = {"prompt": "Light!", "tools": [TOOL], "calls": [{"name": "lamp", "arguments": {"on": 1}}]}
    nothing = {"prompt": "Sing!", "tools": [TOOL], "calls": []}
    labelled = read_labelled(written(tmp_path, row, nothing))
    assert labelled.task == "call"
    assert [each.calls for each in labelled.calls] == [(("lamp", {"on": 1}),), ()]
    assert labelled.calls[0].tools[0].name == "lamp"


def test_sound_is_found_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    labelled = read_labelled(written(tmp_path, {"audio": "a.wav", "text": "hello"}))
    assert labelled.task == "transcribe"
    assert labelled.sounds[0].path == tmp_path / "a.wav"


def test_what_is_asked_twice_counts_once(tmp_path: Path) -> None:
    row = {"prompt": "What?", "answer": "a"}
    labelled = read_labelled(written(tmp_path, row, row, "", {**row, "system": "Be brief."}))
    assert (len(labelled), labelled.repeated) == (2, 1)
    assert [question.system for question in labelled.questions] == ["", "Be brief."]


def test_rows_without_a_kind_are_dealt_into_parts(tmp_path: Path) -> None:
    rows = [{"prompt": f"What is {n}?", "answer": "a"} for n in range(25)]
    labelled = read_labelled(written(tmp_path, *rows))
    assert len({question.kind for question in labelled.questions}) == 10


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([], "no rows"),
        (["{"], "line 1: not JSON"),
        (["[]"], "line 1: not an object"),
        ([{"question": "?"}], "line 1: neither a prompt nor audio"),
        ([{"prompt": "?"}], "line 1: answer must be"),
        ([{"prompt": "?", "answer": []}], "line 1: answer must be"),
        ([{"prompt": "", "answer": "a"}], "line 1: prompt must be a text"),
        ([{"prompt": "?", "answer": "a", "match": "near"}], "match 'near': must be one of"),
        ([{"prompt": "?", "answer": "a"}, {"audio": "a.wav", "text": "b"}], "one task a file"),
        ([{"audio": "none.wav", "text": "b"}], "line 1: no file"),
        ([{"prompt": "?", "tools": [TOOL], "calls": "lamp"}], "calls must be a list"),
        ([{"prompt": "?", "tools": [TOOL], "calls": [{}]}], "a call needs a name"),
        ([{"prompt": "?", "tools": [7], "calls": []}], "line 1: "),
    ],
)
def test_what_is_wrong_is_said_with_its_line(
    tmp_path: Path, rows: list[Any], complaint: str
) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        read_labelled(written(tmp_path, *rows))


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"none\.jsonl"):
        read_labelled(tmp_path / "none.jsonl")
