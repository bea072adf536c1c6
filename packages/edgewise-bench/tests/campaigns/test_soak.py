"""`edgewise bench soak` for seconds: every kind of request, and figures of both ends."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from edgewise.local.store import InstalledModel
from edgewise_bench.campaigns.soak import CLIENTS, KINDS, TARGETS, Sample, Soak
from edgewise_bench.commands import bench
from edgewise_bench.processes import started

IDLE = """
import time
print('{"url": "http://127.0.0.1:1"}', flush=True)
time.sleep(600)
"""


@pytest.mark.real_model
def test_a_short_soak_has_every_figure(
    default_model: InstalledModel,
    default_function_model: InstalledModel,
    default_embedder: InstalledModel,
    default_transcriber: InstalledModel,
) -> None:
    arguments = ["soak", "--minutes", "0.1", "--seed", "4", "--json"]
    result = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    metrics = json.loads(result.stdout)["metrics"]
    assert metrics["requests"] >= CLIENTS
    assert metrics["errors"] == 0, metrics
    assert set(TARGETS) <= set(metrics)
    assert (metrics["process_deaths"], metrics["next_good_served"]) == (0, 1)


def test_latencies_are_of_the_first_and_the_last_third() -> None:
    with started("-c", IDLE) as process:
        soak = Soak(process, 1.0, 0)
        kind = next(iter(KINDS))
        soak.load.samples[:] = [Sample(at, 100 + at, 10, 5) for at in (0.0, 5.0, 30.0, 90.0)]
        soak.load.took[:] = [(1.0, kind, 10.0), (45.0, kind, 500.0), (80.0, kind, 30.0)]
        metrics = soak.metrics()
    assert metrics[f"{kind}_p50_ms_first"] == 10
    assert metrics[f"{kind}_p99_ms_last"] == 30
    assert metrics["resident_mb_warm"] == 130, "the first sample after a tenth of the time"
    assert metrics["growth_mb"] == 60
    assert metrics["minutes"] == 1.5
