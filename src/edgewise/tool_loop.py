"""Tools in a conversation: runs what was called, and says in messages what came of it.

Loaded with the first turn that has tools.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgewise.errors import InvalidRequest
from edgewise.function_calls import run_call
from edgewise.functions.tool_schema import as_toolbox
from edgewise.types.messages import Message, ToolCall, ToolLike, new_request_id
from edgewise.types.replies import CallReply, Reply, ToolResult

NO_RESULT = "no result was given"


@dataclass(frozen=True, slots=True)
class Round:
    """One round of calls: the reply with what came of those that ran, and what a history gets.

    `open_calls` are those of tools that are only described: the application's to make.
    """

    reply: Reply
    messages: tuple[Message, ...]
    open_calls: tuple[ToolCall, ...]


def run_round(reply: Reply, tools: Sequence[ToolLike]) -> Round:
    """Run the calls of Python functions, in order. A result needs the id of its call."""
    functions = as_toolbox(tools).functions
    calls = tuple(
        replace(call, id=call.id or f"call_{new_request_id()}") for call in reply.tool_calls
    )
    results = tuple(run_call(call, functions) for call in calls if call.name in functions)
    reply = replace(reply, tool_calls=calls)
    if isinstance(reply, CallReply):
        reply = replace(reply, results=results)
    said = Message("assistant", reply.text, tool_calls=calls, source=reply.source)
    others = tuple(call for call in calls if call.name not in functions)
    return Round(reply, (said, *map(as_message, results)), others)


def as_message(result: ToolResult) -> Message:
    """A result in words that a model can read: text as it is, anything else as JSON."""
    if result.error:
        text = f"failed: {result.error}"
    elif result.value is None:
        text = "done"
    elif isinstance(result.value, str):
        text = result.value
    else:
        text = _written(result.value)
    return Message("tool", text, tool_call_id=result.call.id, source="local")


def _written(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError):  # keys that are no text, or a value that holds itself
        return repr(value)


def open_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Calls of a history that have no result yet."""
    answered = {message.tool_call_id for message in messages if message.role == "tool"}
    return tuple(
        call for message in messages for call in message.tool_calls if call.id not in answered
    )


def answer_all(messages: Sequence[Message], results: Sequence[ToolResult]) -> list[Message]:
    """A message for each call that is still open; providers refuse a history with open calls."""
    waiting = {call.id: call for call in open_calls(messages)}
    given = {result.call.id: result for result in results}
    if strange := sorted(set(given) - set(waiting)):
        raise InvalidRequest(f"no call waits for a result with the id {strange[0]!r}")
    return [
        as_message(given.get(name) or ToolResult(call, error=NO_RESULT))
        for name, call in waiting.items()
    ]
