"""How a function model is asked, and how its answer is read. Each model has one format.

A format is the model's own: the one it was trained on. `DeviceFacts.call_format` names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edgewise.calls.function_gemma import DECLARATION, FunctionGemma
from edgewise.calls.grammar import Calls, compile_grammar
from edgewise.calls.history import NOTHING_TOLD, Told, render_context, render_turns
from edgewise.calls.prompt import render_prompt, shared_prompt
from edgewise.calls.question import split_questions
from edgewise.calls.retell import Reading, written
from edgewise.calls.tools_template import CALL, Render, ToolsTemplate
from edgewise.types.messages import Tool
from edgewise.types.tokens import Token


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

    def grammar(
        self, tools: Sequence[Tool], text: str, *, copy: bool = False, calls: Calls = "any"
    ) -> str:
        """What may be written, as GBNF; "" for anything."""
        ...

    def draft(self, lines: str) -> str:
        """A guess of `calls.draft`, as this model would write it; "" if it would not."""
        ...

    def read(self, tokens: Sequence[Token]) -> Reading:
        """The calls and questions of an answer, in our line format."""
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

    def grammar(
        self, tools: Sequence[Tool], text: str, *, copy: bool = False, calls: Calls = "any"
    ) -> str:
        return compile_grammar(tools, text, copy=copy, ask=self.asks, calls=calls)

    def draft(self, lines: str) -> str:
        return lines

    def read(self, tokens: Sequence[Token]) -> Reading:
        answer = written(tokens)
        text, questions = split_questions(answer) if self.asks else (answer, ())
        return Reading(text, tuple(tokens), questions)


FORMATS: dict[str, CallFormat] = {
    "lines": Lines(),
    "conversation": Lines(asks=True, reads_turns=True),
    "functiongemma": FunctionGemma(),
}
TOOLS_TEMPLATE = "tools_template"


def format_named(name: str, template: str = "", render: Render | None = None) -> CallFormat:
    """The format of this name; that of our first models for a name that nobody knows.

    A model that is asked through its own chat template needs this and somebody who renders it.
    """
    if name == TOOLS_TEMPLATE and template and render is not None:
        return ToolsTemplate(template, render)
    return FORMATS.get(name, FORMATS["lines"])


def call_format_of(template: str) -> str:
    """The name of the format that a chat template speaks; that of our first models if none."""
    if DECLARATION in template:
        return "functiongemma"
    return TOOLS_TEMPLATE if "tools" in template and CALL in template else "lines"
