"""Anthropic's protocol: payloads and the shapes of its events."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from edgewise.cloud.anthropic import payload
from edgewise.cloud.provider import Chunk
from edgewise.cloud.providers import PROVIDERS
from edgewise.errors import CloudCut, CloudFailed, CloudMalformed
from edgewise.testing import LoopbackCloud
from edgewise.types.messages import Image, Message, Request, Tool, ToolCall
from tests.cloud.adapter_cases import QUESTION, calls_of, finish_of, open_adapter, text_of
from tests.cloud.raw_server import RawServer, reply

ROW = PROVIDERS["anthropic"]


def ask(server: RawServer) -> list[Chunk]:
    provider = open_adapter("anthropic", server.url)
    try:
        return list(provider.stream(QUESTION, "try-1"))
    finally:
        provider.close()


def stream(*parts: dict[str, Any]) -> str:
    return "".join(f"event: {part['type']}\ndata: {json.dumps(part)}\n\n" for part in parts)


START = {"type": "message_start", "message": {"type": "message", "content": []}}
STOP = {"type": "message_stop"}


def text(words: str) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": words},
        },
        {"type": "content_block_stop", "index": 0},
    ]


def end(reason: str, **usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def test_a_whole_conversation_is_written_in_anthropics_words() -> None:
    calls = (ToolCall("a", {"x": 1}, source="local"), ToolCall("b", {}, id="toolu_b"))
    messages = (
        Message("system", "Be brief."),
        Message("system", "Be kind."),
        Message("user", "Look.", images=(Image(b"map", "image/jpeg"),)),
        Message("assistant", "Right.", tool_calls=calls),
        Message("tool", "one"),
        Message("tool", "two", tool_call_id="toolu_b", images=(Image(b"pic"),)),
        Message("user", "And?"),
    )
    body = payload(Request(messages=messages), "claude-haiku-5-5", ROW)
    assert body["system"] == "Be brief.\n\nBe kind."
    picture = {"type": "base64", "media_type": "image/jpeg", "data": "bWFw"}
    shown = {"type": "base64", "media_type": "image/png", "data": "cGlj"}
    assert body["messages"] == [
        {
            "role": "user",
            "content": [{"type": "image", "source": picture}, {"type": "text", "text": "Look."}],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Right."},
                {"type": "tool_use", "id": "call_3_0", "name": "a", "input": {"x": 1}},
                {"type": "tool_use", "id": "toolu_b", "name": "b", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "call_3_0",
                    "content": [{"type": "text", "text": "one"}],
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_b",
                    "content": [
                        {"type": "text", "text": "two"},
                        {"type": "image", "source": shown},
                    ],
                },
                {"type": "text", "text": "And?"},
            ],
        },
    ]


def test_options_arrive_as_anthropic_spells_them() -> None:
    request = Request(
        messages=QUESTION.messages,
        max_tokens=77,
        stop=("END",),
        tools=(Tool("f", "does f", {"type": "object"}),),
    )
    with LoopbackCloud() as cloud:
        provider = open_adapter("anthropic", cloud.anthropic_url)
        list(provider.stream(request, "try-1"))
        provider.close()
        body = cloud.requests[0].body
    assert (body["max_tokens"], body["stop_sequences"]) == (77, ["END"])
    assert body["tools"] == [
        {"name": "f", "description": "does f", "input_schema": {"type": "object"}}
    ]
    assert "seed" not in body


def test_a_new_model_is_sent_no_temperature_and_told_not_to_think() -> None:
    body = payload(QUESTION, "claude-haiku-5-5", ROW)
    assert "temperature" not in json.dumps(body)
    assert body["thinking"] == {"type": "disabled"}


def test_an_old_model_is_sent_its_temperature_on_the_wire() -> None:
    with LoopbackCloud() as cloud:
        provider = open_adapter("anthropic", cloud.anthropic_url, model="claude-haiku-4-5")
        list(provider.stream(QUESTION, "try-1"))
        provider.close()
        assert cloud.requests[0].body["temperature"] == 0.0
        assert "thinking" not in cloud.requests[0].body


def test_usage_is_estimated_where_none_is_sent() -> None:
    body = stream(START, *text("x" * 41), end("end_turn"), STOP)
    with RawServer(reply(body)) as server:
        chunks = ask(server)
    assert text_of(chunks) == "x" * 41
    assert finish_of(chunks).estimated
    assert (finish_of(chunks).input_tokens, finish_of(chunks).output_tokens) == (5, 11)


def test_tokens_written_to_the_cache_count_as_input() -> None:
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 200,
        "cache_read_input_tokens": 3000,
        "output_tokens": 1,
    }
    start = {"type": "message_start", "message": {**START["message"], "usage": usage}}  # type: ignore[dict-item]
    body = stream(start, *text("Hi"), end("max_tokens", output_tokens=5), STOP)
    with RawServer(reply(body)) as server:
        finish = finish_of(ask(server))
    assert (finish.input_tokens, finish.cached_tokens, finish.output_tokens) == (3210, 3000, 5)
    assert finish.reason == "length"


def test_an_answer_without_message_stop_was_cut() -> None:
    body = stream(START, *text("Hi"), end("end_turn"))
    with RawServer(reply(body)) as server, pytest.raises(CloudCut):
        ask(server)


def test_thinking_is_not_part_of_the_answer() -> None:
    thought = [
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "thinking_delta", "thinking": "Hmm."},
        },
        {"type": "content_block_stop", "index": 0},
    ]
    with RawServer(reply(stream(START, *thought, *text("Yes."), end("end_turn"), STOP))) as server:
        assert text_of(ask(server)) == "Yes."


def tool(*pieces: str) -> list[dict[str, Any]]:
    block = {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}}
    return [
        {"type": "content_block_start", "index": 0, "content_block": block},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": piece},
            }
            for piece in pieces
        ),
        {"type": "content_block_stop", "index": 0},
    ]


def test_a_call_without_arguments_has_none() -> None:
    with RawServer(reply(stream(START, *tool(""), end("tool_use"), STOP))) as server:
        assert calls_of(ask(server)) == [ToolCall("now", {}, "toolu_1", "cloud")]


@pytest.mark.parametrize("pieces", [('{"place": ',), ("[1]",)])
def test_arguments_that_are_not_an_object_are_malformed(pieces: tuple[str, ...]) -> None:
    body = stream(START, *tool(*pieces), end("tool_use"), STOP)
    with RawServer(reply(body)) as server, pytest.raises(CloudMalformed):
        ask(server)


def test_json_of_another_shape_is_malformed() -> None:
    body = 'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0}\n\n'
    with RawServer(reply(body)) as server, pytest.raises(CloudMalformed):
        ask(server)


def test_an_unknown_error_inside_a_stream_is_the_servers_fault() -> None:
    error = {"type": "error", "error": {"type": "some_new_error", "message": "Odd."}}
    body = stream(START) + f"event: error\ndata: {json.dumps(error)}\n\n"
    with RawServer(reply(body)) as server, pytest.raises(CloudFailed, match=r"Odd\."):
        ask(server)


def test_tool_choice_none_names_the_tools_and_forbids_calls() -> None:
    request = Request(messages=(Message("user", "Hi"),), tools=(Tool("get_weather"),))
    assert "tool_choice" not in payload(request, "claude-haiku-5-5", ROW)
    body = payload(replace(request, tool_choice="none"), "claude-haiku-5-5", ROW)
    assert (body["tool_choice"], len(body["tools"])) == ({"type": "none"}, 1)
    body = payload(replace(request, tool_choice="required"), "claude-haiku-5-5", ROW)
    assert body["tool_choice"] == {"type": "any"}
