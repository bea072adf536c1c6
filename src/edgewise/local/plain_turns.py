"""Turns of a conversation as a small chat model understands them: words of two sides, no tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from edgewise.types.messages import Message


class Turn(TypedDict):
    """One turn as the runtime takes it."""

    role: str
    content: str


def plain_turns(messages: Sequence[Message]) -> list[Turn]:
    """Calls and their results become something to read, in the turn of the user who asked.

    As turns of their own a model of this size repeats them instead of answering: of several
    wordings that were tried this one has the plainest answers (docs/functions.md).
    """
    turns: list[Turn] = []
    names: dict[str, str] = {}
    read: list[str] = []
    for message in messages:
        if message.role == "tool":
            read.append(f"{names.get(message.tool_call_id, 'result')}: {message.content}")
        elif message.tool_calls:
            read += [message.content] if message.content else []
            names |= {call.id: call.name.replace("_", " ") for call in message.tool_calls}
        else:
            _put_into_question(turns, read)
            read = []
            turns.append({"role": message.role, "content": message.content})
    _put_into_question(turns, read)
    return turns


def _put_into_question(turns: list[Turn], read: Sequence[str]) -> None:
    if not read:
        return
    words = "Read this: " + "\n".join(read)
    if turns and turns[-1]["role"] == "user":
        asked = turns.pop()["content"]
        words += f"\n\nQuestion: {asked}\nAnswer shortly."
    turns.append({"role": "user", "content": words})
