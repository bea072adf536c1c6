"""The fit finds the model that made the data."""

from __future__ import annotations

import numpy as np

from edgewise.calibrate.fit import fit_logistic, sigmoid


def test_recovers_a_known_model_from_its_data() -> None:
    random = np.random.default_rng(7)
    features = random.normal([3.0, -200.0], [0.5, 40.0], size=(20_000, 2))
    chances = sigmoid(features @ np.array([1.5, -0.02]) - 8.0)
    right = (random.random(len(chances)) < chances).astype(float)
    fitted = fit_logistic(features, right)
    assert np.allclose(fitted.weights, [1.5, -0.02], rtol=0.1)
    assert np.abs(fitted.chances(features) - chances).mean() < 0.01


def test_a_stronger_prior_means_smaller_weights() -> None:
    features = np.array([[-1.0], [-0.5], [0.5], [1.0]])
    right = np.array([0.0, 0.0, 1.0, 1.0])  # separable: without a prior the weight has no bound
    weak, strong = (fit_logistic(features, right, ridge=ridge) for ridge in (0.1, 10.0))
    assert weak.weights[0] > 2 * strong.weights[0] > 0


def test_a_feature_that_never_changes_and_answers_that_are_all_right_do_no_harm() -> None:
    fitted = fit_logistic(np.array([[2.0, 1.0], [2.0, 3.0]]), np.array([1.0, 1.0]))
    assert np.isfinite(fitted.weights).all()
    assert fitted.chances(np.array([[2.0, 2.0]]))[0] > 0.9
