"""Every request is recorded once, however it ends."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from edgewise.errors import GenerationFailed, LedgerUnavailable
from edgewise.record.ledger import Ledger, RequestRecorder
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Attempt, Decision, Reply

REQUEST = Request(messages=(Message("user", "Hello"),), task="call", id="one")


def reply(request: Request, attempts: list[Attempt]) -> Reply:
    attempts.append(
        Attempt(
            place="local",
            backend="scripted",
            model="m",
            outcome="answered",
            input_tokens=1000,
            output_tokens=500,
        )
    )
    decision = Decision(policy="prefer_local", handoff="automatic", code="kept", reason="")
    return Reply(
        id=request.id, text="Hi", source="local", decision=decision, attempts=tuple(attempts)
    )


@pytest.fixture
def recorder(tmp_path: Path) -> RequestRecorder:
    return RequestRecorder(Ledger(tmp_path / "ledger.sqlite3"), lambda: (2_000_000, 4_000_000))


def test_an_answer_is_written_with_its_task_and_what_it_saved(recorder: RequestRecorder) -> None:
    assert recorder.keep(REQUEST, lambda attempts: reply(REQUEST, attempts)).text == "Hi"
    row = recorder.ledger.get("one")
    assert row is not None
    assert row["task"] == "call"
    assert row["cost_avoided_microdollars"] == 1000 * 2 + 500 * 4


def test_an_error_is_written_and_raised(recorder: RequestRecorder) -> None:
    def fail(attempts: list[Attempt]) -> Reply:
        raise GenerationFailed("broke off")

    with pytest.raises(GenerationFailed):
        recorder.keep(REQUEST, fail)
    row = recorder.ledger.get("one")
    assert row is not None
    assert row["error_code"] == "generation_failed"


def test_leaving_with_control_c_is_written_as_cancelled(recorder: RequestRecorder) -> None:
    def leave(attempts: list[Attempt]) -> Reply:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recorder.keep(REQUEST, leave)
    row = recorder.ledger.get("one")
    assert row is not None
    assert row["error_code"] == "cancelled"


def test_an_answer_is_worth_more_than_its_record(
    recorder: RequestRecorder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise LedgerUnavailable("disk full")

    monkeypatch.setattr(recorder.ledger, "record", full)
    with caplog.at_level(logging.WARNING, "edgewise"):
        assert recorder.keep(REQUEST, lambda attempts: reply(REQUEST, attempts)).text == "Hi"
    assert "disk full" in caplog.text


def test_watchers_see_each_answer_after_it_is_written(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite3")
    seen: list[tuple[str, str, bool]] = []

    def look(request: Request, reply: Reply) -> None:
        seen.append((request.id, reply.text, ledger.get(request.id) is not None))

    recorder = RequestRecorder(ledger, lambda: (0, 0), watchers=[look])
    recorder.keep(REQUEST, lambda attempts: reply(REQUEST, attempts))
    assert seen == [("one", "Hi", True)]


def test_what_a_watcher_raises_reaches_neither_the_user_nor_the_next_watcher(
    recorder: RequestRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    def broken(request: Request, reply: Reply) -> None:
        raise ZeroDivisionError("a watcher of somebody's")

    recorder.watchers = [broken, lambda request, _: seen.append(request.id)]
    assert recorder.keep(REQUEST, lambda attempts: reply(REQUEST, attempts)).text == "Hi"
    assert seen == ["one"]
    assert "a watcher of somebody's" in caplog.text


def test_watchers_are_not_told_of_failures(recorder: RequestRecorder) -> None:
    seen: list[str] = []
    recorder.watchers = [lambda request, _: seen.append(request.id)]

    def fail(attempts: list[Attempt]) -> Reply:
        raise GenerationFailed("broke off")

    with pytest.raises(GenerationFailed):
        recorder.keep(REQUEST, fail)
    assert seen == []
