"""A head finds evidence in a state, and says how well it does on kinds it never saw."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from training.trace_files import EARLY, pack_states

from edgewise.calibrate import builtin
from edgewise.calibrate.fit import KIND_FOLDS, folds_of, kept_share
from training import fit_head

KINDS, PER_KIND, WIDTH = 12, 40, 24


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> fit_head.Traces:
    """480 answers; whether one is right stands in one direction of layer 5, not of layer 3."""
    folder = tmp_path_factory.mktemp("traces")
    generator, random = np.random.default_rng(0), Random(0)
    rows, texts, signs = [], [], []
    for kind in range(KINDS):
        for number in range(PER_KIND):
            right = random.random() < 0.6
            row: dict[str, Any] = {
                "kind": f"kind {kind}",
                "family": f"family {kind // 3}",
                "system": "",
            }
            row |= {"prompt": f"{kind}/{number}?", "accepted": ["yes it is"], "rule": "mention"}
            row |= {"rivals": [], "rejected": [], "case_matters": False, "level": 2}
            rows.append(row)
            texts.append("yes it is" if right else "no")
            signs.append(1.0 if right else -1.0)
    with gzip.open(folder / "rows.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    count, sign = len(rows), np.array(signs)
    noise = generator.standard_normal((count, 14)).astype("f4")
    np.savez(
        folder / "answers.npz",
        lengths=np.full(count, 12),
        ended=np.ones(count, bool),
        logprobs=-np.abs(noise),
        margins=np.abs(noise),
        entropies=np.abs(noise),
        texts=json.dumps(texts),
        pieces=json.dumps([["a", " b", " c", " d"] * 3] * count),
    )
    direction = generator.standard_normal(WIDTH)
    for layer, strength in ((3, 0.0), (5, 0.5)):
        states = generator.standard_normal((count, WIDTH)) + strength * sign[:, None] * direction
        for name in ("mean", "before"):
            np.savez(folder / f"{name}-{layer}.npz", **pack_states(states))
    for early in EARLY:
        np.savez(folder / f"early{early}-5.npz", **pack_states(states))
    return fit_head.read_traces(folder, folder / "rows.jsonl.gz")


def test_answers_are_graded_and_measured_as_at_serving_time(traces: fit_head.Traces) -> None:
    assert traces.right.mean() == pytest.approx(0.6, abs=0.08)
    place = traces.names.index("tokens")
    assert set(traces.features["end"][:, place]) == {12.0}  # without the end token
    assert set(traces.features["1"][:, place]) == {1.0}


def test_the_layer_with_the_evidence_is_chosen_and_the_head_ranks_unseen_kinds(
    traces: fit_head.Traces,
) -> None:
    found = fit_head.report(traces)
    figures = found["figures"]
    assert found["heads"]["answer"]["layer"] == 5
    assert found["heads"]["before"]["layer"] == 5
    for split in ("rows", "kinds", "families"):
        assert figures["state and features"][split]["auroc"] > 0.9
        assert figures["features"][split]["auroc"] < 0.65
    assert figures["state and features"]["kinds"]["ece"] < 0.1
    assert found["groups"]["state and features"]["curve"]["5"] > 0.8


def test_a_head_read_back_gives_the_same_score(traces: fit_head.Traces) -> None:
    folds = folds_of(traces.kinds)
    head = fit_head.head_of(traces, "mean-5", traces.features["end"], 300.0, folds)

    def numbers(name: str) -> Any:
        return np.frombuffer(base64.b64decode(head[name]), "<f4")

    state = traces.state("mean-5")
    raw = state * numbers("spread") + numbers("centre")  # as a model would give it
    z = np.clip((raw - numbers("centre")) / numbers("spread"), -head["clip"], head["clip"])
    logits = z @ numbers("weights") + head["bias"]
    for name, each in head["features"].items():
        values = traces.features["end"][:, traces.names.index(name)]
        scaled = (values - each["centre"]) / each["spread"]
        logits = logits + each["weight"] * np.clip(scaled, -head["clip"], head["clip"])
    assert fit_head.auroc(logits, traces.right) > 0.9
    chances = 1 / (1 + np.exp(-(head["chance"]["slope"] * logits + head["chance"]["bias"])))
    assert abs(chances.mean() - traces.right.mean()) < 0.05


def test_it_runs_where_only_numpy_and_torch_are() -> None:
    script = "import sys, training.fit_head; print('edgewise.engine' in sys.modules)"
    root = Path(fit_head.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_the_gate_judges_where_the_traces_kept_states() -> None:
    assert builtin.EARLY == EARLY


def test_groups_never_stand_in_two_folds() -> None:
    groups = [f"g{number % 17}" for number in range(400)]
    folds = folds_of(groups)
    assert all(len({folds[n] for n in range(400) if groups[n] == g}) == 1 for g in set(groups))
    assert len(set(folds)) == KIND_FOLDS


def test_figures_of_a_known_ranking() -> None:
    right = np.array([1.0, 1, 0, 1, 0])
    assert fit_head.auroc(np.array([5.0, 4, 3, 2, 1]), right) == pytest.approx(5 / 6)
    assert fit_head.auroc(np.ones(5), right) == pytest.approx(0.5)
    assert kept_share(np.array([5.0, 4, 3, 2, 1]), right, 0.75) == pytest.approx(0.8)
    assert kept_share(np.array([1.0, 2, 3, 4, 5]), right, 0.95) == 0.0
