from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from training.steps import Asked, interval, main, told

from edgewise.testing import ScriptedFunctionModel

TIMER = {
    "name": "set_timer",
    "description": "Start a timer",
    "parameters": {
        "type": "object",
        "properties": {"minutes": {"type": "integer"}},
        "required": ["minutes"],
    },
}


def row(minutes: int, wanted: int) -> dict[str, object]:
    calls = [{"name": "set_timer", "arguments": {"minutes": wanted}}]
    return {"query": f"Set a timer for {minutes} minutes", "tools": [TIMER], "calls": calls}


def test_every_step_is_held_against_the_whole_and_the_model_writes_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_HOME", str(tmp_path))
    cases = tmp_path / "cases.jsonl.gz"
    with gzip.open(cases, "wt") as file:
        file.writelines(json.dumps(row(*each)) + "\n" for each in ((5, 5), (7, 8)))
    device = ScriptedFunctionModel(['set_timer {"minutes":5}', 'set_timer {"minutes":7}'])
    options = ["--cases", str(cases), "--limit", "2", "--memo", str(tmp_path / "memo")]
    assert main([*options, "--steps", "split", "held_back"], lambda _: device) == 0
    said = capsys.readouterr().out
    assert "| split | 0 | 50.0 / 50.0 | [+0.0, +0.0] | " in said and "| held_back | 0 | " in said
    asked = len(device.asked)
    assert main([*options, "--steps", "split"], lambda _: device) == 0
    assert len(device.asked) == asked, "the memo has all that it wrote"


def test_a_row_tells_what_the_step_changed_and_what_was_kept_wrong() -> None:
    base = [Asked(True, True, True, "a"), Asked(False, True, False, "b")]
    other = [Asked(True, True, True, "a"), Asked(True, False, False, "c")]
    assert told("x", base, other).startswith("| x | 1 | 50.0 / 100.0 | [")
    assert told("x", base, other).endswith("] | 2 / 1 | 1 / 0 |")
    assert interval([0] * 5) == "[+0.0, +0.0]"
