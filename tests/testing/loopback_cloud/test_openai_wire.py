"""The real OpenAI SDK against the scripted cloud: answers and faults."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx2
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from edgewise.testing import Answer, Cut, Empty, LoopbackCloud, Malformed, Scripted, Silence, Status
from edgewise.types.messages import ToolCall

WEATHER = ToolCall("weather", {"city": "Oslo", "days": 3}, id="call_a")
CLOCK = ToolCall("clock", {})


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as cloud:
        yield cloud


@pytest.fixture
def client(cloud: LoopbackCloud) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=cloud.openai_url, api_key="secret", max_retries=0, timeout=30
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


def test_a_whole_answer_carries_text_model_and_usage(
    cloud: LoopbackCloud, client: openai.OpenAI
) -> None:
    cloud.script(Answer(text="Oslo.", input_tokens=31, output_tokens=4))
    answer = ask(client)
    assert answer.choices[0].message.content == "Oslo."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == "some-model"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (31, 4)


def test_cached_and_reasoning_tokens_are_parts_of_the_counts(
    cloud: LoopbackCloud, client: openai.OpenAI
) -> None:
    cloud.script(Answer(input_tokens=31, cached_tokens=20, output_tokens=9, reasoning_tokens=5))
    usage = ask(client).usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    assert usage.completion_tokens_details is not None
    assert (usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens) == (31, 20)
    assert usage.completion_tokens == 9
    assert usage.completion_tokens_details.reasoning_tokens == 5


def test_a_whole_answer_with_tool_calls_has_null_content(
    cloud: LoopbackCloud, client: openai.OpenAI
) -> None:
    cloud.script(Answer(text="", tool_calls=(WEATHER, CLOCK)))
    choice = ask(client).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    first, second = choice.message.tool_calls or []
    assert first.type == "function" and second.type == "function"
    assert (first.id, first.function.name) == ("call_a", "weather")
    assert json.loads(first.function.arguments) == {"city": "Oslo", "days": 3}
    assert second.id != first.id
    assert json.loads(second.function.arguments) == {}


def test_a_stream_comes_in_pieces_of_the_size_asked_for(
    cloud: LoopbackCloud, client: openai.OpenAI
) -> None:
    cloud.script(Answer(text="Oslo, of course.", chunk_size=5))
    chunks = list(stream(client))
    assert chunks[0].choices[0].delta.role == "assistant"
    pieces = [chunk.choices[0].delta.content for chunk in chunks[1:-1]]
    assert pieces == ["Oslo,", " of c", "ourse", "."]
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert all(chunk.usage is None for chunk in chunks)


def test_a_stream_ends_with_usage_only_where_it_was_asked_for(
    cloud: LoopbackCloud, client: openai.OpenAI
) -> None:
    cloud.script(Answer(input_tokens=31, output_tokens=4))
    *rest, last = stream(client, usage=True)
    assert last.choices == []
    assert last.usage is not None
    assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (31, 4)
    assert all(chunk.usage is None for chunk in rest)


@pytest.mark.parametrize(("usage", "nulls"), [(True, 11), (False, 0)])
def test_usage_is_null_in_all_other_chunks_where_it_was_asked_for(
    cloud: LoopbackCloud, usage: bool, nulls: int
) -> None:
    cloud.script(Answer(text="x" * 9, chunk_size=1))
    body = {
        "model": "m",
        "messages": [],
        "stream": True,
        "stream_options": {"include_usage": usage},
    }
    response = httpx2.post(f"{cloud.openai_url}/chat/completions", json=body)
    assert response.text.count('"usage": null') == nulls
    assert response.text.endswith("data: [DONE]\n\n")


def test_tool_calls_are_streamed_with_their_arguments_split_over_chunks(
    cloud: LoopbackCloud, client: openai.OpenAI
) -> None:
    cloud.script(Answer(text="One moment.", tool_calls=(WEATHER, CLOCK), chunk_size=4))
    chunks = list(stream(client))
    names: dict[int, str] = {}
    arguments: dict[int, list[str]] = {}
    for chunk in chunks:
        for delta in chunk.choices[0].delta.tool_calls or []:
            assert delta.function is not None
            if delta.function.name:
                assert delta.index not in names
                names[delta.index] = delta.function.name
            arguments.setdefault(delta.index, []).append(delta.function.arguments or "")
    assert text_of(chunks) == "One moment."
    assert names == {0: "weather", 1: "clock"}
    assert json.loads("".join(arguments[0])) == {"city": "Oslo", "days": 3}
    assert json.loads("".join(arguments[1])) == {}
    assert len(arguments[0]) > 3
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize(("finish", "name"), [("length", "length"), ("filtered", "content_filter")])
def test_other_reasons_to_finish_have_openai_names(
    cloud: LoopbackCloud, client: openai.OpenAI, finish: str, name: str
) -> None:
    cloud.always(Answer(finish="length" if finish == "length" else "filtered"))
    assert ask(client).choices[0].finish_reason == name
    assert list(stream(client))[-1].choices[0].finish_reason == name


def test_models_are_listed_without_using_up_the_script(
    cloud: LoopbackCloud, client: openai.OpenAI
) -> None:
    cloud.script("scripted")
    assert [model.id for model in client.models.list()] == ["loopback-large", "loopback-small"]
    assert ask(client).choices[0].message.content == "scripted"


def test_a_status_for_always_reaches_the_list_of_models(
    cloud: LoopbackCloud, client: openai.OpenAI
) -> None:
    cloud.always(Status(401))
    with pytest.raises(openai.AuthenticationError):
        client.models.list()


def test_the_request_is_seen_as_it_was_sent(cloud: LoopbackCloud, client: openai.OpenAI) -> None:
    list(stream(client, usage=True))
    (seen,) = cloud.requests
    assert (seen.path, seen.protocol, seen.stream) == ("/v1/chat/completions", "openai", True)
    assert seen.headers["authorization"] == "Bearer secret"
    assert seen.body["messages"] == [{"role": "user", "content": "Capital of Norway?"}]
    assert seen.body["stream_options"] == {"include_usage": True}


def test_whole_answers_share_one_connection(cloud: LoopbackCloud, client: openai.OpenAI) -> None:
    for _ in range(3):
        ask(client)
    assert cloud.connections == 1
    assert [seen.connection for seen in cloud.requests] == [1, 1, 1]


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
