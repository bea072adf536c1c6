"""Drift as `edgewise doctor` and `edgewise ledger` show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise import Settings
from edgewise.assembly import parts
from edgewise.monitor.drift import DriftWatch
from tests.cli.conftest import Run
from tests.test_watch import EVENLY, LOW, NAME, record, write_calibration


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("EDGEWISE_CALIBRATION", str(write_calibration(tmp_path)))
    return Settings.load()


def used(settings: Settings, confidences: list[float]) -> None:
    book = parts.open_ledger(settings)
    record(book, confidences)
    DriftWatch(settings, book).check("chat", NAME)
    book.close()


def test_the_doctor_says_that_there_is_none(run: Run, settings: Settings) -> None:
    used(settings, EVENLY)
    (found,) = [each for each in run("doctor", "--quick", "--json").json if each["what"] == "drift"]
    assert found["state"] == "ok"
    assert NAME in found["detail"]
    assert "drift" not in run("ledger").out
    assert run("ledger", "--json").json["drift"] == []


def test_drift_is_in_the_doctors_findings_and_on_the_ledgers_page(
    run: Run, settings: Settings
) -> None:
    used(settings, LOW)
    (found,) = [each for each in run("doctor", "--quick", "--json").json if each["what"] == "drift"]
    assert found["state"] == "note"
    assert "calibrate" in found["fix"]
    (line,) = [line for line in run("ledger").out.splitlines() if line.startswith("drift")]
    assert line.startswith("drift (since ")
    assert "confidences lie 0.70 from the calibration's" in line
    (told,) = run("ledger", "--json").json["drift"]
    assert (told["calibration"], told["rows"]) == (NAME, 120)


def test_what_was_never_used_enough_is_not_mentioned(run: Run, settings: Settings) -> None:
    used(settings, EVENLY[:10])
    findings = run("doctor", "--quick", "--json").json
    assert not [each for each in findings if each["what"] == "drift"]
