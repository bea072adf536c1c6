"""The scorecard's JSON: exactly five keys, flat numbers, readable again from disk."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from edgewise import __version__
from edgewise_bench.scorecard import make_scorecard


def test_a_scorecard_has_five_keys_and_flat_metrics(tmp_path: Path) -> None:
    card = make_scorecard("speed", "edgewise bench speed", {"ratio": 0.98765432, "rounds": 24})
    path = tmp_path / "benchmarks" / "speed.json"
    card.save(path)
    data = json.loads(path.read_text("utf-8"))
    assert list(data) == ["name", "command", "versions", "date", "metrics"]
    assert data["metrics"] == {"ratio": 0.9877, "rounds": 24.0}
    assert data["versions"]["edgewise"] == __version__
    assert {"python", "xllamacpp", "platform", "processor", "cpus"} <= set(data["versions"])
    assert datetime.fromisoformat(data["date"]).tzinfo is not None
    assert data == card.to_dict()
