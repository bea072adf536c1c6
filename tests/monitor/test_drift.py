"""Drift: from answers in the ledger to the engine, the doctor and /metrics."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewise import Engine, Settings
from edgewise.decide.drift import Drift, quantiles_of
from edgewise.errors import LedgerUnavailable
from edgewise.monitor.drift import (
    EVERY,
    DriftWatch,
    in_figures,
    read_reference,
)
from edgewise.record.ledger import Book, Ledger
from edgewise.record.report import Audit
from edgewise.testing import ScriptedBackend
from edgewise.types.replies import Decision
from tests.monitor.test_why import shipped
from tests.record.ledger_cases import asking, replying

NAME = "mine"


def write_calibration(folder: Path, **changes: Any) -> Path:
    """Measured on confidences that are spread evenly."""
    measured = {
        "quantiles": quantiles_of(step / 1000 for step in range(1001)),
        "risk": {"whole": [[0.5, 200, 20]]},
        "risk_rows": 1000,
        "watched": [],
    }
    path = folder / "calibration.json"
    path.write_text(json.dumps(shipped() | {"name": NAME} | measured | changes), "utf-8")
    return path


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load({}, data_dir=tmp_path, calibration=str(write_calibration(tmp_path)))


@pytest.fixture
def ledger(settings: Settings) -> Iterator[Ledger]:
    book = Ledger(settings.ledger_path)
    yield book
    book.close()


def record(ledger: Book, confidences: list[float], **changes: Any) -> None:
    for place, confidence in enumerate(confidences):
        facts: dict[str, Any] = {
            "policy": "prefer_local",
            "handoff": "automatic",
            "code": "kept_confident",
            "reason": "",
            "threshold": 0.5,
            "confidence": confidence,
            "calibration": NAME,
        }
        decision = Decision(**(facts | changes))
        request_id = f"{confidence}-{place}-{len(changes)}"
        ledger.record(
            asking(request_id), replying(request_id, decision=decision, confidence=confidence)
        )


def audit(name: str, calibration: str, agree: float) -> Audit:
    return Audit(
        id=name,
        request_id=name,
        task="chat",
        model="m",
        calibration=calibration,
        confidence=0.9,
        threshold=0.5,
        share=0.1,
        agree=agree,
        judged_by="exact",
        cost_microdollars=0,
    )


EVENLY = [step / 120 for step in range(120)]
LOW = [step / 400 for step in range(120)]


def test_confidences_like_the_calibrations_are_no_drift(settings: Settings, ledger: Ledger) -> None:
    record(ledger, EVENLY)
    (found,) = DriftWatch(settings, ledger).compare_all()
    assert (found.calibration, found.rows, found.left_out) == (NAME, 120, 0)
    assert not found.drifted
    assert in_figures(found).startswith("distance 0.0")


def test_other_confidences_are_noted_once_and_logged_once(
    settings: Settings, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    record(ledger, LOW)
    watch = DriftWatch(settings, ledger)
    with caplog.at_level(logging.WARNING, "edgewise"):
        watch.check("chat", NAME)
        watch.check("chat", NAME)
        DriftWatch(settings, ledger).check("chat", NAME)
    assert caplog.text.count("no longer fits") == 1
    assert "`edgewise doctor` says what to do" in caplog.text
    assert watch.found[NAME].drifted
    note = ledger.noted("drift", NAME)
    assert note is not None
    assert "120 confidences" in note.words
    watch.check("chat", NAME)
    assert ledger.noted("drift", NAME) == note, "it began once"


@pytest.mark.parametrize("kind", [":typed", ":untyped"])
def test_typed_answers_are_not_compared_with_answers_in_words(
    settings: Settings, ledger: Ledger, kind: str
) -> None:
    record(ledger, LOW, calibration=f"{NAME}{kind}")
    record(ledger, EVENLY)
    watch = DriftWatch(settings, ledger)
    assert [each.drifted for each in watch.compare_all()] == [False, False]
    assert watch.compare("chat", NAME).rows == 120, "rows of typed answers are apart"


def test_the_end_of_a_drift_is_noted_as_well(settings: Settings, ledger: Ledger) -> None:
    record(ledger, LOW)
    watch = DriftWatch(settings, ledger)
    watch.check("chat", NAME)
    record(ledger, [step * 7 % 500 / 500 for step in range(500)], truncated=True)
    watch.check("chat", NAME)
    note = ledger.noted("drift", NAME)
    assert note is not None
    assert note.words == ""


def test_rows_of_a_gate_are_not_taken_for_whole_answers(settings: Settings, ledger: Ledger) -> None:
    record(ledger, LOW, decided_after_tokens=7)
    (found,) = DriftWatch(settings, ledger).compare_all()
    assert (found.rows, found.left_out) == (0, 120)
    assert not found.drifted


def test_audits_count_for_every_task(settings: Settings, ledger: Ledger) -> None:
    record(ledger, [0.9])
    for place in range(60):
        ledger.record_audit(audit(str(place), NAME, float(place % 2)))
    (found,) = DriftWatch(settings, ledger).compare_all()
    assert found.drifted
    assert (found.audited_error, found.promised_error) == (0.5, 0.1)


def test_the_engine_checks_the_first_answer_and_then_every_nth(settings: Settings) -> None:
    looked: list[str] = []
    with Engine(settings, backend=ScriptedBackend.confident("Paris.")) as engine:
        compare = engine.parts.watch.compare

        def noticed(task: str, name: str) -> Drift:
            looked.append(name)
            return compare(task, name)

        engine.parts.watch.compare = noticed  # type: ignore[method-assign]
        for _ in range(EVERY + 1):
            engine.complete("What is the capital of France?")
        engine.parts.watch.close()  # the last look may still be under way
        assert looked == [NAME, NAME]
        assert engine.parts.watch.found[NAME].rows == EVERY + 1


def test_a_ledger_that_fails_costs_only_the_check(
    settings: Settings, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(task: str, calibration: str, limit: int) -> Any:
        raise LedgerUnavailable("disk full")

    ledger.confidences = broken  # type: ignore[method-assign]
    decision = Decision(
        policy="", handoff="automatic", code="", reason="", calibration=NAME, confidence=0.5
    )
    with caplog.at_level(logging.WARNING, "edgewise"):
        DriftWatch(settings, ledger).look(asking("x"), replying("x", decision=decision))
    assert "disk full" in caplog.text


def test_a_calibration_of_nonsense_is_no_reference(tmp_path: Path) -> None:
    for changes in ({"quantiles": [1, 2]}, {"watched": 3}):
        path = write_calibration(tmp_path, **changes)
        settings = Settings.load({}, data_dir=tmp_path, calibration=str(path))
        assert read_reference(settings, "chat", NAME) is None
    assert read_reference(settings, "chat", "another") is None


def test_a_model_that_nobody_calibrated_promised_nothing(
    settings: Settings, ledger: Ledger
) -> None:
    record(ledger, LOW, calibration="uncalibrated")
    for place in range(60):
        ledger.record_audit(audit(str(place), "uncalibrated", 0.0))
    (found,) = DriftWatch(settings, ledger).compare_all()
    assert not found.drifted
    assert found.chance is None
