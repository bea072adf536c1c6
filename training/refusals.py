"""Requests without a call: nothing offered fits, or something required was not said."""

from __future__ import annotations

from random import Random

from training.example import Example, written
from training.frame_types import Frame
from training.houses import pick_house
from training.noise import add_noise
from training.omissions import left_out, newly_required
from training.questions import question
from training.sample import Piece, clause_from, sample_clause
from training.siblings import sibling_frames
from training.styles import StyledTool, style_tool
from training.world import World, content_words, tool_count


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
        fresh = frame.source == "sibling" or why == "missing"
        styled = (
            style_tool(frame, house, rng, strict=True) if fresh else world.styled(frame, house, rng)
        )
        tools.setdefault(styled.tool.name, styled)
    shuffled = list(tools.values())
    rng.shuffle(shuffled)
    return Example(query, shuffled, [], f"irrelevant_{why}", offered[0].source, [query])


def missing(world: World, rng: Random) -> Example | None:
    """Something required was not said: no call."""
    chance = rng.random()
    found = None
    if chance > 0.4:
        frame = rng.choice(world.by_source["frames"] or world.frames)
        found = left_out(frame, rng) if chance > 0.75 else newly_required(frame, rng)
    elif world.with_incomplete:
        frame = rng.choice(world.with_incomplete)
        found = frame, clause_from(frame, rng.choice(frame.incomplete), rng)
    if not found:
        return None
    asked, clause = found
    others = world.others([frame], tool_count(rng, 1) - 1, rng, most=0.3)
    example = _refuse(world, rng, clause.pieces, [asked, *others], "missing")
    if example:
        example.kind = "missing"
    return example
