"""Budget arithmetic: parsing, windows, and limits that no order of events can pass."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from edgewise.errors import BudgetExceeded, LedgerUnavailable, SettingsError
from edgewise.record.ledger import Ledger
from edgewise.record.rows import Budget, Window, dollars, parse_budget, window_end, window_name
from tests.record.ledger_cases import DAY, NOON, PROVIDER, TurnedClock, asking, cloud_attempt


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("$3/day", Budget(3_000_000, "day")),
        ("$0.50/month", Budget(500_000, "month")),
        (" $12.000001 / month ", Budget(12_000_001, "month")),
        ("$0/day", Budget(0, "day")),
        ("ann: $1/day", Budget(1_000_000, "day", "ann")),
    ],
)
def test_a_budget_is_read_to_the_microdollar(text: str, budget: Budget) -> None:
    assert parse_budget(text) == budget


def test_a_budget_can_be_for_one_key() -> None:
    assert parse_budget("$1/day", key="ann") == Budget(1_000_000, "day", "ann")


@pytest.mark.parametrize(
    "text",
    ["", "$3", "3/day",
     "3 dollars/day", "$-1/day", "$1/week", "$1/Day", "$0.1234567/day", "$1e3/day",
     "$.5/day", "$٣/day", "€3/day", "$3/day/month", "$3/day\n$4/day", "$9999999999/day"],
)  # fmt: skip
def test_a_malformed_budget_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="cannot read the budget"):
        parse_budget(text)


def test_a_budget_with_a_bad_value_cannot_be_made() -> None:
    with pytest.raises(SettingsError, match="negative"):
        Budget(-1, "day")
    with pytest.raises(SettingsError, match="'week'"):
        Budget(1, "week")  # type: ignore[arg-type]


@given(st.integers(0, 10**15 - 1), st.sampled_from(["day", "month"]))
def test_an_amount_is_printed_exactly(microdollars: int, window: str) -> None:
    assert parse_budget(f"{dollars(microdollars)}/{window}").limit_microdollars == microdollars


def test_amounts_have_two_to_six_decimals() -> None:
    assert [dollars(n) for n in (0, 3_000_000, 125, 1_500_000)] == [
        "$0.00", "$3.00", "$0.000125", "$1.50",
    ]  # fmt: skip
    assert dollars(-125) == "-$0.000125"


def utc(*moment: int) -> float:
    return datetime(*moment, tzinfo=UTC).timestamp()  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("now", "window", "name", "end"),
    [
        (NOON, "day", "2026-11-03", utc(2026, 11, 4)),
        (NOON, "month", "2026-11", utc(2026, 12, 1)),
        (utc(2026, 12, 31, 23, 59, 59), "day", "2026-12-31", utc(2027, 1, 1)),
        (utc(2026, 12, 31, 23, 59, 59), "month", "2026-12", utc(2027, 1, 1)),
        (utc(2027, 1, 1), "month", "2027-01", utc(2027, 2, 1)),
        (utc(2028, 2, 29, 12), "month", "2028-02", utc(2028, 3, 1)),
        (utc(2026, 1, 31), "month", "2026-01", utc(2026, 2, 1)),
    ],
)
def test_windows_are_calendar_days_and_months_in_utc(
    now: float, window: Window, name: str, end: float
) -> None:
    assert window_name(now, window) == name
    assert window_end(now, window) == end


@given(st.floats(0, 4e9), st.sampled_from(["day", "month"]))
def test_a_window_ends_exactly_where_the_next_one_begins(now: float, window: Window) -> None:
    end = window_end(now, window)
    assert now < end
    assert window_name(end, window) != window_name(now, window)
    assert window_name(end - 0.001, window) == window_name(now, window)


DAILY, MONTHLY, ANNS = 1_000, 2_500, 400


@dataclass
class Entry:
    """One attempt in the machine's own accounts."""

    key: str
    day: str
    month: str
    amount: int
    expires_at: float
    still_open: bool = True


class SpendingMachine(RuleBasedStateMachine):
    """Two ledgers on one file, any order of reserve, settle, expiry, sweep and midnight.

    The machine keeps its own accounts; the limits must hold at every moment and the ledger must
    agree with the books to the micro-dollar.
    """

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.clock = TurnedClock()
        budgets = (Budget(DAILY, "day"), Budget(MONTHLY, "month"), Budget(ANNS, "day", "ann"))
        self.ledgers = [
            Ledger(
                Path(self.folder.name) / "ledger.db",
                budgets=budgets,
                reservation_s=100.0,
                clock=self.clock,
            )
            for _ in range(2)
        ]
        self.books: dict[str, Entry] = {}
        self.count = 0

    def booked(self, *, key: str = "", name: str = "", still_open: bool | None = None) -> int:
        return sum(
            entry.amount
            for entry in self.books.values()
            if key in ("", entry.key)
            and name in ("", entry.day, entry.month)
            and still_open in (None, entry.still_open)
        )

    def expire(self) -> None:
        for entry in self.books.values():
            entry.still_open = entry.still_open and entry.expires_at > self.clock.now

    @rule(which=st.integers(0, 1), key=st.sampled_from(["", "ann"]), amount=st.integers(0, 500))
    def reserve(self, which: int, key: str, amount: int) -> None:
        self.count += 1
        attempt_id = f"r{self.count}/0"
        day, month = window_name(self.clock.now, "day"), window_name(self.clock.now, "month")
        fits = (
            self.booked(name=day) + amount <= DAILY
            and self.booked(name=month) + amount <= MONTHLY
            and (key != "ann" or self.booked(key="ann", name=day) + amount <= ANNS)
        )
        request = asking(f"r{self.count}", budget_key=key)
        try:
            self.ledgers[which].reserve(attempt_id, request, PROVIDER, amount)
        except BudgetExceeded:
            assert not fits
        else:
            assert fits
            self.expire()  # a reservation that succeeds has swept
            self.books[attempt_id] = Entry(key, day, month, amount, self.clock.now + 100.0)

    @rule(which=st.integers(0, 1), data=st.data())
    def reserve_again(self, which: int, data: st.DataObject) -> None:
        if self.books:
            attempt_id = data.draw(st.sampled_from(sorted(self.books)))
            request = asking(attempt_id.removesuffix("/0"))
            with pytest.raises(LedgerUnavailable):
                self.ledgers[which].reserve(attempt_id, request, PROVIDER, 10**9)

    @rule(which=st.integers(0, 1), data=st.data(), share=st.floats(0, 1))
    def settle(self, which: int, data: st.DataObject, share: float) -> None:
        waiting = sorted(each for each, entry in self.books.items() if entry.still_open)
        if waiting:
            attempt_id = data.draw(st.sampled_from(waiting))
            entry = self.books[attempt_id]
            cost = int(entry.amount * share)
            self.ledgers[which].settle(attempt_id, cloud_attempt(cost))
            entry.amount, entry.still_open = cost, False
            # The second settlement, with another price, must change nothing.
            self.ledgers[1 - which].settle(attempt_id, cloud_attempt(10**9))

    @rule(seconds=st.sampled_from([1.0, 60.0, 99.0, 101.0, DAY / 3, DAY, 9 * DAY]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(which=st.integers(0, 1))
    def sweep(self, which: int) -> None:
        self.ledgers[which].sweep()
        self.expire()

    @invariant()
    def no_limit_is_passed_and_the_ledger_agrees_with_the_books(self) -> None:
        states = self.ledgers[0].remaining()
        for state in states:
            name = window_name(self.clock.now, state.budget.window)
            key = state.budget.key
            assert state.spent == self.booked(key=key, name=name, still_open=False)
            assert state.reserved == self.booked(key=key, name=name, still_open=True)
            assert state.spent + state.reserved <= state.budget.limit_microdollars
            assert state.remaining == (
                state.budget.limit_microdollars - state.spent - state.reserved
            )

    def teardown(self) -> None:  # type: ignore[explicit-override]  # typing has it from 3.12
        if hasattr(self, "ledgers"):
            assert self.ledgers[0].verify() == []
            for ledger in self.ledgers:
                ledger.close()
            self.folder.cleanup()


TestSpending = SpendingMachine.TestCase
TestSpending.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
