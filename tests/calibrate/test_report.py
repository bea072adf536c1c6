"""The real gate decides what is kept of whole answers and streams, and that is counted."""

from __future__ import annotations

from random import Random

from edgewise.calibrate.report import count_risks, kept_live, kept_whole, measure
from edgewise.calibrate.traces import Sample
from edgewise.decide.calibration import Reading, Score, chat_calibration, read_measured
from edgewise.decide.policy import GRID

SCORE = Score({"mean_logprob": 10.0}, 5.0)  # 0.5 at -0.5
CALIBRATION = chat_calibration(
    name="made-up", early=SCORE, final=SCORE, hold_tokens=2, keep_above=1.0, drop_below=0.0
)


def sample(*logprobs: float, right: bool = True, decided: int | None = None) -> Sample:
    readings = [Reading(tokens=at, mean_logprob=value) for at, value in enumerate(logprobs, 1)]
    return Sample("kind", right, tuple(readings), decided)


def test_a_stream_keeps_what_it_showed_and_a_whole_answer_is_judged_whole() -> None:
    sours = sample(-0.1, -0.1, -2.0, decided=2)
    assert kept_live(sours, CALIBRATION, 0.5)
    assert not kept_whole(sours, CALIBRATION, 0.5)
    recovers = sample(-2.0, -2.0, -0.1, decided=2)
    assert not kept_live(recovers, CALIBRATION, 0.5)
    assert not kept_whole(recovers, CALIBRATION, 0.5), "the model was stopped before it recovered"
    short = sample(-2.0, -2.0, -0.1)
    assert kept_live(short, CALIBRATION, 0.5) and kept_whole(short, CALIBRATION, 0.5)


def test_what_is_measured_is_what_the_engine_reads() -> None:
    random = Random(0)
    samples = [
        sample(-random.random(), -random.random(), right=random.random() < 0.5) for _ in range(50)
    ]
    tables = count_risks(CALIBRATION, samples)
    found = read_measured(measure(CALIBRATION, samples, tables))
    assert found.risk_rows == 50
    assert len(found.quantiles) == 21
    assert {row.threshold for row in found.risk["whole"]} == set(GRID)
    assert found.risk["stream"][-1].kept >= found.risk["stream"][0].kept
    assert found.feature_means["mean_logprob"] < 0 < found.feature_deviations["mean_logprob"]
