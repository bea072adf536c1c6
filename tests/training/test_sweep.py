from __future__ import annotations

from typing import Any

import pytest
from training.sweep import base_of, bases_of, best_run, open_runs, settings_of


def result(name: str, exact: float, **settings: Any) -> dict[str, Any]:
    return {
        "name": name,
        "status": "finished",
        "settings": {"name": name, **settings},
        "valid": {"exact": exact},
    }


PLAN: dict[str, Any] = {
    "defaults": {"rank": 16, "tokens": 100},
    "runs": [{"name": "a"}, {"name": "b"}, {"name": "c", "like": "best", "seed": 9}],
}


def names(results: list[dict[str, Any]], attempts: dict[str, int]) -> list[str]:
    return [row["name"] for row in open_runs(PLAN, results, attempts)]


def test_runs_come_in_order_and_a_run_that_keeps_failing_is_given_up() -> None:
    assert names([], {}) == ["a", "b", "c"]
    assert names([result("a", 0.1)], {"b": 1}) == ["b", "c"]
    assert names([result("a", 0.1)], {"b": 2}) == ["c"]
    assert names([result(name, 0.1) for name in "abc"], {}) == []


def test_a_mean_waits_for_its_runs_and_has_their_base() -> None:
    mean = {"name": "m", "mean": ["a", "b"]}
    runs: list[dict[str, Any]] = [
        {"name": "a", "base": "q.gguf"},
        {"name": "b", "base": "q.gguf"},
        mean,
        {"name": "c"},
    ]
    plan = {"base": "s.gguf", "data": {"rounds": [1, 2]}, "runs": runs}
    assert [row["name"] for row in open_runs(plan, [result("a", 0.1)], {})] == ["b", "c"]
    assert open_runs(plan, [result("a", 0.1)], {"b": 2})[0] == mean
    assert [base_of(row, plan) for row in runs] == ["q.gguf"] * 3 + ["s.gguf"]
    assert bases_of(plan) == {"s.gguf": 2}
    assert bases_of(plan | {"bases": {"q.gguf": 1}}) == {"q.gguf": 1}


def test_a_run_like_the_best_takes_its_settings_but_keeps_its_own() -> None:
    results = [result("a", 0.5, rank=64, seed=1), result("b", 0.4, rank=8)]
    failed = {"name": "x", "status": "diverged", "settings": {}, "valid": {"exact": 0.9}}
    settings = settings_of(PLAN["runs"][2], PLAN, [*results, failed])
    assert (settings.name, settings.rank, settings.seed, settings.tokens) == ("c", 64, 9, 100)
    assert best_run([]) is None
    other_base = result("q", 0.9, rank=128) | {"base": "q.gguf"}
    assert settings_of(PLAN["runs"][2], PLAN, [*results, other_base]).rank == 64


def test_a_slip_in_the_plan_is_an_error_and_not_a_default() -> None:
    with pytest.raises(ValueError, match="learnig_rate"):
        settings_of({"name": "a", "learnig_rate": 1.0}, PLAN, [])
    with pytest.raises(ValueError, match="no result"):
        settings_of({"name": "a", "like": "best"}, PLAN, [])
