"""What a request is doing right now, for whoever looks on: names and numbers, never a text."""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple

from edgewise.types.replies import Place, Switched


class Turn(NamedTuple):
    """The other side took over: to where, why, how sure the device was, and when."""

    to: Place
    code: str
    confidence: float | None
    at: float  # by `time.perf_counter`, as all times here


@dataclass(slots=True)
class Progress:
    """Written by what runs for the request, read by whoever looks on.

    A token costs a count. Whoever looks on sets `asked`; at the next token the confidence is
    written. So it costs nothing while nobody looks, and no more often than somebody looks.

    tokens      written so far at this place; in the cloud, pieces of text that arrived
    confidence  the chance that an answer with this beginning will be right
    """

    place: Place | None = None
    backend: str = ""
    model: str = ""
    waiting: bool = False  # in the queue of the local model
    tokens: int = 0
    first: float | None = None
    last: float = 0.0
    confidence: float | None = None
    threshold: float | None = None
    verified: bool = False
    asked: bool = False
    turns: list[Turn] = field(default_factory=list)

    def start(self, place: Place, backend: str, model: str) -> None:
        """Somebody begins to work on an answer."""
        self.place, self.backend, self.model = place, backend, model
        self.tokens, self.first, self.last = 0, None, 0.0

    def count(self) -> None:
        self.last = time.perf_counter()
        if self.first is None:
            self.first = self.last
        self.tokens += 1

    def judge(self, confidence: float, threshold: float, *, verified: bool) -> None:
        self.asked = False
        self.confidence, self.threshold, self.verified = confidence, threshold, verified

    def switch(self, event: Switched) -> None:
        self.confidence = self.confidence if event.confidence is None else event.confidence
        self.turns.append(Turn(event.to, event.code, event.confidence, time.perf_counter()))

    @property
    def tokens_per_second(self) -> float | None:
        """Since the first token; None until there are two."""
        if self.first is None or self.last <= self.first:
            return None
        return (self.tokens - 1) / (self.last - self.first)


# Of the request that this thread works on; None where nobody could look on.
watched: ContextVar[Progress | None] = ContextVar("edgewise_progress", default=None)
