"""L2-regularised logistic regression by Newton's method, on standardised features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

STEPS = 50


@dataclass(frozen=True, slots=True)
class Logistic:
    """chance = 1 / (1 + exp(-(bias + weights · features))), in the features' own units."""

    weights: tuple[float, ...]
    bias: float

    def chances(self, features: Numbers) -> Numbers:
        return sigmoid(features @ np.array(self.weights) + self.bias)


def sigmoid(values: Numbers) -> Numbers:
    chances: Numbers = 1.0 / (1.0 + np.exp(-np.clip(values, -60.0, 60.0)))
    return chances


def fit_logistic(
    features: Numbers, right: Numbers, *, ridge: float = 1.0, weights: Numbers | None = None
) -> Logistic:
    """The most likely model under a normal prior on the standardised weights, but not the bias.

    `ridge` is the prior's precision; 0 is maximum likelihood. `weights` counts rows.
    """
    count = np.ones(len(right)) if weights is None else weights
    centre = features.mean(axis=0)
    spread = np.where(features.std(axis=0) > 1e-12, features.std(axis=0), 1.0)
    design = np.column_stack([(features - centre) / spread, np.ones(len(right))])
    penalty = ridge * np.eye(design.shape[1])
    penalty[-1, -1] = 1e-9  # the bias is free, but the Hessian must not be singular
    beta = np.zeros(design.shape[1])
    for _ in range(STEPS):
        chances = sigmoid(design @ beta)
        gradient = design.T @ (count * (right - chances)) - penalty @ beta
        curvature = (design * (count * chances * (1 - chances))[:, None]).T @ design + penalty
        step = np.linalg.solve(curvature, gradient)
        beta += step
        if np.abs(step).max() < 1e-9:
            break
    scaled = beta[:-1] / spread
    return Logistic(tuple(map(float, scaled)), float(beta[-1] - scaled @ centre))
