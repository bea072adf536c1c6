"""Transcriptions in OpenAI's words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edgewise.cloud.provider import Chunk
from edgewise.cloud.providers import PROVIDERS
from edgewise.errors import CloudMalformed
from edgewise.testing import Answer, LoopbackCloud
from edgewise.testing.loopback_cloud import SeenRequest
from edgewise.types.messages import Audio, Request
from tests.cloud.adapter_cases import finish_of, open_adapter, text_of
from tests.cloud.raw_server import RawServer, reply
from tests.cloud.speech_cases import speech_model, spoken


def sent(request: Request, called: str = "openai") -> SeenRequest:
    with LoopbackCloud() as cloud:
        provider = open_adapter(
            "openai", cloud.openai_url, model=speech_model(called), called=called
        )
        list(provider.stream(request, "try-1"))
        provider.close()
        (seen,) = cloud.requests
    return seen


def heard(value: Any, called: str = "openai") -> list[Chunk]:
    """What becomes of a reply that no script of ours would send."""
    with RawServer(reply(json.dumps(value), kind="application/json")) as server:
        provider = open_adapter("openai", server.url, called=called)
        try:
            return list(provider.stream(spoken(), "try-1"))
        finally:
            provider.close()


def test_the_form_has_the_file_the_model_the_language_and_the_words_before() -> None:
    seen = sent(spoken(words="and then she said", language="en"))
    assert seen.path == "/v1/audio/transcriptions"
    assert {name: value for name, value in seen.body.items() if name != "file"} == {
        "model": "gpt-transcribe",
        "languages[]": "en",
        "prompt": "and then she said",
    }


def test_a_hint_goes_before_the_words_before_and_a_temperature_only_where_one_is_asked_for() -> (
    None
):
    seen = sent(spoken(words="and then", hint="Zürich", temperature=0.3))
    assert (seen.body["prompt"], float(seen.body["temperature"])) == ("Zürich and then", 0.3)
    assert float(sent(spoken(temperature=1.7)).body["temperature"]) == 1.0, "the most it takes"


def test_what_is_not_known_is_not_sent() -> None:
    assert set(sent(spoken()).body) == {"file", "model"}


def test_the_older_models_take_one_language_and_no_list() -> None:
    with LoopbackCloud() as cloud:
        provider = open_adapter("openai", cloud.openai_url, model="gpt-4o-transcribe")
        list(provider.stream(spoken(language="en"), "try-1"))
        provider.close()
        (seen,) = cloud.requests
    assert set(seen.body) == {"file", "model", "language"}


@pytest.mark.parametrize("called", ["groq", "together"])
def test_whispers_elsewhere_take_the_same_form(called: str) -> None:
    seen = sent(spoken(words="before", language="de"), called)
    assert seen.body["model"] == PROVIDERS[called].speech_model
    assert (seen.body["prompt"], seen.body["language"]) == ("before", "de")


def test_together_is_told_to_find_out_the_language() -> None:
    assert sent(spoken(), "together").body["language"] == "auto"
    assert "language" not in sent(spoken(), "groq").body


def test_mistral_gets_no_prompt_which_it_would_refuse() -> None:
    seen = sent(spoken(words="before", language="fr"), "mistral")
    assert set(seen.body) == {"file", "model", "language"}


@pytest.mark.parametrize(
    ("media_type", "name"),
    [("audio/wav", "speech.wav"), ("audio/mpeg", "speech.mp3"), ("audio/ogg; codecs=opus", "ogg")],
)
def test_the_file_is_named_after_its_kind(media_type: str, name: str) -> None:
    with RawServer(reply('{"text": "x"}', kind="application/json")) as server:
        provider = open_adapter("openai", server.url)
        list(provider.stream(spoken(Audio(b"data", media_type, 1.0)), "try-1"))
        provider.close()
    assert name.encode() + b'"\r\n' in server.requests[0]
    assert b"Content-Type: " + media_type.encode() in server.requests[0]


def test_tokens_are_counted_where_a_model_counts_them() -> None:
    with LoopbackCloud() as cloud:
        cloud.script(Answer(text="Yes.", input_tokens=50, audio_tokens=45, output_tokens=3))
        provider = open_adapter("openai", cloud.openai_url)
        finish = finish_of(list(provider.stream(spoken(), "try-1")))
        provider.close()
    assert (finish.input_tokens, finish.audio_tokens, finish.output_tokens) == (50, 45, 3)
    assert (finish.audio_seconds, finish.estimated) == (4.0, False)


def test_seconds_are_the_providers_own_where_it_counts_those() -> None:
    with LoopbackCloud() as cloud:
        cloud.script(Answer(text="Yes.", audio_seconds=5.0))
        provider = open_adapter("openai", cloud.openai_url)
        finish = finish_of(list(provider.stream(spoken(), "try-1")))
        provider.close()
    assert (finish.audio_seconds, finish.input_tokens, finish.estimated) == (5.0, 0, False)


def test_without_usage_the_seconds_sent_are_an_estimate() -> None:
    chunks = heard({"text": "A fine day."})
    finish = finish_of(chunks)
    assert text_of(chunks) == "A fine day."
    assert (finish.audio_seconds, finish.audio_tokens, finish.estimated) == (4.0, 128, True)


def test_mistrals_usage_is_understood() -> None:
    usage = {"prompt_audio_seconds": 6, "prompt_tokens": 4, "completion_tokens": 9}
    finish = finish_of(heard({"text": "Oui.", "usage": usage}, "mistral"))
    assert (finish.audio_seconds, finish.input_tokens, finish.output_tokens) == (6.0, 4, 9)
    assert not finish.estimated


def test_tokens_that_are_not_told_apart_all_count_as_sound() -> None:
    usage = {"type": "tokens", "input_tokens": 30, "output_tokens": 2, "total_tokens": 32}
    assert finish_of(heard({"text": "Yes.", "usage": usage})).audio_tokens == 30


@pytest.mark.parametrize("value", [{}, {"text": None}, {"text": 7}, [], "words", {"error": "no"}])
def test_json_of_another_shape_is_malformed(value: Any) -> None:
    with pytest.raises(CloudMalformed):
        heard(value)


def test_a_page_of_html_is_malformed() -> None:
    with RawServer(reply("<html>Log in</html>", kind="text/html")) as server:
        provider = open_adapter("openai", server.url)
        with pytest.raises(CloudMalformed):
            list(provider.stream(spoken(), "try-1"))
        provider.close()
