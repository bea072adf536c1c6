from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from training.peer_needle import (
    answer_open,
    as_answer,
    as_json_schema,
    ask,
    confidence,
    read_rows,
    report_set,
)
from training.score import read_calls

RING = {"name": "alarm.set", "arguments": {"hour": 7, "share": 1.0, "names": ["Zoë", 'a "b"']}}
ROOT = Path(__file__).parents[2]


def reply(*calls: Any, withheld: tuple[Any, ...] = (), sure: float = 0.5) -> dict[str, Any]:
    found = {"function_calls": list(calls), "suppressed_calls": list(withheld), "confidence": sure}
    return {"key": "set/1", "reply": found, "ms": 100.0, "ready_ms": 200.0}


def test_calls_reach_the_judges_with_their_values_and_types_unchanged() -> None:
    answer = as_answer(reply(RING, {"name": "stop", "arguments": {}}))
    assert read_calls(answer) == [("alarm.set", RING["arguments"]), ("stop", {})]
    assert '"hour":7,"share":1.0' in answer


def test_an_empty_reply_is_a_refusal_and_a_failed_case_is_no_answer() -> None:
    assert read_calls(as_answer(reply())) == []
    assert read_calls(as_answer({"key": "set/1", "error": "needle_init failed"})) is None
    assert read_calls(as_answer(reply({"name": "two\nlines", "arguments": {}}))) is None


def test_withheld_calls_count_only_where_asked_for() -> None:
    row = reply(withheld=(RING,))
    assert read_calls(as_answer(row)) == []
    assert read_calls(as_answer(row, withheld=True)) == [("alarm.set", RING["arguments"])]
    assert as_answer(reply(RING, withheld=({"name": "b"},)), withheld=True) == as_answer(
        reply(RING)
    )


def test_the_leaderboards_types_become_json_schema_at_every_depth() -> None:
    types = {"dict": "object", "float": "number"}
    schema = {
        "type": "dict",
        "properties": {
            "type": {"type": "float", "enum": ["float"]},
            "rows": {"type": "array", "items": {"type": "dict"}},
        },
    }
    assert as_json_schema(schema, types) == {
        "type": "object",
        "properties": {
            "type": {"type": "number", "enum": ["float"]},
            "rows": {"type": "array", "items": {"type": "object"}},
        },
    }


def test_a_cut_run_goes_on_and_answers_the_cut_line_again(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_text('{"key": "a", "ms": 1}\n{"key": "b", "m', encoding="utf-8")
    asked: list[str] = []

    def ask_one(case: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(case["key"])
        return {"key": case["key"], "text": "one\u2028line"}

    answer_open([{"key": key} for key in "abc"], path, ask_one)
    assert asked == ["b", "c"]
    assert [row["key"] for row in read_rows(path)] == ["a", "b", "c"]
    answer_open([{"key": key} for key in "abc"], path, ask_one)
    assert asked == ["b", "c"]


def test_a_case_the_peer_cannot_take_is_recorded_as_an_error() -> None:
    def start(tools: Any) -> Any:
        raise RuntimeError("needle_init failed")

    row = ask(start, {"key": "set/1", "tools": [], "query": "hello"})
    assert row["key"] == "set/1" and row["error"] == "needle_init failed" and "reply" not in row


def test_confidence_is_reported_for_all_replies_and_for_made_calls_alone() -> None:
    judged = [
        ("", reply(RING, sure=0.9), 1.0, 1.0),
        ("", reply(RING, sure=0.4), 0.0, 0.0),
        ("", reply(sure=0.01), 1.0, 1.0),
    ]
    table = confidence(judged)
    assert table["all"]["auroc"] == 0.5 and table["all"]["cases"] == 3
    assert table["made"] == {"cases": 2, "auroc": 1.0, "coverage_95": 0.5, "coverage_90": 0.5}


def test_a_set_is_reported_with_and_without_withheld_calls_and_doubtful_labels() -> None:
    judged = [
        ("easy", reply(RING), 1.0, 1.0),
        ("easy", reply(withheld=(RING,), sure=0.05), 0.0, 1.0),
        ("flagged", {"key": "set/3", "error": "full", "ms": 1.0, "ready_ms": 1.0}, 0.0, 0.0),
    ]
    report = report_set(judged)
    assert report["score"] == 33.33 and report["score_withheld"] == 66.67
    assert report["withheld"] == 1 and report["errors"] == 1
    assert report["unflagged"] == [2, 50.0] and report["ms_p50"] == 100.0


@pytest.mark.parametrize("heavy", ["numpy", "training.eval_sets"])
def test_the_peers_environment_needs_nothing_of_ours_installed(heavy: str) -> None:
    code = f"import sys, training.peer_needle; sys.exit({heavy!r} in sys.modules)"
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths}, check=False
    )
    assert done.returncode == 0
