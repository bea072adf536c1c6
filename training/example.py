"""One training case, and how its request is put on paper."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from edgewise.calls.question import Question, render_reply
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
    before: str = ""  # facts and turns before the request, rendered
    after: str = ""  # turns since then
    questions: list[Question] = field(default_factory=list)

    @property
    def answer(self) -> str:
        return render_reply(self.calls, self.questions)


def written(pieces: list[Piece]) -> str:
    """The text of a request."""
    return re.sub(r"[ \t]+", " ", "".join(piece.text for piece in pieces)).strip()
