"""Published traces come back as they were, name their questions, and give the same bytes again."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.calibrate.rows import Question
from edgewise.testing import ScriptedBackend, word_tokens
from edgewise.types.replies import Token
from edgewise_bench.chat.traces import (
    SYSTEM,
    Asked,
    Origin,
    Recorded,
    TraceSet,
    own_reference,
    public_reference,
    questions_to_ask,
    read_trace_set,
    run_traces,
    write_trace_set,
)
from edgewise_bench.questions.make import make_questions

ORIGIN = Origin("small", "Q8_0", "0" * 64, {"xllamacpp": "1"}, "Be short.", 48)
ROWS = (
    Recorded(
        reference=own_reference("What is the capital of Peru?"),
        kind="capitals",
        right=True,
        ended=True,
        tokens=(Token("Li", -0.125, 2.5, 0.25), Token("ma", -0.001, 9.0, 0.5), Token("\u2028")),
        input_tokens=12,
        seconds=0.25,
    ),
    Recorded(
        reference=public_reference("train:812"),
        kind="mmlu",
        right=False,
        ended=False,
        tokens=(Token("Eh", has_evidence=False), Token(" 7", -1.5, 0.125, 1.0)),
    ),
)
ASKED_BY = Origin("small", "Q8_0", "0" * 64, {}, SYSTEM, 48)
ASKED = [
    Asked(own_reference(country), Question(kind="capitals", prompt=country, accepted=(capital,)))
    for country, capital in (("France", "Paris"), ("Italy", "Rome"), ("Spain", "Madrid"))
]


def test_a_set_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "small.jsonl.gz"
    write_trace_set(TraceSet(ORIGIN, ROWS), path)
    assert read_trace_set(path) == TraceSet(ORIGIN, ROWS)


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl.gz"
    write_trace_set(TraceSet(ORIGIN, ROWS), first)
    write_trace_set(TraceSet(ORIGIN, ROWS), second)
    assert first.read_bytes() == second.read_bytes()


def test_evidence_is_kept_to_three_digits(tmp_path: Path) -> None:
    row = Recorded("own:1", "sums", True, True, (Token("4", -0.123456, 1.98765, 0.00049),))
    write_trace_set(TraceSet(ORIGIN, (row,)), tmp_path / "a.jsonl.gz")
    (again,) = read_trace_set(tmp_path / "a.jsonl.gz").rows
    assert again.tokens == (Token("4", -0.123, 1.988, 0.0),)


def test_a_row_tells_its_text_its_readings_and_whose_the_question_is() -> None:
    own, public = ROWS
    assert own.text == "Lima\u2028"
    assert [reading.tokens for reading in own.readings()] == [1, 2, 3]
    assert [reading.tokens for reading in public.readings()] == [0, 1]
    assert (own.own, public.own) == (True, False)
    assert TraceSet(ORIGIN, ROWS).by_reference() == {row.reference: row for row in ROWS}


def test_a_question_of_ours_is_named_by_its_digest_and_never_copied() -> None:
    reference = own_reference("What is the capital of Peru?")
    assert reference == own_reference("What is the capital of Peru?")
    assert reference != own_reference("What is the capital of Chile?")
    assert "Peru" not in reference


def test_a_row_that_was_cut_is_left_out(tmp_path: Path) -> None:
    packed, plain = tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl"
    write_trace_set(TraceSet(ORIGIN, ROWS), packed)
    plain.write_bytes(gzip.decompress(packed.read_bytes())[:-30])
    assert read_trace_set(plain).rows == ROWS[:1]


def test_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"format": 2}\n', "utf-8")
    with pytest.raises(ValueError, match="trace format 2 is not 1"):
        read_trace_set(path)


def test_every_answer_is_kept_as_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "traces.jsonl"
    backend = ScriptedBackend(["It is Paris.", "It is Paris."])
    steps: list[None] = []
    found = run_traces(backend, ASKED[:2], ASKED_BY, path, progress=lambda: steps.append(None))
    assert [row.right for row in found.rows] == [True, False]
    assert [row.reference for row in found.rows] == [each.reference for each in ASKED[:2]]
    assert len(steps) == 2
    assert "France" not in path.read_text("utf-8"), "questions are named, never copied"
    assert [row.text for row in read_trace_set(path).rows] == ["It is Paris."] * 2


def test_what_a_run_returns_is_what_a_later_one_reads(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    tokens = word_tokens("It is Paris.", logprob=-0.123456, margin=1.98765, entropy=0.5)
    first = run_traces(ScriptedBackend([tokens]), ASKED[:1], ASKED_BY, path)
    assert run_traces(ScriptedBackend(["?"]), ASKED[:1], ASKED_BY, path) == first
    assert {token.logprob for token in first.rows[0].tokens} == {-0.123}


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    run_traces(ScriptedBackend(["Paris", "Rome"]), ASKED[:2], ASKED_BY, path)
    path.write_text(path.read_text("utf-8")[:-20], "utf-8")  # killed while it wrote
    backend = ScriptedBackend(["Rome", "Madrid"])
    steps: list[None] = []
    found = run_traces(backend, ASKED, ASKED_BY, path, progress=lambda: steps.append(None))
    assert [row.text for row in found.rows] == ["Paris", "Rome", "Madrid"]
    assert backend.started == 2
    assert len(steps) == 3


def test_answers_of_another_model_are_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    run_traces(ScriptedBackend(["Paris"]), ASKED[:1], ASKED_BY, path)
    with pytest.raises(ValueError, match="another model"):
        run_traces(ScriptedBackend(["Rome"]), ASKED, replace(ASKED_BY, temperature=0.7), path)


def test_without_a_folder_our_own_questions_are_asked() -> None:
    asked = questions_to_ask(None)
    assert [each.question for each in asked] == make_questions(0)
    assert len({each.reference for each in asked}) == len(asked)
