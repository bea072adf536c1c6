"""How a function model is asked, and how its answer is read. Each model has one format.

A format is the model's own: the one it was trained on. `DeviceFacts.call_format` names it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from edgewise.calls.prompt import (
    DEPTH_LIMIT,
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
from edgewise.grammar.tools import (
    TYPE_NAMES,
    Calls,
    Notation,
    compile_grammar,
    definitions_of,
    options_of,
    per_tool,
    resolve,
    untagged,
)
from edgewise.types.messages import Message, Tool, ToolCall
from edgewise.types.replies import Token

# -- FunctionGemma's format, as its makers publish it ----------------------------------------------
#
# Tools are declared in a developer turn, calls and results are written between control tokens, and
# `<escape>` stands on both sides of every text. Arguments come in alphabetical order.


# Without these words, in this form, the model talks instead of calling.
TRIGGER = "You are a model that can do function calling with the following functions"
ESCAPE = "<escape>"
GEMMA_CALL, GEMMA_CALL_END = "<start_function_call>", "<end_function_call>"
RESPONSE, RESPONSE_END = "<start_function_response>", "<end_function_response>"
DECLARATION, DECLARATION_END = "<start_function_declaration>", "<end_function_declaration>"
TURN, TURN_END = "<start_of_turn>", "<end_of_turn>\n"
LONGEST_DESCRIPTION = 600  # characters: this model needs the words of long ones
NESTING_LIMIT = 4
GEMMA_NOTATION = Notation(
    opening=f"{GEMMA_CALL}call:",
    named="",
    closing=GEMMA_CALL_END,
    between="",
    ending=RESPONSE,  # where the model would read the result
    nothing=FIRST_SENTENCE,
    quote=ESCAPE,
    # What might begin a control token cannot be written, or a text would have no end.
    character=r'[^<\x00-\x09\x0b-\x1f] | "<" [^<a-z_/\x00-\x1f]',
    json=False,
    any_name=r"[A-Za-z0-9_.$\U000000a1-\U0000d7ff-]{1,64}",
    sorted_names=True,
)
_TYPES = {
    "str": "STRING", "int": "INTEGER", "float": "NUMBER", "bool": "BOOLEAN", "list": "ARRAY",
    "obj": "OBJECT",
}  # fmt: skip
_SPACE = re.compile(r"\s*")
_GEMMA_HEAD = re.compile(r"\s*(?:call\s*:)?\s*")
_NAME = re.compile(r"[^{<]*")
_KEY = re.compile(r"[^:{}\[\],<\uff1a]*")
_COLON = re.compile(r"\s*[:\uff1a]")
_BARE = re.compile(r"[^,{}\[\]<]*")
_PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")


@dataclass(frozen=True, slots=True)
class FunctionGemma:
    """Asks and reads FunctionGemma. It was trained for one request; it reads turns as well."""

    asks: bool = False
    reads_turns: bool = True

    def prompt(self, tools: Sequence[Tool], text: str, told: Told = NOTHING_TOLD) -> str:
        facts = "".join(f"{untagged(line)}\n" for line in context_lines(told.context))
        turns = (*told.before, *told.after)
        names = {call.id: call.name for turn in turns for call in turn.tool_calls}
        before, is_open = _turns(last_turns(told.before), names)
        asked = f"{TURN_END if is_open else ''}{TURN}user\n{untagged(text).strip()}{TURN_END}"
        after, is_open = _turns(told.after, names)
        start = "" if is_open else f"{TURN}model\n"
        return f"{_developer(tools, facts)}{before}{asked}{after}{start}"

    def prefix(self, tools: Sequence[Tool]) -> str:
        return _developer(tools)

    def grammar(
        self, tools: Sequence[Tool], text: str, *, copy: bool = False, calls: Calls = "any"
    ) -> str:
        return compile_grammar(tools, text, copy=copy, notation=GEMMA_NOTATION, calls=calls)

    def draft(self, lines: str) -> str:
        try:
            calls = parse_answer(lines)
        except MalformedAnswer:
            return ""
        return "".join(map(_gemma_called, calls)) + RESPONSE if calls else ""

    def read(self, tokens: Sequence[Token]) -> FunctionText:
        text = written(tokens)
        telling = _Telling(text)
        if not telling.calls:
            return FunctionText(text.partition(RESPONSE)[0].strip(), retell_words(tokens))
        told = retell(tokens, telling.told, stopped=telling.stopped)
        return FunctionText("".join(telling.told), told)


# -- what it reads ---------------------------------------------------------------------------------


def _developer(tools: Sequence[Tool], facts: str = "") -> str:
    return f"{TURN}developer\n{facts}{TRIGGER}{''.join(map(_declared, tools))}{TURN_END}"


@per_tool
def _declared(tool: Tool) -> str:
    schema = tool.parameters
    fields = {"description": _text(tool.description)}
    if schema.get("properties"):
        fields["parameters"] = _object(schema, definitions_of(schema), 1)
    return f"{DECLARATION}declaration:{untagged(tool.name)}{_braced(fields)}{DECLARATION_END}"


def _object(schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> str:
    return _braced(_members(schema, definitions, depth) | {"type": _escaped("OBJECT")})


def _members(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int
) -> dict[str, str]:
    """What an object declares of its parts."""
    properties, required = schema.get("properties"), schema.get("required")
    found: dict[str, str] = {}
    if isinstance(properties, Mapping) and depth <= NESTING_LIMIT:
        inner = GEMMA_NOTATION.in_order([(str(name), field) for name, field in properties.items()])
        parts = [
            f"{GEMMA_NOTATION.name(name)}{_field(resolve(field, definitions), definitions, depth)}"
            for name, field in inner
        ]
        found["properties"] = f"{{{','.join(parts)}}}"
    if isinstance(required, list | tuple) and required:
        found["required"] = f"[{','.join(_escaped(str(name)) for name in required)}]"
    return found


def _field(field: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> str:
    options = options_of(field, definitions)
    if "type" not in field and options:
        field = {**options[0], **field}
    found: dict[str, str] = {}
    if isinstance(field.get("description"), str) and field["description"]:
        found["description"] = _text(field["description"])
    choices = [field["const"]] if "const" in field else field.get("enum")
    if isinstance(choices, list | tuple) and choices:
        found["enum"] = f"[{','.join(_escaped(_choice(one)) for one in choices)}]"
    kind = _type(field)
    items = resolve(field.get("items"), definitions)
    if kind == "ARRAY" and items and depth < NESTING_LIMIT:
        found["items"] = _field(items, definitions, depth + 1)
    if kind == "OBJECT":
        found |= _members(field, definitions, depth + 1)
    return _braced(found | {"type": _escaped(kind)})


def _type(field: Mapping[str, Any]) -> str:
    declared = field.get("type")
    names = declared if isinstance(declared, list | tuple) else [declared]
    for name in names:
        word = str(name).strip().lower().partition("[")[0]
        if word in TYPE_NAMES:
            return _TYPES[TYPE_NAMES[word]]
    if isinstance(field.get("properties"), Mapping):
        return "OBJECT"
    return "ARRAY" if isinstance(field.get("items"), Mapping) else "STRING"


def _choice(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _braced(fields: Mapping[str, str]) -> str:
    return f"{{{','.join(f'{name}:{value}' for name, value in fields.items())}}}"


def _text(text: str) -> str:
    return _escaped(cut(" ".join(text.split()), LONGEST_DESCRIPTION))


def _escaped(text: str) -> str:
    return f"{ESCAPE}{untagged(text)}{ESCAPE}"


def _turns(messages: Sequence[Message], names: Mapping[str, str]) -> tuple[str, bool]:
    """Turns as text, and whether the model's turn is still open: calls and results share it."""
    parts: list[str] = []
    is_open = False
    for message in messages:
        if message.role == "tool":
            parts.append(_result(names.get(message.tool_call_id, "result"), message.content))
            continue
        if message.role == "user":
            parts.append(TURN_END if is_open else "")
            parts.append(f"{TURN}user\n{cut(untagged(message.content), TEXT_LIMIT)}{TURN_END}")
            is_open = False
            continue
        parts.append("" if is_open else f"{TURN}model\n")
        is_open = bool(message.tool_calls)
        parts += [_gemma_called(call) for call in message.tool_calls]
        if not is_open:
            parts.append(f"{cut(untagged(message.content), TEXT_LIMIT)}{TURN_END}")
    return "".join(parts), is_open


def _gemma_called(call: ToolCall) -> str:
    try:
        arguments = GEMMA_NOTATION.spelled(dict(call.arguments))
    except (TypeError, ValueError):  # arguments that nothing can write
        arguments = "{}"
    return f"{GEMMA_CALL}call:{untagged(call.name)}{arguments}{GEMMA_CALL_END}"


def _result(name: str, content: str) -> str:
    try:
        value = STRICT_JSON.decode(content) if len(content) <= TEXT_LIMIT else content
    except (ValueError, RecursionError):
        value = content
    if isinstance(value, str):
        value = cut(value, TEXT_LIMIT)
    told = value if isinstance(value, Mapping) else {"value": value}
    return f"{RESPONSE}response:{untagged(name)}{GEMMA_NOTATION.spelled(told)}{RESPONSE_END}"


# -- what it writes --------------------------------------------------------------------------------


class _TooDeep(ValueError):
    pass


class _Telling:
    """Walks an answer from its beginning, and says for each character what it is in our lines.

    What is malformed is told as well as it can be: `calls.coerce` repairs the rest.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.told = [""] * len(text)
        self.calls = 0
        self.stopped = False
        while self._next_call():
            self.calls += 1

    def _next_call(self) -> bool:
        start, response = self._text.find(GEMMA_CALL, self._at), self._text.find(RESPONSE, self._at)
        if response >= 0 and (start < 0 or response < start):
            self.stopped = True
            del self.told[response + len(RESPONSE) :]
            return False
        if start < 0:
            return False
        self._at = start + len(GEMMA_CALL)
        self.told[start] += "\n" if self.calls else ""
        self._match(_GEMMA_HEAD)
        name = self._match(_NAME)
        end = name.start() + len(name.group().rstrip())
        self._copy(name.start(), end)
        if self._peek() == "{":
            self.told[self._at] = " "
            try:
                self._object(0)
            except _TooDeep:
                return False
        elif end > name.start():
            self.told[end - 1] += " {}"
        return True

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        assert found is not None, "these patterns match nothing, too"
        self._at = found.end()
        return found

    def _peek(self) -> str:
        self._match(_SPACE)
        return self._text[self._at : self._at + 1]

    def _ended(self) -> bool:
        """At the end of what is written, or of the call that this is part of."""
        rest = self._text
        return self._at >= len(rest) or any(
            rest.startswith(mark, self._at) for mark in (GEMMA_CALL_END, GEMMA_CALL, RESPONSE)
        )

    def _tell(self, text: str) -> None:
        self.told[self._at] += text
        self._at += 1

    def _close(self, bracket: str) -> None:
        """Tell a bracket that is there, or is missing in a call that has ended."""
        if not self._ended():
            self._tell(bracket)
        elif self._at < len(self._text):
            self.told[self._at] += bracket

    def _copy(self, start: int, end: int) -> None:
        for place in range(start, end):
            self.told[place] += self._text[place]

    def _object(self, depth: int) -> None:
        if depth > DEPTH_LIMIT:
            raise _TooDeep
        self._tell("{")
        first = True
        while (mark := self._peek()) != "}" and not self._ended():
            start = self._at
            if mark == "," or not self._key():
                self._at = max(self._at, start + 1)
                continue
            self.told[start] = ("" if first else ",") + self.told[start]
            first = False
            self._value(depth + 1, "}")
        self._close("}")

    def _list(self, depth: int) -> None:
        if depth > DEPTH_LIMIT:
            raise _TooDeep
        self._tell("[")
        first = True
        while (mark := self._peek()) != "]" and not self._ended():
            if mark in ",}":  # a brace too many
                self._at += 1
                continue
            self.told[self._at] = "" if first else ","
            first = False
            self._value(depth + 1, "]")
        self._close("]")

    def _key(self) -> bool:
        """A name and its colon; False, and nothing told, where there is none."""
        start = self._at
        if self._text.startswith(ESCAPE, start):
            self._string()
        else:
            found = self._match(_KEY)
            name = found.group().strip().strip('"')
            if not name:
                return False
            self.told[start] = json.dumps(name, ensure_ascii=False)
        colon = _COLON.match(self._text, self._at)
        if colon is None:
            self.told[start : self._at] = [""] * (self._at - start)
            return False
        self.told[colon.end() - 1] = ":"
        self._at = colon.end()
        return True

    def _value(self, depth: int, closer: str) -> None:
        mark = self._peek()
        if self._ended() or mark in (",", closer):
            self.told[self._at - 1] += "null"  # a name without a value
        elif mark == "{":
            self._object(depth)
        elif mark == "[":
            self._list(depth)
        elif self._text.startswith(ESCAPE, self._at):
            self._string()
        elif mark == '"' and (end := self._json_end()):
            self._copy(self._at, end)
            self._at = end
        else:
            self._bare()

    def _json_end(self) -> int:
        try:
            return STRICT_JSON.raw_decode(self._text, self._at)[1]
        except (ValueError, RecursionError):
            return 0

    def _string(self) -> None:
        """Text between two escapes; up to the end of the call where the second is missing."""
        self.told[self._at] += '"'
        start = self._at + len(ESCAPE)
        ends = [
            self._text.find(mark, start) for mark in (ESCAPE, GEMMA_CALL_END, GEMMA_CALL, RESPONSE)
        ]
        end = min((place for place in ends if place >= 0), default=len(self._text))
        closed = self._text.startswith(ESCAPE, end)
        for place in range(start, end):
            self.told[place] = json.dumps(self._text[place], ensure_ascii=False)[1:-1]
        if closed:
            self.told[end] = '"'
        elif end < len(self._text):
            self.told[end - 1] += '"'
        self._at = end + len(ESCAPE) if closed else end

    def _bare(self) -> None:
        """A number, true, false or null; any other text without escapes is a text."""
        found = self._match(_BARE)
        text = found.group().rstrip()
        start, end = found.start(), found.start() + len(text)
        if not text:  # a mark that belongs nowhere
            self._tell("null")
        elif _PLAIN.fullmatch(text):
            self._copy(start, end)
        else:
            self.told[start] += '"'
            for place in range(start, end):
                self.told[place] += json.dumps(self._text[place], ensure_ascii=False)[1:-1]
            self.told[end - 1] += '"'


# -- formats ---------------------------------------------------------------------------------------


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
