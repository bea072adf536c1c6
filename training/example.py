"""One training case, and how its request is put on paper."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from edgewise.calls.prompt import render_answer
from edgewise.types.messages import ToolCall
from training.sample import Piece
from training.styles import StyledTool


@dataclass(slots=True)
class Example:
    """One training case, before it is written as prompt and answer."""

    query: str
    tools: list[StyledTool]
    calls: list[ToolCall]
    kind: str
    source: str
    clauses: list[str] = field(default_factory=list)

    @property
    def answer(self) -> str:
        return render_answer(self.calls)


def written(pieces: list[Piece]) -> str:
    """The text of a request."""
    return re.sub(r"[ \t]+", " ", "".join(piece.text for piece in pieces)).strip()
