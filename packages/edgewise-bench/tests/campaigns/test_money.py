"""No bill above its reservation, its budget or the ledger; and the judge is no fool."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.campaigns import rounds

from edgewise.cloud import providers
from edgewise.record.ledger import Ledger
from edgewise_bench.campaigns import money
from edgewise_bench.campaigns.money import TARGETS, measure_money
from edgewise_bench.scorecard import reached

REQUESTS = rounds(320)


def missed(metrics: dict[str, float]) -> set[str]:
    return {name for name in TARGETS if not reached(name, metrics[name], TARGETS)}


def test_no_bill_passes_what_was_reserved_budgeted_or_booked(tmp_path: Path) -> None:
    metrics = measure_money(tmp_path, REQUESTS, seed=2026)
    assert missed(metrics) == set()
    # It did hit: whole answers, cut ones, twins, and a budget that was spent.
    assert metrics["requests"] > REQUESTS > metrics["refused_by_budget"] > 0
    assert min(metrics["complete"], metrics["cut"]) > REQUESTS / 8
    assert metrics["billed_microdollars"] > 0 < metrics["raced_ids"]
    assert metrics["decided"] > REQUESTS / 10


def test_a_bound_that_is_too_low_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(providers, "most_input_tokens", lambda request, **_: 100)
    monkeypatch.setattr(money, "KEY_MICRODOLLARS", 1_000)
    metrics = measure_money(tmp_path, 80, seed=7)
    low = {"underreserved", "billed_over_budget_microdollars", "cut_below_billed"}
    assert low <= missed(metrics)
    assert metrics["ledger_off_microdollars"] == 0


def test_a_ledger_that_gives_an_id_to_everybody_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ledger, "claim", lambda ledger, request_id: True)
    assert "ids_taken_twice" in missed(measure_money(tmp_path, 30, seed=3))


def test_a_row_that_is_gone_or_wrong_is_noticed(tmp_path: Path) -> None:
    measure_money(tmp_path, 12, seed=5)
    path = tmp_path / "ledger.sqlite3"
    bills = {"nobody/0": money.Billed(5, exact=True)}
    assert money.judge(path, bills, {"": 10**9})["cut_below_billed"] == 1
