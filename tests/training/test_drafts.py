from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from training.call_flow import FACTS, answer
from training.call_samples import Asked
from training.drafts import KeepingAll, KeptAll, draft_figures, read_cases, retry_figures

from edgewise import Settings
from edgewise.calibrations import calibration_of
from edgewise.calls.check import CALLS
from edgewise.testing import ScriptedFunctionModel
from training import drafts

TIMER = {
    "name": "set_timer",
    "description": "Set a countdown timer",
    "parameters": {"properties": {"minutes": {"type": "integer"}}, "required": ["minutes"]},
}
SONG = {
    "name": "play_music",
    "description": "Play a song",
    "parameters": {"properties": {"song": {"type": "string"}}, "required": ["song"]},
}
FIVE, SIX = 'set_timer {"minutes":5}', 'set_timer {"minutes":6}'


def case(query: str, minutes: int) -> dict[str, Any]:
    calls = [{"name": "set_timer", "arguments": {"minutes": minutes}}]
    return {"tools": [TIMER, SONG], "query": query, "calls": calls}


def kept(query: str, *answers: str, minutes: int = 5) -> dict[str, Any]:
    """What a scripted model wrote for one case; each answer is surer than the one before."""
    logprobs = [[-0.5 / (1 + 9 * place)] for place in range(len(answers))]
    model = KeepingAll(ScriptedFunctionModel(answers, logprobs=logprobs, facts=FACTS))
    asked = case(query, minutes)
    calibration = calibration_of(Settings.load({}), model.facts(), CALLS)
    answer(Asked.of(query, drafts.offered(asked)), model, calibration)
    return {"case": asked, "rows": model.rows}


def test_drafts_are_compared_with_what_the_model_wrote_first() -> None:
    rows = [kept("Set a timer for 5 minutes", FIVE), kept("Set a timer for 5 minutes", SIX)]
    figures = draft_figures(rows)
    assert (figures["cases"], figures["whole"], figures["tool"]) == (2, 0.5, 1.0)
    assert figures["characters"] == pytest.approx((len(FIVE) + len(FIVE) - 2) / (2 * len(FIVE)))
    assert 0.5 < figures["tokens"] < 1


def test_retries_are_replayed_with_and_without_time_for_them() -> None:
    row = kept("Set a timer for 6 or 5 minutes", SIX, FIVE)
    calibration = calibration_of(Settings.load({}), KeptAll(()).facts(), CALLS)
    patient = retry_figures([row], calibration, math.inf)
    hurried = retry_figures([row], calibration, 1.0)
    assert (patient["exact"], hurried["exact"]) == (1, 0)
    assert (patient["runs"], hurried["runs"]) == (2, 1)
    assert patient["ms_p50"] > hurried["ms_p50"] > 0


def test_both_forms_of_case_files_are_read(tmp_path: Path) -> None:
    rows = tmp_path / "cases.jsonl"
    rows.write_text(json.dumps(case("a", 5)) + "\n")
    test_set = tmp_path / "cases.json"
    asked = case("a", 5)
    expected = asked.pop("calls")
    test_set.write_text(json.dumps({"cases": [{**asked, "expected_calls": expected}]}))
    assert [one["calls"] for one in (*read_cases(rows), *read_cases(test_set))] == [expected] * 2
