"""What every adapter needs to know about a request before it writes the provider's format."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from edgewise.errors import CloudRejected
from edgewise.types.messages import Audio, Image, Message, Request, Tool, ToolCall
from edgewise.types.tokens import Finish, FinishReason

# Rough estimates: used only if a provider reports no usage, and to reserve money.
CHARACTERS_PER_TOKEN = 4
TOKENS_PER_IMAGE = 1000
TOKENS_PER_SECOND = 32  # of sound; Gemini's count, which is more than others need
MOST_WORDS_PER_SECOND = 16  # in tokens; nobody speaks faster, in any language
# The fewest bytes that a second of sound can have: telephone WAV, or a speech codec's minimum.
_FEWEST_BYTES = {"audio/wav": 8000, "audio/x-wav": 8000, "audio/wave": 8000}
_FEWEST_BYTES_COMPRESSED = 750


def system_prompt(messages: Iterable[Message]) -> str:
    """All system messages as one text, for providers that take it separately."""
    texts = (message.content for message in messages if message.role == "system")
    return "\n\n".join(text for text in texts if text)


def paired(messages: Sequence[Message], *, short_ids: bool = False) -> tuple[Message, ...]:
    """Give every tool call an id, and every tool result the id of its call.

    Calls from the device, and from some providers, have none; most providers refuse that.
    A result without an id answers the oldest open call.
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
    """The function of each call id; Gemini needs the name with every result."""
    return {call.id: call.name for message in messages for call in message.tool_calls}


def in_turn(
    messages: Iterable[Message],
    parts_of: Callable[[Message], list[dict[str, Any]]],
    *,
    assistant: str,
    field: str,
) -> list[dict[str, Any]]:
    """User and model in turn, without system messages. Tool results are on the user's side."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        parts = [] if message.role == "system" else parts_of(message)
        role = assistant if message.role == "assistant" else "user"
        if not parts:
            continue  # providers refuse an empty turn
        if turns and turns[-1]["role"] == role:
            turns[-1][field] += parts
        else:
            turns.append({"role": role, field: parts})
    return turns


def written_call(name: str, arguments: str, id: str) -> ToolCall:
    """A call that came as text. Raises ValueError if it is not one."""
    found = json.loads(arguments) if arguments.strip() else {}
    if not name or not isinstance(found, dict):
        raise ValueError(f"a call of {name!r} whose arguments are not an object")
    return ToolCall(name=name, arguments=found, id=id, source="cloud")


def described(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }


def in_words(request: Request) -> str:
    """For protocols without a field for it; empty if any text will do."""
    if request.response_format is None:
        return ""
    words = "Answer with one JSON object and nothing else."
    schema = request.response_format.schema
    return f"{words} It must follow this JSON Schema: {json.dumps(schema)}" if schema else words


def base64_text(medium: Image | Audio) -> str:
    return base64.b64encode(medium.data).decode("ascii")


def data_url(image: Image) -> str:
    return f"data:{image.media_type};base64,{base64_text(image)}"


def one_sound(request: Request, provider: str) -> Audio:
    """The sound to transcribe. Transcripts of several could not be told apart."""
    if len(request.audio) != 1:
        raise CloudRejected(
            f"{provider} takes one sound per request, this one has {len(request.audio)}",
            provider=provider,
        )
    return request.audio[0]


def words_before(request: Request) -> str:
    """What was said right before a sound: the words of its message."""
    spoken = [message.content for message in request.messages if message.role == "user"]
    return spoken[-1] if spoken else ""


def texts_to_embed(request: Request, provider: str) -> list[str]:
    """The user's messages, in order. No provider takes an empty one."""
    texts = [message.content for message in request.messages if message.role == "user"]
    if not texts or not all(texts):
        raise CloudRejected(f"{provider} cannot embed an empty text", provider=provider)
    return texts


def refuse_task(request: Request, provider: str) -> None:
    """For a protocol that only chats."""
    raise CloudRejected(f"{provider} does not {request.task}", provider=provider)


def audio_seconds(request: Request) -> float:
    """Of the sound that is sent; if unknown, the longest that its bytes can last."""
    if request.task != "transcribe":
        return 0.0  # no other task sends sound
    return sum(sound.seconds or _longest(sound) for sound in request.audio)


def estimated_tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)


def estimated_input_tokens(request: Request) -> int:
    """The likely number of prompt tokens: characters over four, images, sound."""
    characters = images = 0
    for message in request.messages:
        characters += len(message.content)
        characters += sum(len(json.dumps(dict(call.arguments))) for call in message.tool_calls)
        images += sum(image.tokens or TOKENS_PER_IMAGE for image in message.images)
    for tool in request.tools:
        characters += len(tool.name) + len(tool.description)
        characters += len(json.dumps(dict(tool.parameters)))
    sound = math.ceil(audio_seconds(request) * TOKENS_PER_SECOND)
    return estimated_tokens(characters) + images + sound


def estimated_finish(request: Request, reason: FinishReason, characters: int) -> Finish:
    """The end of an answer whose provider reported no usage."""
    return Finish(
        reason,
        input_tokens=estimated_input_tokens(request),
        output_tokens=estimated_tokens(characters),
        estimated=True,
        audio_tokens=math.ceil(audio_seconds(request) * TOKENS_PER_SECOND),
        audio_seconds=audio_seconds(request),
    )


def most_input_tokens(request: Request) -> int:
    """An upper bound for a reservation: twice the usual estimate, and some for the template."""
    return 2 * estimated_input_tokens(request) + 64


def most_output_tokens(request: Request) -> int:
    """Of an answer. The transcript of a long sound may exceed a chat's limit."""
    if request.task == "embed":
        return 0
    return max(request.max_tokens, math.ceil(audio_seconds(request) * MOST_WORDS_PER_SECOND))


def _usable(name: str, short: bool) -> str:
    """Nine letters and digits if a provider insists; equal ids stay equal."""
    return hashlib.sha256(name.encode()).hexdigest()[:9] if short else name


def _longest(sound: Audio) -> float:
    kind = sound.media_type.partition(";")[0].strip().lower()
    return len(sound.data) / _FEWEST_BYTES.get(kind, _FEWEST_BYTES_COMPRESSED)
