"""Pictures of routing: they are drawn, and into folders that are not there yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise.bench.early_decision import study_early
from edgewise.bench.routing_plots import draw_early
from tests.bench.test_boundaries import wandering


def test_early_decisions_are_drawn_beside_those_in_the_end(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = study_early(wandering(300, noise=1.0))
    path = draw_early(tmp_path / "new" / "early.png", {"threshold 0.5": found, "again": found})
    assert path.read_bytes().startswith(b"\x89PNG")
