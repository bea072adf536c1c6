"""What every adapter needs to know about a request before it writes the provider's format."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgewise.errors import CloudRejected
from edgewise.types.messages import (
    Audio,
    Image,
    Message,
    Original,
    Question,
    Request,
    Tool,
    ToolCall,
    WireName,
    text_of,
)
from edgewise.types.replies import Finish, FinishReason

# Rough estimates: used only to say how many tokens it was if a provider does not.
CHARACTERS_PER_TOKEN = 4
TOKENS_PER_IMAGE = 1000
TOKENS_PER_SECOND = 32  # of sound; Gemini's count, which is more than others need
# For the most that a request can cost. No provider counts more for a picture of 2048 pixels.
MOST_TOKENS_PER_IMAGE = 8192
# No model reads or writes more for one answer, and no sound is longer.
MOST_BELIEVED_TOKENS = 10_000_000
MOST_BELIEVED_SECONDS = 1_000_000
BYTES_PER_TEXT = 8  # quotes and commas around each
BYTES_PER_PART = 128  # what any protocol writes around a message, a call, a tool or a picture
BYTES_PER_REQUEST = 512
# Of a system prompt that providers, or we, add for tools, a schema or sound; Anthropic's has 675.
TOKENS_OF_INSTRUCTIONS = 1024
MOST_WORDS_PER_SECOND = 16  # in tokens; nobody speaks faster, in any language
LARGEST_CONTEXT = 1_000_000  # in tokens, of any model
TOKENS_OF_A_DECISION = 2048  # besides what is chosen: a chat model may think first
SEARCHES = 20  # of a provider's own tool in one request, where the request has no limit for them
LONGEST_ANSWER = 16_384  # in tokens, where nobody asked for a limit: what is set aside for it
# The names of a protocol for "at most this many tokens", the older ones last.
LIMIT_NAMES: Mapping[WireName, tuple[str, ...]] = {
    "chat": ("max_completion_tokens", "max_tokens"),
    "responses": ("max_output_tokens",),
    "messages": ("max_tokens",),
    "gemini": ("maxOutputTokens", "max_output_tokens"),  # of the object below
}
# Fields by which a provider itself adds to a prompt: what it searches, or its own files and tools.
_BRING_MORE = (
    "web_search_options",
    "mcp_servers",
    "container",
    "plugins",
    "cachedContent",
    "cached_content",
)
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
    return ToolCall(name=name, arguments=found, id=id, source="cloud", written=arguments)


def whole_calls(
    written: Iterable[tuple[str, str, str]], reason: FinishReason, *, passed_on: bool = False
) -> Iterator[ToolCall]:
    """Calls by name, arguments and id. Of an answer that a limit cut, the call that it cut is left
    out: half of one cannot be made, and the reason says what happened. Raises ValueError; of an
    answer that was `passed_on` as it is, what is no call is left out too."""
    calls = list(written)
    for number, (name, arguments, id) in enumerate(calls, 1):
        cut = reason == "length" and number == len(calls)
        if cut and not arguments.strip():
            return
        try:
            yield written_call(name, arguments, id)
        except ValueError:
            if not (cut or passed_on):
                raise


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


def picture_source(image: Image) -> dict[str, str]:
    """As Anthropic writes it."""
    return {"type": "base64", "media_type": image.media_type, "data": base64_text(image)}


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


def spoken_characters(request: Request) -> int:
    """That a voice is charged for."""
    return len(request.state) if request.task == "speak" else 0


def estimated_tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)


def leaving_texts(request: Request) -> Iterator[str]:
    """Every text of a request that leaves in any protocol. What is JSON there is JSON here."""
    yield from request.stop
    if request.task == "transcribe":
        yield from (request.language, request.hint)
    if request.response_format is not None:
        yield from (request.response_format.name, in_words(request))
    for tool in request.tools:
        yield json.dumps(described(tool))
    for name, question in request.questions.items():
        yield from (name, text_of(question.ask), *map(text_of, question.described))
        yield from (*question.options, *question.options)  # a chat model is held to them, too
    messages = paired(request.messages)
    names = call_names(messages)
    for message in messages:
        yield message.content
        if message.role == "tool":  # Gemini repeats the function's name with each result
            yield from (message.tool_call_id, names.get(message.tool_call_id, ""))
        for call in message.tool_calls:
            yield from (call.id, call.name, json.dumps(dict(call.arguments)))


def estimated_input_tokens(request: Request) -> int:
    """The likely number of prompt tokens: characters over four, images, sound."""
    characters = sum(len(text) for text in leaving_texts(request))
    images = sum(image.tokens or TOKENS_PER_IMAGE for image in _images(request))
    sound = math.ceil(audio_seconds(request) * TOKENS_PER_SECOND)
    return estimated_tokens(characters) + images + sound


def bytes_in(value: object) -> int:
    """The bytes of all texts in a value, however deep: of an event whose fields nobody knows."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "replace"))
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum(bytes_in(each) for each in value.values())
    if isinstance(value, Sequence):
        return sum(bytes_in(each) for each in value)
    return 0


def counted(*values: object) -> int:
    """The sum of a provider's counts; -1 if one of them is no count: then none is believed."""
    found = [value for value in values if type(value) is int and value >= 0]
    return sum(found) if len(found) == len(values) else -1


def believable(finish: Finish) -> bool:
    """Whether a provider's usage can be true; nobody pays for what cannot be."""
    counts = (
        finish.input_tokens,
        finish.output_tokens,
        finish.cached_tokens,
        finish.audio_tokens,
        finish.stored_tokens,
        finish.stored_long_tokens,
        finish.spoken_tokens,
        finish.searches,
    )
    return (
        all(type(count) is int and 0 <= count <= MOST_BELIEVED_TOKENS for count in counts)
        and 0 <= finish.audio_seconds <= MOST_BELIEVED_SECONDS
        # Something was sent.
        and bool(finish.input_tokens or finish.audio_seconds or finish.characters)
    )


def estimated_finish(request: Request, reason: FinishReason, characters: int) -> Finish:
    """The end of an answer whose provider reported no usage."""
    return Finish(
        reason,
        input_tokens=estimated_input_tokens(request),
        output_tokens=estimated_tokens(characters),
        estimated=True,
        audio_tokens=math.ceil(audio_seconds(request) * TOKENS_PER_SECOND),
        audio_seconds=audio_seconds(request),
        characters=spoken_characters(request),
    )


def most_input_tokens(request: Request, *, read_again: int = 0) -> int:
    """An upper bound, for a reservation: no tokenizer makes two tokens of one byte.

    Each text has the bytes of its JSON string with everything escaped, which is the longest that
    any protocol writes it. A picture has its provider's number of tokens. `read_again` is how often
    the messages are read once more.
    """
    if request.original is not None:
        written = [_most_original(request.original)]  # nothing else leaves
    else:
        texts = filter(None, leaving_texts(request))
        written = [len(json.dumps(text)) + BYTES_PER_TEXT for text in texts]
    images = [image.tokens or MOST_TOKENS_PER_IMAGE for image in _images(request)]
    calls = sum(len(message.tool_calls) for message in request.messages)
    options = sum(1 + len(each.options) for each in request.questions.values())
    parts = len(request.messages) + calls + len(request.tools) + len(images) + options
    instructed = (
        request.tools or request.response_format or request.task in ("transcribe", "decide")
    )
    again = read_again * sum(len(json.dumps(each.content)) for each in request.messages)
    sound = 2 * math.ceil(audio_seconds(request) * TOKENS_PER_SECOND)
    around = BYTES_PER_REQUEST + BYTES_PER_PART * parts
    most = (
        sum(written)
        + again
        + sum(images)
        + sound
        + around
        + (TOKENS_OF_INSTRUCTIONS if instructed else 0)
    )
    return 2 * most if request.original is not None and compacts(request.original) else most


def _most_original(original: Original) -> int:
    """Every byte of it, but for its pictures, which are counted by themselves. What it only points
    to, as a file or what a provider's own tool finds, may fill all that a model can read."""
    written = json.dumps(original.body)
    count = len(written)
    # Only as often as we read it: somebody may have written it as a text, too.
    cleaned = Counter(base64_text(each) for each in original.pictures if each.data)
    for data, times in cleaned.items():
        count -= len(data) * min(times, written.count(data))
    return count + (LARGEST_CONTEXT if points_elsewhere(original) else 0)


def points_elsewhere(original: Original) -> bool:
    tools = original.body.get("tools") or ()
    found = any(original.body.get(name) is not None for name in _BRING_MORE)
    if original.wire == "gemini":
        tools = [tools] if isinstance(tools, Mapping) else tools
        functions = {"functionDeclarations", "function_declarations"}
        return found or bool(original.parts) or any(set(tool) - functions for tool in tools)
    own = [tool.get("type", "custom") for tool in tools if isinstance(tool, Mapping)]
    local = ("function", "custom", "namespace")
    return found or bool(original.parts) or any(kind not in local for kind in own)


def sounds(original: Original) -> bool:
    """Whether there is sound in it, or in its answer: that costs several times as much as text."""
    messages = original.body.get("messages")
    said = messages if isinstance(messages, list) else ()
    return (
        "modalities" in original.foreign
        or any("audio" in name for name in original.parts)
        or any(isinstance(each, Mapping) and each.get("audio") for each in (original.body, *said))
    )


def most_asked(original: Original) -> int | None:
    """The longest answer that it asks for, under any name that its protocol has for that."""
    limits = [each.get(name) for each in _configs(original) for name in LIMIT_NAMES[original.wire]]
    # Some servers take -1 for "none".
    return max((int(limit) for limit in limits if limit and limit > 0), default=None)


def _configs(original: Original) -> list[Mapping[str, Any]]:
    """Where the options are. Gemini's may be spelt in two ways, and of two both count."""
    if original.wire != "gemini":
        return [original.body]
    found = [original.body.get(name) for name in ("generation_config", "generationConfig")]
    return [each for each in found if isinstance(each, Mapping)]


def _most_answers(original: Original) -> int:
    """Only these protocols have several; elsewhere the names may hold anything."""
    names = {"gemini": ("candidateCount", "candidate_count"), "chat": ("n",)}
    asked = [
        each.get(name) or 1 for each in _configs(original) for name in names.get(original.wire, ())
    ]
    return max(asked, default=1)


def compacts(original: Original) -> bool:
    """Whether the provider may sum the conversation up before it answers: then it reads it twice,
    and writes the summary, too."""
    managed = original.body.get("context_management")
    edits = managed.get("edits") if isinstance(managed, Mapping) else managed
    return isinstance(edits, list) and any(
        isinstance(each, Mapping) and "compact" in str(each.get("type")) for each in edits
    )


def most_searches(original: Original) -> int:
    """How often the provider may search for it; where the request sets no limit, nobody knows."""
    tools = original.body.get("tools")
    named = [each for each in tools if isinstance(each, Mapping)] if isinstance(tools, list) else []
    limits = [each.get("max_uses") for each in named if _searches(each)]
    limits += [None for name in ("web_search_options", "plugins") if original.body.get(name)]
    return sum(each if type(each) is int and each > 0 else SEARCHES for each in limits)


def _searches(tool: Mapping[str, Any]) -> bool:
    kind = str(tool.get("type", "")) or " ".join(map(str, tool)).lower()  # Gemini's have no type
    return "search" in kind and not kind.startswith("tool_search")


def most_output_tokens(request: Request) -> int:
    """Of an answer. The transcript of a long sound may exceed a chat's limit."""
    if request.task in ("embed", "speak"):
        return 0
    if request.task == "decide":
        return TOKENS_OF_A_DECISION + sum(map(_most_chosen, request.questions.values()))
    if request.task == "transcribe":
        spoken = math.ceil(audio_seconds(request) * MOST_WORDS_PER_SECOND)
        return max(request.device_tokens, spoken)
    limit, answers, original = request.max_tokens, 1, request.original
    if original is not None:
        asked = most_asked(original) or 0
        limit = max(asked, limit or 0) or None
        answers = _most_answers(original)
        if compacts(original):
            limit = (limit or LONGEST_ANSWER) + LONGEST_ANSWER
    most = LONGEST_ANSWER if limit is None else limit
    return math.ceil(answers * (most + (_predicted(original) if original is not None else 0)))


def _predicted(original: Original) -> int:
    """What of a predicted answer is not in the answer is charged as if it had been written."""
    found = original.body.get("prediction") if original.wire == "chat" else None
    return bytes_in(found)


def _most_chosen(question: Question) -> int:
    """Tokens that answer a question: a number and an option, or a count for each option."""
    longest = max(len(json.dumps(option)) for option in question.options)
    return BYTES_PER_TEXT + max(longest, len(question.options))


def _images(request: Request) -> Iterable[Image]:
    """Those that leave."""
    if request.original is not None:
        return request.original.pictures
    return (image for message in request.messages for image in message.images)


def _usable(name: str, short: bool) -> str:
    """Nine letters and digits if a provider insists; equal ids stay equal."""
    return hashlib.sha256(name.encode()).hexdigest()[:9] if short else name


def _longest(sound: Audio) -> float:
    kind = sound.media_type.partition(";")[0].strip().lower()
    return len(sound.data) / _FEWEST_BYTES.get(kind, _FEWEST_BYTES_COMPRESSED)
