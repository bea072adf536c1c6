"""The manner in which one set of tools is written: names, and how much is said about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from training import naming


@dataclass(frozen=True, slots=True)
class House:
    """The manner of one set of tools, which mostly share it."""

    case: naming.Case
    namespaced: bool
    describe_tools: float
    describe_parameters: float
    rename: float
    wordy: float = 0.0
    odd: float = 0.0


def terse(house: House) -> House:
    """The manner of long lists of tools: names and hardly a word about them."""
    return replace(house, describe_tools=0.5, describe_parameters=0.1, wordy=0.0)


def pick_house(rng: Random) -> House:
    case = rng.choices(naming.CASES, (50, 22, 11, 6, 9, 2))[0]
    return House(
        case=case,
        namespaced=rng.random() < 0.1,
        describe_tools=rng.choice((1.0, 1.0, 1.0, 0.9, 0.4)),
        describe_parameters=rng.choice((1.0, 1.0, 0.9, 0.5, 0.0)),
        rename=rng.choice((0.0, 0.1, 0.4)),
        wordy=rng.choice((0.0, 0.0, 0.0, 0.3, 0.8)),
        odd=rng.choice((0.0, 0.0, 0.0, 0.0, 0.1, 0.5)),
    )
