"""Words that stand for something said before: "there", "them", "that day", "that number"."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from training.frame_types import Parameter
from training.sample import Piece, is_day, is_person, is_place


@dataclass(frozen=True, slots=True)
class Reference:
    """Words that stand for something said before, and what they may follow."""

    name: str
    fits: Callable[[Parameter], bool]
    after: re.Pattern[str]
    words: tuple[str, ...]
    alone: bool  # whether the preposition goes: "there", not "in there"


REFERENCES = (
    Reference("place", is_place, re.compile(r"\b(in|at|to|for|around|near) $"), ("there",), True),
    Reference("person", is_person, re.compile(r"\b(to|for|with|from) $"), ("them",), False),
    Reference(
        "day",
        is_day,
        re.compile(r"\b[Oo]n $"),
        ("that day", "the same day", "that same day", "the same date", "on that day"),
        True,
    ),
)
# What a thing may follow without an article or a noun of its own: "to that number".
BEFORE_A_THING = re.compile(
    r"\b(to|for|at|from|of|with|under|about|call|text|ring|track|open|delete|cancel|check|print|"
    r"share|show|read|update|via|using|dial|ship|remove|find|close|send) $",
    re.IGNORECASE,
)


def with_reference(
    pieces: list[Piece], name: str, words: str, after: re.Pattern[str], *, alone: bool = False
) -> list[Piece] | None:
    """The pieces with other words for the value of a slot; None where they would not fit."""
    places = [index for index, piece in enumerate(pieces) if piece.slot == name]
    if len(places) != 1 or places[0] == 0 or pieces[places[0] - 1].slot:
        return None
    index = places[0]
    before = pieces[index - 1]
    match = after.search(before.text)
    following = pieces[index + 1].text if index + 1 < len(pieces) else ""
    if not match or following.startswith(("'", "-")):
        return None
    head = replace(before, text=before.text[: match.start()]) if alone else before
    return [*pieces[: index - 1], head, Piece(words), *pieces[index + 1 :]]


def with_pronoun(
    pieces: list[Piece], name: str, what: Reference, rng: Random
) -> list[Piece] | None:
    return with_reference(pieces, name, rng.choice(what.words), what.after, alone=what.alone)
