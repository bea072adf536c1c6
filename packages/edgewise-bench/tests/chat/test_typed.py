"""Typed questions, answers to them, and what their confidence is worth."""

from __future__ import annotations

import json
from pathlib import Path

from edgewise.calibrations import shipped_document
from edgewise.grammar.answers import compile_answer
from edgewise.grammar.check import tell
from edgewise.testing import ScriptedBackend
from edgewise_bench.chat import typed
from edgewise_bench.questions.typed import make_typed_questions, same_value

TRACES = Path(__file__).parents[2] / "results" / "traces"
MODEL = "qwen2.5-coder-1.5b-instruct-q4_k_m"


def test_every_question_can_be_told_held_and_answered() -> None:
    questions = make_typed_questions(0)
    assert len(questions) > 500 and len({each.family for each in questions}) == 18
    for question in questions:
        assert not question.wrong_fields(question.answer)
        assert question.wrong_fields(None) == list(question.answer)
        assert all(f'"{name}"' in tell(question.schema) for name in question.answer)
    for schema in {json.dumps(each.schema): each.schema for each in questions}.values():
        compile_answer(schema)
    assert [each.prompt for each in make_typed_questions(0, 20)] == [
        each.prompt for each in questions[:20]
    ]


def test_values_are_compared_as_a_reader_would() -> None:
    assert same_value("oslo ", "Oslo") and not same_value("Oslo city", "Oslo")
    assert same_value(2.54, 2.54) and same_value(40.8, 40.82) and not same_value(41, 40.0)
    assert same_value(True, True) and not same_value(1, True) and not same_value(True, 1)
    assert same_value(["a", "B"], ["A", "B"]) and not same_value(["b", "a"], ["a", "b"])


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    right = [json.dumps(each.answer) for each in make_typed_questions(0, 6)]
    first = typed.ask_typed(ScriptedBackend(right[:2]), path, 2)
    path.write_text(path.read_text() + '\n{"prompt": "cut', "utf-8")
    backend = ScriptedBackend(right[2:])
    found = typed.ask_typed(backend, path, 6)
    assert backend.started == 4 and len(first) == 2
    assert [each.text for each in found] == right and all(each.right for each in found)
    packed = tmp_path / "answers.jsonl.gz"
    typed.write_typed_answers(found, packed)
    assert typed.read_typed_answers(packed) == found


def test_the_published_answers_say_what_the_pages_say() -> None:
    answers = typed.read_typed_answers(typed.path_of(TRACES, MODEL))
    found = typed.typed_figures(answers)
    assert found["typed_rows"] >= 300 and found["typed_families"] == 18
    assert found["typed_auroc"] >= 0.75
    document = shipped_document(MODEL, "chat")
    assert document is not None
    key = typed.typed_key(answers, document["typed"]["command"])
    assert document["typed"] == key, "what is shipped was fitted on what is published"
