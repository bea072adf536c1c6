"""The overhead bench on the real model, as briefly as it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise.bench.overhead import QUICK, TARGETS, measure_overhead, reached, verdicts
from edgewise.bench.side_by_side import SideBySide, texts
from edgewise.local.store.store import InstalledModel
from edgewise.settings import Settings
from edgewise.types.replies import TextDelta


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
    assert reached("tokens_per_second_ratio", 0.97)
    assert not reached("tokens_per_second_ratio", 0.96)
    assert reached("import_s", 0.149)
    assert not reached("import_s", 0.15)
    assert verdicts({"version_s": 0.5}) == {"version_s": "< 0.4, missed"}
