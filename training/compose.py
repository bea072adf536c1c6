"""Whole examples of every kind: which tools are offered, what is asked, which calls are right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from training.boundaries import join_clauses
from training.dialogues import ask, dialogue
from training.example import Example, written
from training.facts import with_facts
from training.frame_types import Flag, Frame, Pool
from training.held import elsewhere, held
from training.home import home
from training.houses import House, nesting, pick_house, slotted
from training.noise import add_noise
from training.offer import offer
from training.parallel import Composed, confusable, same_tool, wrong_value
from training.references import REFERENCES, Reference, with_pronoun
from training.refusals import irrelevant, taken_away
from training.rounds import rounds
from training.sample import Clause, Piece, clause_from, sample_clause
from training.world import World, tool_count

# Shares of the kinds, relative to each other; the sum is about a hundred.
SHARES = {
    "single_one": 14,
    "single_many": 18,
    "correction": 2,
    "parallel": 14,
    "parallel_multiple": 13,
    "pronoun": 2,
    "irrelevant": 6,
    "missing": 5,
    "confusable": 3,
    "ranked": 2,
    "taken_away": 2,
    "nested": 5,
    "dialogue": 8,
    "rounds": 2,
    "facts": 3,
    "home": 4,
    "slots": 2,
    "held": 3,
    "elsewhere": 1,
}
DRAWS = 20  # tries at one kind, so that the shares are those above
# What the third generation learnt beside the second, and what the fifth is to learn (the last two);
# each has a validation set of its own.
FAMILIES = (
    "dialogue", "rounds", "facts", "nested", "home", "slots", "taken_away", "missing", "held",
    "elsewhere",
)  # fmt: skip
_CORRECTIONS = (
    ", no wait, ", " - sorry, I mean ", ", I mean ", "... actually ", ", or rather ", ", no, ",
    " (scratch that: ", " oh wait ", ", sorry, ",
)  # fmt: skip


def compose(world: World, rng: Random, kind: str | None = None) -> Example | None:
    """One example; None where no draw worked out and another kind should be tried."""
    kind = kind or rng.choices(list(SHARES), list(SHARES.values()))[0]
    made = (_MAKERS[kind](world, rng) for _ in range(DRAWS))
    return next((example for example in made if example), None)


def _finish(
    world: World,
    rng: Random,
    composed: Composed,
    kind: str,
    tool_count: int,
    house: House | None = None,
    others: Sequence[Frame] | None = None,
) -> Example | None:
    """Write the request down, offer the tools it needs and others, and make the calls."""
    clauses, pieces = composed
    pieces = add_noise(clauses, [piece for piece in pieces if piece.text], rng)
    query = written(pieces)
    frames = list({id(clause.frame): clause.frame for clause in clauses}.values())
    needed = [(one, [c.values for c in clauses if c.frame is one]) for one in frames]
    styled, offered = offer(world, rng, needed, tool_count, house=house, others=others)
    calls = [styled[id(clause.frame)].call(clause.values) for clause in clauses]
    source = "+".join(sorted({clause.frame.source for clause in clauses}))
    return Example(query, offered, calls, kind, source, [clause.text for clause in clauses])


def _single(world: World, rng: Random, count: int, kind: str) -> Example | None:
    clause = sample_clause(world.frame(rng), rng)
    return _finish(world, rng, ([clause], clause.pieces), kind, count)


def _single_one(world: World, rng: Random) -> Example | None:
    return _single(world, rng, 1, "single_one")


def _single_many(world: World, rng: Random) -> Example | None:
    return _single(world, rng, tool_count(rng, 2), "single_many")


def _correction(world: World, rng: Random) -> Example | None:
    """ "…at 6, no wait, 7": only the last value counts."""
    frame = rng.choice(world.by_source["frames"] or world.frames)
    if not frame.templates:
        return None
    clause = clause_from(frame, rng.choice(frame.templates), rng)
    places = [
        index
        for index, piece in enumerate(clause.pieces)
        if piece.slot
        and frame.parameters[piece.slot].counts is None
        and not isinstance(frame.parameters[piece.slot].values, Flag)
    ]
    if not places:
        return None
    index = rng.choice(places)
    name = clause.pieces[index].slot
    wrong = wrong_value(clause, name, rng)
    if wrong is None or sum(piece.slot == name for piece in clause.pieces) > 1:
        return None
    pieces = list(clause.pieces)
    joint = rng.choice(_CORRECTIONS)
    pieces[index : index + 1] = [Piece(wrong.text), Piece(joint), clause.pieces[index]]
    if joint.startswith(" ("):
        pieces.insert(index + 3, Piece(")"))
    return _finish(world, rng, ([clause], pieces), "correction", tool_count(rng, 1))


def _parallel(world: World, rng: Random) -> Example | None:
    count = rng.choices((2, 3, 4, 5), (45, 30, 16, 9))[0]
    frame = world.frame(rng)
    composed = same_tool(frame, rng, count)
    if len(composed[0]) < 2:
        return None
    tools = 1 if rng.random() < 0.6 else tool_count(rng, 1)
    return _finish(world, rng, composed, "parallel", tools)


def _parallel_multiple(world: World, rng: Random) -> Example | None:
    """Different tools in one request; now and then one of them twice."""
    count = rng.choices((2, 3, 4, 5), (52, 30, 13, 5))[0]
    first = world.frame(rng)
    frames = [first, *world.others([first], count - 1, rng, most=0.4)]
    clauses: list[Clause] = []
    parts: list[Clause] = []
    for frame in frames:
        if rng.random() < 0.2:
            group, pieces = same_tool(frame, rng, 2)
        else:
            clause = sample_clause(frame, rng)
            group, pieces = [clause], clause.pieces
        clauses += group
        parts.append(Clause(frame, pieces, {}))
    if len(frames) < 2:
        return None
    pieces = join_clauses(parts, rng)
    return _finish(world, rng, (clauses, pieces), "parallel_multiple", tool_count(rng, len(frames)))


def _pronoun(world: World, rng: Random) -> Example | None:
    """ "…in Lyon, and find a dentist there": the second call takes its place from the first."""
    what = rng.choices(REFERENCES, (45, 25, 30))[0]
    pools = {"place": world.with_place, "person": world.with_person, "day": world.with_day}
    pool = pools[what.name]
    if len(pool) < 2:
        return None
    for _ in range(12):
        example = _pronoun_once(world, rng, what, pool)
        if example:
            return example
    return None


def _pronoun_once(world: World, rng: Random, what: Reference, pool: list[Frame]) -> Example | None:
    first, second = rng.sample(pool, 2)
    if world.likeness(first, second) > 0.4:
        return None
    wanted = what.fits
    opening = sample_clause(first, rng)
    shared = [n for n in opening.values if wanted(first.parameters[n])]
    closing = sample_clause(second, rng)
    followed = [n for n in closing.values if wanted(second.parameters[n])]
    if len(shared) != 1 or len(followed) != 1:
        return None
    if _pool(first, shared[0]) != _pool(second, followed[0]):
        return None
    said = opening.values[shared[0]]
    closing.values[followed[0]] = said
    pieces = with_pronoun(closing.pieces, followed[0], what, rng)
    if pieces is None:
        return None
    closing.pieces = pieces
    composed = [opening, closing], join_clauses([opening, closing], rng)
    return _finish(world, rng, composed, "pronoun", tool_count(rng, 2))


def _pool(frame: Frame, name: str) -> str:
    values = frame.parameters[name].values
    # A first name stands for a person; a city does not stand for a country.
    if not isinstance(values, Pool):
        return ""
    return f"{values.name.replace('first_name', 'person')} {values.form}"


def _confusable(world: World, rng: Random) -> Example | None:
    """Several calls of one tool whose values are easily taken for each other."""
    frame = rng.choice(world.copied) if world.copied and rng.random() < 0.3 else world.frame(rng)
    composed = confusable(frame, rng, rng.choices((2, 3, 4), (50, 35, 15))[0])
    if composed is None:
        return None
    return _finish(
        world, rng, composed, "confusable", 1 if rng.random() < 0.6 else tool_count(rng, 1)
    )


def _ranked(world: World, rng: Random) -> Example | None:
    """One call among what a ranking by words leaves of many tools, described as they are."""
    clause = sample_clause(world.frame(rng), rng)
    others = world.near(clause.frame, clause.text, rng, rng.choice((5, 7, 9, 12, 16, 20, 23)), 0.5)
    composed = [clause], clause.pieces
    return _finish(world, rng, composed, "ranked", len(others) + 1, others=others)


def _slots(world: World, rng: Random) -> Example | None:
    """One call of an intent whose slots hold the very words; others of its kind beside it."""
    if not world.slots:
        return None
    own = world.own_slots if rng.random() < 0.5 else []
    frame = rng.choice(own or world.slots)
    clause = sample_clause(frame, rng)
    others = world.others([frame], rng.choice((2, 4, 6, 8)), rng, most=0.5)
    house = slotted(pick_house(rng))
    composed = [clause], clause.pieces
    return _finish(world, rng, composed, "slots", 1 + len(others), house=house, others=others)


def _nested(world: World, rng: Random) -> Example | None:
    """Arguments inside objects, long descriptions; now and then several calls."""
    pool = world.nested if world.nested and rng.random() < 0.5 else None
    frame = rng.choice(pool) if pool else world.frame(rng)
    house = nesting(pick_house(rng), rng)
    if pool and rng.random() < 0.7:
        house = replace(house, nested=0)  # it is nested as it was written
    if rng.random() < 0.25:
        composed = same_tool(frame, rng, 2)
    else:
        clause = sample_clause(frame, rng)
        composed = [clause], clause.pieces
    count = tool_count(rng, 1) if rng.random() < 0.6 else 1
    return _finish(world, rng, composed, "nested", min(count, 10), house=house)


_MAKERS: dict[str, Callable[[World, Random], Example | None]] = {
    "single_one": _single_one,
    "single_many": _single_many,
    "correction": _correction,
    "parallel": _parallel,
    "parallel_multiple": _parallel_multiple,
    "pronoun": _pronoun,
    "irrelevant": irrelevant,
    "missing": ask,
    "confusable": _confusable,
    "ranked": _ranked,
    "taken_away": taken_away,
    "nested": _nested,
    "dialogue": dialogue,
    "rounds": rounds,
    "facts": with_facts,
    "home": home,
    "slots": _slots,
    "held": held,
    "elsewhere": elsewhere,
}
