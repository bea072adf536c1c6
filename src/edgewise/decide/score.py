"""The one logistic score: features in, the chance of being right out. Every task uses it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from edgewise.types.measured import UNMAPPED, ScoreMap


class Features(Protocol):
    """Evidence by name: a mapping, or a reading of the meter."""

    def get(self, name: str, default: float, /) -> float: ...


_WIDEST = 60.0  # beyond this the chance no longer changes


@dataclass(frozen=True, slots=True)
class Score:
    """1 / (1 + exp(-(bias + sum of weight x feature))), and the map after it.

    An unknown feature counts as 0.
    """

    weights: Mapping[str, float]
    bias: float
    map: ScoreMap = UNMAPPED

    def of(self, features: Features) -> float:
        total = self.bias
        for name, weight in self.weights.items():
            total += weight * features.get(name, 0.0)
        return self.map.of(1.0 / (1.0 + math.exp(-max(-_WIDEST, min(_WIDEST, total)))))

    def suits(self, features: Mapping[str, float]) -> bool:
        """Whether all its features are known. A runtime may report no evidence."""
        return all(name in features for name in self.weights)
