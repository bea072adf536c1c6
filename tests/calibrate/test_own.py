"""A user's rows change a calibration only if that helps on other rows."""

from __future__ import annotations

import base64
import math
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from edgewise.calibrate import own
from edgewise.calibrate.own import (
    Fresh,
    base_in_use,
    fit_chat,
    fit_scored,
    halves,
    plain_document,
    rows_of_audits,
)
from edgewise.calibrate.report import rows_needed
from edgewise.calibrate.traces import Sample, Scored
from edgewise.calibrations import KindName
from edgewise.calls.check import CALLS
from edgewise.decide.calibration import UNMAPPED, Kind, Reading, parse_calibration, read_measured
from edgewise.decide.drift import SeenConfidence, noted, quantiles_of, read_reference
from edgewise.decide.gate import Gate, Verdict
from edgewise.decide.policy import find_threshold, tail
from edgewise.errors import InvalidRequest
from edgewise.local.store import InstalledModel
from edgewise.record.report import Audit
from edgewise.settings import Settings
from edgewise.speech.words import SPEECH
from tests.record.test_audits import AUDIT

FRESH = Fresh("mine+own.1", "2026-11-15 12:00 UTC", {"description": "a test"})
WEIGHED = {"weights": {"mean_logprob": 1.8, "min_margin": 0.8}, "bias": 1.5}
BASE = plain_document("chat") | {"name": "smollm2", "early": WEIGHED, "final": WEIGHED}
SHIPPED = parse_calibration(BASE, "shipped")


@pytest.fixture
def model(tmp_path: Any) -> InstalledModel:
    return InstalledModel("m", tmp_path / "m.gguf", "Q8_0", sha256="", bytes=0)


def samples(count: int, chance: Any, seed: int = 1) -> list[Sample]:
    """Answers of three tokens; `chance` says how likely one with this confidence is right."""
    random, found = Random(seed), []
    for number in range(count):
        reading = Reading(
            tokens=3,
            mean_logprob=-3 * random.random() ** 2,
            min_margin=3 * random.random(),
            min_logprob=-4 * random.random(),
            mean_entropy=random.random(),
        )
        right = random.random() < chance(SHIPPED.final.of(reading.features()))
        found.append(Sample(f"part {number % 10}", right, (reading,) * 3))
    return found


def test_halves_share_no_row_and_are_the_same_again() -> None:
    first, second = halves(101, 3)
    assert not set(first) & set(second)
    assert sorted(first + second) == list(range(101))
    assert halves(101, 3) == (first, second) != halves(101, 4)


def test_too_few_rows_are_refused_with_what_each_promise_needs(model: InstalledModel) -> None:
    with pytest.raises(InvalidRequest, match=r"39 rows are too few.*5%: 86.*1%: 437"):
        fit_chat(samples(39, lambda score: score), BASE, model, FRESH)


@pytest.mark.parametrize("error", [0.01, 0.05, 0.1, 0.2])
def test_enough_rows_without_an_error_prove_a_promise_and_one_less_does_not(error: float) -> None:
    level = 0.10 / 8
    assert tail(0, rows_needed(error), error) <= level < tail(0, rows_needed(error) - 1, error)


def test_a_score_that_holds_stays_as_it_is_shipped(model: InstalledModel) -> None:
    document = fit_chat(samples(200, lambda score: score), BASE, model, FRESH)
    assert document["report"]["score"] == "shipped"
    assert document["early"] == BASE["early"] and document["final"] == BASE["final"]
    assert document["name"] == "mine+own.1"
    assert document["report"]["measured_on"] == document["risk_rows"] == 100


def test_a_score_that_promises_too_much_is_mapped_and_measured_on_other_rows(
    model: InstalledModel,
) -> None:
    document = fit_chat(samples(300, lambda score: 0.5 * score), BASE, model, FRESH)
    report = document["report"]
    assert (report["score"], report["map"] in ("logistic", "isotonic")) == ("shipped", True)
    assert report["ece"] < report["in_use"]["ece"] - 0.1
    assert report["log_loss"] < report["in_use"]["log_loss"]
    calibration = parse_calibration(document, "new")
    sure = Reading(tokens=3, mean_logprob=-0.01, min_margin=3.0)
    assert calibration.final.of(sure.features()) < 0.65 < 0.9 < SHIPPED.final.of(sure.features())
    assert document["boundaries"] != BASE.get("boundaries", [{}])  # those had other numbers


def test_evidence_that_counts_differently_gets_new_weights(model: InstalledModel) -> None:
    random = Random(2)
    rows = []
    for number in range(400):
        entropy = 2 * random.random()
        reading = Reading(tokens=3, mean_logprob=-1.0, min_margin=1.0, max_window_entropy=entropy)
        rows.append(Sample(f"part {number % 10}", entropy < 1.0, (reading,) * 3))
    document = fit_chat(rows, BASE, model, FRESH)
    assert document["report"]["score"] == "refitted"
    assert document["report"]["auroc"] > 0.95
    assert "max_window_entropy" in document["final"]["weights"]


def test_a_head_stays_and_what_it_says_is_corrected(model: InstalledModel) -> None:
    """Words say nothing here, and the state twice too much."""
    numbers = base64.b64encode(np.ones(4, "<f4").tobytes()).decode()
    head = {"layer": 3, "clip": 8.0, "centre": numbers, "spread": numbers, "weights": numbers}
    read = {"weights": {"state": 2.0}, "bias": 0.0}
    part = {**BASE, "early": read, "final": read, "heads": {"state": head}}
    random, rows = Random(3), []
    for number in range(300):
        state = random.gauss(0, 1.5)
        right = random.random() < 1 / (1 + math.exp(-state / 2))
        reading = Reading(tokens=3, mean_logprob=-0.4, state=state)
        rows.append(Sample(f"part {number % 10}", right, (reading,) * 3))
    document = fit_chat(rows, {**BASE, "with_state": part}, model, FRESH)
    found = parse_calibration(document, "new").seen(states=True)
    assert (found.name, found.layer_of("state")) == ("mine+own.1:state", 3)
    report = own.used_part(document)["report"]
    assert report["map"] != "as shipped" and report["auroc"] > 0.65
    assert report["ece"] < report["in_use"]["ece"] - 0.05
    without = [replace_state(row) for row in rows]
    assert "with_state" not in fit_chat(without, {**BASE, "with_state": part}, model, FRESH)


def replace_state(sample: Sample) -> Sample:
    return replace(sample, readings=tuple(replace(each, state=None) for each in sample.readings))


def test_the_risk_tables_are_what_the_gate_does(model: InstalledModel) -> None:
    rows = samples(300, lambda score: score)
    document = fit_chat(rows, BASE, model, FRESH)
    calibration = parse_calibration(document, "new")
    measuring = [rows[at] for at in halves(len(rows), FRESH.seed)[1]]
    for threshold, kept, wrong in document["risk"]["whole"][::20]:
        gate = Gate(calibration, threshold)
        held = [
            row
            for row in measuring
            if gate.judge(row.at(3), 3) is not Verdict.HAND_OFF
            and gate.judge_whole(row.at(None)) is Verdict.KEEP
        ]
        assert (kept, wrong) == (len(held), sum(not row.right for row in held))
    promises = {each["max_error"]: each["threshold"] for each in document["report"]["promises"]}
    table = read_measured(document).risk["whole"]
    assert promises[0.2] == find_threshold(table, 150, 0.2, 0.1)
    assert len(document["quantiles"]) == 21
    reference = read_reference(document)
    noted_here = [noted(Gate(calibration, 0.5), row.readings) for row in measuring]
    assert reference.references(SeenConfidence(0.1, 0.5)) == (tuple(quantiles_of(noted_here)),) * 2


@pytest.mark.parametrize(
    ("key", "name", "kind"),
    [
        ("edgewise-caller-q8_0", "calls", CALLS),
        ("whisper-tiny.en-int8", "speech", SPEECH),
        ("unknown-model", "calls", CALLS),
        ("unknown-model", "speech", SPEECH),
    ],
)
def test_calls_and_speech_get_a_map_over_the_shipped_score(
    key: str, name: KindName, kind: Kind
) -> None:
    random = Random(5)
    rows = []
    for number in range(300):
        sure = random.random()
        rows.append(Scored(number, sure, random.random() < sure / 2, {"fit": sure}))
    base = base_in_use(Settings(), key, name)
    maps = {"final": read_measured(base).map_of("final")}
    document = fit_scored(rows, base, maps, FRESH)
    calibration = parse_calibration(document, "new", kind)
    assert calibration.name == "mine+own.1"
    assert calibration.measured.map_of("final") != UNMAPPED
    assert document["report"]["ece"] < document["report"]["in_use"]["ece"]
    assert list(document["risk"]) == ["whole"]


def test_rows_of_one_file_are_not_split_between_fitting_and_measuring() -> None:
    rows = [Scored(number // 5, 0.5, bool(number % 2), {}) for number in range(400)]
    document = fit_scored(rows, plain_document("speech"), {"final": UNMAPPED}, FRESH)
    assert document["report"]["rows"] == 80
    assert document["report"]["measured_on"] == 200


def test_an_answer_held_back_for_its_words_never_counts_as_kept() -> None:
    rows = [Scored(number, 0.9, True, {}, gated=number % 2 == 0) for number in range(80)]
    document = fit_scored(rows, plain_document("calls"), {"final": UNMAPPED}, FRESH)
    measured = halves(80, 0)[1]
    assert document["risk"]["whole"][-1][1] == sum(number % 2 for number in measured)


# -- audits ----------------------------------------------------------------------------------------


def audits(count: int, floor: float = 0.5, wrong: float = 0.5) -> list[Audit]:
    random, found = Random(8), []
    for number in range(count):
        sure = floor + (1 - floor) * random.random()
        found.append(
            Audit(
                **(
                    {name: getattr(AUDIT, name) for name in AUDIT.__slots__}
                    | {"id": f"r{number}", "request_id": f"r{number}", "confidence": sure}
                    | {"threshold": floor, "agree": float(random.random() > wrong)}
                )
            )
        )
    return found


def test_audits_of_another_calibration_do_not_count() -> None:
    rows, floor = rows_of_audits(audits(10), "smollm2")
    assert (len(rows), floor) == (10, 0.5)
    assert rows_of_audits(audits(10), "another")[0] == []


def test_audits_say_nothing_of_what_was_never_kept() -> None:
    rows, floor = rows_of_audits(audits(300), "smollm2")
    measured = read_measured(BASE)
    maps = {name: measured.map_of(name) for name in ("early", "final")}
    document = fit_scored(rows, BASE, maps, FRESH, floor)
    calibration = parse_calibration(document, "new")
    lowered = calibration.measured.map_of("final")
    old = measured.map_of("final")
    assert lowered.of(0.3) == pytest.approx(old.of(0.3), abs=0.02), "as it was"
    assert lowered.of(0.95) < old.of(0.95) - 0.2, "half of the kept were wrong"
    assert min(row[0] for row in document["risk"]["whole"]) >= lowered.of(0.5) - 0.01
    assert "quantiles" not in document
    assert (document["keep_above"], document["drop_below"]) == (1.0, 0.0)


def test_few_audits_are_refused() -> None:
    rows, floor = rows_of_audits(audits(20), "smollm2")
    with pytest.raises(InvalidRequest, match="20 rows are too few"):
        fit_scored(rows, BASE, {"final": UNMAPPED}, FRESH, floor)


def test_fitting_twice_gives_the_same_file(model: InstalledModel) -> None:
    rows = samples(120, lambda score: 0.6 * score)
    assert fit_chat(rows, BASE, model, FRESH) == fit_chat(rows, BASE, model, FRESH)
    assert own.STEPS > 0
