from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgewise.bench.speech_deferral import Curve, Deferral
from edgewise.bench.speech_plots import keep_deferral


def test_the_curves_are_drawn_and_their_points_kept(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    line = Curve((0.0, 1.0), (0.4, 0.1))
    found = Deferral(line, Curve((0.0, 1.0), (0.4, 0.2)), Curve((0.0, 1.0), (0.4, 0.0)))
    keep_deferral(tmp_path, {"one cloud": found, "another": found})
    assert (tmp_path / "speech_deferral.png").read_bytes().startswith(b"\x89PNG")
    points = json.loads((tmp_path / "speech_deferral.json").read_text("utf-8"))
    assert points["another"]["ours"]["rates"] == [0.4, 0.1]
