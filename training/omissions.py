"""Requests that leave out what the schema requires, made from any tool: we must ask for it."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

from training.frame_types import Clock, Flag, Frame, Objects, Pairs, Parameter
from training.generic import generic_template
from training.sample import Clause, clause_from, sample_clause
from training.templates import BadLine
from training.world import World

_DISPENSABLE = re.compile(
    r"optional|default|left out|omitted|if (not|empty|given|known)|else", re.I
)
_LONGEST = 90
_NAMES_AN_ACTION = re.compile(r"[A-Za-z]+ [A-Za-z]+ ")


def newly_required(frame: Frame, rng: Random) -> tuple[Frame, Clause] | None:
    """A complete request, and a tool that asks for one thing more than it says."""
    clause = sample_clause(frame, rng)
    unsaid = [
        name
        for name, parameter in frame.parameters.items()
        if name not in clause.values and not parameter.required and _needed(parameter)
    ]
    if not unsaid:
        return None
    name = rng.choice(unsaid)
    parameters = dict(frame.parameters)
    parameters[name] = replace(parameters[name], required=True)
    return replace(frame, parameters=parameters), clause


def incomplete_request(world: World, rng: Random) -> tuple[Frame, Clause] | None:
    """A tool and a request for it that lacks something."""
    chance = rng.random()
    if chance < 0.4 and world.with_incomplete:
        frame = rng.choice(world.with_incomplete)
        return frame, clause_from(frame, rng.choice(frame.incomplete), rng)
    frame = rng.choice(world.by_source["frames"] or world.frames)
    if chance < 0.65:
        return newly_required(frame, rng)
    return left_out(frame, rng, 2 if rng.random() < 0.35 else 1)


def left_out(frame: Frame, rng: Random, count: int = 1) -> tuple[Frame, Clause] | None:
    """A plain request made from the schema without some of the things it requires."""
    if len(frame.description) > _LONGEST or not _NAMES_AN_ACTION.match(frame.description):
        return None
    able = [name for name in frame.required if _needed(frame.parameters[name])]
    if len(able) < count or len(frame.parameters) <= count or frame.silent:
        return None
    if any(isinstance(one.values, Pairs | Objects) for one in frame.parameters.values()):
        return None
    gone = rng.sample(able, count)
    rest = {name: one for name, one in frame.parameters.items() if name not in gone}
    shorter = replace(frame, parameters=rest)
    try:
        template = generic_template(shorter, rng.randrange(7), rng)
    except BadLine:
        return None
    return frame, clause_from(shorter, template, rng)


def _needed(parameter: Parameter) -> bool:
    """Whether nobody could guess the value: no yes or no, nothing described as dispensable."""
    if isinstance(parameter.values, Flag | Clock | Pairs | Objects) or "." in parameter.name:
        return False
    return not _DISPENSABLE.search(parameter.description)
