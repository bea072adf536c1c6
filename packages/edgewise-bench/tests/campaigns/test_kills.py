"""Killed at random points, processes lose no row and no micro-dollar; and the judge is no fool."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
from tests.campaigns import rounds

from edgewise_bench.campaigns.killed import CHILDREN, LEDGER
from edgewise_bench.campaigns.kills import SHARES, TARGETS, Announced, Tally, measure_kills, plan
from edgewise_bench.scorecard import reached

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the killed processes are forked")
ROUNDS = rounds(400)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, float]]:
    folder = tmp_path_factory.mktemp("killed")
    return folder, measure_kills(folder, ROUNDS, seed=2026)


def test_nothing_is_lost_or_doubled_and_the_budget_is_exact(
    killed: tuple[Path, dict[str, float]],
) -> None:
    _, metrics = killed
    assert metrics["rounds"] == ROUNDS
    missed = {name: metrics[name] for name in TARGETS if not reached(name, metrics[name], TARGETS)}
    assert missed == {}
    # The kills did hit: some calls were paid for, some were cut off with money set aside.
    assert metrics["answered"] > ROUNDS
    assert metrics["abandoned"] >= metrics["left_open"] > ROUNDS // 20
    assert metrics["cloud_calls"] > ROUNDS * SHARES["engine"] / 10 / 4


def test_a_row_that_is_lost_doubled_or_wrongly_charged_is_noticed(
    killed: tuple[Path, dict[str, float]],
) -> None:
    folder, _ = killed
    ledger = folder / LEDGER
    with sqlite3.connect(ledger) as connection:
        first, second, third = connection.execute(
            "SELECT id, cost_microdollars FROM attempts WHERE outcome = 'answered' LIMIT 3"
        ).fetchall()
    connection.close()
    announced = Announced()
    for line in (
        *("reserving gone 10 5", "reserved gone", "recorded never"),
        *(f"reserving {name} 1000 {cost}" for name, cost in (first, second)),
        f"reserving {third[0]} 1000 {third[1] + 7}",
        *(f"settled {name}" for name, _ in (first, third)),
    ):
        announced.hear(line)
    tally = Tally()
    tally.add_ledger(ledger, announced)
    assert tally.count["rows_lost"] == 2
    assert tally.count["rows_doubled"] > 0, "rows that nobody announced"
    assert tally.count["budget_off_microdollars"] == 7
    assert tally.count["integrity_faults"] == 0


def test_a_total_that_is_not_the_sum_of_its_rows_is_noticed(
    killed: tuple[Path, dict[str, float]],
) -> None:
    folder, _ = killed
    with sqlite3.connect(folder / "ledger.sqlite3") as connection:
        connection.execute("UPDATE spend SET settled_microdollars = settled_microdollars + 1")
    connection.close()
    tally = Tally()
    tally.add_engine(folder / "ledger.sqlite3", {"unknown/0"}, set())
    assert tally.count["rows_lost"] == 1
    assert tally.count["budget_off_microdollars"] == 1
    assert tally.count["integrity_faults"] > 0


def test_a_seed_says_in_which_order_they_die() -> None:
    assert plan(50, 1) == plan(50, 1) != plan(50, 2)
    assert set(plan(50, 1)) == set(SHARES) == set(CHILDREN)
    assert sum(SHARES.values()) == 10
