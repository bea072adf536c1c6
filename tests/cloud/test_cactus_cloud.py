"""Cactus Cloud's protocol: one string in, one string out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from edgewise.cloud.cactus_cloud import flattened
from edgewise.cloud.provider import Chunk
from edgewise.errors import CloudAuthFailed, CloudMalformed, CloudRejected
from edgewise.testing import LoopbackCloud
from edgewise.types.messages import Audio, Image, Message, Request, Tool, ToolCall
from tests.cloud.adapter_cases import KEY, QUESTION, calls_of, finish_of, open_adapter, text_of
from tests.cloud.raw_server import RawServer, Step, reply
from tests.cloud.speech_cases import spoken

PICTURE = Message("user", "What is this?", images=(Image(b"pic", "image/jpeg"),))


def ask(server: RawServer, request: Request = QUESTION) -> list[Chunk]:
    provider = open_adapter("cactus_cloud", server.url + "/api/v1/")
    try:
        return list(provider.stream(request, "try-1"))
    finally:
        provider.close()


def answers(value: Any, status: str = "200 OK") -> list[Step]:
    return reply(json.dumps(value), kind="application/json", status=status)


def test_text_goes_out_with_its_key_language_and_model() -> None:
    with LoopbackCloud() as cloud:
        provider = open_adapter("cactus_cloud", cloud.cactus_url)
        list(provider.stream(QUESTION, "try-1"))
        provider.close()
        (seen,) = cloud.requests
    assert seen.path == "/api/v1/text"
    assert seen.headers["x-api-key"] == KEY
    assert seen.body == {
        "text": "Why is the sky blue?",
        "language": "en-US",
        "model": "gemini-2.5-flash",
    }


def test_a_conversation_is_flattened_to_one_string() -> None:
    messages = (
        Message("system", "Be brief."),
        Message("user", "Weather?"),
        Message("assistant", "", tool_calls=(ToolCall("get_weather", {"place": "Paris"}),)),
        Message("tool", "18 degrees"),
    )
    request = Request(messages=messages, tools=(Tool("get_weather", "Looks."),))
    assert flattened(request).splitlines() == [
        "[system] Be brief.",
        "[user] Weather?",
        '[assistant called] get_weather {"place": "Paris"}',
        "[tool] 18 degrees",
        '[tools] [{"name": "get_weather", "description": "Looks.", '
        '"parameters": {"type": "object"}}]',
    ]


def test_an_image_goes_to_the_vision_endpoint() -> None:
    with RawServer(answers({"analysis": "A cat."})) as server:
        chunks = ask(server, Request(messages=(PICTURE,)))
        head, _, body = server.requests[0].partition(b"{")
    assert head.startswith(b"POST /api/v1/vlm ")
    assert json.loads(b"{" + body) == {
        "prompt": "What is this?",
        "image": "cGlj",
        "mime_type": "image/jpeg",
        "language": "en-US",
        "model": "gemini-2.5-flash",
    }
    assert text_of(chunks) == "A cat."


def test_two_images_are_refused_before_anything_is_sent() -> None:
    with RawServer() as server, pytest.raises(CloudRejected, match="one image per request"):
        ask(server, Request(messages=(PICTURE, PICTURE)))
    assert server.connections == 0


def test_usage_is_always_estimated() -> None:
    with RawServer(answers({"text": "x" * 41})) as server:
        finish = finish_of(ask(server))
    assert (finish.input_tokens, finish.output_tokens, finish.estimated) == (5, 11, True)


def test_function_calls_may_carry_their_arguments_as_a_string() -> None:
    made = [
        {"name": "a", "arguments": {"x": 1}},
        {"name": "b", "arguments": '{"y": 2}'},
        {"name": "c"},
    ]
    with RawServer(answers({"text": "", "function_calls": made})) as server:
        calls = calls_of(ask(server))
    assert [(call.name, call.arguments) for call in calls] == [
        ("a", {"x": 1}),
        ("b", {"y": 2}),
        ("c", {}),
    ]


@pytest.mark.parametrize(
    "value",
    [
        [],
        "text",
        {"error": "quota"},
        {"text": 7},
        {"function_calls": [{"arguments": {}}]},
        {"function_calls": [{"name": "f", "arguments": "{"}]},
        {"function_calls": 7},
    ],
)
def test_json_of_another_shape_is_malformed(value: Any) -> None:
    with RawServer(answers(value)) as server, pytest.raises(CloudMalformed):
        ask(server)


def test_an_error_without_a_readable_body_still_has_its_status() -> None:
    with (
        RawServer(reply("<html>", kind="text/html", status="403 Forbidden")) as server,
        pytest.raises(CloudAuthFailed, match="403"),
    ):
        ask(server)


def test_tool_choice_none_offers_no_tools() -> None:
    request = Request(messages=(Message("user", "Hi"),), tools=(Tool("get_weather"),))
    assert "[tools]" in flattened(request)
    assert "[tools]" not in flattened(replace(request, tool_choice="none"))
    required = flattened(replace(request, tool_choice="required"))
    assert "[tools]" in required and "[answer] Call at least one of the tools." in required


# -- speech ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("language", "sent"), [("", "en-US"), ("de", "de")])
def test_sound_goes_to_its_own_endpoint_in_the_language_it_is_in(language: str, sent: str) -> None:
    with LoopbackCloud() as cloud:
        provider = open_adapter("cactus_cloud", cloud.cactus_url, model="transcribe")
        list(provider.stream(spoken(Audio(b"wave", seconds=1.0), language=language), "try-1"))
        provider.close()
        (seen,) = cloud.requests
    assert (seen.path, seen.headers["x-api-key"]) == ("/api/v1/transcribe", KEY)
    assert seen.body == {"audio": "d2F2ZQ==", "mime_type": "audio/wav", "language": sent}


@pytest.mark.parametrize("name", ["transcript", "text", "response", "analysis"])
def test_a_transcript_is_found_under_any_of_its_names(name: str) -> None:
    with RawServer(answers({name: "Good morning."})) as server:
        chunks = ask(server, spoken())
    finish = finish_of(chunks)
    assert text_of(chunks) == "Good morning."
    assert (finish.audio_seconds, finish.audio_tokens, finish.estimated) == (4.0, 128, True)


@pytest.mark.parametrize("value", [[], {"error": "quota"}, {"transcript": 7}, {"words": "Hello"}])
def test_something_else_than_a_transcript_is_malformed(value: Any) -> None:
    with RawServer(answers(value)) as server, pytest.raises(CloudMalformed):
        ask(server, spoken())
