"""The format of chat models whose own template knows tools, as Qwen's does.

The template, which comes with the weights, writes the prompt. The answer is JSON, spelled as
Python spells it, between `<tool_call>` and `</tool_call>`; some models leave these out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgewise.calls.grammar import Calls, Notation, compile_grammar
from edgewise.calls.history import NOTHING_TOLD, TEXT_LIMIT, Told, context_lines, cut, last_turns
from edgewise.calls.prompt import STRICT_JSON, MalformedAnswer, parse_answer, untagged
from edgewise.calls.retell import FIRST_SENTENCE, Reading, retell, retell_words, written
from edgewise.types.messages import Message, Tool, ToolCall
from edgewise.types.tokens import Token

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

    def read(self, tokens: Sequence[Token]) -> Reading:
        text = written(tokens)
        told, calls = _tell(text)
        if not calls:  # words, or calls of another form, which `repair` may know
            return Reading(text.strip(), retell_words(tokens))
        return Reading("".join(told), retell(tokens, told))


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
