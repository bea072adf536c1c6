"""What every adapter must know of a conversation before it writes it in its provider's words."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

from edgewise.types.messages import Image, Message, Request
from edgewise.types.tokens import Finish, FinishReason

# Rough on purpose: used only where a provider reports no usage, and to reserve money beforehand.
CHARACTERS_PER_TOKEN = 4
TOKENS_PER_IMAGE = 1000


def system_prompt(messages: Iterable[Message]) -> str:
    """All system messages as one text, for providers that take it apart from the turns."""
    texts = (message.content for message in messages if message.role == "system")
    return "\n\n".join(text for text in texts if text)


def paired(messages: Sequence[Message], *, short_ids: bool = False) -> tuple[Message, ...]:
    """Give every tool call an id, and every tool result the id of the call it answers.

    Calls made on the device, and by some providers, have none; most providers refuse that.
    A result without an id answers the oldest call still open.
    """
    waiting: list[str] = []
    linked: list[Message] = []
    for position, message in enumerate(messages):
        if message.tool_calls:
            calls = tuple(
                replace(call, id=_usable(call.id or f"call_{position}_{index}", short_ids))
                for index, call in enumerate(message.tool_calls)
            )
            waiting.extend(call.id for call in calls)
            message = replace(message, tool_calls=calls)
        elif message.role == "tool":
            known = _usable(message.tool_call_id, short_ids) if message.tool_call_id else ""
            answers = known or (waiting[0] if waiting else f"call_{position}")
            if answers in waiting:
                waiting.remove(answers)
            message = replace(message, tool_call_id=answers)
        linked.append(message)
    return tuple(linked)


def call_names(messages: Iterable[Message]) -> dict[str, str]:
    """Which function each call id was for; Gemini asks for the name with every result."""
    return {call.id: call.name for message in messages for call in message.tool_calls}


def base64_text(image: Image) -> str:
    return base64.b64encode(image.data).decode("ascii")


def data_url(image: Image) -> str:
    return f"data:{image.media_type};base64,{base64_text(image)}"


def estimated_input_tokens(request: Request) -> int:
    """Tokens a provider will probably count for the prompt: characters over four, and images."""
    characters = images = 0
    for message in request.messages:
        characters += len(message.content)
        characters += sum(len(json.dumps(dict(call.arguments))) for call in message.tool_calls)
        images += len(message.images)
    for tool in request.tools:
        characters += len(tool.name) + len(tool.description)
        characters += len(json.dumps(dict(tool.parameters)))
    return estimated_tokens(characters) + images * TOKENS_PER_IMAGE


def estimated_tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)


def estimated_finish(request: Request, reason: FinishReason, characters: int) -> Finish:
    """The end of an answer whose provider did not say what it counted."""
    return Finish(
        reason,
        input_tokens=estimated_input_tokens(request),
        output_tokens=estimated_tokens(characters),
        estimated=True,
    )


def _usable(name: str, short: bool) -> str:
    """Nine letters and digits where a provider insists; equal ids stay equal."""
    return hashlib.sha256(name.encode()).hexdigest()[:9] if short else name


def most_input_tokens(request: Request) -> int:
    """For the upper bound of a reservation: twice the usual estimate, and some for the template."""
    return 2 * estimated_input_tokens(request) + 64
