from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edgewise.bench.call_cases import CallCase
from edgewise.bench.call_metrics import Results
from edgewise.bench.call_plots import check_drawing, draw_calls
from edgewise.bench.call_systems import Answered
from edgewise.errors import SettingsError


def test_without_matplotlib_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as if it were not there
    with pytest.raises(SettingsError, match=r"pip install 'edgewise\[plots\]'"):
        check_drawing()


def test_nothing_is_drawn_with_before_it_is_asked_for() -> None:
    loads = "import sys, edgewise.bench.call_plots; sys.exit('matplotlib' in sys.modules)"
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
