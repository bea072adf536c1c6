"""Runs the local model over the questions and keeps each token's evidence, in a reusable file.

The file lies in the cache, never in the repository: it can be made again from the seed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.bench.answers import Question, is_right
from edgewise.decide.meter import (
    Meter,
    Reading,
)
from edgewise.local.backend import ChatBackend
from edgewise.types.messages import Message, Request
from edgewise.types.tokens import Finish, Token

MAX_TOKENS = 48


@dataclass(frozen=True, slots=True)
class Trace:
    """One question, what the model said, and what it thought of each token."""

    question: Question
    tokens: tuple[Token, ...]
    ended: bool  # False: cut at MAX_TOKENS

    @property
    def text(self) -> str:
        return "".join(token.text for token in self.tokens)

    @property
    def right(self) -> bool:
        return is_right(self.question, self.text)

    def readings(self) -> list[Reading]:
        """What the meter read after each token, as the gate would have seen it."""
        return readings_of(self.tokens)


def readings_of(tokens: Iterable[Token]) -> list[Reading]:
    meter = Meter()
    readings = []
    for token in tokens:
        meter.add(token)
        readings.append(meter.reading())
    return readings


def collect_traces(
    backend: ChatBackend,
    questions: Sequence[Question],
    path: Path,
    progress: Callable[[], None] = lambda: None,
    max_tokens: int = MAX_TOKENS,
) -> list[Trace]:
    """A trace for each question, generated or read from `path`; new ones are appended to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known = _read(path)
    traces = []
    with path.open("a", encoding="utf-8") as file:
        for question in questions:
            key = f"{question.system}\n\n{question.prompt}" if question.system else question.prompt
            if key not in known:
                known[key] = _generate(backend, question, max_tokens)
                line = json.dumps({"prompt": key, **known[key]})
                file.write("\n" + line)  # the newline first: it may follow a line that was cut
                file.flush()  # an interrupted run is taken up again where it stopped
            traces.append(_parse(question, known[key]))
            progress()
    return traces


def _generate(backend: ChatBackend, question: Question, max_tokens: int) -> dict[str, Any]:
    """Exactly what a user gets: greedy, the model's own system prompt, the same request body."""
    system = (Message("system", question.system),) if question.system else ()
    messages = (*system, Message("user", question.prompt))
    request = Request(messages=messages, max_tokens=max_tokens)
    items = list(backend.generate(request))
    return {"tokens": [_pack(token) for token in _tokens(items)], "ended": _ended(items)}


def _tokens(items: Iterable[Token | Finish]) -> Iterator[Token]:
    return (item for item in items if isinstance(item, Token))


def _ended(items: Iterable[Token | Finish]) -> bool:
    return any(isinstance(item, Finish) and item.reason == "stop" for item in items)


def _pack(token: Token) -> list[Any]:
    numbers = (round(value, 5) for value in (token.logprob, token.margin, token.entropy))
    return [token.text, *numbers, token.has_evidence]


def _parse(question: Question, data: dict[str, Any]) -> Trace:
    return Trace(question, tuple(Token(*packed) for packed in data["tokens"]), data["ended"])


def _read(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    known = {}
    for line in path.read_text("utf-8").split("\n"):
        try:
            entry = json.loads(line)
            known[entry["prompt"]] = entry
        except ValueError:  # empty, or cut when a run was interrupted
            continue
    return known
