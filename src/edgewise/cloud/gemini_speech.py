"""Sound to text by Gemini, which has no endpoint for it: a chat about a sound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgewise.cloud.conversation import most_output_tokens, one_sound, words_before
from edgewise.cloud.provider import Chunk
from edgewise.cloud.wire import WIRE_ID_HEADER
from edgewise.types.messages import Request
from edgewise.types.tokens import Finish

# Asked for nothing, a chat model finds something to say; asked for a word, it says the word.
NO_SPEECH = "[no speech]"
INSTRUCTION = (
    "Transcribe the speech in this recording verbatim. Write only the words that are spoken, "
    "in the language they are spoken in, with punctuation. Do not translate, correct, describe "
    "or answer them, and do not name the speakers. Where a word cannot be made out, write what "
    f"it most likely is. If nobody speaks, write only {NO_SPEECH}"
)


def payload(request: Request, provider: str, wire_id: str) -> dict[str, Any]:
    """The request as arguments of the SDK."""
    sound = one_sound(request, provider)
    parts: list[dict[str, Any]] = [
        {"inline_data": {"data": sound.data, "mime_type": sound.media_type}},
        {"text": _task(request)},
    ]
    config = {
        "max_output_tokens": most_output_tokens(request),
        "temperature": request.temperature,
        "seed": request.seed,
        "system_instruction": INSTRUCTION,
        "automatic_function_calling": {"disable": True},
        "automatic_continuation": False,
        "http_options": {"headers": {WIRE_ID_HEADER: wire_id}},
    }
    return {"contents": [{"role": "user", "parts": parts}], "config": config}


def _task(request: Request) -> str:
    lines = ["Transcribe this recording."]
    if request.language:
        lines.append(f"The language is {request.language}.")
    if request.hint:
        lines.append(f"Not said in it, but how such words are spelt: {request.hint}")
    if words := words_before(request):
        lines.append(f"Right before it was said, not to be repeated: {words}")
    return "\n".join(lines)


def in_one_piece(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """The text at the end only: its first pieces may turn out to say that nobody spoke."""
    texts: list[str] = []
    for chunk in chunks:
        if isinstance(chunk, str):
            texts.append(chunk)
        elif isinstance(chunk, Finish):
            text = "".join(texts).strip()
            # Refused is not the same as silent: without a text the door calls it empty.
            if text or chunk.reason != "filtered":
                yield "" if text.strip(" .").lower() == NO_SPEECH else text
            yield chunk


def tokens_of_sound(request: Request, usage: Any) -> int:
    """How many tokens of the prompt were sound; all of them where Gemini does not say."""
    if request.task != "transcribe":
        return 0
    counts = [
        detail.token_count or 0
        for detail in usage.prompt_tokens_details or ()
        if detail.modality is not None and detail.modality.name == "AUDIO"
    ]
    return sum(counts) if usage.prompt_tokens_details else int(usage.prompt_token_count or 0)
