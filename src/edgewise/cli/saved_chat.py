"""A conversation of `edgewise chat` as a file: /save writes it, /load reads it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgewise.errors import InvalidRequest
from edgewise.types.messages import Message, ToolCall

FORMAT = "edgewise chat"  # the mark of such a file
_SIMPLE = ("role", "content", "source", "tool_call_id")


def save(path: Path, messages: Sequence[Message], private: Sequence[Message], model: str) -> None:
    """Write a file that only the user can read. Another kind of file is not overwritten."""
    rows = [_row(each, any(each is secret for secret in private)) for each in messages]
    whole = {"format": FORMAT, "model": model, "messages": rows}
    try:
        if path.exists():
            _read(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(whole, file, indent=2, ensure_ascii=False)
    except InvalidRequest as error:
        raise InvalidRequest(f"{path} is something else already; choose another name") from error
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be written: {error.strerror}") from error


def load(path: Path) -> tuple[list[Message], int | None]:
    """The messages, and the place of the first private one."""
    try:
        rows = _read(path)["messages"]
        messages = [_message(row) for row in rows]
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}") from error
    except (AttributeError, LookupError, TypeError) as error:
        raise InvalidRequest(f"{path} is damaged: {type(error).__name__}") from error
    return messages, next((at for at, row in enumerate(rows) if row.get("private")), None)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InvalidRequest(f"{path} is no conversation that /save wrote")
    return found


def _row(message: Message, private: bool) -> dict[str, Any]:
    row: dict[str, Any] = {name: value for name in _SIMPLE if (value := getattr(message, name))}
    if message.tool_calls:
        row["tool_calls"] = [
            {"name": call.name, "arguments": dict(call.arguments), "id": call.id}
            for call in message.tool_calls
        ]
    return row | ({"private": True} if private else {})


def _message(row: dict[str, Any]) -> Message:
    calls = tuple(
        ToolCall(str(each["name"]), dict(each["arguments"]), str(each["id"]))
        for each in row.get("tool_calls", ())
    )
    if row["role"] not in ("system", "user", "assistant", "tool"):
        raise LookupError(row["role"])
    simple = {name: str(row[name]) for name in _SIMPLE if name in row}
    return Message(**simple, tool_calls=calls)  # type: ignore[arg-type]  # the role is checked
