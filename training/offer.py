"""The tools a request is offered: those it needs, in one house's manner, and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from training.frame_types import Frame
from training.houses import House, pick_house, terse
from training.siblings import sibling_frames
from training.styles import StyledTool, style_tool
from training.values import Said
from training.world import World

LONG_LIST = 14  # tools; more of them are described tersely, so that the prompt stays short

Needed = Sequence[tuple[Frame, Sequence[Mapping[str, Said]]]]


def offer(
    world: World,
    rng: Random,
    needed: Needed,
    count: int,
    *,
    house: House | None = None,
    others: Sequence[Frame] | None = None,
    strict: bool = False,
) -> tuple[dict[int, StyledTool], list[StyledTool]]:
    """The needed tools by the identity of their frames, and all that are offered, shuffled.

    `needed` has with every frame the values of its calls, so that none breaks the schema.
    """
    house = house or pick_house(rng)
    if count > LONG_LIST and others is None:
        house = terse(house)
    styled: dict[int, StyledTool] = {}
    names: set[str] = set()
    for frame, calls in needed:
        styled[id(frame)] = style_tool(frame, house, rng, calls, strict)
        names.add(styled[id(frame)].tool.name)
    offered = list(styled.values())
    frames = [frame for frame, _ in needed]
    if others is None:
        extra = world.others(frames, count - len(frames), rng, most=0.5)
        if rng.random() < 0.3 and extra:
            siblings = sibling_frames(frames[0], rng, 1)
            extra[: len(siblings)] = siblings
    else:
        extra = list(others)
    for frame in extra:
        other = (
            style_tool(frame, house, rng)
            if frame.source == "sibling"
            else world.styled(frame, house, rng, alike=count > LONG_LIST and others is None)
        )
        if other.tool.name not in names:
            names.add(other.tool.name)
            offered.append(other)
    rng.shuffle(offered)
    return styled, offered
