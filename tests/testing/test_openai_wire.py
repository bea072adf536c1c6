"""The real OpenAI SDK talks to the loopback cloud."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx2
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from edgewise.testing import Answer, LoopbackCloud, Status
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
