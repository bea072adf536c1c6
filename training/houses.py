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
    nested: int = 0  # levels of objects that hold all the arguments


def terse(house: House) -> House:
    """The manner of long lists of tools: names and hardly a word about them."""
    return replace(house, describe_tools=0.5, describe_parameters=0.1, wordy=0.0)


def slotted(house: House) -> House:
    """The manner of spoken assistants: intents and slots without a word about them."""
    return replace(house, describe_tools=0.3, describe_parameters=0.2, wordy=0.0, rename=0.0)


def nesting(house: House, rng: Random) -> House:
    """The manner of big interfaces: arguments inside objects, and many words about them."""
    wordy = rng.choice((0.0, 0.8, 1.0, 1.0))
    described = 1.0 if wordy else house.describe_parameters
    levels = rng.choices((0, 1, 2), (35, 50, 15))[0]
    return replace(house, nested=levels, wordy=wordy, describe_parameters=described)


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
