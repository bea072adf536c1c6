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


def small_world() -> World:
    return World(example_frames())
