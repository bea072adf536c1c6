"""Any order of reserving, settling, sweeping and dying equals a model of a dozen lines."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgewise.errors import BudgetExceeded, LedgerUnavailable
from edgewise.record.ledger import Ledger
from edgewise.record.rows import Budget
from tests.record.ledger_cases import PROVIDER, Books, TurnedClock, asking, cloud_attempt

LIMIT = 100
EXPIRES_S = 10.0
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), st.integers(0, 5), st.integers(0, 60)),
        st.tuples(st.just("settle"), st.integers(0, 5), st.integers(0, 60)),
        st.tuples(st.just("sweep"), st.just(0), st.just(0)),
        st.tuples(st.just("wait"), st.just(0), st.integers(1, 12)),
        st.tuples(st.just("die"), st.just(0), st.just(0)),
    ),
    max_size=25,
)


@dataclass
class Model:
    """Attempts by number: what each costs, whether it is open, and when it expires."""

    now: float
    cost: dict[int, int] = field(default_factory=dict)
    open: dict[int, float] = field(default_factory=dict)  # and until when
    guessed: set[int] = field(default_factory=set)

    def sweep(self) -> None:
        for number in [number for number, until in self.open.items() if until <= self.now]:
            del self.open[number]
            self.guessed.add(number)

    def reserve(self, number: int, amount: int) -> bool:
        if number in self.cost:
            return False
        self.sweep()
        if sum(self.cost.values()) + amount > LIMIT:
            return False
        self.cost[number], self.open[number] = amount, self.now + EXPIRES_S
        return True

    def settle(self, number: int, amount: int) -> None:
        if number in self.open or number in self.guessed or number not in self.cost:
            self.open.pop(number, None)
            self.guessed.discard(number)
            self.cost[number] = amount

    @property
    def spent_and_reserved(self) -> tuple[int, int]:
        reserved = sum(self.cost[number] for number in self.open)
        return sum(self.cost.values()) - reserved, reserved


@pytest.fixture
def runs(books: Books) -> Iterator[int]:
    """Each example has ids of its own, and a month that nobody else has."""
    return itertools.count()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=STEPS)
def test_money_is_what_the_model_says(
    books: Books, runs: Iterator[int], steps: list[tuple[str, int, int]]
) -> None:
    run = next(runs)
    clock = TurnedClock(run * 40 * 86_400.0)
    rules = {"budgets": [Budget(LIMIT, "month")], "reservation_s": EXPIRES_S, "clock": clock}
    ledger: Ledger = books.open(**rules)
    model = Model(clock.now)
    for kind, number, amount in steps:
        attempt_id, request = f"{run}-{number}/0", asking(f"{run}-{number}")
        if kind == "reserve":
            try:
                ledger.reserve(attempt_id, request, PROVIDER, amount)
                reserved = True
            except (BudgetExceeded, LedgerUnavailable):  # the second: a known attempt
                reserved = False
            assert reserved == model.reserve(number, amount)
            if not reserved:  # what it swept before it was refused, a file has taken back
                ledger.sweep()
                model.sweep()
        elif kind == "settle":
            ledger.settle(attempt_id, cloud_attempt(amount))
            model.settle(number, amount)
        elif kind == "sweep":
            ledger.sweep()
            model.sweep()
        elif kind == "wait":
            clock.now += amount
            model.now += amount
        else:  # another process goes on
            ledger.close()
            ledger = books.open(**rules)
        (state,) = ledger.remaining()
        assert (state.spent, state.reserved) == model.spent_and_reserved
    assert ledger.verify() == []
    ledger.close()
