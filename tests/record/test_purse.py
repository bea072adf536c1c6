"""Reserve, settle, sweep: each attempt is paid for once, out of the budgets that apply."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewise.cloud.provider import BudgetGuard
from edgewise.errors import BudgetExceeded
from edgewise.record.budget import Budget, BudgetState
from edgewise.record.ledger import Ledger
from tests.record.ledger_cases import DAY, NOON, PROVIDER, TurnedClock, asking, cloud_attempt

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


def attempts(ledger: Ledger) -> list[dict[str, Any]]:
    connection = sqlite3.connect(ledger.path)
    connection.row_factory = sqlite3.Row
    rows = [dict(row) for row in connection.execute("SELECT * FROM attempts ORDER BY rowid")]
    connection.close()
    return rows


def test_the_ledger_is_a_purse(ledger: Ledger) -> None:
    budget_guard: BudgetGuard = ledger
    budget_guard.reserve("r/0", asking("r"), PROVIDER, 10)
    budget_guard.settle("r/0", cloud_attempt(7))
    assert [row["cost_microdollars"] for row in attempts(ledger)] == [7]


def test_a_reservation_is_on_disk_before_the_call(ledger: Ledger) -> None:
    ledger.reserve("r/0", asking("r", budget_key="ann"), PROVIDER, 250)
    (row,) = attempts(ledger)
    assert row["state"] == "reserved"
    assert (row["request_id"], row["backend"], row["model"]) == ("r", "openai", "gpt-5-nano")
    assert (row["budget_key"], row["reserved_microdollars"]) == ("ann", 250)
    assert (row["started_at"], row["expires_at"]) == (NOON, NOON + 150.0)
    assert [state.reserved for state in ledger.remaining()] == [250, 250, 250]


def test_settling_replaces_the_reservation_with_the_facts(
    ledger: Ledger, clock: TurnedClock
) -> None:
    ledger.reserve("r/0", asking("r"), PROVIDER, 250)
    clock.now += 2
    ledger.settle("r/0", cloud_attempt(42, cached_tokens=3, tries=2, shown_chars=5))
    (row,) = attempts(ledger)
    assert (row["state"], row["outcome"], row["settled_at"]) == ("settled", "answered", NOON + 2)
    assert (row["reserved_microdollars"], row["cost_microdollars"]) == (250, 42)
    assert (row["input_tokens"], row["output_tokens"], row["cached_tokens"]) == (12, 7, 3)
    assert (row["first_token_ms"], row["total_ms"], row["tries"]) == (310.0, 800.0, 2)
    assert (row["shown_chars"], row["estimated"]) == (5, 0)


def test_reserving_the_same_attempt_again_changes_nothing(ledger: Ledger) -> None:
    ledger.reserve("r/0", asking("r"), PROVIDER, 250)
    ledger.reserve("r/0", asking("r"), PROVIDER, 999)
    ledger.settle("r/0", cloud_attempt(42))
    ledger.reserve("r/0", asking("r"), PROVIDER, 999)
    assert [(row["state"], row["cost_microdollars"]) for row in attempts(ledger)] == [
        ("settled", 42)
    ]


def test_the_first_settlement_stands(ledger: Ledger) -> None:
    ledger.reserve("r/0", asking("r"), PROVIDER, 250)
    ledger.settle("r/0", cloud_attempt(42))
    ledger.settle("r/0", cloud_attempt(77, outcome="cloud_cut"))
    assert [(row["outcome"], row["cost_microdollars"]) for row in attempts(ledger)] == [
        ("answered", 42)
    ]


def test_settling_an_unknown_attempt_writes_it_once_under_its_requests_key(ledger: Ledger) -> None:
    ledger.reserve("r/0", asking("r", budget_key="ann"), PROVIDER, 10)
    ledger.settle("r/0", cloud_attempt(10))
    ledger.settle("r/1", cloud_attempt(20))
    ledger.settle("r/1", cloud_attempt(99))
    ledger.settle("stray", cloud_attempt(5))
    assert [
        (row["id"], row["request_id"], row["budget_key"], row["cost_microdollars"])
        for row in attempts(ledger)
    ] == [("r/0", "r", "ann", 10), ("r/1", "r", "ann", 20), ("stray", "stray", "", 5)]
    assert [state.spent for state in ledger.remaining()] == [35, 30, 35]


def test_an_expired_reservation_is_settled_at_its_full_amount(
    ledger: Ledger, clock: TurnedClock
) -> None:
    ledger.reserve("r/0", asking("r"), PROVIDER, 250)
    clock.now += 149.9
    assert ledger.sweep() == 0
    clock.now += 0.1
    assert ledger.sweep() == 1
    assert ledger.sweep() == 0
    (row,) = attempts(ledger)
    assert (row["state"], row["outcome"], row["estimated"]) == ("settled", "abandoned", 1)
    assert (row["cost_microdollars"], row["settled_at"]) == (250, clock.now)
    assert ledger.remaining()[0] == BudgetState(BUDGETS[0], 250, 0, 750, NOON + DAY / 2)


def test_a_sweep_can_be_told_the_time(ledger: Ledger) -> None:
    ledger.reserve("r/0", asking("r"), PROVIDER, 250)
    assert ledger.sweep(now=NOON + 1_000) == 1


def test_the_next_reservation_sweeps(ledger: Ledger, clock: TurnedClock) -> None:
    ledger.reserve("r/0", asking("r"), PROVIDER, 250)
    clock.now += 200
    ledger.reserve("s/0", asking("s"), PROVIDER, 10)
    assert [row["outcome"] for row in attempts(ledger)] == ["abandoned", ""]


def test_the_fact_replaces_the_guess_of_a_sweep_once(ledger: Ledger, clock: TurnedClock) -> None:
    ledger.reserve("r/0", asking("r"), PROVIDER, 250)
    clock.now += 3_600  # the laptop slept
    ledger.sweep()
    ledger.settle("r/0", cloud_attempt(42))
    ledger.settle("r/0", cloud_attempt(77))
    assert [(row["outcome"], row["cost_microdollars"]) for row in attempts(ledger)] == [
        ("answered", 42)
    ]
    assert ledger.remaining()[0].spent == 42


def test_a_refusal_names_the_budget_its_state_and_when_it_resets(ledger: Ledger) -> None:
    ledger.settle("r/0", cloud_attempt(600))
    ledger.reserve("s/0", asking("s"), PROVIDER, 300)
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve("t/0", asking("t"), PROVIDER, 101)
    assert str(refused.value) == (
        "the budget of $0.001 per day does not cover this call: $0.0006 spent, $0.0003 reserved, "
        "this call may cost $0.000101; it resets at 2026-11-04 00:00 UTC"
    )
    assert refused.value.code == "budget_spent"
    assert [row["id"] for row in attempts(ledger)] == ["r/0", "s/0"]
    ledger.reserve("t/0", asking("t"), PROVIDER, 100)


def test_a_keys_budget_binds_only_its_own_requests(ledger: Ledger) -> None:
    ledger.reserve("r/0", asking("r", budget_key="ann"), PROVIDER, 300)
    with pytest.raises(BudgetExceeded, match=r"for key 'ann'"):
        ledger.reserve("s/0", asking("s", budget_key="ann"), PROVIDER, 1)
    ledger.reserve("t/0", asking("t", budget_key="bob"), PROVIDER, 300)
    ledger.reserve("u/0", asking("u"), PROVIDER, 300)


def test_of_several_spent_budgets_the_one_that_resets_last_is_named(
    ledger: Ledger, clock: TurnedClock
) -> None:
    for day in range(5):
        ledger.settle(f"r/{day}", cloud_attempt(1_000))
        clock.now += DAY
    ledger.settle("s/0", cloud_attempt(1_000))
    with pytest.raises(BudgetExceeded, match=r"per month .* resets at 2026-12-01 00:00 UTC"):
        ledger.reserve("t/0", asking("t"), PROVIDER, 1)


def test_a_call_counts_for_the_day_it_began(ledger: Ledger, clock: TurnedClock) -> None:
    clock.now = NOON + DAY / 2 - 0.0001
    ledger.reserve("r/0", asking("r"), PROVIDER, 900)
    clock.now += 60
    ledger.settle("r/0", cloud_attempt(800))
    assert [state.spent for state in ledger.remaining()] == [0, 0, 800]
    ledger.reserve("s/0", asking("s"), PROVIDER, 1_000)


def test_a_call_that_cost_more_than_reserved_is_booked_as_it_was(ledger: Ledger) -> None:
    ledger.reserve("r/0", asking("r"), PROVIDER, 1_000)
    ledger.settle("r/0", cloud_attempt(1_200))
    assert ledger.remaining()[0] == BudgetState(BUDGETS[0], 1_200, 0, 0, NOON + DAY / 2)
    with pytest.raises(BudgetExceeded):
        ledger.reserve("s/0", asking("s"), PROVIDER, 0)


@pytest.mark.parametrize("amount", [-1, 2**63])
def test_money_from_nowhere_is_refused(ledger: Ledger, amount: int) -> None:
    with pytest.raises(ValueError, match="not an amount"):
        ledger.reserve("r/0", asking("r"), PROVIDER, amount)
    with pytest.raises(ValueError, match="not an amount"):
        ledger.settle("r/0", cloud_attempt(amount))
    assert ledger.remaining()[0].remaining == 1_000


def test_threads_share_one_ledger(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db", budgets=[Budget(400, "day")])
    refused = []

    def spend(thread: int) -> None:
        for index in range(25):
            request = asking(f"{thread}-{index}")
            try:
                ledger.reserve(f"{request.id}/0", request, PROVIDER, 10)
            except BudgetExceeded:
                refused.append(request.id)
            else:
                ledger.settle(f"{request.id}/0", cloud_attempt(5))

    threads = [threading.Thread(target=spend, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (state,) = ledger.remaining()
    assert (state.reserved, state.spent) == (0, 5 * (100 - len(refused)))
    assert 390 < state.spent <= 400
    assert ledger.verify() == []
    ledger.close()
