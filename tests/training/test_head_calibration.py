"""A calibration file with a head, from traces in which the state knows what is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training.trace_files import EARLY

from edgewise.calibrate.builtin import Chances, find_skips
from edgewise.decide.calibration import Meter, parse_calibration
from edgewise.decide.gate import Gate, Verdict
from edgewise.types.replies import Token
from tests.training.test_fit_head import traces as traces
from training import fit_head, head_calibration


@pytest.fixture(scope="module")
def document(traces: fit_head.Traces) -> dict[str, Any]:
    heads = fit_head.report(traces)
    return head_calibration.calibrate(traces, heads, "some-model.Q8_0")


def test_it_is_a_calibration_of_words_and_one_of_states(document: dict[str, Any]) -> None:
    words = parse_calibration(json.loads(json.dumps(document)), "file")
    both = words.seen(states=True)
    assert (words.name, both.name) == ("some-model-q8_0", "some-model-q8_0:state")
    assert both.layer_of("state") == both.layer_of("before") == 5
    assert "state" in both.final.weights and "state" not in words.final.weights
    assert words.fitted and both.fitted
    state, plain = document["with_state"]["report"], document["report"]
    assert state["kinds_auroc"] > 0.95 > 0.6 > plain["kinds_auroc"]
    assert state["kinds_auroc_before"] > 0.9


def test_the_state_of_a_right_answer_is_kept_and_that_of_a_wrong_one_is_not(
    document: dict[str, Any], traces: fit_head.Traces
) -> None:
    both = parse_calibration(document, "file").seen(states=True)
    states = head_calibration.unpacked(traces, "mean-5")
    agreed = 0
    for row in range(60):
        meter = Meter(both.heads)
        for _ in range(3):
            meter.add(Token("a", -0.5, 0.5, 0.5, state=states[row]))
        verdict = Gate(both, 0.5).judge_whole(meter.reading())
        agreed += (verdict is Verdict.KEEP) == bool(traces.right[row])
    assert agreed >= 51  # of 60; without the state, 36 are right


def test_risk_tables_count_what_the_gate_keeps(document: dict[str, Any]) -> None:
    both = document["with_state"]
    for table in both["risk"].values():
        kept = [row[1] for row in table]
        assert kept == sorted(kept) and kept[-1] > 0.6 * both["risk_rows"]
    assert both["risk_rows"] == 480


def test_few_of_the_answers_that_would_be_kept_are_skipped() -> None:
    random = np.random.default_rng(1)
    final = random.uniform(0, 1, 4000)
    before = np.clip(final + random.normal(0, 0.1, 4000), 0, 1)
    course = Chances(np.ones(4000), final, before)
    found = find_skips(course)
    for threshold in (0.3, 0.5, 0.8):
        skipped = before < found.at(threshold, 0)[0]
        assert skipped.mean() > 0.1
        assert skipped[final >= threshold].mean() <= 0.01


def test_an_older_calibration_keeps_its_words(
    document: dict[str, Any], traces: fit_head.Traces, tmp_path: Path
) -> None:
    heads = tmp_path / "head.json"
    heads.write_text(json.dumps(fit_head.report(traces)))
    folder = tmp_path / "some-model.Q8_0"
    folder.symlink_to(traces.folder)
    path = tmp_path / "some-model-q8_0.json"
    older = {name: each for name, each in document.items() if name != "with_state"}
    path.write_text(json.dumps(older | {"threshold": 0.7, "data": {"command": "another"}}))
    arguments = ["--traces", folder, "--rows", traces.folder / "rows.jsonl.gz", "--head", heads]
    assert head_calibration.main([*map(str, arguments), "--calibrations", str(tmp_path)]) == 0
    found = parse_calibration(json.loads(path.read_text()), "file")
    assert (found.threshold, found.seen(states=True).threshold) == (0.7, 0.5)


def test_answers_given_elsewhere_are_ranked_by_heads_that_have_not_seen_their_kind(
    traces: fit_head.Traces,
) -> None:
    states, features = head_calibration.unpacked(traces, "mean-5"), traces.features["end"]
    seen = [
        {
            "row": row,
            "right": bool(traces.right[row]),
            "seen": {"end": dict(zip(traces.names, map(float, features[row]), strict=True))},
            "means": {"end": states[row].tolist()},
        }
        for row in range(0, 480, 3)
    ]
    found = head_calibration.carried_over(traces, fit_head.report(traces)["heads"], seen)
    assert found["rows"] == 160
    assert found["kinds_auroc"] == pytest.approx(found["kinds_auroc_traces"], abs=0.01)
    assert found["kinds_auroc"] > 0.95


def test_early_states_are_read_one_token_late(traces: fit_head.Traces) -> None:
    """When the state of token n is known, token n + 1 is known too: the meter has seen it."""
    counts = {str(seen) for count in EARLY for seen in (count, count + 1)}
    assert counts | {"end"} == set(traces.features)
