"""Gemini transcribes in a chat about a sound."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edgewise.cloud.gemini import NO_SPEECH
from edgewise.cloud.provider import Chunk, CloudProvider
from edgewise.testing import Answer, LoopbackCloud
from edgewise.types.messages import Audio
from tests.cloud.adapter_cases import finish_of, open_adapter, text_of
from tests.cloud.speech_cases import SOUND, speech_model, spoken


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as running:
        yield running


@pytest.fixture
def provider(cloud: LoopbackCloud) -> Iterator[CloudProvider]:
    made = open_adapter("gemini", cloud.gemini_url, model=speech_model("gemini"))
    yield made
    made.close()


def hear(provider: CloudProvider, **options: object) -> list[Chunk]:
    return list(provider.stream(spoken(SOUND, **options), "try-1"))  # type: ignore[arg-type]


def test_the_instruction_the_language_and_the_words_before_go_with_the_sound(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    hear(provider, words="the quick brown fox", language="en", hint="Zürich")
    body = cloud.requests[0].body
    sound, task = body["contents"][0]["parts"]
    assert sound["inlineData"]["mime_type"] == "audio/wav"
    assert task["text"].splitlines() == [
        "Transcribe this recording.",
        "The language is en.",
        "Not said in it, but how such words are spelt: Zürich",
        "Right before it was said, not to be repeated: the quick brown fox",
    ]
    assert "verbatim" in body["systemInstruction"]["parts"][0]["text"]


def test_the_transcript_is_yielded_in_one_piece(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Answer(text=" Jumps over the dog.\n", chunk_size=3))
    chunks = hear(provider)
    assert chunks[:-1] == ["Jumps over the dog."]


@pytest.mark.parametrize("words", [NO_SPEECH, f" {NO_SPEECH}\n", "[No speech].", ""])
def test_the_word_for_silence_is_not_taken_for_speech(
    cloud: LoopbackCloud, provider: CloudProvider, words: str
) -> None:
    cloud.script(Answer(text=words))
    chunks = hear(provider)
    assert chunks == ["", finish_of(chunks)]


def test_a_refusal_is_not_taken_for_silence(cloud: LoopbackCloud, provider: CloudProvider) -> None:
    cloud.script(Answer(text="", finish="filtered"))
    chunks = hear(provider)
    assert [chunk for chunk in chunks if isinstance(chunk, str)] == []
    assert finish_of(chunks).reason == "filtered"


def test_tokens_of_sound_are_told_from_tokens_of_text(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Answer(text="Yes.", input_tokens=150, audio_tokens=128, output_tokens=2))
    finish = finish_of(hear(provider))
    assert (finish.input_tokens, finish.audio_tokens, finish.audio_seconds) == (150, 128, 4.0)


def test_tokens_that_are_not_told_apart_all_count_as_sound(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Answer(text="Yes.", input_tokens=150))
    assert finish_of(hear(provider)).audio_tokens == 150


def test_a_long_sound_may_have_more_words_than_a_chat_answer(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    chunks = list(provider.stream(spoken(Audio(b"x", seconds=60.0), max_tokens=256), "try-1"))
    assert text_of(chunks)
    assert cloud.requests[0].body["generationConfig"]["maxOutputTokens"] == 960
