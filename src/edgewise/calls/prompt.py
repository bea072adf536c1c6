"""The text format in which the function model sees tools and answers, in training and in use."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgewise.calls.memory import per_tool
from edgewise.calls.schema import TYPE_NAMES, definitions_of, options_of, resolve
from edgewise.types.messages import Tool, ToolCall
from edgewise.types.tokens import Token

# Characters kept of a description. Longer ones are cut after a sentence or a word.
TOOL_DESCRIPTION_LIMIT = 240
PARAMETER_DESCRIPTION_LIMIT = 160
DEFAULT_LIMIT = 40
ENUM_LIMIT = 400
NESTING_LIMIT = 4
TOOL_LIMIT = 400_000  # characters: more than any context window holds
NO_CALL = "none"
ASK = "ask"  # begins the line that asks for what is missing, see `calls.question`
_SPECIAL_TOKEN = re.compile(r"<\|(\w+)\|>")
_TAG = re.compile(r"<(?=/?[a-z_][a-z0-9_]*>)")
_LOOKS_LIKE_JSON = re.compile(r"-?\d[\d.eE+-]*|true|false|null|")
_CUT = "…"
DEPTH_LIMIT = 64
_ANY_JSON = json.JSONDecoder()
_SPACES = (" ", "\t", "\r", "\n")
# What a call counts for less, in nats, if it holds something that nobody said. On validation 2 of
# 149 such answers were right, and 23 should have been `none`.
MADE_UP = 4.0


class MalformedAnswer(ValueError):
    """A text that is neither `none` nor a list of calls."""


def render_prompt(tools: Sequence[Tool], query: str, before: str = "", after: str = "") -> str:
    """The whole text before the answer, special tokens included.

    `before` and `after` the request stand what `calls.history` rendered: facts and other turns.
    """
    return prompt_around(render_tools(tools), query, before, after)


def prompt_around(rendered_tools: str, query: str, before: str = "", after: str = "") -> str:
    """`render_prompt` for tools that are rendered already."""
    asked = turn("user", plain_text(query).strip())
    return f"{_before_query(rendered_tools)}{before}{asked}{after}<|im_start|>assistant\n"


def turn(role: str, text: str) -> str:
    """One turn of the prompt; the text must be plain."""
    return f"<|im_start|>{role}\n{text}<|im_end|>\n"


def shared_prompt(tools: Sequence[Tool]) -> str:
    """The beginning of `render_prompt` that every request with these tools shares."""
    return _before_query(render_tools(tools))


def _before_query(rendered_tools: str) -> str:
    return turn("system", f"Tools\n{rendered_tools}")


def render_tools(tools: Sequence[Tool]) -> str:
    """Each tool as a line `name - description` and one line per parameter."""
    return "".join(map(_rendered, tools))


@per_tool
def _rendered(tool: Tool) -> str:
    lines, length = [], 0
    for line in _tool_lines(tool):
        lines.append(f"{line}\n")
        length += len(line)
        if length > TOOL_LIMIT:
            break
    return "".join(lines)


def render_answer(calls: Sequence[ToolCall]) -> str:
    """One line `name {"argument":value}` per call, or `none`."""
    if not calls:
        return NO_CALL
    return "\n".join(map(_written, calls))


def written_call(call: ToolCall) -> str:
    """A call that somebody made, as one line: for reading only, so any name will do."""
    try:
        return _written(call)
    except (TypeError, ValueError):  # an odd name, or arguments that are no JSON
        return f"{' '.join(call.name.split())} {{}}"


def _written(call: ToolCall) -> str:
    return f"{_call_name(call)} {_compact(dict(call.arguments))}"


def parse_answer(text: str) -> list[ToolCall]:
    """The calls in an answer. Raises MalformedAnswer where `render_answer` could not have been."""
    rest = text.strip()
    if rest == NO_CALL:
        return []
    if not rest:
        raise MalformedAnswer("the answer is empty")
    calls = []
    while rest:
        call, rest = _parse_call(rest)
        calls.append(call)
    return calls


def _parse_call(text: str) -> tuple[ToolCall, str]:
    line_end = text.find("\n")
    start = text.find("{")
    name = text[:start].strip() if start >= 0 else ""
    if not name or 0 <= line_end < start:
        raise MalformedAnswer(f'expected a line `name {{"argument":value}}`, got {text[:80]!r}')
    try:
        arguments, length = STRICT_JSON.raw_decode(text[start:])
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer(
            f"the arguments of {name!r} are not JSON: {text[start:][:80]!r}"
        ) from error
    after = text[start + length :].lstrip(" \t\r")
    if after and not after.startswith("\n"):
        raise MalformedAnswer(f"text after the arguments of {name!r}: {after[:80]!r}")
    return ToolCall(name=name, arguments=arguments, source="local"), after.lstrip()


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


STRICT_JSON = json.JSONDecoder(parse_constant=_no_constant)


def _call_name(call: ToolCall) -> str:
    name = call.name
    if not name or name != name.strip() or "{" in name or "\n" in name:
        raise MalformedAnswer(f"{name!r} cannot be written as the name of a call")
    return name


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _tool_lines(tool: Tool) -> Iterator[str]:
    description = _description(tool.description, tool.name, TOOL_DESCRIPTION_LIMIT)
    yield plain_text(tool.name) + (f" - {description}" if description else "")
    schema = tool.parameters
    yield from _object_lines(schema, "", definitions_of(schema), 1)


def _object_lines(
    schema: Mapping[str, Any], prefix: str, definitions: Mapping[str, Any], depth: int
) -> Iterator[str]:
    """A line per property, each followed by the lines of what is nested in it."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or depth > NESTING_LIMIT:
        return
    listed = schema.get("required")
    required = set(listed) if isinstance(listed, list | tuple) else set()
    for name, raw in properties.items():
        field = resolve(raw, definitions)
        # Some schemas mark a parameter itself: {"type": "string", "required": true}.
        star = "*" if name in required or field.get("required") is True else ""
        head = (
            f"  {plain_text(prefix + str(name))}{star} {_type(field, definitions)}{_default(field)}"
        )
        description = _description(field.get("description"), name, PARAMETER_DESCRIPTION_LIMIT)
        yield head + (f": {description}" if description else "")
        inner, suffix = _inside(field, definitions)
        yield from _object_lines(inner, f"{prefix}{name}{suffix}.", definitions, depth + 1)


def _inside(
    field: Mapping[str, Any], definitions: Mapping[str, Any]
) -> tuple[Mapping[str, Any], str]:
    """The object schema nested in a field, and what its fields are prefixed with."""
    for option in (field, *options_of(field, definitions)):
        if isinstance(option.get("properties"), Mapping):
            return option, ""
        items = resolve(option.get("items"), definitions)
        if isinstance(items.get("properties"), Mapping):
            return items, "[]"
    return {}, ""


def _type(field: Mapping[str, Any], definitions: Mapping[str, Any], depth: int = 1) -> str:
    """`str`, `int`, `list[float]`, `a|b|c`, `str/int`, … for a field's schema."""
    if depth > NESTING_LIMIT:
        return "any"
    choices = [field["const"]] if "const" in field else field.get("enum")
    if isinstance(choices, list | tuple) and choices:
        return _choices(choices)
    declared = field.get("type")
    names = declared if isinstance(declared, list | tuple) else [declared]
    kinds = [_kind(name, field, definitions, depth) for name in names if name not in (None, "null")]
    if not kinds:
        kinds = [_type(option, definitions, depth + 1) for option in options_of(field, definitions)]
    if not kinds:
        kinds = [_guess(field, definitions, depth)]
    return "/".join(dict.fromkeys(kinds))


def _kind(name: Any, field: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> str:
    word = str(name).strip().lower()
    base, bracket, inner = word.partition("[")
    kind = TYPE_NAMES.get(base.strip(), "any")
    if kind == "list":
        items = resolve(field.get("items"), definitions)
        if items:
            return f"list[{_type(items, definitions, depth + 1)}]"
        return f"list[{TYPE_NAMES.get(inner.rstrip(']').strip(), 'any')}]" if bracket else "list"
    written = field.get("format")
    if kind == "str" and isinstance(written, str) and written:
        return f"str({plain_text(written)})"
    return kind


def _guess(field: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> str:
    if isinstance(field.get("properties"), Mapping):
        return "obj"
    if isinstance(field.get("items"), Mapping):
        return _kind("array", field, definitions, depth)
    return "any"


def _choices(values: Sequence[Any]) -> str:
    written: list[str] = []
    length = 0
    for value in values:
        text = _value(value)
        length += len(text) + 1
        if written and length > ENUM_LIMIT:
            written.append(_CUT)
            break
        written.append(text)
    return "|".join(dict.fromkeys(written))


def _value(value: Any) -> str:
    """A choice or default: strings bare, unless they would read as another type."""
    if isinstance(value, str) and not _LOOKS_LIKE_JSON.fullmatch(value):
        return plain_text(value).replace("\n", " ")
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _default(field: Mapping[str, Any]) -> str:
    default = field.get("default")
    if default is None:
        return ""
    text = _value(default)
    return f"={text}" if len(text) <= DEFAULT_LIMIT else ""


def _description(text: Any, name: str, limit: int) -> str:
    """One line without its full stop, cut to the limit; empty if it only repeats the name."""
    line = " ".join(plain_text(text).split()) if isinstance(text, str) else ""
    if _words(line) == _words(name):
        return ""
    if len(line) <= limit:
        return line.removesuffix(".")
    sentence = line.rfind(". ", limit // 2, limit)
    if sentence > 0:
        return line[:sentence]
    return line[:limit].rpartition(" ")[0].rstrip(",;:") + _CUT


def _words(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", text.lower())


def plain_text(text: str) -> str:
    """Text that cannot end a turn: special tokens in it lose their bars."""
    return _SPECIAL_TOKEN.sub(r"<\1>", text)


def untagged(text: str) -> str:
    """Text that is no control token of any model: `<escape>` becomes `< escape>`, too."""
    return _TAG.sub("< ", plain_text(text))


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` to `end` of an answer: a call's name, or (a part of) an argument's value.

    Strings are given without their quotes; of lists and objects the plain values inside.
    """

    call: int
    argument: str | None  # None: the name of the tool
    start: int
    end: int


def value_spans(answer: str) -> tuple[Span, ...]:
    """The names and values in an answer of the line format, in order.

    `none` is the name of a call that is not made, and a question as a whole is one, too. Text that
    is not in the format ends the list.
    """
    if answer.strip() == NO_CALL:
        start = answer.index(NO_CALL)
        return (Span(0, None, start, start + len(NO_CALL)),)
    if answer.startswith(f"{ASK} ") and "{" not in answer:
        return (Span(0, None, 0, len(answer.rstrip())),)
    reader = _Reader(answer)
    try:
        while reader.read_call():
            pass
    except (ValueError, IndexError):  # cut off or malformed: what was read before stands
        pass
    return tuple(reader.spans)


def owners(texts: Sequence[str]) -> tuple[Span | None, ...]:
    """For the token texts of an answer, the name or value each belongs to; None: punctuation.

    A token that holds more than one of them belongs to the first.
    """
    spans = value_spans("".join(texts))
    ends = [span.end for span in spans]
    found: list[Span | None] = []
    position = 0
    for text in texts:
        index = bisect_right(ends, position)
        after = position + len(text)
        inside = index < len(spans) and spans[index].start < after
        found.append(spans[index] if inside else None)
        position = after
    return tuple(found)


class _Reader:
    """Walks an answer from its beginning. Raises ValueError or IndexError where it is malformed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._call = -1
        self.spans: list[Span] = []

    def read_call(self) -> bool:
        start = self._skip()
        brace = self._text.find("{", start)
        name = self._text[start:brace].rstrip()
        if brace < 0 or not name or "\n" in name:
            return False
        self._call += 1
        self.spans.append(Span(self._call, None, start, start + len(name)))
        self._position = brace
        self._read_object(None, 0)
        return True

    def _skip(self) -> int:
        while self._text[self._position : self._position + 1] in _SPACES:
            self._position += 1
        return self._position

    def _take(self, mark: str) -> bool:
        found = self._text[self._skip()] == mark
        self._position += found
        return found

    def _read_object(self, argument: str | None, depth: int) -> None:
        self._take("{")
        while not self._take("}"):
            name, self._position = _ANY_JSON.raw_decode(self._text, self._skip())
            if not self._take(":"):
                raise ValueError("a name without a value")
            self._read_value(str(name) if argument is None else argument, depth + 1)
            self._take(",")

    def _read_value(self, argument: str, depth: int) -> None:
        start = self._skip()
        first = self._text[start]
        if depth > DEPTH_LIMIT:
            raise ValueError("nested too deeply")
        if first == "{":
            self._read_object(argument, depth)
        elif first == "[":
            self._take("[")
            while not self._take("]"):
                self._read_value(argument, depth + 1)
                self._take(",")
        else:
            _, self._position = _ANY_JSON.raw_decode(self._text, start)
            quote = first == '"'
            self.spans.append(Span(self._call, argument, start + quote, self._position - quote))


def answer_chance(tokens: Sequence[Token]) -> float | None:
    """The log-probability of all tokens together; None where the runtime told of none."""
    told = [token.logprob for token in tokens if token.has_evidence]
    return sum(told) if told else None


def none_chance(tokens: Sequence[Token]) -> float:
    """The log-probability of `none` in place of the answer, as far as the first token tells."""
    return _first_chance(tokens, NO_CALL)


def ask_chance(tokens: Sequence[Token]) -> float:
    """The log-probability of a question in place of the answer."""
    return _first_chance(tokens, ASK)


def _first_chance(tokens: Sequence[Token], word: str) -> float:
    first = next((token for token in tokens if token.has_evidence), None)
    told = first.alternatives if first is not None else ()
    return max((logprob for text, logprob in told if text.strip() == word), default=-math.inf)


def none_is_likelier(tokens: Sequence[Token], *, made_up: bool = False) -> bool:
    """Whether `none` is likelier than the call or calls that these tokens are.

    `made_up`: some of what is in them is not in the request.
    """
    chance = answer_chance(tokens)
    return chance is not None and none_chance(tokens) > chance - (MADE_UP if made_up else 0.0)
