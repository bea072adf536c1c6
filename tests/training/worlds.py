"""A small world of the example frames, for tests of the generator."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from training.frame_types import Frame
from training.frames_parser import parse_text
from training.world import World

FRAMES = Path(__file__).parents[2] / "training" / "frames"
EXAMPLES = FRAMES / "examples.frames"


@cache
def example_frames() -> tuple[Frame, ...]:
    return tuple(parse_text(EXAMPLES.read_text("utf-8"), EXAMPLES.name).frames)


def frame(name: str) -> Frame:
    return next(frame for frame in example_frames() if frame.name == name)


@cache
def family_world() -> World:
    """Beside the examples, what conversations, facts, slots and nested schemas need."""
    names = (
        "lookups",
        "terse_slots",
        "copied_values",
        "wild_schemas",
        "communication_and_calendar",
    )
    texts = [(FRAMES / f"{name}.frames").read_text("utf-8") for name in names]
    more = [frame for text in texts for frame in parse_text(text, "families").frames]
    return World([*example_frames(), *more])


def small_world() -> World:
    return World(example_frames())
