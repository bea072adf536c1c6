"""Public questions are read from where they lie, named by file and line, and can be checked."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from edgewise.calibrate.rows import is_right
from edgewise_bench.questions.public import (
    FILES,
    LONGEST,
    read_lettered,
    read_public_questions,
    read_word_problems,
)


def row(task: str, query: str, truth: str, choices: object = "") -> dict[str, str]:
    return {"task_name": task, "query": query, "ground_truth": truth, "choices": str(choices)}


CHAIR = row(
    "commonsense_qa",
    "What do people sit on?",
    "B",
    {"label": ["A", "B", "C"], "text": ["a lamp", "a chair.", "a wall"]},
)
RIVER = row("natural_qa", "which river runs through the city of Paris", "The Seine")
MOON = row("mmlu", "What circles the Earth?", "A", ["the Moon", "the Sun"])


def write(folder: Path, train: list[Mapping[str, str]], test: list[Mapping[str, str]]) -> Path:
    for name, rows in zip(FILES, (train, test), strict=True):
        (folder / name).write_text("".join(json.dumps(each) + "\n" for each in rows), "utf-8")
    return folder


def test_a_question_is_known_by_its_file_and_line(tmp_path: Path) -> None:
    found = read_public_questions(write(tmp_path, [row("gsm8k", "1+1?", "2"), CHAIR], [RIVER]))
    assert [each.reference for each in found] == ["train:1", "test:0"]
    assert [each.source for each in found] == [CHAIR["query"], RIVER["query"]]
    assert [each.question.kind for each in found] == ["commonsense_qa", "natural_qa"]


def test_sources_take_turns(tmp_path: Path) -> None:
    others = [row("natural_qa", f"who was king number {number}", "Otto") for number in range(2)]
    found = read_public_questions(write(tmp_path, [RIVER, *others, CHAIR], [MOON]))
    kinds = [each.question.kind for each in found]
    assert kinds == ["natural_qa", "commonsense_qa", "mmlu", "natural_qa", "natural_qa"]


def test_choices_are_named_without_letters(tmp_path: Path) -> None:
    (found,) = read_public_questions(write(tmp_path, [CHAIR], []))
    question = found.question
    assert question.prompt == "What do people sit on?\nChoose one: a lamp; a chair; a wall."
    assert is_right(question, "They sit on a chair.")
    assert not is_right(question, "A wall, not a chair.")


def test_a_list_of_choices_is_lettered_in_its_order(tmp_path: Path) -> None:
    (found,) = read_public_questions(write(tmp_path, [MOON], []))
    assert found.question.accepted == ("the Moon",)
    assert found.question.rivals == ("the Sun",)


def test_an_open_answer_needs_every_word_but_fillers(tmp_path: Path) -> None:
    (found,) = read_public_questions(write(tmp_path, [RIVER], []))
    assert found.question.prompt.endswith("Paris?")
    assert is_right(found.question, "It is the Seine.")
    assert not is_right(found.question, "It is the Thames.")


@pytest.mark.parametrize(
    "unfit",
    [
        row("natural_qa", "x" * (LONGEST + 1), "Otto"),
        row("natural_qa", "who is it", "the"),
        row("mmlu", "What circles the Earth?", "E", ["the Moon", "the Sun"]),
        row("mmlu", "What circles the Earth?", "A", ["the Moon", "?"]),
        row("human_eval", "Write a function.", "pass"),
    ],
    ids=["long", "fillers only", "no such choice", "a choice without words", "no program can tell"],
)
def test_what_cannot_be_checked_is_left_out(tmp_path: Path, unfit: Mapping[str, str]) -> None:
    assert read_public_questions(write(tmp_path, [unfit], [])) == []


def test_a_question_that_is_there_twice_is_asked_once(tmp_path: Path) -> None:
    found = read_public_questions(write(tmp_path, [RIVER], [RIVER]))
    assert [each.reference for each in found] == ["train:0"]


def test_choices_with_letters_are_right_by_letter_or_in_words(tmp_path: Path) -> None:
    write(tmp_path, [MOON], [])
    ((source, question),) = read_lettered(tmp_path)
    assert source == "mmlu"
    right = question.accepted[0]
    assert is_right(question, right)
    assert is_right(question, f"{right}. the Moon")
    assert is_right(question, "It is the Moon.")
    assert not is_right(question, "the Sun")


def test_a_word_problem_ends_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "problems.jsonl.gz"
    with gzip.open(path, "wt") as file:
        row = {"question": "Two boxes of 600 pens?", "answer": "2 times 600\n#### 1,200"}
        file.write(json.dumps(row) + "\n")
    (question,) = read_word_problems(path)
    assert is_right(question, "Each box has 600, so 2 x 600 = 1,200 pens.")
    assert not is_right(question, "That is 800.")
