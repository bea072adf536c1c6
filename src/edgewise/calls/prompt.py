"""The text format in which the function model sees tools and answers, in training and in use."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgewise.calls.values.text import find_values
from edgewise.grammar.tools import (
    ASK,
    NO_CALL,
    TYPE_NAMES,
    definitions_of,
    options_of,
    per_tool,
    plain_text,
    resolve,
)
from edgewise.types.messages import Context, Message, Tool, ToolCall
from edgewise.types.replies import Token

# Characters kept of a description. Longer ones are cut after a sentence or a word.
TOOL_DESCRIPTION_LIMIT = 240
PARAMETER_DESCRIPTION_LIMIT = 160
DEFAULT_LIMIT = 40
ENUM_LIMIT = 400
NESTING_LIMIT = 4
TOOL_LIMIT = 400_000  # characters: more than any context window holds
_LOOKS_LIKE_JSON = re.compile(r"-?\d[\d.eE+-]*|true|false|null|")
_CUT = "…"
DEPTH_LIMIT = 64
_ANY_JSON = json.JSONDecoder()
_SPACES = (" ", "\t", "\r", "\n")
# What a call counts for less, in nats, if it holds something that nobody said. On validation 2 of
# 149 such answers were right, and 23 should have been `none`.
MADE_UP = 4.0
# By how much, in nats, a call must be likelier than `none`: a call that nobody wanted is worse than
# none at all. On 915 validation cases it took 3 of 10 such calls away and no right answer in sum.
LEAD = 0.5


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
    name, arguments = call.name, dict(call.arguments)
    if not name or name != name.strip() or "{" in name or "\n" in name:
        raise MalformedAnswer(f"{name!r} cannot be written as the name of a call")
    told = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return f"{name} {told}"


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
    """Whether `none` is likelier than the call or calls that these tokens are, or nearly so.

    `made_up`: some of what is in them is not in the request.
    """
    chance = answer_chance(tokens)
    needed = LEAD + (MADE_UP if made_up else 0.0)
    return chance is not None and none_chance(tokens) + needed > chance


# -- what was said before --------------------------------------------------------------------------


TURNS_LIMIT = 8  # earlier messages that are told
TEXT_LIMIT = 240  # characters of each
FACT_LIMIT = 240
ROWS_LIMIT = 60  # of a table, such as the devices of a home
DAYS_AHEAD = 6
CUT = "…"
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_TELLS_THE_TIME = ("time", "now")
_AMOUNT = re.compile(r"[-+]?\d[\d.,]*\s*(?:%|°?[A-Za-z]{0,3})")


@dataclass(frozen=True, slots=True)
class Told:
    """What surrounds a request: known facts, earlier turns, and what was done for it already."""

    context: Context = field(default_factory=dict)
    before: Sequence[Message] = ()
    after: Sequence[Message] = ()


NOTHING_TOLD = Told()


def render_conversation(
    tools: Sequence[Tool], messages: Sequence[Message], context: Context | None = None
) -> str:
    """The whole text before the answer to a conversation's last request.

    A conversation of one message and no context gives what `render_prompt` gives for it.
    """
    asked = [place for place, message in enumerate(messages) if message.role == "user"]
    last = asked[-1] if asked else len(messages)
    query = messages[last].content if asked else ""
    before = render_context(context) + render_turns(messages[:last])
    return prompt_around(render_tools(tools), query, before, render_turns(messages[last + 1 :]))


def render_turns(messages: Sequence[Message]) -> str:
    """The last turns of a history."""
    return "".join(
        turn(message.role, text) for message in last_turns(messages) if (text := _said(message))
    )


def last_turns(messages: Sequence[Message]) -> Sequence[Message]:
    """The turns of a history that are told. System messages are no part of it."""
    told = [message for message in messages if message.role != "system"]
    # A tool's result says nothing without the call it belongs to.
    first = max(0, len(told) - TURNS_LIMIT)
    while first < len(told) and told[first].role == "tool":
        first += 1
    return told[first:]


def _said(message: Message) -> str:
    """What a turn is told as: the calls that were made, or the text."""
    if message.role == "assistant" and message.tool_calls:
        return "\n".join(cut(written_call(call), TEXT_LIMIT) for call in message.tool_calls)
    return cut(message.content, TEXT_LIMIT)


def render_context(context: Context | None) -> str:
    """Known facts, one a line; "" without any. What changes from minute to minute comes last.

    A fact is a text or a number, a list of them, or a table: a list of mappings. A `date` in ISO
    form is told with its weekday and the days that follow, so that "on Friday" can be looked up.
    """
    lines = context_lines(context)
    return turn("system", plain_text("\n".join(("Context", *lines)))) if lines else ""


def context_lines(context: Context | None) -> list[str]:
    """The facts that say something, in lines that a model or a person can read."""
    facts = {
        key: value for key, value in (context or {}).items() if value not in (None, "", [], {})
    }
    ordered = sorted(facts, key=lambda key: key in _TELLS_THE_TIME)
    return [line for key in ordered for line in _fact(_cell(key), facts[key])]


def told_text(context: Context | None, messages: Sequence[Message]) -> str:
    """What was known before a request, as words that any argument may come from."""
    said = [_said(message) for message in messages[-TURNS_LIMIT:] if message.role != "system"]
    narrow = narrow_facts(context)
    free = {key: value for key, value in (context or {}).items() if _cell(key) not in narrow}
    return "\n".join([*context_lines(free), *said])


def narrow_facts(context: Context | None) -> dict[str, str]:
    """Facts that are one moment or one amount, which says nothing about another kind of thing.

    The clock shows 11:40, and nobody has asked for 11 degrees.
    """
    single = (
        (key, value)
        for key, value in (context or {}).items()
        if isinstance(value, str | int | float | dt.date) and not isinstance(value, bool)
    )
    return {
        _cell(key): " ".join(_fact(_cell(key), value))
        for key, value in single
        if _is_moment(value) or _AMOUNT.fullmatch(_cell(value))
    }


def _is_moment(value: Any) -> bool:
    if isinstance(value, dt.date):
        return True
    inside = find_values(_cell(value))
    moments = sum(one.kind in ("time", "date", "datetime") for one in inside)
    return bool(moments) and moments == len(inside)


def _fact(name: str, value: Any) -> list[str]:
    if isinstance(value, Mapping):
        value = [{"name": key, "is": one} for key, one in value.items()]
        return [f"{name}:", *(f"  {_cell(row['name'])}: {_cell(row['is'])}" for row in value)]
    if isinstance(value, list | tuple):
        rows = [row for row in value if isinstance(row, Mapping)]
        if rows:
            return _table(name, rows)
        return [f"{name}: {cut(', '.join(map(_cell, value)), 4 * FACT_LIMIT)}"]
    if name == "date":
        return [f"date: {_with_days(value)}"]
    return [f"{name}: {cut(_cell(value), FACT_LIMIT)}"]


def _table(name: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line of column names, then a line a row; empty cells at the end of a row are left out."""
    columns = list(dict.fromkeys(str(key) for row in rows for key in row))
    lines = [f"{name}: {' | '.join(columns)}"]
    for row in rows[:ROWS_LIMIT]:
        cells = [_cell(row.get(column, "")) for column in columns]
        while cells and not cells[-1]:
            cells.pop()
        lines.append(f"  {' | '.join(cells)}")
    return [*lines, f"  {CUT}"] if len(rows) > ROWS_LIMIT else lines


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        value = "" if value is None else json.dumps(value, ensure_ascii=False, default=str)
    return " ".join(str(value).split())


def _with_days(value: Any) -> str:
    """`Mon 2026-11-16; Tue 11-17, Wed 11-18, …`; what is no date stays as it is."""
    written = value.isoformat()[:10] if isinstance(value, dt.date) else str(value)
    try:
        today = dt.date.fromisoformat(written) if _DAY.fullmatch(written) else None
    except ValueError:
        today = None
    if today is None or today > dt.date(9999, 12, 1):
        return cut(_cell(written), FACT_LIMIT)
    ahead = [today + dt.timedelta(days=count) for count in range(1, DAYS_AHEAD + 1)]
    following = ", ".join(f"{_weekday(day)} {day:%m-%d}" for day in ahead)
    return f"{_weekday(today)} {today.isoformat()}; {following}"


def _weekday(day: dt.date) -> str:
    # Not `%a`: its language is the process's.
    return ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[day.weekday()]


def cut(text: str, limit: int) -> str:
    """Plain text of at most so many characters."""
    line = plain_text(text).strip()
    return line if len(line) <= limit else line[: limit - 1].rstrip() + CUT


# -- what is missing, as a question ----------------------------------------------------------------


_LINE = re.compile(r"[ \t]*ask[ \t]+(\S[^{}\n]*):[ \t]+([^{}\n]+)")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_LONGEST_DESCRIPTION = 60
_NO_THING = re.compile(
    r"(who\w*|what|when|where|how|which|whether|if|only|all|any|every|not?|leave|set|use|give|include|"
    r"to|for|by|as|at|in|on|required|optional|new|must|can|should|is|has)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Question:
    """What must be said before `tool` can be called: names of its parameters, `a.b` inside one."""

    tool: str
    needs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """What the function model wrote: calls to make, and what it asks for."""

    calls: tuple[ToolCall, ...]
    questions: tuple[Question, ...]


def render_reply(calls: Sequence[ToolCall], questions: Sequence[Question] = ()) -> str:
    """The answer with these calls and questions; `none` if there are neither."""
    asked = [f"{ASK} {question.tool}: {', '.join(question.needs)}" for question in questions]
    return "\n".join([*([render_answer(calls)] if calls else []), *asked]) or render_answer(())


def split_questions(text: str) -> tuple[str, tuple[Question, ...]]:
    """The answer without its questions, and the questions. `""` is left if it only asks."""
    kept, questions = [], []
    for line in text.split("\n"):
        found = _LINE.fullmatch(line)
        needs = (
            tuple(name for part in found[2].split(",") if (name := part.strip())) if found else ()
        )
        if found and needs:
            questions.append(Question(found[1], needs))
        else:
            kept.append(line)
    return "\n".join(kept).strip() if questions else text, tuple(questions)


def read_reply(text: str) -> ReadAnswer:
    """Calls and questions of an answer. Raises MalformedAnswer if it is neither."""
    rest, questions = split_questions(text)
    if not rest and questions:
        return ReadAnswer((), questions)
    calls = tuple(parse_answer(rest))
    if questions and not calls:
        raise MalformedAnswer("`none` and a question in one answer")
    return ReadAnswer(calls, questions)


# Behind the thing that it counts: "degrees Celsius" are degrees.
_SCALE = re.compile(r" (?:Celsius|Fahrenheit)$", re.IGNORECASE)


def question_text(questions: Sequence[Question], tools: Sequence[Tool]) -> str:
    """The questions in plain English, by what the schemas say of the parameters."""
    known = {tool.name: tool for tool in tools}
    asked = [(known.get(question.tool), name) for question in questions for name in question.needs]
    counted = [f"how many {_thing(tool, name)}" for tool, name in asked if _counts(tool, name)]
    switched = [f"{_named(name)}, yes or no" for tool, name in asked if _switches(tool, name)]
    plain = [one for one in asked if not _counts(*one) and not _switches(*one)]
    things = [_thing(tool, name) for tool, name in plain]
    parts = [*dict.fromkeys([*counted, *switched]), *_what(list(dict.fromkeys(things)))]
    if not parts:
        return ""
    said = ", and ".join(part for part in (", ".join(parts[:-1]), parts[-1]) if part)
    return f"{said[0].upper()}{said[1:]}?"


def _what(things: list[str]) -> list[str]:
    if not things:
        return []
    *others, last = things
    several = bool(others) or _is_plural(last)
    listed = f"{', the '.join(others)} and the {last}" if others else last
    return [f"what {'are' if several else 'is'} the {listed}"]


def _switches(tool: Tool | None, name: str) -> bool:
    return tool is not None and _schema(tool, name).get("type") == "boolean"


def _named(name: str) -> str:
    return " ".join(word.lower() for word in _WORDS.findall(name.rpartition(".")[2])) or name


def _counts(tool: Tool | None, name: str) -> bool:
    """Whether a parameter is a number of things, such as minutes or people."""
    kind = _schema(tool, name).get("type") if tool else None
    return kind in ("integer", "number") and _is_plural(_thing(tool, name))


def _is_plural(words: str) -> bool:
    last = _SCALE.sub("", words).rpartition(" ")[2]
    return last == "people" or (last.endswith("s") and not last.endswith(("ss", "us", "is")))


def _thing(tool: Tool | None, name: str) -> str:
    """A parameter in words: its short description, or its name."""
    words = _named(name)
    description = _described(tool, name) if tool else ""
    short = re.split(r"[.;(,:]| in | as ", description, maxsplit=1)[0].strip()
    short = re.sub(r"^(?:the|an?) ", "", short, flags=re.IGNORECASE)
    if re.match(r"(?:unique |internal )?(?:identifier|id)\b", short, re.IGNORECASE):
        return words  # "the property id", as its name says, is what people know
    plain = short and len(short) <= _LONGEST_DESCRIPTION and re.fullmatch(r"[\w' \-/]+", short)
    if re.fullmatch(r"[YMDHS][YMDHST:/. -]*", short):  # a format, not a thing
        return words
    # "Whom to bill" is no thing: "What is the whom to bill?"
    if not plain or _NO_THING.match(short):
        return words
    return short[0].lower() + short[1:] if short[1:2].islower() else short


def _described(tool: Tool, name: str) -> str:
    found = _schema(tool, name).get("description")
    return found if isinstance(found, str) else ""


def _schema(tool: Tool, name: str) -> Mapping[str, Any]:
    schema, definitions = tool.parameters, definitions_of(tool.parameters)
    for part in name.split("."):
        fields = schema.get("properties")
        schema = resolve(fields.get(part), definitions) if isinstance(fields, Mapping) else {}
    return schema


# -- calls told in words ---------------------------------------------------------------------------


# The first sentence of an answer in words: enough to tell a refusal from a question. It begins with
# a letter, and a call never does.
FIRST_SENTENCE = r"[^\x00-@\[-`{-\x7f] [^<.?!\x00-\x1f]{0,160} [.?!]?"


@dataclass(frozen=True, slots=True)
class FunctionText:
    """What a function model wrote: calls as text for `calls.parse`, and its questions.

    `tokens` are those of the answer, with the texts that they have in the line format.
    """

    text: str
    tokens: tuple[Token, ...]
    questions: tuple[Question, ...] = ()


def written(tokens: Sequence[Token]) -> str:
    return "".join(token.text for token in tokens)


def retell(
    tokens: Sequence[Token], told: Sequence[str], *, stopped: bool = False
) -> tuple[Token, ...]:
    """The tokens with our texts. `told` has one for each character that was written.

    A token without a text of ours is joined to the next that has one. The first has the chance
    that anything but words is written. `stopped`: the answer ends with `told`; what the runtime
    made the model write after it is no evidence.
    """
    found: list[Token] = []
    silent: list[Token] = []
    position = 0
    for token in _with_first(tokens, words=False):
        start, position = position, position + len(token.text)
        if stopped and start >= len(told):
            break
        text = "".join(told[start:position])
        silent.append(replace(token, text=text))
        if text:
            found.append(_joined(silent))
            silent = []
    return (*found, _joined(silent)) if silent else tuple(found)


def retell_words(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """An answer in words is a `none`: as likely as that any words are written."""
    if not tokens:
        return ()
    first = _with_first(tokens, words=True)[0]
    return (replace(first, text=NO_CALL, alternatives=()),)


def _with_first(tokens: Sequence[Token], *, words: bool) -> list[Token]:
    """The tokens, the first with a chance for its whole kind.

    That is the chance that words begin here; without `words`, that anything else does.
    """
    first, *rest = tokens
    likes = [chance for text, chance in first.alternatives if text[:1].isalpha() == words]
    if not first.has_evidence or not likes:
        return [first, *rest]
    chance = math.log(min(1.0, sum(map(math.exp, likes))))
    return [replace(first, logprob=max(chance, first.logprob)), *rest]


def _joined(tokens: Sequence[Token]) -> Token:
    """One token for several. What else might have been written is not told in our format."""
    last = tokens[-1]
    known = [token for token in tokens if token.has_evidence]
    if not known:
        return replace(last, alternatives=())
    return replace(
        last,
        logprob=sum(token.logprob for token in known),
        margin=min(token.margin for token in known),
        entropy=max(token.entropy for token in known),
        has_evidence=True,
        alternatives=(),
    )
