"""The real Anthropic SDK against the scripted cloud."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import anthropic
import httpx2
import pytest
from anthropic.types import Message, RawMessageStreamEvent

from edgewise.testing import Answer, Cut, Empty, LoopbackCloud, Malformed, Scripted, Silence, Status
from edgewise.types.messages import ToolCall

WEATHER = ToolCall("weather", {"city": "Oslo", "days": 3}, id="toolu_a")
CLOCK = ToolCall("clock", {})


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as cloud:
        yield cloud


@pytest.fixture
def client(cloud: LoopbackCloud) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=cloud.anthropic_url, api_key="secret", max_retries=0, timeout=30
    ) as client:
        yield client


def ask(client: anthropic.Anthropic) -> Message:
    return client.messages.create(
        model="some-model",
        max_tokens=64,
        messages=[{"role": "user", "content": "Capital of Norway?"}],
    )


def stream(client: anthropic.Anthropic) -> Iterator[RawMessageStreamEvent]:
    events = client.messages.create(
        model="some-model",
        max_tokens=64,
        messages=[{"role": "user", "content": "Capital of Norway?"}],
        stream=True,
    )
    with events:
        yield from events


def assembled(client: anthropic.Anthropic) -> Message:
    """What the SDK's own accumulator makes of the stream."""
    with client.messages.stream(
        model="some-model",
        max_tokens=64,
        messages=[{"role": "user", "content": "Capital of Norway?"}],
    ) as events:
        return events.get_final_message()


def text_of(events: list[RawMessageStreamEvent]) -> str:
    return "".join(
        event.delta.text
        for event in events
        if event.type == "content_block_delta" and event.delta.type == "text_delta"
    )


@pytest.mark.parametrize("get", [ask, assembled])
def test_an_answer_is_the_same_whole_and_streamed(
    cloud: LoopbackCloud, client: anthropic.Anthropic, get: Callable[[anthropic.Anthropic], Message]
) -> None:
    cloud.script(
        Answer(
            text="One moment.",
            tool_calls=(WEATHER, CLOCK),
            input_tokens=31,
            cached_tokens=20,
            output_tokens=9,
            reasoning_tokens=5,
        )
    )
    message = get(client)
    text, weather, clock = message.content
    assert text.type == "text" and text.text == "One moment."
    assert weather.type == "tool_use" and clock.type == "tool_use"
    assert (weather.id, weather.name, weather.input) == (
        "toolu_a",
        "weather",
        {"city": "Oslo", "days": 3},
    )
    assert (clock.name, clock.input) == ("clock", {})
    assert clock.id not in ("", "toolu_a")
    assert message.stop_reason == "tool_use"
    assert message.model == "some-model"
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (11, 20, 9)
    assert usage.output_tokens_details is not None
    assert usage.output_tokens_details.thinking_tokens == 5


def test_a_stream_has_anthropics_events_in_their_order(
    cloud: LoopbackCloud, client: anthropic.Anthropic
) -> None:
    cloud.script(Answer(text="Oslo, of course.", chunk_size=8, output_tokens=9))
    events = list(stream(client))
    assert [event.type for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert text_of(events) == "Oslo, of course."
    start, end = events[0], events[-2]
    assert start.type == "message_start" and end.type == "message_delta"
    # The first count is only a beginning, as with the real service.
    assert (start.message.usage.output_tokens, end.usage.output_tokens) == (1, 9)


def test_arguments_are_streamed_in_pieces(
    cloud: LoopbackCloud, client: anthropic.Anthropic
) -> None:
    cloud.script(Answer(text="", tool_calls=(WEATHER,), chunk_size=4))
    pieces = [
        event.delta.partial_json
        for event in stream(client)
        if event.type == "content_block_delta" and event.delta.type == "input_json_delta"
    ]
    assert len(pieces) > 3
    assert json.loads("".join(pieces)) == {"city": "Oslo", "days": 3}


def test_other_reasons_to_stop_have_anthropics_names(
    cloud: LoopbackCloud, client: anthropic.Anthropic
) -> None:
    cloud.script(Answer(), Answer(finish="length"), Answer(finish="filtered"))
    reasons = [ask(client).stop_reason, ask(client).stop_reason, assembled(client).stop_reason]
    assert reasons == ["end_turn", "max_tokens", "refusal"]


def test_models_are_listed_in_anthropics_shape(
    cloud: LoopbackCloud, client: anthropic.Anthropic
) -> None:
    names = [model.display_name for model in client.models.list()]
    assert names == ["loopback-large", "loopback-small"]
    assert cloud.requests[0].protocol == "anthropic"


def test_the_request_is_seen_as_it_was_sent(
    cloud: LoopbackCloud, client: anthropic.Anthropic
) -> None:
    ask(client)
    (seen,) = cloud.requests
    assert (seen.path, seen.protocol, seen.stream) == ("/v1/messages", "anthropic", False)
    assert seen.headers["authorization"] == "Bearer secret"
    assert seen.body["max_tokens"] == 64


def test_a_body_without_max_tokens_is_refused_as_the_real_service_does(
    cloud: LoopbackCloud,
) -> None:
    cloud.script("kept for the next")
    body = {"model": "m", "messages": []}
    response = httpx2.post(f"{cloud.url}/v1/messages", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"
    response = httpx2.post(f"{cloud.url}/v1/messages", json={**body, "max_tokens": 1})
    assert response.json()["content"] == [{"type": "text", "text": "kept for the next"}]


@pytest.mark.parametrize("get", [ask, assembled])
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, anthropic.AuthenticationError),
        (403, anthropic.PermissionDeniedError),
        (404, anthropic.NotFoundError),
        (429, anthropic.RateLimitError),
        (500, anthropic.InternalServerError),
        (529, anthropic.InternalServerError),
    ],
)
def test_each_status_is_the_error_the_sdk_has_for_it(
    cloud: LoopbackCloud,
    client: anthropic.Anthropic,
    status: int,
    error: type[anthropic.APIStatusError],
    get: Callable[[anthropic.Anthropic], Message],
) -> None:
    cloud.script(Status(status, retry_after_s=3))
    with pytest.raises(error) as caught:
        get(client)
    assert caught.value.status_code == status
    assert caught.value.response.headers["retry-after"] == "3"
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["type"] == "error"


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Cut(after_chunks=2), httpx2.ReadError),
        (Cut(after_chunks=2, how="close"), httpx2.RemoteProtocolError),
        (Malformed(after_chunks=2), json.JSONDecodeError),
        (Status(529, after_chunks=2), anthropic.APIStatusError),
    ],
)
def test_a_stream_that_goes_wrong_shows_what_came_before(
    cloud: LoopbackCloud, client: anthropic.Anthropic, fault: Scripted, error: type[Exception]
) -> None:
    cloud.script(fault)
    events: list[RawMessageStreamEvent] = []
    with pytest.raises(error):
        for event in stream(client):
            events.append(event)
    assert len(text_of(events)) == 16


def test_an_error_inside_a_stream_names_its_kind(
    cloud: LoopbackCloud, client: anthropic.Anthropic
) -> None:
    cloud.script(Status(529, after_chunks=1))
    with pytest.raises(anthropic.APIStatusError) as caught:
        assembled(client)
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["error"]["type"] == "overloaded_error"


def test_a_stream_that_ends_too_early_has_no_reason_to_stop(
    cloud: LoopbackCloud, client: anthropic.Anthropic
) -> None:
    cloud.script(Cut(after_chunks=3, text="abcdefghij", chunk_size=2, how="end"))
    message = assembled(client)
    assert message.content[0].type == "text" and message.content[0].text == "abcdef"
    assert message.stop_reason is None


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Cut(), anthropic.APIConnectionError),
        (Cut(how="close"), anthropic.APIConnectionError),
        (Cut(how="end"), json.JSONDecodeError),
        (Malformed(), json.JSONDecodeError),
    ],
)
def test_a_whole_answer_that_is_broken_raises(
    cloud: LoopbackCloud, client: anthropic.Anthropic, fault: Scripted, error: type[Exception]
) -> None:
    cloud.script(fault)
    with pytest.raises(error):
        ask(client)


@pytest.mark.parametrize("get", [ask, assembled])
def test_an_empty_answer_is_well_formed(
    cloud: LoopbackCloud, client: anthropic.Anthropic, get: Callable[[anthropic.Anthropic], Message]
) -> None:
    cloud.script(Empty())
    message = get(client)
    assert message.content == []
    assert message.stop_reason == "end_turn"


def test_silence_outlasts_the_patience_of_the_client(cloud: LoopbackCloud) -> None:
    cloud.script(Silence(), Silence(after_chunks=1))
    with anthropic.Anthropic(
        base_url=cloud.anthropic_url, api_key="secret", max_retries=0, timeout=0.2
    ) as client:
        with pytest.raises(anthropic.APITimeoutError):
            ask(client)
        with pytest.raises(httpx2.ReadTimeout):
            assembled(client)
    cloud.wait_for(lambda cloud: cloud.disconnects == 2)


def test_streams_share_one_connection(cloud: LoopbackCloud, client: anthropic.Anthropic) -> None:
    for _ in range(3):
        assembled(client)
    assert [seen.connection for seen in cloud.requests] == [1, 1, 1]
