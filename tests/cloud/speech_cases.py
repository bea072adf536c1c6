"""A sound to send, and the three adapters that transcribe it, opened the same way."""

from __future__ import annotations

from edgewise.cloud.providers import PROVIDERS
from edgewise.types.messages import Audio, Message, Request

HEARING = ("openai", "gemini", "cactus_cloud")
EMBEDDING = ("openai", "gemini")

# Every byte there is, twice, with line ends and dashes that a form could stumble over.
WAVE = b"RIFF" + bytes(range(256)) * 2 + b"\r\n--boundary\r\n\r\n--" + bytes(8)
SOUND = Audio(WAVE, "audio/wav", seconds=4.0)


def spoken(sound: Audio = SOUND, words: str = "", **options: object) -> Request:
    message = Message("user", words, audio=(sound,))
    return Request(messages=(message,), task="transcribe", **options)  # type: ignore[arg-type]


def written(*texts: str, dimensions: int | None = None) -> Request:
    messages = tuple(Message("user", text) for text in texts)
    return Request(messages=messages, task="embed", dimensions=dimensions)


def speech_model(name: str) -> str:
    return PROVIDERS[name].speech_model


def embedding_model(name: str) -> str:
    return PROVIDERS[name].embedding_model
