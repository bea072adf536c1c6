"""The plan for more machines adds up, and says which part is full first."""

from __future__ import annotations

import pytest

from edgewise_bench.scale.capacity import BUSY, TASKS, check, measure_task, plan, predicted

METRICS = {
    "front_cpu_ms": 4.0,
    "proxy_cpu_ms": 0.5,
    "client_cpu_ms": 0.5,
    "chat_cpu_s": 0.4955,
    "postgres_4_pairs_per_second": 100.0,
}


def test_one_replica_has_one_core_and_all_together_have_those_of_the_machine() -> None:
    assert predicted(METRICS, 1, cores=2) == 250
    assert predicted(METRICS, 2, cores=2) == predicted(METRICS, 4, cores=2) == 400


def test_a_prediction_is_compared_with_what_was_measured() -> None:
    measured = METRICS | {"requests_per_second_1_replica": 200, "requests_per_second_2_replicas": 1}
    found = check(measured, (1, 2), cores=2)
    assert found["predicted_over_measured_1_replica"] == 1.25
    assert found["predicted_per_second_2_replicas"] == 400


def test_machines_add_up_until_the_database_is_full() -> None:
    one = plan(METRICS, "chat", machines=1, cores=8, handed_off=0.3)
    assert one.per_second == pytest.approx(8 * BUSY / 0.5)
    assert one.pairs_per_second == pytest.approx(one.per_second * 0.3)
    ten = plan(METRICS, "chat", machines=10, cores=8, handed_off=0.3)
    assert ten.per_second == pytest.approx(10 * one.per_second) and not ten.store_bound
    thousand = plan(METRICS, "chat", machines=1000, cores=8, handed_off=0.3)
    assert thousand.store_bound and thousand.pairs_per_second == pytest.approx(100 * BUSY)


def test_what_never_leaves_never_fills_the_database() -> None:
    found = plan(METRICS, "chat", machines=1000, cores=8, handed_off=0.0)
    assert (found.pairs_per_second, found.store_bound) == (0.0, False)


@pytest.mark.real_model
@pytest.mark.parametrize("task", TASKS)
def test_a_request_of_each_task_takes_time_and_memory(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise_bench.scale.capacity.REQUESTS", 1)
    told = measure_task(task)
    assert told["cpu_s"] > 0 and told["mb"] >= 0
