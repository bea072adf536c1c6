"""The ledger writes each request once, and keeps texts and keys out of the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.errors import CloudAuthFailed
from edgewise.record.budget import Budget
from edgewise.record.ledger import Ledger
from edgewise.types.messages import Image, Message, ToolCall
from edgewise.types.replies import Usage
from tests.record.ledger_cases import (
    NOON,
    PROVIDER,
    TurnedClock,
    asking,
    cloud_attempt,
    local_attempt,
    replying,
)

BUDGETS = (Budget(1_000, "day"), Budget(300, "day", "ann"), Budget(5_000, "month"))


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def ledger(tmp_path: Path, clock: TurnedClock) -> Iterator[Ledger]:
    opened = Ledger(tmp_path / "ledger.db", budgets=BUDGETS, reservation_s=150.0, clock=clock)
    yield opened
    assert opened.verify() == []
    opened.close()


def everything_written(ledger: Ledger) -> str:
    connection = sqlite3.connect(ledger.path)
    dump = "\n".join(connection.iterdump())
    connection.close()
    return dump


def test_a_request_is_recorded_with_its_decision(ledger: Ledger) -> None:
    request = asking("r", budget_key="ann", private=True)
    ledger.record(request, replying("r"), cost_avoided_microdollars=31)
    row = ledger.get("r")
    assert row is not None
    (attempt,) = row.pop("attempts")
    assert row == {
        "id": "r",
        "created_at": NOON,
        "task": "chat",
        "policy": "prefer_local",
        "handoff": "automatic",
        "private": True,
        "budget_key": "ann",
        "source": "local",
        "model": "qwen3",
        "decision_code": "confident",
        "reason": "confidence 0.91 is above 0.6",
        "degraded": False,
        "degraded_code": "",
        "needs_cloud_handoff": False,
        "cloud_handoff": False,
        "truncated": False,
        "confidence": 0.91,
        "threshold": 0.6,
        "decided_after_tokens": None,
        "features": {"mean_logprob": -0.1},
        "calibration": "qwen3-q4",
        "input_tokens": 12,
        "output_tokens": 5,
        "cost_microdollars": 0,
        "cost_avoided_microdollars": 31,
        "first_token_ms": 40.0,
        "total_ms": 210.0,
        "finish_reason": "stop",
        "error_code": "",
        "error": "",
        "prompt_text": None,
        "reply_text": None,
        "tool_calls_text": None,
        "audio_seconds": 0.0,
    }
    assert (attempt["id"], attempt["place"], attempt["state"]) == ("r/local-0", "local", "settled")
    assert (attempt["backend"], attempt["output_tokens"]) == ("llama_cpp", 5)
    assert attempt["estimated"] is False


def test_recording_a_request_twice_keeps_the_first(ledger: Ledger) -> None:
    ledger.record(asking("r"), replying("r"))
    both = (local_attempt(), local_attempt())
    ledger.record(asking("r"), replying("r", source="cloud", attempts=both))
    row = ledger.get("r")
    assert row is not None
    assert (row["source"], len(row["attempts"])) == ("local", 1)


def test_a_cloud_attempt_is_not_written_a_second_time_with_its_request(ledger: Ledger) -> None:
    ledger.reserve("r/0", asking("r"), PROVIDER, 50)
    ledger.settle("r/0", cloud_attempt(42))
    handed_off = local_attempt(outcome="handed_off")
    reply = replying("r", source="cloud", attempts=(handed_off, cloud_attempt(42)))
    ledger.record(asking("r"), replace(reply, usage=Usage(24, 12, 42)))
    row = ledger.get("r")
    assert row is not None
    assert [(each["id"], each["outcome"]) for each in row["attempts"]] == [
        ("r/0", "answered"),
        ("r/local-0", "handed_off"),
    ]
    assert ledger.remaining()[0].spent == 42


def test_a_failed_request_is_recorded_with_a_masked_error(ledger: Ledger) -> None:
    error = CloudAuthFailed("401: bad key sk-" + "Ab3dEf6hIj9l", provider="openai")
    ledger.settle("r/0", cloud_attempt(3, outcome="cloud_cut", error="Bearer abc123def"))
    tried = (local_attempt(outcome="handed_off"), cloud_attempt(3, outcome="cloud_cut"))
    ledger.record_failure(asking("r"), error, tried)
    ledger.record_failure(asking("r"), KeyboardInterrupt(), ())
    row = ledger.get("r")
    assert row is not None
    assert (row["source"], row["error_code"]) == ("none", "cloud_auth_failed")
    assert (row["error"], row["cost_microdollars"]) == ("401: bad key sk-[masked]", 3)
    assert (row["input_tokens"], row["output_tokens"]) == (24, 12)
    assert [each["error"] for each in row["attempts"]] == ["Bearer [masked]", ""]


def test_an_exception_that_is_not_ours_is_named_by_its_type(ledger: Ledger) -> None:
    ledger.record_failure(asking("r"), SystemExit(3), ())
    row = ledger.get("r")
    assert row is not None
    assert row["error_code"] == "SystemExit"


def test_prompts_and_replies_are_nowhere_in_the_file_unless_asked_for(ledger: Ledger) -> None:
    calls = (ToolCall("look_up", {"city": "a-word-of-the-call"}),)
    message = Message("user", "a-word-of-the-prompt", images=(Image(b"a-word-of-the-image"),))
    for name, asked in (("unset", None), ("no", False)):
        request = replace(asking(name, store_text=asked), messages=(message,))
        ledger.reserve(f"{name}/0", request, PROVIDER, 1)
        ledger.settle(f"{name}/0", cloud_attempt(1))
        ledger.record(request, replying(name, text="a-word-of-the-reply", tool_calls=calls))
        ledger.record_failure(replace(request, id=f"{name}-failed"), ValueError("x"), ())
    assert "a-word-of" not in everything_written(ledger)
    request = replace(asking("yes", store_text=True), messages=(message,))
    ledger.record(request, replying("yes", text="a-word-of-the-reply", tool_calls=calls))
    row = ledger.get("yes")
    assert row is not None
    assert row["prompt_text"] == (
        '[{"role": "user", "content": "a-word-of-the-prompt", "images": 1}]'
    )
    assert row["reply_text"] == "a-word-of-the-reply"
    assert row["tool_calls_text"] == (
        '[{"name": "look_up", "arguments": {"city": "a-word-of-the-call"}}]'
    )


def test_a_key_never_reaches_the_file(ledger: Ledger) -> None:
    secret = "Ab3dEf6hIj9lMn2pQr5tUv8x"
    config = replace(PROVIDER, key=f"sk-{secret}")
    request = replace(
        asking("r", store_text=True), messages=(Message("user", f"my key is sk-{secret}"),)
    )
    reply = replying("r", text=f"your key is sk-{secret}")
    decision = replace(reply.decision, reason=f"cloud said: bad key sk-{secret}")
    ledger.reserve("r/0", request, config, 1)
    ledger.settle("r/0", cloud_attempt(1, error=f"Authorization: Bearer {secret}"))
    ledger.record(request, replace(reply, decision=decision))
    assert secret not in everything_written(ledger)


def test_an_id_is_seen_once_it_was_recorded_or_paid_for(ledger: Ledger) -> None:
    assert not ledger.seen("r")
    ledger.record(asking("r"), replying("r"))
    ledger.reserve("s/0", asking("s"), PROVIDER, 1)
    assert ledger.seen("r")
    assert ledger.seen("s")
    assert not ledger.seen("s/0")
    assert ledger.get("s") is None


def test_text_that_is_not_unicode_and_numbers_that_are_none_are_stored(ledger: Ledger) -> None:
    request = replace(
        asking("r\udcff", store_text=True), messages=(Message("user", "half a pair \ud800"),)
    )
    reply = replying("r\udcff", total_ms=float("nan"), confidence=float("inf"))
    decision = replace(reply.decision, features={"entropy": float("nan")})
    ledger.record(request, replace(reply, decision=decision))
    assert ledger.seen("r\udcff")
    row = ledger.get("r\udcff")
    assert row is not None
    assert (row["total_ms"], row["confidence"], row["features"]) == (None, None, {"entropy": None})
    assert "half a pair ?" in row["prompt_text"]


def test_verify_reports_a_total_that_was_tampered_with(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db", clock=TurnedClock())
    ledger.settle("r/0", cloud_attempt(5))
    ledger.close()
    connection = sqlite3.connect(ledger.path)
    connection.execute("UPDATE spend SET settled_microdollars = 4 WHERE window_name = '2026-11'")
    connection.execute("INSERT INTO spend VALUES ('2026-12', '', 1, 0)")
    connection.commit()
    connection.close()
    assert ledger.verify() == [
        "the total of 2026-11 for key '' is wrong",
        "the total of 2026-12 for key '' is wrong",
    ]
    ledger.close()


def test_rows_edited_by_hand_keep_the_totals_exact(ledger: Ledger) -> None:
    ledger.settle("r/0", cloud_attempt(5))
    ledger.settle("s/0", cloud_attempt(7))
    ledger.settle("t/0", cloud_attempt(11))
    connection = sqlite3.connect(ledger.path)
    connection.execute("DELETE FROM attempts WHERE id = 'r/0'")
    connection.execute("UPDATE attempts SET budget_key = 'ann' WHERE id = 's/0'")
    connection.execute("UPDATE attempts SET cost_microdollars = 12 WHERE id = 't/0'")
    connection.commit()
    connection.close()
    assert [state.spent for state in ledger.remaining()] == [19, 7, 19]
