"""The function model asks back: the line it writes where something required was not said.

`ask book_table: date, people` names the tool and what it lacks. Calls that lack nothing stand on
lines of their own before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgewise.calls.prompt import ASK, MalformedAnswer, parse_answer, render_answer
from edgewise.calls.schema import definitions_of, resolve
from edgewise.types.messages import Tool, ToolCall

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


def question_text(questions: Sequence[Question], tools: Sequence[Tool]) -> str:
    """The questions in plain English, by what the schemas say of the parameters."""
    known = {tool.name: tool for tool in tools}
    asked = [(known.get(question.tool), name) for question in questions for name in question.needs]
    counted = [f"how many {_thing(tool, name)}" for tool, name in asked if _counts(tool, name)]
    things = [_thing(tool, name) for tool, name in asked if not _counts(tool, name)]
    parts = [*dict.fromkeys(counted), *_what(list(dict.fromkeys(things)))]
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


def _counts(tool: Tool | None, name: str) -> bool:
    """Whether a parameter is a number of things, such as minutes or people."""
    kind = _schema(tool, name).get("type") if tool else None
    return kind in ("integer", "number") and _is_plural(_thing(tool, name))


def _is_plural(words: str) -> bool:
    last = words.rpartition(" ")[2]
    return last == "people" or (last.endswith("s") and not last.endswith(("ss", "us", "is")))


def _thing(tool: Tool | None, name: str) -> str:
    """A parameter in words: its short description, or its name."""
    words = " ".join(word.lower() for word in _WORDS.findall(name.rpartition(".")[2])) or name
    description = _described(tool, name) if tool else ""
    short = re.split(r"[.;(,:]| in | as ", description, maxsplit=1)[0].strip()
    short = re.sub(r"^(?:the|an?) ", "", short, flags=re.IGNORECASE)
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
