"""Whole examples of every kind: which tools are offered, what is asked, which calls are right."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from training.boundaries import join_clauses
from training.example import Example, written
from training.frame_types import Flag, Frame, Parameter, Pool
from training.houses import pick_house, terse
from training.noise import add_noise
from training.parallel import Composed, same_tool, wrong_value
from training.refusals import irrelevant, missing
from training.sample import Clause, Piece, clause_from, is_day, is_person, is_place, sample_clause
from training.siblings import sibling_frames
from training.styles import StyledTool, style_tool
from training.world import World, tool_count

# Shares of the kinds, in percent.
SHARES = {
    "single_one": 19,
    "single_many": 24,
    "correction": 3,
    "parallel": 19,
    "parallel_multiple": 18,
    "pronoun": 3,
    "irrelevant": 15,
    "missing": 3,
}
LONG_LIST = 14  # tools; more of them are described tersely, so that the prompt stays short
_CORRECTIONS = (
    ", no wait, ", " - sorry, I mean ", ", I mean ", "... actually ", ", or rather ", ", no, ",
    " (scratch that: ", " oh wait ", ", sorry, ",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reference:
    """Words that stand for something said before, and what they may follow."""

    name: str
    fits: Callable[[Parameter], bool]
    after: re.Pattern[str]
    words: tuple[str, ...]
    alone: bool  # whether the preposition goes: "there", not "in there"


_REFERENCES = (
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


def compose(world: World, rng: Random, kind: str | None = None) -> Example | None:
    """One example; None where the draw did not work out and another should be made."""
    kind = kind or rng.choices(list(SHARES), list(SHARES.values()))[0]
    return _MAKERS[kind](world, rng)


def _finish(
    world: World, rng: Random, composed: Composed, kind: str, tool_count: int
) -> Example | None:
    """Write the request down, offer the tools it needs and others, and make the calls."""
    clauses, pieces = composed
    pieces = add_noise(clauses, [piece for piece in pieces if piece.text], rng)
    query = written(pieces)
    house = pick_house(rng)
    if tool_count > LONG_LIST:
        house = terse(house)
    needed = list({id(clause.frame): clause.frame for clause in clauses}.values())
    styled: dict[int, StyledTool] = {}
    names: set[str] = set()
    for frame in needed:
        calls_of = [clause.values for clause in clauses if clause.frame is frame]
        styled[id(frame)] = style_tool(frame, house, rng, calls_of)
        names.add(styled[id(frame)].tool.name)
    offered = list(styled.values())
    extra = world.others(needed, tool_count - len(needed), rng, most=0.5)
    if rng.random() < 0.3 and extra:
        siblings = sibling_frames(needed[0], rng, 1)
        extra[: len(siblings)] = siblings
    for frame in extra:
        other = (
            style_tool(frame, house, rng)
            if frame.source == "sibling"
            else world.styled(frame, house, rng, alike=tool_count > LONG_LIST)
        )
        if other.tool.name not in names:
            names.add(other.tool.name)
            offered.append(other)
    rng.shuffle(offered)
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
    what = rng.choices(_REFERENCES, (45, 25, 30))[0]
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
    pieces = _with_pronoun(closing.pieces, followed[0], what, rng)
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


def _with_pronoun(
    pieces: list[Piece], name: str, what: Reference, rng: Random
) -> list[Piece] | None:
    places = [index for index, piece in enumerate(pieces) if piece.slot == name]
    if len(places) != 1 or places[0] == 0 or pieces[places[0] - 1].slot:
        return None
    index = places[0]
    before = pieces[index - 1]
    match = what.after.search(before.text)
    after = pieces[index + 1].text if index + 1 < len(pieces) else ""
    if not match or after.startswith(("'", "-")):
        return None
    head, word = before, rng.choice(what.words)
    if what.alone:
        head = replace(before, text=before.text[: match.start()])
    return [*pieces[: index - 1], head, Piece(word), *pieces[index + 1 :]]


_MAKERS: dict[str, Callable[[World, Random], Example | None]] = {
    "single_one": _single_one,
    "single_many": _single_many,
    "correction": _correction,
    "parallel": _parallel,
    "parallel_multiple": _parallel_multiple,
    "pronoun": _pronoun,
    "irrelevant": irrelevant,
    "missing": missing,
}
