"""The bench of a model in a process of its own, on the real model, as briefly as it goes."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from edgewise.local.store import InstalledModel
from edgewise_bench.chat.isolate import QUICK, STREAMS, TARGETS
from edgewise_bench.commands import bench


@pytest.mark.real_model
def test_measures_what_a_process_of_its_own_costs(default_model: InstalledModel) -> None:
    result = CliRunner().invoke(bench, ["isolate", "--quick", "--json"], catch_exceptions=False)
    card = json.loads(result.stdout)
    assert card["command"] == "edgewise bench isolate --quick"
    found = card["metrics"]
    assert set(TARGETS) <= set(found)
    assert 0.1 < found["tokens_per_second_ratio"] < 10
    assert 0.1 < found[f"cpu_ratio_{STREAMS}"] < 10
    assert found["restart_ms_max"] >= found["restart_ms_p50"] > 0
    assert found["restart_first_token_ms_p50"] > found["restart_ms_p50"]
    assert found["process_mb"] > found["empty_process_mb"] > 5
    assert QUICK.steps == 2 * 2 + 4 * 2 + 1
