"""The figures of our own traces: a regression test of routing quality, and each of their parts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy
import pytest
from click.testing import CliRunner

from edgewise_bench.commands import bench
from edgewise_bench.questions.public import FILES
from edgewise_bench.risk import ece_floor
from edgewise_bench.routing import own_traces, waiting
from edgewise_bench.routing.cost_study import Pairs, at_mission, study, times_cheaper
from edgewise_bench.routing.own_traces import TARGETS, frozen_scores, measure_task
from edgewise_bench.routing.rows import Rows
from edgewise_bench.scorecard import reached

ROOT = Path(__file__).parents[4]
TRACES = Path(__file__).parents[2] / "results" / "traces"


@pytest.fixture(scope="module")
def published() -> dict[str, float]:
    return own_traces.measure_own(TRACES, None)


def test_routing_is_as_good_as_it_was(published: dict[str, float]) -> None:
    for name in TARGETS:
        if name != "decision_ms_p99":  # a bound on time is for `edgewise bench`, not for a test
            assert reached(name, published[name], TARGETS), (name, published[name])
    assert published["chat_auroc"] > 0.64
    assert published["call_auroc"] > 0.85
    assert published["speech_auroc"] > 0.92
    assert published["chat_kept_accuracy"] > 2 * published["chat_accuracy"]


def test_intervals_hold_their_figures(published: dict[str, float]) -> None:
    names = [name.removesuffix("_low") for name in published if name.endswith("_low")]
    assert len(names) >= 9
    for name in names:
        assert published[f"{name}_low"] <= published[name] <= published[f"{name}_high"]


def test_the_command_measures_without_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_traces, "measure_own", lambda *_: {"chat_auroc": 0.7})
    monkeypatch.setattr(waiting, "measure_waiting", lambda *_: {})
    arguments = ["routing", "--traces", str(TRACES), "--save", str(tmp_path), "--json"]
    result = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    card = json.loads(result.stdout)
    assert card["command"] == "edgewise bench routing"
    assert card["metrics"] == {"chat_auroc": 0.7}


def test_a_perfect_predictor_shows_the_floor_and_a_better_score_its_lead() -> None:
    generator = numpy.random.default_rng(1)
    chances = generator.random(600)
    right = (generator.random(600) < chances).astype(numpy.float64)
    noise = generator.random(600)
    found = measure_task(Rows("made", chances, right, noise, 0.5))
    assert found["made_auroc_gain_low"] > 0.2
    assert found["made_ece"] < 2 * found["made_ece_floor"]
    assert ece_floor(chances[:60]) > found["made_ece_floor"], "fewer rows, more luck"
    assert found["made_risk_violations_20"] <= 0.1
    assert found["made_handoff_share"] == pytest.approx(0.5, abs=0.05)


def pairs() -> Pairs:
    """The device is right where it is sure; the cloud always."""
    sure = numpy.array([0.9] * 8 + [0.1] * 2)
    tokens = numpy.full(10, 40.0)
    return Pairs(sure, (sure > 0.5).astype(float), numpy.ones(10), tokens, tokens)


def test_five_times_cheaper_is_two_of_ten_sent() -> None:
    found = study(pairs())
    assert found["cost_hybrid_50_times_cheaper"] == pytest.approx(5.0)
    assert found["cost_hybrid_50_quality"] == found["cost_cloud_quality"] == 1.0
    assert found["cost_local_quality"] == 0.8
    assert found["cost_5x_quality_of_cloud"] == 1.0
    assert found["cost_times_cheaper_at_100"] == pytest.approx(5.0)
    cheap, dear = found["cost_hybrid_50_usd_gemini"], found["cost_cloud_usd_gemini"]
    assert dear == pytest.approx(5 * cheap, rel=0.1)


def test_nothing_sent_costs_nothing_and_no_rows_say_nothing() -> None:
    assert times_cheaper(pairs(), numpy.zeros(10, dtype=bool)) == float("inf")
    none = numpy.zeros(0)
    assert study(Pairs(none, none, none, none, none)) == {}
    assert at_mission(pairs())["cost_5x_quality"] == 1.0


def test_frozen_scores_are_joined_by_the_question(tmp_path: Path) -> None:
    row = {"task_name": "natural_qa", "query": "who was it ", "ground_truth": "Otto"}
    for name, rows in zip(FILES, ([row], []), strict=True):
        (tmp_path / name).write_text("".join(json.dumps(each) + "\n" for each in rows), "utf-8")
    for part in ("train", "test"):
        outcomes = [{"question": "who was it", "scores": {"big": 1.0}}] if part == "train" else []
        (tmp_path / f"dcrouter_{part}.json").write_text(json.dumps(outcomes), "utf-8")
    assert frozen_scores(tmp_path, "big") == {"public:train:0": 1.0}
