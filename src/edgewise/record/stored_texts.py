"""The texts of a request: kept only where it asks for it, masked and bounded."""

from __future__ import annotations

import json
from collections.abc import Sequence

from edgewise.record.rows import Row, masked_start
from edgewise.types.messages import Message, Request, ToolCall
from edgewise.types.replies import Reply

# Of a prompt, of a reply, and of a reply's tool calls. Masking holds up every other thread while it
# reads, and nobody looks through more by hand.
STORED_CHARS = 200_000


def stored_texts(request: Request, reply: Reply | None) -> Row:
    """The columns that hold texts; a request that failed has no reply."""
    row: Row = {"prompt_text": _prompt(request.messages)}
    if reply is not None:
        row["reply_text"] = bounded_text(reply.text)
        row["tool_calls_text"] = _tool_calls(reply.tool_calls)
    return row


def bounded_text(text: str, most: int = STORED_CHARS) -> str:
    """A text as it may be stored: masked, and cut with a word on how much was left out."""
    kept, left_out = masked_start(text, most)
    if not left_out:
        return kept
    return f"{kept} [{left_out:,} more characters are not stored]".lstrip()


def _prompt(messages: Sequence[Message]) -> str:
    """All messages together have the room of one text; the latest are served first."""
    room = STORED_CHARS
    found: list[dict[str, object]] = []
    for message in reversed(messages):
        found.append(
            {
                "role": message.role,
                "content": bounded_text(message.content, room),
                # Pictures and sounds are counted, never kept.
                "images": len(message.images),
                **({"sounds": len(message.audio)} if message.audio else {}),
            }
        )
        room = max(0, room - len(message.content))
    return _json(found[::-1])


def _tool_calls(calls: Sequence[ToolCall]) -> str:
    """Cut ones are no JSON any more; nothing reads them but people."""
    return bounded_text(
        _json([{"name": call.name, "arguments": dict(call.arguments)} for call in calls])
    )


def _json(value: Sequence[object]) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
