"""The one logistic score: features in, the chance of being right out. Every task uses it.

A `Head` makes one such feature of a hidden state of the model.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from edgewise.errors import SettingsError
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


@dataclass(frozen=True, slots=True)
class Head:
    """A linear reading of a hidden state: one number, which a score weighs like any feature.

    Each number of the state is taken as its distance from `centre` in units of `spread`, at most
    `clip` of them, and weighed. The three are 32-bit floats, little-endian, in base64.

    layer  whose input the state is
    """

    layer: int
    centre: str
    spread: str
    weights: str
    clip: float

    def of(self, state: Any) -> float:
        """`state` is a numpy array."""
        centre, scale, weights = _arrays(self)
        if len(state) != len(centre):
            raise SettingsError(
                f"the calibration reads states of {len(centre)} numbers, and those of the model "
                f"have {len(state)}: it belongs to another model"
            )
        distances = (state - centre) * scale
        return float(weights @ distances.clip(-self.clip, self.clip))


@lru_cache(maxsize=16)
def _arrays(head: Head) -> tuple[Any, Any, Any]:
    """Centre, 1 / spread and weights."""
    import numpy as np  # noqa: PLC0415  # who has a state has numpy; others need not load it

    centre, spread, weights = (
        np.frombuffer(base64.b64decode(each), "<f4")
        for each in (head.centre, head.spread, head.weights)
    )
    return centre, 1 / spread, weights


def read_head(data: Mapping[str, Any]) -> Head:
    """A head of a calibration file. Raises ValueError, TypeError or KeyError for bad values."""
    head = Head(
        layer=int(data["layer"]),
        centre=str(data["centre"]),
        spread=str(data["spread"]),
        weights=str(data["weights"]),
        clip=float(data["clip"]),
    )
    sizes = {
        len(base64.b64decode(each, validate=True))
        for each in (head.centre, head.spread, head.weights)
    }
    if len(sizes) != 1 or min(sizes) == 0 or min(sizes) % 4:
        raise ValueError("a head needs as many centres and spreads as weights")
    if head.layer < 1 or not 0 < head.clip < math.inf:
        raise ValueError("a head needs a layer and a clip above 0")
    return head
