"""Requests without a call: nothing offered fits."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from training.example import Example, written
from training.frame_types import Frame, Pool
from training.houses import pick_house
from training.noise import add_noise
from training.questions import question
from training.sample import Piece, clause_from, sample_clause
from training.siblings import sibling_frames
from training.styles import StyledTool, style_tool
from training.world import World, content_words


def irrelevant(world: World, rng: Random) -> Example | None:
    """A request that none of the offered tools serves."""
    count = rng.choices((1, 2, 3, 4, 5, 6, 8), (50, 18, 10, 8, 7, 4, 3))[0]
    chance = rng.random()
    if chance < 0.25 and world.with_misses:
        frame = rng.choice(world.with_misses)
        clause = clause_from(frame, rng.choice(frame.near_misses), rng)
        offered = [frame, *world.others([frame], count - 1, rng, most=0.3)]
        return _refuse(world, rng, clause.pieces, offered, "near_miss")
    if chance < 0.35:
        text = question(rng)
        return _refuse(world, rng, [Piece(text)], _apart(world, rng, text, count), "question")
    if chance < 0.48:
        text = rng.choice(world.small_talk)
        return _refuse(world, rng, [Piece(text)], _apart(world, rng, text, count), "talk")
    frame = world.frame(rng)
    clause = sample_clause(frame, rng)
    pieces = clause.pieces
    if chance < 0.6:
        offered = sibling_frames(frame, rng, min(count, 3))
        return _refuse(world, rng, pieces, offered, "sibling") if offered else None
    if chance < 0.82:
        offered = _same_domain(world, frame, clause.text, count, rng)
    else:
        offered = _apart(world, rng, f"{frame.name} {frame.description} {clause.text}", count)
    return _refuse(world, rng, pieces, offered, "other")


def _same_domain(world: World, frame: Frame, text: str, count: int, rng: Random) -> list[Frame]:
    """Tools of the request's own field that do something else."""
    words = content_words(text)
    near = [
        other
        for other in world.by_domain[frame.domain]
        if other.name != frame.name
        and world.likeness(other, frame) < 0.2
        and len(words & world.words[id(other)]) < 2
    ]
    if not near:
        return world.others([frame], count, rng, most=0.2)
    return rng.sample(near, min(len(near), count))


def _apart(world: World, rng: Random, text: str, count: int) -> list[Frame]:
    """Tools that share no word of substance with a request."""
    words = content_words(text)
    found: list[Frame] = []
    for _ in range(count * 6):
        frame = rng.choice(world.frames)
        if not words & world.words[id(frame)] and frame not in found:
            found.append(frame)
        if len(found) == count:
            break
    return found


def _refuse(
    world: World, rng: Random, pieces: list[Piece], offered: list[Frame], why: str
) -> Example | None:
    if not offered:
        return None
    pieces = add_noise([], pieces, rng)
    query = written(pieces)
    house = pick_house(rng)
    tools: dict[str, StyledTool] = {}
    for frame in offered:
        sibling = frame.source == "sibling"
        styled = style_tool(frame, house, rng) if sibling else world.styled(frame, house, rng)
        tools.setdefault(styled.tool.name, styled)
    shuffled = list(tools.values())
    rng.shuffle(shuffled)
    return Example(query, shuffled, [], f"irrelevant_{why}", offered[0].source, [query])


def taken_away(world: World, rng: Random) -> Example | None:
    """The tool that serves the request is missing from a list of others for the same field."""
    frame = world.frame(rng)
    clause = sample_clause(frame, rng)
    near = world.near(frame, clause.text, rng, rng.choice((2, 3, 4, 5, 7, 9, 12)), most=0.2)
    words = content_words(clause.text)
    kinds = _kinds(frame, clause.values)
    offered = [
        other
        for other in near
        if len(words & world.words[id(other)]) < 2
        and len(kinds & _kinds(other, other.parameters)) < 2
    ]
    if len(offered) < 2:
        return None
    return _refuse(world, rng, clause.pieces, offered, "taken")


def _kinds(frame: Frame, names: Iterable[str]) -> set[str]:
    """Which special things a tool takes: a tool that takes the same ones may well do instead."""
    values = (frame.parameters[name].values for name in names)
    return {value.name for value in values if isinstance(value, Pool)}
