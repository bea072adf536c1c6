"""How a function model is asked, and how its answer is read. Each model has one format.

A format is the model's own: the one it was trained on. `DeviceFacts.call_format` names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from edgewise.calls.grammar import compile_grammar, compile_question
from edgewise.calls.history import render_context, render_turns
from edgewise.calls.prompt import render_prompt, shared_prompt
from edgewise.calls.question import Question, split_questions
from edgewise.types.messages import Context, Message, Tool


@dataclass(frozen=True, slots=True)
class Told:
    """What surrounds a request: known facts, earlier turns, and what was done for it already."""

    context: Context = field(default_factory=dict)
    before: Sequence[Message] = ()
    after: Sequence[Message] = ()


NOTHING_TOLD = Told()


class CallFormat(Protocol):
    """What a function model reads and writes.

    `asks`: it may ask for what is missing. `reads_turns`: it reads more than the request.
    """

    @property
    def asks(self) -> bool: ...
    @property
    def reads_turns(self) -> bool: ...

    def prompt(self, tools: Sequence[Tool], text: str, told: Told = NOTHING_TOLD) -> str:
        """The whole text before the answer, special tokens included."""
        ...

    def prefix(self, tools: Sequence[Tool]) -> str:
        """The beginning of every prompt with these tools; nothing in it was said by a user."""
        ...

    def grammar(self, tools: Sequence[Tool], text: str, *, copy: bool = False) -> str:
        """What may be written, as GBNF; "" for anything."""
        ...

    def question_grammar(self, tool: Tool) -> str:
        """What may be written if it has to be a question about this tool; "" if there is none."""
        ...

    def read(self, written: str) -> tuple[str, tuple[Question, ...]]:
        """The calls of an answer as text for `calls.coerce.repair`, and the questions in it."""
        ...


@dataclass(frozen=True, slots=True)
class Lines:
    """The format of our own models: one line a call (`calls.prompt`).

    The third generation reads turns and facts, and asks back; those before it do neither.
    """

    asks: bool = False
    reads_turns: bool = False

    def prompt(self, tools: Sequence[Tool], text: str, told: Told = NOTHING_TOLD) -> str:
        if not self.reads_turns:
            return render_prompt(tools, text)
        before = render_context(told.context) + render_turns(told.before)
        return render_prompt(tools, text, before, render_turns(told.after))

    def prefix(self, tools: Sequence[Tool]) -> str:
        return shared_prompt(tools)

    def grammar(self, tools: Sequence[Tool], text: str, *, copy: bool = False) -> str:
        return compile_grammar(tools, text, copy=copy, ask=self.asks)

    def question_grammar(self, tool: Tool) -> str:
        return compile_question(tool) if self.asks else ""

    def read(self, written: str) -> tuple[str, tuple[Question, ...]]:
        return split_questions(written) if self.asks else (written, ())


FORMATS: dict[str, CallFormat] = {
    "lines": Lines(),
    "conversation": Lines(asks=True, reads_turns=True),
}


def format_named(name: str) -> CallFormat:
    """The format of this name; that of our first models for a name that nobody knows."""
    return FORMATS.get(name, FORMATS["lines"])
