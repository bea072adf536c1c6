from __future__ import annotations

from pathlib import Path

from edgewise.record.ledger import Ledger
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Decision, Reply


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def record(ledger: Ledger, source: str, confidence: float | None, threshold: float = 0.5) -> None:
    request = Request(messages=(Message("user", "a question"),))
    decision = Decision(
        policy="prefer_local",
        handoff="automatic",
        code="kept_confident",
        reason="",
        threshold=threshold,
    )
    reply = Reply(
        id=request.id,
        text="an answer",
        source="cloud" if source == "cloud" else "local",
        decision=decision,
        confidence=confidence,
    )
    ledger.record(request, reply, cost_avoided_microdollars=7)


def test_judged_requests_are_the_latest_first_and_only_measured_ones(tmp_path: Path) -> None:
    clock = Clock()
    ledger = Ledger(tmp_path / "ledger.sqlite3", clock=clock)
    for confidence in (0.2, None, 0.9):
        clock.now += 1
        record(ledger, "local", confidence)
    judged = ledger.judged(since=0)
    assert [each.confidence for each in judged] == [0.9, 0.2]
    assert (judged[0].task, judged[0].threshold, judged[0].source) == ("chat", 0.5, "local")
    assert (judged[0].cost_microdollars, judged[0].avoided_microdollars) == (0, 7)
    assert [each.confidence for each in ledger.judged(since=clock.now)] == [0.9]
    ledger.close()


def test_a_timeline_has_empty_stretches_too_and_takes_a_clock_that_ran_ahead(
    tmp_path: Path,
) -> None:
    clock = Clock()
    ledger = Ledger(tmp_path / "ledger.sqlite3", clock=clock)
    begun = clock.now
    record(ledger, "local", 0.9)
    record(ledger, "cloud", 0.1)
    clock.now = begun + 99
    record(ledger, "local", 0.9)
    clock.now = begun + 500
    record(ledger, "local", 0.9)
    clock.now = begun + 100
    stretches = ledger.timeline(begun, 4)
    assert [each.start - begun for each in stretches] == [0, 25, 50, 75]
    assert [each.counts for each in stretches] == [{"local": 1, "cloud": 1}, {}, {}, {"local": 2}]
    ledger.close()
