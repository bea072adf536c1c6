"""The real OpenAI SDK meets every fault of the loopback cloud."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx2
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from edgewise.testing import Answer, Cut, Empty, LoopbackCloud, Malformed, Scripted, Silence, Status


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as cloud:
        yield cloud


@pytest.fixture
def client(cloud: LoopbackCloud) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=cloud.openai_url, api_key="secret", max_retries=0, timeout=5
    ) as client:
        yield client


def ask(client: openai.OpenAI) -> ChatCompletion:
    return client.chat.completions.create(
        model="some-model", messages=[{"role": "user", "content": "Capital of Norway?"}]
    )


def stream(client: openai.OpenAI, *, usage: bool = False) -> Iterator[ChatCompletionChunk]:
    chunks = client.chat.completions.create(
        model="some-model",
        messages=[{"role": "user", "content": "Capital of Norway?"}],
        stream=True,
        stream_options={"include_usage": usage},
    )
    with chunks:
        yield from chunks


def text_of(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("fault", "error", "code"),
    [
        (Status(401), openai.AuthenticationError, "invalid_api_key"),
        (Status(403), openai.PermissionDeniedError, "unsupported_country_region_territory"),
        (Status(404), openai.NotFoundError, "model_not_found"),
        (Status(429), openai.RateLimitError, "rate_limit_exceeded"),
        (Status(500), openai.InternalServerError, None),
        (Status(418, message="short and stout"), openai.APIStatusError, None),
    ],
)
def test_each_status_is_the_error_the_sdk_has_for_it(
    cloud: LoopbackCloud,
    client: openai.OpenAI,
    fault: Status,
    error: type[openai.APIStatusError],
    code: str | None,
    streamed: bool,
) -> None:
    cloud.script(fault)
    with pytest.raises(error) as caught:
        list(stream(client)) if streamed else ask(client)
    assert caught.value.status_code == fault.status
    assert caught.value.code == code
    assert (fault.message or "was told to answer") in caught.value.message


def test_a_rate_limit_names_its_waiting_time(cloud: LoopbackCloud, client: openai.OpenAI) -> None:
    cloud.script(Status(429, retry_after_s=2.5), Status(429))
    with pytest.raises(openai.RateLimitError) as caught:
        ask(client)
    assert caught.value.response.headers["retry-after"] == "2.5"
    with pytest.raises(openai.RateLimitError) as caught:
        ask(client)
    assert "retry-after" not in caught.value.response.headers


@pytest.mark.parametrize(
    ("fault", "error", "cause"),
    [
        (Cut(after_chunks=2), openai.APIConnectionError, httpx2.ReadError),
        (Cut(after_chunks=2, how="close"), openai.APIConnectionError, httpx2.RemoteProtocolError),
        (Malformed(after_chunks=2), json.JSONDecodeError, None),
        (Status(500, after_chunks=2), openai.APIError, None),
    ],
)
def test_a_stream_that_goes_wrong_shows_what_came_before(
    cloud: LoopbackCloud,
    client: openai.OpenAI,
    fault: Scripted,
    error: type[Exception],
    cause: type[Exception] | None,
) -> None:
    cloud.script(fault)
    chunks: list[ChatCompletionChunk] = []
    with pytest.raises(error) as caught:
        for chunk in stream(client):
            chunks.append(chunk)
    assert len(text_of(chunks)) == 16
    if cause is not None:
        assert isinstance(caught.value.__cause__, cause)


def test_a_stream_that_ends_too_early_lacks_its_finish_and_nothing_else(
    cloud: LoopbackCloud, client: openai.OpenAI
) -> None:
    cloud.script(Cut(after_chunks=3, text="abcdefghij", chunk_size=2, how="end"))
    chunks = list(stream(client))
    assert text_of(chunks) == "abcdef"
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * 4


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Cut(), openai.APIConnectionError),
        (Cut(how="close"), openai.APIConnectionError),
        (Cut(how="end"), json.JSONDecodeError),
        (Malformed(), json.JSONDecodeError),
    ],
)
def test_a_whole_answer_that_is_broken_raises(
    cloud: LoopbackCloud, client: openai.OpenAI, fault: Scripted, error: type[Exception]
) -> None:
    cloud.script(fault)
    with pytest.raises(error):
        ask(client)
    assert ask(client).choices[0].message.content == Answer().text


def test_an_empty_answer_is_well_formed(cloud: LoopbackCloud, client: openai.OpenAI) -> None:
    cloud.script(Empty(), Empty())
    assert ask(client).choices[0].message.content == ""
    chunks = list(stream(client))
    assert text_of(chunks) == ""
    assert chunks[-1].choices[0].finish_reason == "stop"


@pytest.mark.parametrize("fault", [Silence(), Silence(after_chunks=2)])
def test_silence_outlasts_the_patience_of_the_client(cloud: LoopbackCloud, fault: Silence) -> None:
    cloud.script(fault)
    with openai.OpenAI(
        base_url=cloud.openai_url, api_key="secret", max_retries=0, timeout=0.2
    ) as client:
        chunks: list[ChatCompletionChunk] = []
        with pytest.raises(openai.APITimeoutError):
            for chunk in stream(client):
                chunks.append(chunk)
        assert len(text_of(chunks)) == 8 * fault.after_chunks
    cloud.wait_for(lambda cloud: cloud.disconnects == 1)
