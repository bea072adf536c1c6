"""The overhead bench on the real model, as briefly as it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise.local.backend import DeviceFacts
from edgewise.local.store import InstalledModel
from edgewise.settings import Settings
from edgewise.types.replies import TextDelta, Token
from edgewise_bench.chat.overhead import (
    QUICK,
    TARGETS,
    SideBySide,
    measure_overhead,
    measure_requests,
    measure_startup,
    measure_tokens,
    percentile,
    texts,
)
from edgewise_bench.scorecard import reached, verdicts

FACTS = DeviceFacts(backend="replay", model="replay", quantisation="none", context_tokens=2048)


@pytest.mark.real_model
def test_measures_everything_it_promises(default_model: InstalledModel, tmp_path: Path) -> None:
    steps: list[None] = []
    settings = Settings.load(threads=1, data_dir=tmp_path)
    found = measure_overhead(settings, QUICK, lambda: steps.append(None))
    assert set(TARGETS) <= set(found)
    assert found["ledger_ms_p50"] > 0
    assert 0.1 < found["tokens_per_second_ratio"] < 10
    assert all(value >= 0 for value in found.values() if value != found["import_s"])
    assert len(steps) == QUICK.steps


@pytest.mark.real_model
def test_engine_and_bare_runtime_say_the_same(
    default_model: InstalledModel, tmp_path: Path
) -> None:
    """Else the ratio would compare different work."""
    pair = SideBySide(default_model, Settings.load(threads=1, data_dir=tmp_path))
    try:
        prompt = "What is the chemical symbol for gold?"
        bare = "".join(texts(pair.bare(prompt, 16)))
        events = pair.engine.stream(prompt, max_tokens=16, policy="local_only")
        ours = "".join(event.text for event in events if isinstance(event, TextDelta))
    finally:
        pair.close()
    assert "Au" in bare
    assert ours == bare


def test_targets_have_a_direction() -> None:
    assert reached("tokens_per_second_ratio", 0.99, TARGETS)
    assert not reached("tokens_per_second_ratio", 0.98, TARGETS)
    assert reached("import_s", 0.149, TARGETS)
    assert not reached("import_s", 0.15, TARGETS)
    assert verdicts({"version_s": 0.5}, TARGETS) == {"version_s": "< 0.4, missed"}


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(value) for value in range(1, 101)]
    assert percentile(values, 99) == 99.0
    assert percentile(values, 100) == 100.0
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert percentile([5.0], 99) == 5.0


def test_requests_are_timed_apart_from_the_ledger(tmp_path: Path) -> None:
    found = measure_requests(Settings.load(data_dir=tmp_path), 20)
    assert 0 < found["decision_ms_p50"] <= found["decision_ms_p99"]
    assert 0 < found["ledger_ms_p50"] <= found["ledger_ms_p99"]
    assert (tmp_path / "ledger.sqlite3").exists()


def test_tokens_are_timed_until_the_next_is_pulled(tmp_path: Path) -> None:
    settings = Settings.load(data_dir=tmp_path)
    found = measure_tokens(settings, [Token(" word", -0.1, 2.0, 0.3)] * 20, FACTS, 3)
    assert 0 < found["token_us_p50"] <= found["token_us_p99"]


def test_starting_takes_some_time() -> None:
    found = measure_startup(1)
    assert found["version_s"] > 0
    assert found["import_s"] < found["version_s"]
