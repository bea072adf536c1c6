from __future__ import annotations

from typing import Any

import pytest
from training.sweep import best_run, next_run, settings_of


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


def test_runs_come_in_order_and_a_run_that_keeps_failing_is_given_up() -> None:
    assert next_run(PLAN, [], {})["name"] == "a"
    assert next_run(PLAN, [result("a", 0.1)], {})["name"] == "b"
    assert next_run(PLAN, [result("a", 0.1)], {"b": 2})["name"] == "c"
    assert next_run(PLAN, [result(name, 0.1) for name in "abc"], {}) == {}


def test_a_run_like_the_best_takes_its_settings_but_keeps_its_own() -> None:
    results = [result("a", 0.5, rank=64, seed=1), result("b", 0.4, rank=8)]
    failed = {"name": "x", "status": "diverged", "settings": {}, "valid": {"exact": 0.9}}
    settings = settings_of(PLAN["runs"][2], PLAN, [*results, failed])
    assert (settings.name, settings.rank, settings.seed, settings.tokens) == ("c", 64, 9, 100)
    assert best_run([]) is None


def test_a_slip_in_the_plan_is_an_error_and_not_a_default() -> None:
    with pytest.raises(ValueError, match="learnig_rate"):
        settings_of({"name": "a", "learnig_rate": 1.0}, PLAN, [])
    with pytest.raises(ValueError, match="no result"):
        settings_of({"name": "a", "like": "best"}, PLAN, [])
