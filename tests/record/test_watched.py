"""What watchers read of the ledger: confidences, notes, and what a window has still to bring."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgewise.record.budget import Budget
from edgewise.record.ledger import Ledger
from edgewise.types.replies import Decision
from tests.record.ledger_cases import DAY, NOON, TurnedClock, asking, cloud_attempt, replying

HOUR = 3_600.0
DAILY, MONTHLY = Budget(3_000_000, "day"), Budget(3_000_000, "month")


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def ledger(tmp_path: Path, clock: TurnedClock) -> Iterator[Ledger]:
    book = Ledger(tmp_path / "l.db", budgets=(DAILY, MONTHLY), clock=clock)
    yield book
    book.close()


def ask(ledger: Ledger, clock: TurnedClock, at: float, count: int = 1, key: str = "") -> None:
    clock.now = at
    for number in range(count):
        name = f"{at}-{number}-{key}"
        ledger.record(asking(name, budget_key=key), replying(name))


def test_confidences_of_one_calibration_newest_first(ledger: Ledger) -> None:
    for number, (name, tokens) in enumerate((("a", None), ("b", 3), ("a", 16))):
        decision = Decision(
            policy="", handoff="automatic", code="", reason="", calibration=name,
            confidence=number / 10, threshold=0.5, decided_after_tokens=tokens,
        )  # fmt: skip
        ledger.record(
            asking(str(number)), replying(str(number), decision=decision, confidence=number / 10)
        )
    found = ledger.confidences("chat", "a", 10)
    assert [(row.confidence, row.gated) for row in found] == [(0.2, True), (0.0, False)]
    assert len(ledger.confidences("chat", "a", 1)) == 1
    assert ledger.confidences("call", "a", 10) == []
    assert ledger.calibrations() == [("chat", "a"), ("chat", "b")]


def test_a_note_is_written_when_something_begins_and_when_it_ends(
    ledger: Ledger, clock: TurnedClock
) -> None:
    assert not ledger.note("drift", "a", "")
    assert ledger.noted("drift", "a") is None, "nothing began, so nothing ended"
    assert ledger.note("drift", "a", "far, with sk-live-0123456789abcdefghij")
    clock.now += 5
    assert not ledger.note("drift", "a", "farther")
    began = ledger.noted("drift", "a")
    assert began is not None
    assert (began.created_at, began.words) == (NOON, "far, with sk-[masked]")
    ledger.note("drift", "a", "")
    ended = ledger.noted("drift", "a")
    assert ended is not None
    assert (ended.created_at, ended.words) == (NOON + 5, "")
    assert ledger.noted("drift", "b") is None


def test_the_rest_of_a_day_is_like_the_same_hours_of_the_days_before(
    ledger: Ledger, clock: TurnedClock
) -> None:
    """Mornings are busy, evenings quiet: at noon the morning of the next day does not count."""
    for back in (3, 2, 1):
        ask(ledger, clock, NOON - back * DAY - HOUR, count=9)  # the mornings before
        ask(ledger, clock, NOON - back * DAY + 6 * HOUR, count=2)  # the evenings
    ask(ledger, clock, NOON - 2 * HOUR, count=9)
    clock.now = NOON
    day, month = ledger.remaining()
    assert ledger.traffic(day).requests_left == pytest.approx(2.0)
    # 27 more days and a half, at eleven a day.
    left = (month.resets_at - NOON) / DAY
    assert ledger.traffic(month).requests_left == pytest.approx((9 * 3 + 2 * 3) / 3 * left, rel=0.1)


def test_a_first_day_is_expected_to_go_on_as_it_began(ledger: Ledger, clock: TurnedClock) -> None:
    ask(ledger, clock, NOON - 4 * HOUR, count=4)
    clock.now = NOON
    day, _ = ledger.remaining()
    assert ledger.traffic(day).requests_left == pytest.approx(4 * 12 / 4)
    ask(ledger, clock, NOON, count=1, key="another")
    clock.now = NOON
    assert ledger.traffic(day).requests_left == pytest.approx(4 * 12 / 4)


def test_an_empty_ledger_expects_nothing(ledger: Ledger) -> None:
    day, _ = ledger.remaining()
    assert ledger.traffic(day).requests_left == 0.0
    assert ledger.traffic(day).handoff_microdollars == 0.0


def test_a_handoff_costs_what_handoffs_have_cost(ledger: Ledger) -> None:
    ledger.settle("a/0", cloud_attempt(100))
    ledger.settle("b/0", cloud_attempt(300))
    ledger.settle("c/0", cloud_attempt(0, outcome="cloud_timeout"))
    day, _ = ledger.remaining()
    assert ledger.traffic(day).handoff_microdollars == pytest.approx(200.0)
