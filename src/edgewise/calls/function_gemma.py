"""The format of FunctionGemma, as its makers publish it.

Tools are declared in a developer turn, calls and results are written between control tokens, and
`<escape>` stands on both sides of every text. Arguments come in alphabetical order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
    retell,
    retell_words,
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

# Without these words, in this form, the model talks instead of calling.
TRIGGER = "You are a model that can do function calling with the following functions"
ESCAPE = "<escape>"
CALL, CALL_END = "<start_function_call>", "<end_function_call>"
RESPONSE, RESPONSE_END = "<start_function_response>", "<end_function_response>"
DECLARATION, DECLARATION_END = "<start_function_declaration>", "<end_function_declaration>"
TURN, TURN_END = "<start_of_turn>", "<end_of_turn>\n"
LONGEST_DESCRIPTION = 600  # characters: this model needs the words of long ones
NESTING_LIMIT = 4
NOTATION = Notation(
    opening=f"{CALL}call:",
    named="",
    closing=CALL_END,
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
_HEAD = re.compile(r"\s*(?:call\s*:)?\s*")
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
        return compile_grammar(tools, text, copy=copy, notation=NOTATION, calls=calls)

    def draft(self, lines: str) -> str:
        try:
            calls = parse_answer(lines)
        except MalformedAnswer:
            return ""
        return "".join(map(_called, calls)) + RESPONSE if calls else ""

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
        inner = NOTATION.in_order([(str(name), field) for name, field in properties.items()])
        parts = [
            f"{NOTATION.name(name)}{_field(resolve(field, definitions), definitions, depth)}"
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
        parts += [_called(call) for call in message.tool_calls]
        if not is_open:
            parts.append(f"{cut(untagged(message.content), TEXT_LIMIT)}{TURN_END}")
    return "".join(parts), is_open


def _called(call: ToolCall) -> str:
    try:
        arguments = NOTATION.spelled(dict(call.arguments))
    except (TypeError, ValueError):  # arguments that nothing can write
        arguments = "{}"
    return f"{CALL}call:{untagged(call.name)}{arguments}{CALL_END}"


def _result(name: str, content: str) -> str:
    try:
        value = STRICT_JSON.decode(content) if len(content) <= TEXT_LIMIT else content
    except (ValueError, RecursionError):
        value = content
    if isinstance(value, str):
        value = cut(value, TEXT_LIMIT)
    told = value if isinstance(value, Mapping) else {"value": value}
    return f"{RESPONSE}response:{untagged(name)}{NOTATION.spelled(told)}{RESPONSE_END}"


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
        start, response = self._text.find(CALL, self._at), self._text.find(RESPONSE, self._at)
        if response >= 0 and (start < 0 or response < start):
            self.stopped = True
            del self.told[response + len(RESPONSE) :]
            return False
        if start < 0:
            return False
        self._at = start + len(CALL)
        self.told[start] += "\n" if self.calls else ""
        self._match(_HEAD)
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
            rest.startswith(mark, self._at) for mark in (CALL_END, CALL, RESPONSE)
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
        ends = [self._text.find(mark, start) for mark in (ESCAPE, CALL_END, CALL, RESPONSE)]
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
