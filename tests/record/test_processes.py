"""Several real processes on one file: the sum is exact and never above the limit."""

from __future__ import annotations

import contextlib
import multiprocessing
import queue
import random
from collections.abc import Callable
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import TypeAlias

from edgewise.errors import BudgetExceeded
from edgewise.record.budget import Budget
from edgewise.record.ledger import Ledger
from tests.record.ledger_cases import NOON, PROVIDER, TurnedClock, asking, cloud_attempt, replying

PROCESSES = 4
ROUNDS = 150
BUDGETS = (Budget(15_000, "month"), Budget(1_500, "month", "ann"))
Results: TypeAlias = "Queue[tuple[int, int, int]]"  # spent by all, spent by ann, refusals


def open_ledger(path: Path) -> Ledger:
    # The clock stands still: midnight must not fall into the test.
    return Ledger(path, budgets=BUDGETS, busy_s=60.0, clock=TurnedClock(NOON))


def spend(path: Path, number: int, start: Barrier, results: Results) -> None:
    """Reserve, settle for no more, record; then tell what was spent and how often refused."""
    chance = random.Random(number)
    ledger = open_ledger(path)
    spent = {"": 0, "ann": 0}
    refused = 0
    start.wait()
    for index in range(ROUNDS):
        key = chance.choice(["", "ann"])
        request = asking(f"{number}-{index}", budget_key=key)
        amount = chance.randint(1, 200)
        try:
            ledger.reserve(f"{request.id}/0", request, PROVIDER, amount)
        except BudgetExceeded:
            refused += 1
            continue
        cost = chance.randint(0, amount)
        ledger.settle(f"{request.id}/0", cloud_attempt(cost))
        ledger.record(request, replying(request.id))
        spent[key] += cost
    ledger.close()
    results.put((sum(spent.values()), spent["ann"], refused))


def spend_the_same(path: Path, number: int, start: Barrier, results: Results) -> None:
    """Every process does the same attempts of the same requests, at a price of its own."""
    ledger = open_ledger(path)
    start.wait()
    for index in range(ROUNDS):
        request = asking(f"same-{index}")
        ledger.reserve(f"{request.id}/0", request, PROVIDER, 10)
        ledger.settle(f"{request.id}/0", cloud_attempt(number + 1))
        ledger.record(request, replying(request.id))
    ledger.close()
    results.put((0, 0, 0))


def run(
    work: Callable[[Path, int, Barrier, Results], None], path: Path
) -> list[tuple[int, int, int]]:
    """Start all at one moment, look at the budgets until all are done, return what they told."""
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(PROCESSES + 1), context.Queue()
    children = [
        context.Process(target=work, args=(path, number, start, results))
        for number in range(PROCESSES)
    ]
    for child in children:
        child.start()
    start.wait(timeout=60)
    watching = open_ledger(path)
    told: list[tuple[int, int, int]] = []
    while len(told) < PROCESSES:
        for state in watching.remaining():
            assert state.spent + state.reserved <= state.budget.limit_microdollars
        assert all(child.exitcode in (None, 0) for child in children)
        with contextlib.suppress(queue.Empty):
            told.append(results.get(timeout=0.002))
    for child in children:
        child.join()
    watching.close()
    return told


def test_four_processes_spend_exactly_and_never_above_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    told = run(spend, path)
    ledger = open_ledger(path)
    everyone, ann = ledger.remaining()
    assert everyone.spent == sum(spent for spent, _, _ in told)
    assert ann.spent == sum(anns for _, anns, _ in told)
    assert (everyone.reserved, ann.reserved) == (0, 0)
    report = ledger.report()
    assert report.spent_microdollars == everyone.spent
    assert report.requests == PROCESSES * ROUNDS - sum(refused for _, _, refused in told)
    # The budgets did bind.
    assert all(refused > 0 for _, _, refused in told)
    assert ledger.verify() == []
    ledger.close()


def test_the_same_request_in_four_processes_is_booked_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    run(spend_the_same, path)
    ledger = open_ledger(path)
    assert ledger.report().requests == ROUNDS
    assert ledger.report().providers["openai"].attempts == ROUNDS
    assert ROUNDS <= ledger.report().spent_microdollars <= ROUNDS * PROCESSES
    assert ledger.report().reserved_microdollars == 0
    assert ledger.verify() == []
    ledger.close()
