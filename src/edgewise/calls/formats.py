"""How a function model is asked, and how its answer is read. Each model has one format.

A format is the model's own: the one it was trained on. `DeviceFacts.call_format` names it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from edgewise.calls.function_gemma import DECLARATION, FunctionGemma
from edgewise.calls.prompt import (
    FIRST_SENTENCE,
    NOTHING_TOLD,
    STRICT_JSON,
    TEXT_LIMIT,
    FunctionText,
    MalformedAnswer,
    Told,
    context_lines,
    cut,
    last_turns,
    parse_answer,
    render_context,
    render_prompt,
    render_turns,
    retell,
    retell_words,
    shared_prompt,
    split_questions,
    written,
)
from edgewise.grammar.tools import Calls, Notation, compile_grammar, untagged
from edgewise.types.messages import Message, Tool, ToolCall
from edgewise.types.replies import Token

CALL, CALL_END = "<tool_call>", "</tool_call>"
NOTATION = Notation(
    opening='{"name": "',
    named='", "arguments": ',
    closing="}",
    before=f"{CALL}\n",  # small models forget the tags
    behind=f"\n{CALL_END}",
    nothing=FIRST_SENTENCE,
    comma=", ",
    colon=": ",
)
# The template, the turns and the tools: the text before the answer.
Render = Callable[[str, Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], str]
_HEAD = re.compile(
    rf'(?:{CALL}\s*)?\{{\s*"name"\s*:\s*"((?:[^"\\]|\\.)*)"\s*,\s*"(?:arguments|parameters)"\s*:\s*'
)
_SOMETHING = "\u2026"  # said by nobody: what follows it in a prompt is not shared


@dataclass(frozen=True, slots=True)
class ToolsTemplate:
    """Asks a chat model through its own template."""

    template: str
    render: Render
    asks: bool = False
    reads_turns: bool = True

    def prompt(self, tools: Sequence[Tool], text: str, told: Told = NOTHING_TOLD) -> str:
        facts = untagged("\n".join(context_lines(told.context)))
        turns: list[dict[str, Any]] = [{"role": "system", "content": facts}] if facts else []
        turns += map(_turn, last_turns(told.before))
        turns.append({"role": "user", "content": untagged(text).strip()})
        turns += map(_turn, told.after)
        return self.render(self.template, turns, [_described(tool) for tool in tools])

    def prefix(self, tools: Sequence[Tool]) -> str:
        return self.prompt(tools, _SOMETHING).partition(_SOMETHING)[0]

    def grammar(
        self, tools: Sequence[Tool], text: str, *, copy: bool = False, calls: Calls = "any"
    ) -> str:
        return compile_grammar(tools, text, copy=copy, notation=NOTATION, calls=calls)

    def draft(self, lines: str) -> str:
        try:
            return NOTATION.between.join(map(_called, parse_answer(lines)))
        except MalformedAnswer:
            return ""

    def read(self, tokens: Sequence[Token]) -> FunctionText:
        text = written(tokens)
        told, calls = _tell(text)
        if not calls:  # words, or calls of another form, which `repair` may know
            return FunctionText(text.strip(), retell_words(tokens))
        return FunctionText("".join(told), retell(tokens, told))


def _described(tool: Tool) -> dict[str, Any]:
    about = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": _untagged(about)}


def _untagged(value: Any) -> Any:
    if isinstance(value, str):
        return untagged(value)
    if isinstance(value, Mapping):
        return {untagged(str(name)): _untagged(inner) for name, inner in value.items()}
    return [_untagged(inner) for inner in value] if isinstance(value, list | tuple) else value


def _turn(message: Message) -> dict[str, Any]:
    told: dict[str, Any] = {
        "role": message.role,
        "content": untagged(cut(message.content, TEXT_LIMIT)),
    }
    if message.tool_calls:
        made = [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls]
        told["tool_calls"] = [{"type": "function", "function": _untagged(one)} for one in made]
    return told


def _called(call: ToolCall) -> str:
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    text = f"{NOTATION.opening}{call.name}{NOTATION.named}{arguments}{NOTATION.closing}"
    return f"{NOTATION.before}{text}{NOTATION.behind}"


def _tell(text: str) -> tuple[list[str], int]:
    """For each character what it is in our lines, and the number of calls."""
    told, calls, at = [""] * len(text), 0, 0
    while head := _HEAD.search(text, at):
        told[head.start()] = "\n" if calls else ""
        told[head.start(1) : head.end(1)] = text[head.start(1) : head.end(1)]
        told[head.end(1)] = " "  # the quote behind the name
        try:
            at = STRICT_JSON.raw_decode(text, head.end())[1]
        except (ValueError, RecursionError):  # cut off, or no JSON: `repair` reads it
            at = text.find(CALL_END, head.end())
            at = at if at >= 0 else len(text)
        told[head.end() : at] = text[head.end() : at]
        calls += 1
    return told, calls


# -- which format a model writes -------------------------------------------------------------------


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

    def read(self, tokens: Sequence[Token]) -> FunctionText:
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

    def read(self, tokens: Sequence[Token]) -> FunctionText:
        answer = written(tokens)
        text, questions = split_questions(answer) if self.asks else (answer, ())
        return FunctionText(text, tuple(tokens), questions)


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
