"""Answers are asked for once, named and not copied, and taken up again after an interruption."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.bench.answers import Question
from edgewise.bench.questions import make_questions
from edgewise.bench.trace_runs import SYSTEM, Asked, questions_to_ask, run_traces
from edgewise.bench.trace_set import Origin, own_reference, read_trace_set
from edgewise.testing import ScriptedBackend, word_tokens

ORIGIN = Origin("small", "Q8_0", "0" * 64, {}, SYSTEM, 48)
ASKED = [
    Asked(own_reference(country), Question(kind="capitals", prompt=country, accepted=(capital,)))
    for country, capital in (("France", "Paris"), ("Italy", "Rome"), ("Spain", "Madrid"))
]


def test_every_answer_is_kept_as_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "traces.jsonl"
    backend = ScriptedBackend(["It is Paris.", "It is Paris."])
    steps: list[None] = []
    found = run_traces(backend, ASKED[:2], ORIGIN, path, progress=lambda: steps.append(None))
    assert [row.right for row in found.rows] == [True, False]
    assert [row.reference for row in found.rows] == [each.reference for each in ASKED[:2]]
    assert len(steps) == 2
    assert "France" not in path.read_text("utf-8"), "questions are named, never copied"
    assert [row.text for row in read_trace_set(path).rows] == ["It is Paris."] * 2


def test_what_a_run_returns_is_what_a_later_one_reads(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    tokens = word_tokens("It is Paris.", logprob=-0.123456, margin=1.98765, entropy=0.5)
    first = run_traces(ScriptedBackend([tokens]), ASKED[:1], ORIGIN, path)
    assert run_traces(ScriptedBackend(["?"]), ASKED[:1], ORIGIN, path) == first
    assert {token.logprob for token in first.rows[0].tokens} == {-0.123}


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    run_traces(ScriptedBackend(["Paris", "Rome"]), ASKED[:2], ORIGIN, path)
    path.write_text(path.read_text("utf-8")[:-20], "utf-8")  # killed while it wrote
    backend = ScriptedBackend(["Rome", "Madrid"])
    steps: list[None] = []
    found = run_traces(backend, ASKED, ORIGIN, path, progress=lambda: steps.append(None))
    assert [row.text for row in found.rows] == ["Paris", "Rome", "Madrid"]
    assert backend.started == 2
    assert len(steps) == 3


def test_answers_of_another_model_are_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    run_traces(ScriptedBackend(["Paris"]), ASKED[:1], ORIGIN, path)
    with pytest.raises(ValueError, match="another model"):
        run_traces(ScriptedBackend(["Rome"]), ASKED, replace(ORIGIN, temperature=0.7), path)


def test_without_a_folder_our_own_questions_are_asked() -> None:
    asked = questions_to_ask(None)
    assert [each.question for each in asked] == make_questions(0)
    assert len({each.reference for each in asked}) == len(asked)
