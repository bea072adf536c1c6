"""Answers to questions as people ask them: kept as they come, judged, and published as numbers."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np

from edgewise.calibrate.rows import Question
from edgewise.calibrations import shipped_document
from edgewise.decide.calibration import Calibration, parse_calibration
from edgewise.testing import ScriptedBackend
from edgewise_bench.chat import life
from edgewise_bench.chat.life import Asked, Lived, ask, in_turns, judge, read_lines
from edgewise_bench.questions.kinds.programs import Task, is_done

TRACES = Path(__file__).parents[2] / "results" / "traces"
STANDARD = "qwen2.5-coder-1.5b-instruct-q4_k_m"
PERU = Asked("places", Question(kind="capitals", prompt="Peru?", accepted=("Lima",)))
ITALY = Asked("places", Question(kind="capitals", prompt="Italy?", accepted=("Rome",)), "a book")


def calibration() -> Calibration:
    document = shipped_document(STANDARD, "chat")
    assert document is not None
    return parse_calibration(document, STANDARD)


def with_states(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """As a runtime gives them: scripted ones have none."""
    state = base64.b64encode(np.zeros(1536, "<f2").tobytes()).decode()
    return [row | {"before": state, "mean": state} for row in rows]


def test_an_answer_that_is_there_is_not_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    ask(ScriptedBackend(["It is Lima."]), [PERU], path, (19, 21))
    path.write_text(path.read_text("utf-8") + '\n{"ref": "cut', "utf-8")  # an interruption
    ask(ScriptedBackend(["It is Rome."]), [PERU, ITALY], path, (19, 21))
    told = ["".join(token[0] for token in row["tokens"]) for row in read_lines(path)]
    assert told == ["It is Lima.", "It is Rome."]
    assert "Peru" not in path.read_text("utf-8"), "questions are named, never copied"


def test_an_answer_is_judged_by_the_shipped_confidence_and_only_ours_is_quoted(
    tmp_path: Path,
) -> None:
    path, packed = tmp_path / "answers.jsonl", tmp_path / "life.jsonl.gz"
    ask(ScriptedBackend(["It is Lima.", "It is Milan."]), [PERU, ITALY], path, (19, 21))
    assert judge(read_lines(path), [PERU, ITALY], calibration()) == [], "there are no states"
    ours, theirs = judge(with_states(read_lines(path)), [ITALY, PERU], calibration())[::-1]
    assert (ours.right, ours.text) == (True, "It is Lima.")
    assert (theirs.right, theirs.text) == (False, "")
    assert 0 < ours.chance < 1
    assert 0 < ours.words < 1
    life.write_lived([ours, theirs], packed)
    assert [row.ref for row in life.read_lived(packed)] == [PERU.reference, ITALY.reference]
    assert life.read_lived(tmp_path / "nothing.gz") == []


def test_every_prefix_is_balanced_over_the_families() -> None:
    questions = life.questions_of_life()
    first = in_turns(questions.values())[: 3 * len(questions)]
    assert {family: 3 for family in questions} == {
        family: sum(each.family == family for each in first) for family in questions
    }


def test_no_system_prompt_forbids_what_is_asked() -> None:
    long = [
        each.question
        for family in ("forms", "writing functions", "worked problems")
        for each in life.questions_of_life()[family]
    ]
    assert {question.system for question in long} <= {"", "You are a helpful assistant."}
    assert len({each.question.system for each in life.questions_of_life()["hard facts"]}) >= 4


def published() -> list[Lived]:
    return life.read_lived(life.path_of(TRACES, STANDARD))


def test_a_question_is_asked_again_under_other_system_prompts_unless_it_hangs_on_its_own() -> None:
    again = life.again(PERU)
    assert len({each.question.system for each in again} | {PERU.question.system}) == len(again) + 1
    assert {each.question.prompt for each in again} == {"Peru?"}
    rules = life.questions_of_life()["house rules"][0]
    assert life.again(rules) == []


def test_what_is_published_quotes_no_public_question_and_names_ours() -> None:
    ours = {each.reference: each.family for each in life.everything()}
    rows = published()
    assert len({row.ref for row in rows}) == len(rows) > 0
    for row in rows:
        assert row.family.startswith("public") is (row.ref not in ours), row.ref
        assert bool(row.text) is (row.ref in ours), row.ref
        assert ours.get(row.ref, row.family) == row.family


def test_what_is_published_is_what_the_checker_says_today() -> None:
    ours = {each.reference: each.question for each in life.everything()}
    programs = 0
    for row in published():
        programs += isinstance(ours.get(row.ref), Task)
        if row.ref in ours and (not isinstance(ours[row.ref], Task) or programs % 20 == 1):
            assert is_done(ours[row.ref], row.text) is row.right, row.ref
