"""What the function model is told beside the request: known facts, and the turns around it.

Facts and earlier turns stand between the tools and the request, so that a prompt without them is
the same as ever, and the tools before them stay in the cache. A turn is short: long texts are cut.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgewise.calls.prompt import plain_text, prompt_around, render_tools, turn, written_call
from edgewise.types.messages import Context, Message, Tool

TURNS_LIMIT = 8  # earlier messages that are told
TEXT_LIMIT = 240  # characters of each
FACT_LIMIT = 240
ROWS_LIMIT = 60  # of a table, such as the devices of a home
DAYS_AHEAD = 6
CUT = "…"
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_TELLS_THE_TIME = ("time", "now")


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
    """All that was known before a request, as words: an argument may come from there."""
    said = [_said(message) for message in messages[-TURNS_LIMIT:] if message.role != "system"]
    return "\n".join([*context_lines(context), *said])


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
