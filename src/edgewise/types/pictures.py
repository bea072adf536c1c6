"""What the device saw in pictures: lines of text, objects, and the reply they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from typing_extensions import override

from edgewise.types.replies import Parsed, Reply

# Corners in pixels, clockwise from where the text (or the object) begins.
Box = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text with the reader's own score."""

    text: str
    score: float
    box: Box = ()


@dataclass(frozen=True, slots=True)
class Thing:
    """An object with the detector's own score."""

    name: str
    score: float
    box: Box = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One picture as a device skill saw it.

    upright  whether it is clear which way up the text stands; the text of a picture that lies on
             its side, or on its head, is read turned, and its places are those in the picture
    quality  measurements of the picture
    """

    lines: tuple[Line, ...] = ()
    things: tuple[Thing, ...] = ()
    width: int = 0
    height: int = 0
    upright: bool = True
    quality: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SeenReply(Reply[Parsed]):
    """A reply to a request with pictures.

    skill   the device skill that answered ("reads text", "names objects"), or what the device can
            do if no skill answers the question; empty if none took part
    sights  what the skill saw in each picture
    notes   what was changed before a skill looked, as "only the first frame"
    """

    skill: str = ""
    sights: tuple[Sight, ...] = ()
    notes: tuple[str, ...] = ()

    @override
    def to_dict(self) -> dict[str, Any]:
        # dataclass(slots=True) makes a new class, so a bare super() does not work.
        return super(SeenReply, self).to_dict() | {
            "skill": self.skill,
            "sights": [asdict(sight) | {"quality": dict(sight.quality)} for sight in self.sights],
            "notes": list(self.notes),
        }
