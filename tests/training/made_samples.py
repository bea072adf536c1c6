"""Answers that are right as often as they say, for tests of the fit of their confidence."""

from __future__ import annotations

from random import Random

import numpy as np
from training.call_samples import Sample

from edgewise.calls.check import surety


def made_samples(count: int = 400) -> list[Sample]:
    """Answers that are right with the probability the model gives them, unless made up."""
    random = Random(3)
    samples = []
    for number in range(count):
        chance = random.random()
        made_up = random.random() < 0.2
        none = number % 4 == 0
        right = random.random() < chance and (none or not made_up)
        logprob = float(np.log(chance))
        features = {
            "call_sum": logprob, "call_surety": surety(logprob), "name_surety": surety(logprob),
            "answer_surety": surety(logprob), "ungrounded": float(made_up),
            "fit": random.random(), "calls": 0.0 if none else 1.0,
        }  # fmt: skip
        if none:
            features["none"] = 1.0
        tool = frozenset({f"tool{random.randrange(60)}"})
        source = random.choice(["a", "b", "a+b"])
        samples.append(Sample((features,), (right,), right, logprob, tool, source))
    return samples
