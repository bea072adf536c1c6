"""The real Gemini SDK against the scripted cloud."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import httpx2
import pytest
from google import genai
from google.genai import errors
from google.genai.types import FinishReason, GenerateContentResponse, HttpOptions

from edgewise.testing import Answer, Cut, Empty, LoopbackCloud, Malformed, Scripted, Silence, Status
from edgewise.types.messages import ToolCall

WEATHER = ToolCall("weather", {"city": "Oslo", "days": 3}, id="call_a")
CLOCK = ToolCall("clock", {})


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as cloud:
        yield cloud


@pytest.fixture
def client(cloud: LoopbackCloud) -> Iterator[genai.Client]:
    options = HttpOptions(base_url=cloud.gemini_url, api_version="v1beta", timeout=5000)
    with genai.Client(api_key="secret", http_options=options) as client:
        yield client


def ask(client: genai.Client) -> GenerateContentResponse:
    return client.models.generate_content(model="some-model", contents="Capital of Norway?")


def stream(client: genai.Client) -> Iterator[GenerateContentResponse]:
    yield from client.models.generate_content_stream(
        model="some-model", contents="Capital of Norway?"
    )


def last_of_stream(client: genai.Client) -> GenerateContentResponse:
    return list(stream(client))[-1]


def finish_of(response: GenerateContentResponse) -> FinishReason | None:
    assert response.candidates
    return response.candidates[0].finish_reason


def text_of(chunks: list[GenerateContentResponse]) -> str:
    return "".join(chunk.text or "" for chunk in chunks)


def test_a_whole_answer_carries_text_calls_and_finish(
    cloud: LoopbackCloud, client: genai.Client
) -> None:
    cloud.script(Answer(text="One moment.", tool_calls=(WEATHER, CLOCK)))
    response = ask(client)
    assert response.candidates and response.candidates[0].content
    parts = response.candidates[0].content.parts or []
    assert [part.text for part in parts] == ["One moment.", None, None]
    weather, clock = response.function_calls or []
    assert (weather.id, weather.name, weather.args) == (
        "call_a",
        "weather",
        {"city": "Oslo", "days": 3},
    )
    assert (clock.id, clock.name, clock.args) == (None, "clock", {})
    assert finish_of(response) == FinishReason.STOP
    assert response.model_version == "some-model"


def test_a_stream_comes_in_pieces_and_names_its_finish_once(
    cloud: LoopbackCloud, client: genai.Client
) -> None:
    cloud.script(Answer(text="Oslo, of course.", tool_calls=(WEATHER,), chunk_size=8))
    chunks = list(stream(client))
    assert [finish_of(chunk) for chunk in chunks] == [None, None, None, FinishReason.STOP]
    assert [chunk.text for chunk in chunks[:2]] == ["Oslo, of", " course."]
    (call,) = chunks[2].function_calls or []
    assert (call.name, call.args) == ("weather", {"city": "Oslo", "days": 3})


@pytest.mark.parametrize("get", [ask, last_of_stream])
def test_thoughts_are_counted_apart_from_the_answer(
    cloud: LoopbackCloud,
    client: genai.Client,
    get: Callable[[genai.Client], GenerateContentResponse],
) -> None:
    cloud.script(Answer(input_tokens=31, cached_tokens=20, output_tokens=9, reasoning_tokens=5))
    usage = get(client).usage_metadata
    assert usage is not None
    assert (usage.prompt_token_count, usage.cached_content_token_count) == (31, 20)
    assert (usage.candidates_token_count, usage.thoughts_token_count) == (4, 5)
    assert usage.total_token_count == 40


def test_other_reasons_to_finish_have_geminis_names(
    cloud: LoopbackCloud, client: genai.Client
) -> None:
    cloud.script(Answer(finish="length"), Answer(finish="filtered"))
    assert finish_of(ask(client)) == FinishReason.MAX_TOKENS
    assert finish_of(last_of_stream(client)) == FinishReason.SAFETY


def test_models_are_listed_in_geminis_shape(cloud: LoopbackCloud, client: genai.Client) -> None:
    names = [model.name for model in client.models.list()]
    assert names == ["models/loopback-large", "models/loopback-small"]


def test_the_version_the_sdk_picks_by_itself_is_served_too(cloud: LoopbackCloud) -> None:
    options = HttpOptions(base_url=cloud.gemini_url, timeout=5000)
    with genai.Client(api_key="secret", http_options=options) as client:
        assert ask(client).text == Answer().text
        assert len(list(client.models.list())) == 2
    assert {seen.protocol for seen in cloud.requests} == {"gemini"}


def test_the_request_is_seen_as_it_was_sent(cloud: LoopbackCloud, client: genai.Client) -> None:
    list(stream(client))
    (seen,) = cloud.requests
    assert seen.path == "/v1beta/models/some-model:streamGenerateContent"
    assert (seen.protocol, seen.stream, seen.query) == ("gemini", True, "alt=sse")
    assert seen.headers["x-goog-api-key"] == "secret"
    assert seen.body["contents"][0]["parts"] == [{"text": "Capital of Norway?"}]


@pytest.mark.parametrize("get", [ask, last_of_stream])
@pytest.mark.parametrize(
    ("status", "error", "name"),
    [
        (401, errors.ClientError, "UNAUTHENTICATED"),
        (403, errors.ClientError, "PERMISSION_DENIED"),
        (429, errors.ClientError, "RESOURCE_EXHAUSTED"),
        (500, errors.ServerError, "INTERNAL"),
        (503, errors.ServerError, "UNAVAILABLE"),
    ],
)
def test_each_status_is_the_error_the_sdk_has_for_it(
    cloud: LoopbackCloud,
    client: genai.Client,
    status: int,
    error: type[errors.APIError],
    name: str,
    get: Callable[[genai.Client], GenerateContentResponse],
) -> None:
    cloud.script(Status(status))
    with pytest.raises(error) as caught:
        get(client)
    assert (caught.value.code, caught.value.status) == (status, name)


def test_a_rate_limit_names_its_waiting_time_in_the_body_only(
    cloud: LoopbackCloud, client: genai.Client
) -> None:
    cloud.script(Status(429, retry_after_s=2.5))
    with pytest.raises(errors.ClientError) as caught:
        ask(client)
    (detail,) = caught.value.details["error"]["details"]
    assert detail["retryDelay"] == "2.5s"
    assert detail["@type"].endswith("google.rpc.RetryInfo")
    assert "retry-after" not in caught.value.response.headers


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Cut(after_chunks=2), httpx2.ReadError),
        (Cut(after_chunks=2, how="close"), httpx2.RemoteProtocolError),
        (Malformed(after_chunks=2), errors.UnknownApiResponseError),
        (Status(503, after_chunks=2), errors.ServerError),
    ],
)
def test_a_stream_that_goes_wrong_shows_what_came_before(
    cloud: LoopbackCloud, client: genai.Client, fault: Scripted, error: type[Exception]
) -> None:
    cloud.script(fault)
    chunks: list[GenerateContentResponse] = []
    with pytest.raises(error):
        for chunk in stream(client):
            chunks.append(chunk)
    assert len(text_of(chunks)) == 16


def test_a_stream_that_ends_too_early_has_no_finish(
    cloud: LoopbackCloud, client: genai.Client
) -> None:
    cloud.script(Cut(after_chunks=3, text="abcdefghij", chunk_size=2, how="end"))
    chunks = list(stream(client))
    assert text_of(chunks) == "abcdef"
    assert [finish_of(chunk) for chunk in chunks] == [None] * 3


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Cut(), httpx2.ReadError),
        (Cut(how="close"), httpx2.RemoteProtocolError),
        (Cut(how="end"), json.JSONDecodeError),
        (Malformed(), json.JSONDecodeError),
    ],
)
def test_a_whole_answer_that_is_broken_raises(
    cloud: LoopbackCloud, client: genai.Client, fault: Scripted, error: type[Exception]
) -> None:
    cloud.script(fault)
    with pytest.raises(error):
        ask(client)


@pytest.mark.parametrize("get", [ask, last_of_stream])
def test_an_empty_answer_is_well_formed(
    cloud: LoopbackCloud,
    client: genai.Client,
    get: Callable[[genai.Client], GenerateContentResponse],
) -> None:
    cloud.script(Empty())
    response = get(client)
    assert response.text is None
    assert finish_of(response) == FinishReason.STOP


def test_silence_outlasts_the_patience_of_the_client(cloud: LoopbackCloud) -> None:
    cloud.script(Silence(), Silence(after_chunks=1))
    options = HttpOptions(base_url=cloud.gemini_url, timeout=200)
    with genai.Client(api_key="secret", http_options=options) as client:
        with pytest.raises(httpx2.ReadTimeout):
            ask(client)
        with pytest.raises(httpx2.ReadTimeout):
            list(stream(client))
    cloud.wait_for(lambda cloud: cloud.disconnects == 2)


def test_streams_share_one_connection(cloud: LoopbackCloud, client: genai.Client) -> None:
    for _ in range(3):
        list(stream(client))
    assert [seen.connection for seen in cloud.requests] == [1, 1, 1]
