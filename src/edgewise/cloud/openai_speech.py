"""Sound to text in OpenAI's words: a form with a file goes out, one JSON object comes back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from edgewise.cloud.conversation import audio_seconds, estimated_finish, one_sound, words_before
from edgewise.cloud.faults import reading
from edgewise.cloud.provider import Chunk, ProviderConfig
from edgewise.cloud.provider_row import Provider
from edgewise.types.messages import Request
from edgewise.types.tokens import Finish

if TYPE_CHECKING:
    import openai
    from openai.types.audio import Transcription

# Servers go by the file's name where they do not trust its type.
_ENDINGS = {
    "audio/flac": "flac",
    "audio/m4a": "m4a",
    "audio/mp4": "m4a",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/ogg": "ogg",
    "audio/webm": "webm",
}


def transcribe(
    client: openai.OpenAI,
    request: Request,
    config: ProviderConfig,
    row: Provider,
    headers: Mapping[str, str],
) -> Iterator[Chunk]:
    """The text, "" where nobody spoke, and what it was charged for: tokens, or seconds."""
    form = payload(request, config, row)
    heard: Transcription = client.audio.transcriptions.create(**form, extra_headers=headers)
    with reading(config.name):
        text = heard.text
        if not isinstance(text, str):
            raise TypeError("its text is not text")
        finish = _finish(request, heard.usage, len(text))
    yield text
    yield finish


def payload(request: Request, config: ProviderConfig, row: Provider) -> dict[str, Any]:
    """The request as arguments of the SDK."""
    sound = one_sound(request, config.name)
    ending = _ENDINGS.get(sound.media_type.partition(";")[0].strip().lower(), "wav")
    form: dict[str, Any] = {
        "file": (f"speech.{ending}", sound.data, sound.media_type),
        "model": config.model,
    }
    language = request.language or row.any_language
    if language and row.traits(config.model).languages:
        form["languages"] = [language]
    elif language:
        form["language"] = language
    words = " ".join(part for part in (request.hint, words_before(request)) if part)
    if words and row.speech_prompt:
        form["prompt"] = words
    if request.temperature and row.traits(config.model).temperature:
        form["temperature"] = min(1.0, request.temperature)
    # JSON is what all of them send unasked; the newest models refuse to be asked for it.
    return form


def _finish(request: Request, usage: Any, characters: int) -> Finish:
    if usage is None:
        return estimated_finish(request, "stop", characters)
    # OpenAI says `seconds`, Mistral `prompt_audio_seconds`; what counts tokens has neither.
    seconds = getattr(usage, "seconds", None) or getattr(usage, "prompt_audio_seconds", None)
    tokens = _first(usage, "input_tokens", "prompt_tokens")
    if seconds is None and tokens is None:
        return estimated_finish(request, "stop", characters)
    details = getattr(usage, "input_token_details", None)
    sound = getattr(details, "audio_tokens", None)
    return Finish(
        "stop",
        input_tokens=int(tokens or 0),
        output_tokens=int(_first(usage, "output_tokens", "completion_tokens") or 0),
        # Not told apart: all of it was sound, which is the dearer kind.
        audio_tokens=int((tokens or 0) if sound is None else sound),
        audio_seconds=float(audio_seconds(request) if seconds is None else seconds),
    )


def _first(usage: Any, *names: str) -> Any:
    found = (getattr(usage, name, None) for name in names)
    return next((value for value in found if value is not None), None)
