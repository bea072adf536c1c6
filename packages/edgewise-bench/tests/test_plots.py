"""Pictures of routing: they are drawn, and into folders that are not there yet."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.calibrate.test_fit import wandering

from edgewise.errors import SettingsError
from edgewise_bench.calls.cases import CallCase
from edgewise_bench.calls.scores import Results
from edgewise_bench.calls.systems import Answered
from edgewise_bench.plots import check_drawing, draw_calls, draw_early, keep_deferral
from edgewise_bench.routing.waiting import study_early
from edgewise_bench.speech.deferral import Curve, Deferral


def test_without_matplotlib_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not there
    with pytest.raises(SettingsError, match=r"pip install .*edgewise-bench\[plots\]"):
        check_drawing()


def test_nothing_is_drawn_with_before_it_is_asked_for() -> None:
    loads = "import sys, edgewise_bench.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loads], check=False).returncode == 0


def test_draws_three_pictures(tmp_path: Path) -> None:
    case = CallCase("mine", "1", "go", (), (("go", {}),))
    rows = [
        (case, Answered(calls=(("go", {}),), confidences=(0.9,))),
        (case, Answered(calls=(("stop", {}),), confidences=(0.3,))),
    ]
    drawn = draw_calls(tmp_path / "new", Results(rows=rows), "two calls")
    assert [path.name for path in drawn] == ["risk_coverage.png", "reliability.png", "hybrid.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)


def test_early_decisions_are_drawn_beside_those_in_the_end(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = study_early(wandering(300, noise=1.0))
    path = draw_early(tmp_path / "new" / "early.png", {"threshold 0.5": found, "again": found})
    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_curves_are_drawn_and_their_points_kept(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    line = Curve((0.0, 1.0), (0.4, 0.1))
    found = Deferral(line, Curve((0.0, 1.0), (0.4, 0.2)), Curve((0.0, 1.0), (0.4, 0.0)))
    keep_deferral(tmp_path, {"one cloud": found, "another": found})
    assert (tmp_path / "speech_deferral.png").read_bytes().startswith(b"\x89PNG")
    points = json.loads((tmp_path / "speech_deferral.json").read_text("utf-8"))
    assert points["another"]["ours"]["rates"] == [0.4, 0.1]
