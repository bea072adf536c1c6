"""Sentences around a request that ask for nothing."""

from __future__ import annotations

from random import Random

from training.word_pools import pool_entries

_WHO = (
    "My brother", "My flatmate", "The neighbour", "My aunt", "Our teacher", "My manager",
    "My partner", "The team", "My cousin", "Somebody at work", "My son", "The whole family",
    "A friend", "Grandma",
)  # fmt: skip
_DID = (
    "asked about it", "told me you could help", "keeps nagging me", "is waiting for an answer",
    "wants to know too", "forgot all about it", "said it was easy", "is sitting next to me",
    "won't believe me", "needs it for a presentation", "is in a hurry", "did it wrong last time",
    "has been on my case", "recommended this", "is no help at all", "will be delighted",
)  # fmt: skip
_FEELING = (
    "I'm exhausted", "I'm so excited", "I have no clue about this", "I can't think straight",
    "I've had too much coffee", "I only have a moment", "I'm stuck in traffic", "I'm in a queue",
    "I just woke up", "I'm getting ready to leave", "It's raining again", "I'm half asleep",
    "I left my glasses at home", "I'm sitting in a meeting", "I'm on the sofa", "It's noisy here",
)  # fmt: skip
_ENDING = (".", ".", "!", ", sorry.", ", as always.", ", believe it or not.", " today.", " again.")


def context_sentence(rng: Random) -> str:
    """One from the pool or one put together, so that few occur twice."""
    chance = rng.random()
    if chance < 0.4:
        return rng.choice(pool_entries("context"))
    if chance < 0.7:
        return f"{rng.choice(_WHO)} {rng.choice(_DID)}{rng.choice(_ENDING[:6])}"
    return rng.choice(_FEELING) + rng.choice(_ENDING)
