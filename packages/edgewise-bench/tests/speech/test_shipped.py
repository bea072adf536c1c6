"""The calibrations of speech that ship are those that the published traces give."""

from __future__ import annotations

import json
import runpy
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from edgewise.decide.calibration import parse_calibration
from edgewise.decide.policy import find_threshold
from edgewise.local.catalogue import MODELS
from edgewise.speech.words import SPEECH
from edgewise_bench.routing.rows import TRANSCRIBERS

ROOT = Path(__file__).parents[4]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "measure_calibrations.py"))


def shipped(model: str) -> dict[str, Any]:
    path = resources.files("edgewise.calibrations") / f"{model}-int8.speech.json"
    data: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return data


@pytest.mark.parametrize("model", TRANSCRIBERS)
def test_the_published_traces_give_the_shipped_calibration(model: str) -> None:
    told, made = shipped(model), SCRIPT["speech"](model)
    assert told.keys() == made.keys() and told["name"] == made["name"] == f"{model}-int8"
    for score in ("chance", "error"):  # another machine's last digits may differ
        assert told[score]["weights"] == pytest.approx(made[score]["weights"], abs=0.02)
    assert told["report"]["segments"] == made["report"]["segments"] == told["risk_rows"]
    for (at, kept, wrong), (_, same, amiss) in zip(
        told["risk"]["whole"], made["risk"]["whole"], strict=True
    ):
        assert abs(kept - same) <= 3 and abs(wrong - amiss) <= 3, at


@pytest.mark.parametrize("model", TRANSCRIBERS)
def test_each_can_promise_something(model: str) -> None:
    measured = parse_calibration(shipped(model), model, SPEECH).measured
    table = measured.risk["whole"]
    assert find_threshold(table, measured.risk_rows, error=0.2, probability=0.1) is not None
    assert len(measured.quantiles) == 21


def test_every_speech_model_from_a_package_is_calibrated() -> None:
    packed = {row.name for row in MODELS.values() if row.kind == "speech" and row.sha256}
    assert packed == set(TRANSCRIBERS)


def test_the_page_has_the_table_of_what_ships() -> None:
    page = (ROOT / "docs" / "notes" / "senses.md").read_text("utf-8")
    assert "\n".join(SCRIPT["table"]()) in page
