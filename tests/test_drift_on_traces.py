"""The shipped calibration on published answers: rows like its own are no drift, one kind alone is.

With the published traces of edgewise-bench.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from edgewise import Settings
from edgewise.calibrate.traces import Sample
from edgewise.decide.calibration import parse_calibration
from edgewise.decide.drift import Drift, Reference, SeenConfidence, find_drift, noted
from edgewise.decide.gate import Gate
from edgewise.monitor.drift import read_reference
from edgewise.monitor.why import document_of
from edgewise_bench.chat.calibration import split_rows
from edgewise_bench.chat.traces import read_trace_set

NAME = "smollm2-135m-instruct-q8_0"
RESULTS = Path(__file__).parents[1] / "packages" / "edgewise-bench" / "results"
TRACES = RESULTS / "traces" / "smollm2-135m-instruct.jsonl.gz"
DRAWS, ROWS = 40, 500


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings.load({}, data_dir=tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def reference(settings: Settings) -> Reference:
    found = read_reference(settings, "chat", NAME)
    assert found is not None
    assert found.gated, "the shipped calibration says what its gate notes"
    return found


@pytest.fixture(scope="module")
def rows() -> list[Sample]:
    """Those that fitted the calibration: the others are what it was measured on."""
    return split_rows(read_trace_set(TRACES).rows)[0]


def check(
    settings: Settings, reference: Reference, rows: Sequence[Sample], threshold: float | None
) -> Drift:
    data = document_of(settings, "chat", NAME)
    assert data is not None
    calibration = parse_calibration(data, NAME)
    seen = [
        SeenConfidence(calibration.final.of(row.at(None).features()))
        if threshold is None
        else SeenConfidence(noted(Gate(calibration, threshold), row.readings), threshold)
        for row in rows
    ]
    return find_drift(NAME, reference, seen, ())


@pytest.mark.parametrize("threshold", [None, 0.29, 0.5])
def test_other_rows_of_the_same_questions_are_no_drift(
    settings: Settings, reference: Reference, rows: list[Sample], threshold: float | None
) -> None:
    source = random.Random(0)
    alarms = sum(
        check(settings, reference, source.sample(rows, ROWS), threshold).drifted
        for _ in range(DRAWS)
    )
    assert alarms <= 3, "at one in a hundred more come up once in a thousand runs"


@pytest.mark.parametrize(
    ("kind", "threshold"),
    [("arc_challenge", None), ("natural_qa", None), ("arc_challenge", 0.3), ("openbook_qa", 0.5)],
)
def test_one_kind_of_question_alone_is_noticed(
    settings: Settings,
    reference: Reference,
    rows: list[Sample],
    kind: str,
    threshold: float | None,
) -> None:
    alone = [row for row in rows if row.kind == kind][:ROWS]
    assert len(alone) > 200
    assert check(settings, reference, alone, threshold).drifted
