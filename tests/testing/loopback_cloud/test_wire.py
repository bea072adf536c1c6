"""The scripted cloud's endpoints for sound and vectors, as clients meet them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest
from google import genai
from google.genai.types import HttpOptions, Part

from edgewise.testing import Answer, Cut, LoopbackCloud, Malformed, Silence, Status
from edgewise.testing.loopback_cloud import HttpRequest

WAVE = bytes(range(256)) + b"\r\n--x--\r\n"


@pytest.fixture
def sdk(cloud: LoopbackCloud) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=cloud.openai_url, api_key="any", max_retries=0, timeout=30) as made:
        yield made


@pytest.fixture
def google(cloud: LoopbackCloud) -> Iterator[genai.Client]:
    options = HttpOptions(base_url=cloud.gemini_url, timeout=5000)
    with genai.Client(api_key="any", http_options=options) as made:
        yield made


def hear(sdk: openai.OpenAI, data: bytes = WAVE) -> str:
    return sdk.audio.transcriptions.create(
        file=("a.wav", data, "audio/wav"), model="some-model", language="de", prompt="Und dann"
    ).text


def test_a_form_is_seen_with_its_fields_and_its_file(
    cloud: LoopbackCloud, sdk: openai.OpenAI
) -> None:
    cloud.script("Guten Tag.")
    assert hear(sdk) == "Guten Tag."
    (seen,) = cloud.requests
    assert (seen.protocol, seen.stream, seen.audio) == ("openai", False, WAVE)
    assert (seen.body["model"], seen.body["language"], seen.body["prompt"]) == (
        "some-model",
        "de",
        "Und dann",
    )


def test_texts_come_in_order_and_then_by_what_is_heard(
    cloud: LoopbackCloud, sdk: openai.OpenAI
) -> None:
    cloud.script("one", Answer(text="two"))
    cloud.always(lambda seen: f"{len(seen.audio)} bytes")
    assert [hear(sdk), hear(sdk), hear(sdk, b"abc")] == ["one", "two", "3 bytes"]


def test_usage_is_in_tokens_or_in_seconds(cloud: LoopbackCloud, sdk: openai.OpenAI) -> None:
    cloud.script(Answer(text="a", input_tokens=30, audio_tokens=25), Answer(audio_seconds=7.5))
    form = {"file": ("a.wav", WAVE, "audio/wav"), "model": "m"}
    tokens = sdk.audio.transcriptions.create(**form).usage  # type: ignore[call-overload]
    assert (tokens.type, tokens.input_tokens) == ("tokens", 30)
    assert tokens.input_token_details.audio_tokens == 25
    seconds = sdk.audio.transcriptions.create(**form).usage  # type: ignore[call-overload]
    assert (seconds.type, seconds.seconds) == ("duration", 7.5)


def test_a_form_without_a_file_is_refused(cloud: LoopbackCloud, client: httpx2.Client) -> None:
    url = f"{cloud.openai_url}/audio/transcriptions"
    answer = client.post(url, data={"model": "m"}, files={"other": b"x"})
    assert answer.status_code == 400
    assert "file" in answer.json()["error"]["message"]


def test_faults_reach_speech_too(cloud: LoopbackCloud, sdk: openai.OpenAI) -> None:
    cloud.script(Status(503), Malformed(), Cut(), Silence())
    with pytest.raises(openai.InternalServerError):
        hear(sdk)
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        hear(sdk)
    with pytest.raises((openai.APIConnectionError, httpx2.TransportError)):
        hear(sdk)
    with pytest.raises(openai.APITimeoutError):
        sdk.with_options(timeout=0.2).audio.transcriptions.create(file=b"x", model="m")


def test_gemini_is_heard_streamed_and_whole(cloud: LoopbackCloud, google: genai.Client) -> None:
    contents = [Part.from_bytes(data=WAVE, mime_type="audio/wav"), "What is said?"]
    cloud.always(lambda seen: Answer(text="Hi.", input_tokens=40, audio_tokens=32))
    whole = google.models.generate_content(model="m", contents=contents)  # type: ignore[arg-type]
    assert whole.text == "Hi."
    usage = whole.usage_metadata
    assert usage is not None and usage.prompt_tokens_details is not None
    assert [detail.token_count for detail in usage.prompt_tokens_details] == [8, 32]
    list(google.models.generate_content_stream(model="m", contents=contents))  # type: ignore[arg-type]
    assert [(seen.audio, seen.stream) for seen in cloud.requests] == [(WAVE, False), (WAVE, True)]


def test_cactus_takes_base64_and_gives_a_transcript(
    cloud: LoopbackCloud, client: httpx2.Client
) -> None:
    cloud.script("Hello.")
    body = {"audio": base64.b64encode(WAVE).decode(), "mime_type": "audio/wav"}
    answer = client.post(f"{cloud.cactus_url}/transcribe", json=body)
    assert answer.json() == {"transcript": "Hello."}
    assert cloud.requests[0].audio == WAVE
    refused = client.post(f"{cloud.cactus_url}/transcribe", json={"audio": "x"})
    assert refused.status_code == 400


def test_base64_that_is_none_is_no_sound(cloud: LoopbackCloud, client: httpx2.Client) -> None:
    body = {"audio": "not base64!", "mime_type": "audio/wav"}
    assert client.post(f"{cloud.cactus_url}/transcribe", json=body).status_code == 200
    assert cloud.requests[0].audio == b""


def test_vectors_are_scripted_or_made_of_the_texts(
    cloud: LoopbackCloud, sdk: openai.OpenAI, google: genai.Client
) -> None:
    cloud.script(Answer(vectors=((0.5, 1.0),)))
    scripted = sdk.embeddings.create(input="a", model="m", encoding_format="float")
    assert scripted.data[0].embedding == [0.5, 1.0]
    made = sdk.embeddings.create(input=["a", "b"], model="m", encoding_format="float", dimensions=4)
    contents: list[Any] = ["b", "a"]
    again = google.models.embed_content(
        model="m", contents=contents, config={"output_dimensionality": 4}
    )
    assert again.embeddings is not None
    ours = [row.embedding for row in made.data]
    assert ours == [row.values for row in again.embeddings[::-1]]
    assert ours[0] != ours[1]


def form_of(content: bytes, kind: str = "multipart/form-data; boundary=b") -> object:
    return HttpRequest("POST", "/", "", {"content-type": kind}, content).form()


def test_a_form_is_taken_apart_byte_by_byte() -> None:
    content = (
        b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n'
        b"Content-Type: audio/wav\r\n\r\n\r\n\x00\xff\r\n\r\n--b--\r\n"
    )
    assert form_of(content) == {"model": "m", "file": b"\r\n\x00\xff\r\n"}
    assert form_of(content, "application/json") is None
    assert form_of(b"nothing of the kind") == {}
