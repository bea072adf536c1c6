"""The measurement of decisions, in a short form with scripted models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgewise.testing import ScriptedBackend, ScriptedEmbedder
from edgewise.types.messages import Choice, YesNo
from edgewise_bench.decisions import judge as judging
from edgewise_bench.decisions.measure import measure, order_changes, read_rows, times
from edgewise_bench.decisions.suites import Suite, own_suites, public_suite

SCRIPT: dict[str, Any] = {
    "one": {"a": 0.9, "b": 0.06, "c": 0.04},
    "two": 0.8,
    "three": {"a": 0.5, "b": 0.3, "c": 0.2},
}
SUITES = [
    Suite("one", Choice(["a", "b", "c"], "Which?"), [(f"state {n}", "a") for n in range(8)]),
    Suite("two", YesNo("So?"), [(f"state {n}", "true" if n % 4 else "false") for n in range(8)]),
    Suite("three", Choice(["a", "b", "c"]), [(f"state {n}", "ab"[n % 2]) for n in range(8)]),
]


def nothing() -> None:
    pass


def test_every_own_suite_has_labels_that_are_options() -> None:
    suites = own_suites()
    assert len(suites) == 6
    assert sum(len(suite.rows) for suite in suites) == 134
    for suite in suites:
        assert {label for _, label in suite.rows} <= set(suite.question.options)
        assert len({state for state, _ in suite.rows}) == len(suite.rows)


def test_what_was_measured_is_not_asked_again(tmp_path: Path) -> None:
    device, path = ScriptedBackend.deciding(SCRIPT), tmp_path / "rows.jsonl"
    measure(device, SUITES, path, nothing, most=5)
    assert len(read_rows(path)) == 5
    measure(device, SUITES, path, nothing)
    assert len(read_rows(path)) == 24
    assert len(device.requests) == 48  # every question in two orders, once
    path.write_text(path.read_text() * 2)
    assert len(read_rows(path)) == 24


def test_right_answers_are_counted_and_every_suite_is_judged_by_the_others(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    measure(ScriptedBackend.deciding(SCRIPT), SUITES, path, nothing)
    found = judging.judge(judging.judged_rows(read_rows(path), SUITES))
    assert found["decisions"] == 24
    assert found["accuracy"] == pytest.approx(18 / 24)
    assert found["accuracy.one"] == 1.0
    assert found["accuracy.three"] == 0.5
    assert found["orders_differ"] == 0.0
    assert 0.5 <= found["auroc_uncalibrated"] <= 1.0


def test_turning_the_options_changes_no_prompt() -> None:
    assert order_changes([*SUITES, *own_suites()]) == 0


def test_one_more_question_is_timed() -> None:
    assert set(times(ScriptedBackend.deciding({}))) == {"cpu_s_yes_no", "cpu_s_choice"}


def test_learnt_questions_are_judged_on_rows_that_they_have_not_seen(tmp_path: Path) -> None:
    rows = [(f"{word} {number}", label) for number in range(80)
            for word, label in (("good film", "1"), ("bad film", "0"))]  # fmt: skip
    (tmp_path / "sst2.tsv").write_text("\n".join("\t".join(row) for row in rows))
    suite = public_suite("sentiment", tmp_path, 80)
    embedder = ScriptedEmbedder()
    told = judging.judge_one(suite, lambda texts: embedder.embed(texts).vectors, "s")
    assert told["accuracy"] > 0.95


def test_a_public_set_is_drawn_the_same_every_time_and_evenly(tmp_path: Path) -> None:
    rows = [(f"film {number}", "1" if number % 3 else "0") for number in range(60)]
    (tmp_path / "sst2.tsv").write_text("\n".join("\t".join(row) for row in rows))
    drawn = public_suite("sentiment", tmp_path, 5)
    assert drawn == public_suite("sentiment", tmp_path, 5)
    assert [label for _, label in drawn.rows] == ["true"] * 5 + ["false"] * 5
