from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from edgewise.bench.call_cases import CallCase
from edgewise.bench.call_metrics import Results
from edgewise.bench.call_plots import check_drawing, draw_calls
from edgewise.bench.call_systems import Answered
from edgewise.errors import SettingsError


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is not None, reason="it is installed")
def test_without_matplotlib_the_message_says_what_to_install() -> None:
    with pytest.raises(SettingsError, match="pip install matplotlib"):
        check_drawing()


def test_draws_three_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need it; it is no dependency")
    case = CallCase("mine", "1", "go", (), (("go", {}),))
    rows = [
        (case, Answered(calls=(("go", {}),), confidences=(0.9,))),
        (case, Answered(calls=(("stop", {}),), confidences=(0.3,))),
    ]
    drawn = draw_calls(tmp_path / "new", Results(rows=rows), "two calls")
    assert [path.name for path in drawn] == ["risk_coverage.png", "reliability.png", "hybrid.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)
