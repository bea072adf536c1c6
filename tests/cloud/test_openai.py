"""OpenAI's protocol: chat, speech, embeddings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from edgewise.cloud.openai import payload
from edgewise.cloud.provider import Chunk, CloudProvider
from edgewise.cloud.providers import PROVIDERS
from edgewise.errors import CloudFailed, CloudMalformed, CloudRateLimited, CloudRejected
from edgewise.testing import Answer, LoopbackCloud
from edgewise.testing.loopback_cloud.wires import SeenRequest
from edgewise.types.messages import Audio, Image, Message, Request, Tool, ToolCall
from edgewise.types.replies import Vectors
from tests.cloud.adapter_cases import QUESTION, calls_of, finish_of, open_adapter, text_of
from tests.cloud.raw_server import RawServer, Step, events, reply
from tests.cloud.speech_cases import speech_model, spoken, written

OPENAI = PROVIDERS["openai"]


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as running:
        yield running


def ask(server: RawServer, request: Request = QUESTION, called: str = "openai") -> list[Chunk]:
    provider = open_adapter("openai", server.url, called=called)
    try:
        return list(provider.stream(request, "try-1"))
    finally:
        provider.close()


def event(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> str:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return json.dumps({"id": "1", "object": "chat.completion.chunk", "choices": choices, **more})


# -- what is sent ---------------------------------------------------------------------------------


def test_a_whole_conversation_is_written_in_openais_words() -> None:
    call = ToolCall("get_weather", {"place": "Paris"}, id="call_a", source="local")
    messages = (
        Message("system", "Be brief."),
        Message("user", "Weather?", images=(Image(b"map"),)),
        Message("assistant", "", tool_calls=(call,)),
        Message("tool", "18 degrees", tool_call_id="call_a"),
    )
    body = payload(Request(messages=messages), "gpt-6-luna", OPENAI)
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Weather?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,bWFw"}},
            ],
        },
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "call_a",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"place": "Paris"}'},
                }
            ],
        },
        {"role": "tool", "content": "18 degrees", "tool_call_id": "call_a"},
    ]


def test_pictures_from_tools_follow_the_last_result_in_a_users_message() -> None:
    calls = (ToolCall("look", {}, id="a"), ToolCall("look", {}, id="b"))
    messages = (
        Message("user", "Look twice."),
        Message("assistant", "", tool_calls=calls),
        Message("tool", "seen", tool_call_id="a", images=(Image(b"one"),)),
        Message("tool", "seen", tool_call_id="b", images=(Image(b"two"),)),
        Message("user", "Well?"),
    )
    body = payload(Request(messages=messages), "gpt-6-luna", OPENAI)
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "user", "user"]
    assert len(body["messages"][4]["content"]) == 2


def test_options_arrive_at_openai_as_it_spells_them(cloud: LoopbackCloud) -> None:
    request = Request(
        messages=QUESTION.messages,
        max_tokens=77,
        temperature=0.0,
        seed=5,
        stop=("END",),
        tools=(Tool("f", "does f", {"type": "object"}),),
    )
    provider = open_adapter("openai", cloud.openai_url)
    list(provider.stream(request, "try-1"))
    provider.close()
    body = cloud.requests[0].body
    assert body["max_completion_tokens"] == 77
    assert "max_tokens" not in body
    assert (body["temperature"], body["seed"], body["stop"]) == (0.0, 5, ["END"])
    assert body["stream_options"] == {"include_usage": True}
    assert body["reasoning_effort"] == "none"
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "f", "description": "does f", "parameters": {"type": "object"}},
        }
    ]


@pytest.mark.parametrize("model", ["o3-mini", "gpt-5-nano", "gpt-6-astra"])
def test_a_model_that_refuses_a_temperature_is_sent_none(model: str) -> None:
    assert "temperature" not in payload(QUESTION, model, OPENAI)


def test_other_servers_get_max_tokens(cloud: LoopbackCloud) -> None:
    provider = open_adapter("openai", cloud.openai_url, called="vllm", model="my-model")
    list(provider.stream(replace(QUESTION, max_tokens=77), "try-1"))
    provider.close()
    body = cloud.requests[0].body
    assert body["max_tokens"] == 77
    assert "max_completion_tokens" not in body
    assert "reasoning_effort" not in body


def test_mistral_gets_its_own_seed_short_ids_and_no_stream_options() -> None:
    call = ToolCall("f", {}, id="call_from_another_model")
    messages = (
        Message("user", "Go."),
        Message("assistant", "", tool_calls=(call,)),
        Message("tool", "done", tool_call_id="call_from_another_model"),
    )
    body = payload(Request(messages=messages, seed=3), "mistral-small", PROVIDERS["mistral"])
    assert body["random_seed"] == 3
    assert "stream_options" not in body
    called = body["messages"][1]["tool_calls"][0]["id"]
    assert len(called) == 9
    assert called.isalnum()
    assert body["messages"][2]["tool_call_id"] == called


def test_deepseek_is_told_not_to_think(cloud: LoopbackCloud) -> None:
    provider = open_adapter("openai", cloud.openai_url, called="deepseek")
    list(provider.stream(QUESTION, "try-1"))
    provider.close()
    assert cloud.requests[0].body["thinking"] == {"type": "disabled"}
    assert "seed" not in cloud.requests[0].body


def test_openais_organisation_is_not_told_to_others(
    cloud: LoopbackCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-secret")
    for called in ("openai", "groq"):
        provider = open_adapter("openai", cloud.openai_url, called=called)
        list(provider.stream(QUESTION, "try-1"))
        provider.close()
    to_openai, to_groq = (str(request.headers) for request in cloud.requests)
    assert "org-secret" in to_openai
    assert "secret" not in to_groq


# -- what comes back ------------------------------------------------------------------------------


def test_usage_is_estimated_where_none_is_sent() -> None:
    body = events(event({"content": "x" * 41}), event({}, "stop"), "[DONE]")
    with RawServer(reply(body)) as server:
        finish = finish_of(ask(server))
    assert finish.estimated
    assert finish.input_tokens == 5  # "Why is the sky blue?" has 20 characters
    assert finish.output_tokens == 11


def test_usage_without_details_has_no_cached_tokens() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    body = events(event({"content": "Hi"}, "stop"), event(usage=usage), "[DONE]")
    with RawServer(reply(body)) as server:
        finish = finish_of(ask(server))
    assert (finish.input_tokens, finish.output_tokens, finish.cached_tokens) == (9, 2, 0)
    assert not finish.estimated


def test_the_end_mark_may_be_missing_once_a_reason_was_given() -> None:
    with RawServer(reply(events(event({"content": "Hi"}, "stop")))) as server:
        assert text_of(ask(server)) == "Hi"


def test_calls_that_are_all_numbered_zero_stay_apart() -> None:
    def call(name: str, id: str) -> dict[str, Any]:
        return {"index": 0, "id": id, "function": {"name": name, "arguments": '{"n": 1}'}}

    body = events(
        event({"tool_calls": [call("first", "a")]}),
        event({"tool_calls": [call("second", "b")]}),
        event({}, "stop"),
    )
    with RawServer(reply(body)) as server:
        chunks = ask(server)
    assert [(made.name, made.id) for made in calls_of(chunks)] == [("first", "a"), ("second", "b")]
    assert finish_of(chunks).reason == "tool_calls", "some servers say stop beside calls"


def test_a_call_without_arguments_has_none() -> None:
    made = {"index": 0, "id": "a", "function": {"name": "now", "arguments": ""}}
    with RawServer(reply(events(event({"tool_calls": [made]}, "tool_calls")))) as server:
        assert calls_of(ask(server)) == [ToolCall("now", {}, "a", "cloud")]


@pytest.mark.parametrize("arguments", ['{"place": ', '["a list"]', "null"])
def test_arguments_that_are_not_an_object_are_malformed(arguments: str) -> None:
    made = {"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments}}
    with (
        RawServer(reply(events(event({"tool_calls": [made]}, "tool_calls")))) as server,
        pytest.raises(CloudMalformed) as caught,
    ):
        ask(server)
    assert "place" not in str(caught.value), "errors are kept; replies may be private"


@pytest.mark.parametrize("data", ['{"choices": null}', '{"choices": [7]}', "[]", '"text"'])
def test_json_of_another_shape_is_malformed(data: str) -> None:
    with RawServer(reply(events(data))) as server, pytest.raises(CloudMalformed):
        ask(server)


def test_a_refusal_is_shown_and_counts_as_filtered() -> None:
    body = events(event({"refusal": "I cannot help."}), event({}, "stop"))
    with RawServer(reply(body)) as server:
        chunks = ask(server)
    assert text_of(chunks) == "I cannot help."
    assert finish_of(chunks).reason == "filtered"


def test_reasoning_is_not_part_of_the_answer() -> None:
    body = events(
        event({"reasoning_content": "Hmm.", "reasoning": "Hmm."}),
        event({"content": "Yes."}, "stop"),
    )
    with RawServer(reply(body)) as server:
        assert text_of(ask(server)) == "Yes."


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "slow down", "code": 429}, CloudRateLimited),
        ({"message": "no credit", "code": "insufficient_quota"}, CloudRateLimited),
        ({"message": "upstream died", "code": 502}, CloudFailed),
        ({"message": "who knows"}, CloudFailed),
        ({"message": "too long", "type": "invalid_request_error"}, CloudRejected),
    ],
)
def test_errors_inside_a_stream_are_told_apart(error: dict[str, Any], kind: type) -> None:
    body = events(event({"content": "So"}), json.dumps({"error": error}))
    with RawServer(reply(body)) as server, pytest.raises(kind) as caught:
        ask(server)
    assert error["message"] in str(caught.value)


def test_a_plain_text_error_is_quoted() -> None:
    sent = reply("upstream connect error", kind="text/plain", status="503 Service Unavailable")
    with RawServer(sent) as server, pytest.raises(CloudFailed, match="upstream connect error"):
        ask(server)


def test_a_connection_is_reused_though_the_end_of_the_body_comes_late() -> None:
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    body = events(event({"content": "Hi"}, "stop"), "[DONE]").encode()
    chunk = b"%x\r\n%s\r\n" % (len(body), body)
    late: list[Step] = [head + chunk, 0.05, b"0\r\n\r\n"]
    with RawServer(late, late) as server:
        provider = open_adapter("openai", server.url)
        for number in range(2):
            list(provider.stream(QUESTION, f"try-{number}"))
        provider.close()
        assert len(server.requests) == 2
        assert server.connections == 1


def test_a_body_that_never_ends_holds_nobody_up_once_the_answer_is_whole() -> None:
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    body = events(event({"content": "Hi"}, "stop"), "[DONE]").encode()
    with RawServer([head + b"%x\r\n%s\r\n" % (len(body), body), None]) as server:
        assert text_of(ask(server)) == "Hi"
        assert server.departed.wait(30)


def provider_for(cloud: LoopbackCloud) -> CloudProvider:
    return open_adapter("openai", cloud.openai_url)


def test_two_streams_run_side_by_side(cloud: LoopbackCloud) -> None:
    cloud.script(Answer(text="first answer"), Answer(text="second answer"))
    provider = provider_for(cloud)
    one, two = provider.stream(QUESTION, "one"), provider.stream(QUESTION, "two")
    begun = [next(one), next(two)]
    assert text_of([begun[0], *one]) == "first answer"
    assert text_of([begun[1], *two]) == "second answer"
    assert cloud.connections == 2
    provider.close()


def test_tool_choice_none_names_the_tools_and_forbids_calls() -> None:
    request = Request(messages=(Message("user", "Hi"),), tools=(Tool("get_weather"),))
    assert "tool_choice" not in payload(request, "gpt-6-luna", OPENAI)
    body = payload(replace(request, tool_choice="none"), "gpt-6-luna", OPENAI)
    assert (body["tool_choice"], len(body["tools"])) == ("none", 1)
    assert "tool_choice" not in payload(replace(request, tools=(), tool_choice="none"), "m", OPENAI)
    body = payload(replace(request, tool_choice="required"), "gpt-6-luna", OPENAI)
    assert body["tool_choice"] == "required"


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
    """The result of a reply that our scripts would not send."""
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


def test_together_is_told_to_detect_the_language() -> None:
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
def test_json_of_another_shape_is_no_transcript(value: Any) -> None:
    with pytest.raises(CloudMalformed):
        heard(value)


def test_a_page_of_html_is_malformed() -> None:
    with RawServer(reply("<html>Log in</html>", kind="text/html")) as server:
        provider = open_adapter("openai", server.url)
        with pytest.raises(CloudMalformed):
            list(provider.stream(spoken(), "try-1"))
        provider.close()


def made_of(value: Any) -> list[Chunk]:
    with RawServer(reply(json.dumps(value), kind="application/json")) as server:
        provider = open_adapter("openai", server.url)
        try:
            return list(provider.stream(written("one", "two"), "try-1"))
        finally:
            provider.close()


def row(index: int, *values: float) -> dict[str, object]:
    return {"object": "embedding", "index": index, "embedding": list(values)}


def test_floats_are_asked_for_and_dimensions_only_where_wanted() -> None:
    with LoopbackCloud() as cloud:
        provider = open_adapter("openai", cloud.openai_url, model="text-embedding-3-small")
        list(provider.stream(written("one"), "try-1"))
        list(provider.stream(written("one", dimensions=64), "try-2"))
        provider.close()
        first, second = cloud.requests
    body = {"input": ["one"], "model": "text-embedding-3-small", "encoding_format": "float"}
    assert (first.path, first.body) == ("/v1/embeddings", body)
    assert second.body == {**body, "dimensions": 64}


def test_vectors_out_of_order_are_put_in_order() -> None:
    chunks = made_of({"data": [row(1, 2.0), row(0, 1.0)], "usage": {"prompt_tokens": 3}})
    assert chunks[0] == Vectors(((1.0,), (2.0,)))


def test_without_usage_the_tokens_are_an_estimate() -> None:
    finish = finish_of(made_of({"data": [row(0, 1.0), row(1, 2.0)]}))
    assert (finish.input_tokens, finish.estimated) == (2, True)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"data": None},
        {"data": [row(0, 1.0), row(0, 2.0)]},
        {"data": [row(0, 1.0), row(2, 2.0)]},
        {"data": [row(0, 1.0), {"index": 1, "embedding": "AAAA"}]},
        {"data": [row(0, 1.0), {"index": 1, "embedding": [None]}]},
    ],
)
def test_json_of_another_shape_is_no_vector(value: Any) -> None:
    with pytest.raises(CloudMalformed):
        made_of(value)
