"""One training case, and how its request is put on paper."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgewise.calls.prompt import Question, render_context, render_reply, render_turns
from edgewise.types.messages import Message, ToolCall
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
    facts: Mapping[str, Any] = field(default_factory=dict)
    turns: Sequence[Message] = ()  # before the request
    since: Sequence[Message] = ()  # what was done for it already
    questions: list[Question] = field(default_factory=list)

    @property
    def before(self) -> str:
        """Facts and turns before the request, rendered."""
        return render_context(self.facts) + render_turns(self.turns)

    @property
    def after(self) -> str:
        return render_turns(self.since)

    @property
    def answer(self) -> str:
        return render_reply(self.calls, self.questions)


def written(pieces: list[Piece]) -> str:
    """The text of a request."""
    return re.sub(r"[ \t]+", " ", "".join(piece.text for piece in pieces)).strip()
