"""A confidence for models nobody has calibrated: only what carries over between models counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from edgewise.calibrate.fit import FEATURES
from edgewise.decide.calibration import parse_calibration
from tests.training.test_fit_head import traces as traces
from training import fit_head, transfer

SURE, DIGITS = FEATURES.index("min_logprob"), FEATURES.index("number_share")


def made_model(seed: int, digits: float) -> transfer.Answers:
    """Right answers are sure; digits speak for one model's answers and against another's."""
    random = np.random.default_rng(seed)
    features = random.normal(0, 1, (600, len(FEATURES)))
    evidence = features[:, SURE] + digits * features[:, DIGITS] + random.logistic(0, 0.5, 600)
    return features, (evidence > 0).astype(np.float64)


def test_what_speaks_for_one_model_and_against_another_is_not_chosen() -> None:
    models = [made_model(0, 1.0), made_model(1, -1.0), made_model(2, 0.0)]
    chosen = transfer.choose_features(models)
    assert SURE in chosen and DIGITS not in chosen
    figures = transfer.left_out_figures(models, 2)
    assert figures["auroc"] > 0.8 and figures["questions"] == 600
    assert "number_share" not in figures["features"]


def test_a_score_that_trusts_doubt_is_never_chosen() -> None:
    features, right = made_model(0, 0.0)
    doubting = (-features, right)  # right where it was least sure
    assert transfer.carried_loss([doubting, doubting], [SURE]) == float("inf")


def test_the_file_promises_nothing(traces: fit_head.Traces) -> None:
    several = []
    for name in ("small.Q8_0", "middle.Q8_0", "large.Q8_0"):
        features = {count: values.copy() for count, values in traces.features.items()}
        for values in features.values():  # here, right answers are sure ones
            values[:, traces.names.index("min_logprob")] += 2 * traces.right
        several.append(replace(traces, folder=Path(name), features=features))
    document = transfer.make_document(several)
    found = parse_calibration(document, "transfer")
    assert (found.name, found.verified, found.hold_tokens) == ("transfer", False, 9)
    assert "min_logprob" in found.final.weights
    assert not found.measured.risk and not found.measured.quantiles
    assert len(found.report["left_out"]) == 3
    assert found.report["left_out"]["large.Q8_0"]["auroc"] > 0.7
