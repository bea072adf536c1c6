"""Gemini's protocol: chat and speech."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from edgewise.cloud.gemini import NO_SPEECH
from edgewise.cloud.provider import Chunk, CloudProvider
from edgewise.errors import CloudAuthFailed, CloudMalformed, CloudRateLimited
from edgewise.testing import Answer, LoopbackCloud
from edgewise.types.messages import Audio, Image, Message, Request, Tool, ToolCall
from tests.cloud.adapter_cases import (
    QUESTION,
    arrived_in,
    calls_of,
    finish_of,
    open_adapter,
    passed_on,
    text_of,
)
from tests.cloud.raw_server import RawServer, Step, events, reply
from tests.cloud.speech_cases import SOUND, speech_model, spoken


def ask(server: RawServer) -> list[Chunk]:
    provider = open_adapter("gemini", server.url)
    try:
        return list(provider.stream(QUESTION, "try-1"))
    finally:
        provider.close()


def sent_for(request: Request) -> Any:
    with LoopbackCloud() as cloud:
        provider = open_adapter("gemini", cloud.gemini_url)
        list(provider.stream(request, "try-1"))
        provider.close()
        return cloud.requests[0].body


def event(parts: list[dict[str, Any]], reason: str = "", **more: Any) -> str:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if reason:
        candidate["finishReason"] = reason
    return json.dumps({"candidates": [candidate], **more})


def test_a_whole_conversation_is_written_in_geminis_words() -> None:
    calls = (ToolCall("a", {"x": 1}, source="local"), ToolCall("b", {}, id="id_b"))
    messages = (
        Message("system", "Be brief."),
        Message("user", "Look.", images=(Image(b"map", "image/jpeg"),)),
        Message("assistant", "Right.", tool_calls=calls),
        Message("tool", "one"),
        Message("tool", "two", tool_call_id="id_b", images=(Image(b"pic"),)),
    )
    body = sent_for(Request(messages=messages))
    assert body["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    user, model, results = body["contents"]
    assert (user["role"], model["role"], results["role"]) == ("user", "model", "user")
    picture, words = user["parts"]
    assert picture["inlineData"] == {"mimeType": "image/jpeg", "data": "bWFw"}
    assert words == {"text": "Look."}
    assert [part.get("functionCall") for part in model["parts"]] == [
        None,
        {"id": "call_2_0", "name": "a", "args": {"x": 1}},
        {"id": "id_b", "name": "b", "args": {}},
    ]
    assert [part.get("functionResponse") for part in results["parts"]] == [
        {"id": "call_2_0", "name": "a", "response": {"result": "one"}},
        {"id": "id_b", "name": "b", "response": {"result": "two"}},
        None,
    ]
    assert results["parts"][2]["inlineData"]["data"] == "cGlj"


def test_calls_in_the_history_carry_the_signature_that_stands_for_none() -> None:
    messages = (
        Message("user", "Go."),
        Message("assistant", "", tool_calls=(ToolCall("f", {}),)),
        Message("tool", "done"),
    )
    (part,) = sent_for(Request(messages=messages))["contents"][1]["parts"]
    signature = base64.urlsafe_b64decode(part["thoughtSignature"])
    assert signature == b"skip_thought_signature_validator"


def test_options_arrive_as_gemini_spells_them() -> None:
    request = Request(
        messages=QUESTION.messages,
        max_tokens=77,
        temperature=0.0,
        seed=5,
        stop=("END",),
        tools=(Tool("f", "does f", {"type": "object", "properties": {}}),),
    )
    body = sent_for(request)
    assert body["generationConfig"] == {
        "maxOutputTokens": 77,
        "temperature": 0.0,
        "seed": 5,
        "stopSequences": ["END"],
    }
    (declared,) = body["tools"][0]["functionDeclarations"]
    assert (declared["name"], declared["description"]) == ("f", "does f")
    assert {"type": "object", "properties": {}} in declared.values()


def test_usage_is_estimated_where_none_is_sent() -> None:
    with RawServer(reply(events(event([{"text": "x" * 41}], "STOP")))) as server:
        chunks = ask(server)
    assert finish_of(chunks).estimated
    assert (finish_of(chunks).input_tokens, finish_of(chunks).output_tokens) == (5, 11)


def test_thoughts_are_not_shown_but_paid_for() -> None:
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 2, "thoughtsTokenCount": 30}
    parts: list[dict[str, Any]] = [{"text": "Hmm.", "thought": True}, {"text": "Yes."}]
    with RawServer(reply(events(event(parts, "STOP", usageMetadata=usage)))) as server:
        chunks = ask(server)
    assert text_of(chunks) == "Yes."
    assert finish_of(chunks).output_tokens == 32


@pytest.mark.parametrize("reason", ["SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST"])
def test_a_withheld_answer_is_filtered(reason: str) -> None:
    with RawServer(reply(events(event([], reason)))) as server:
        assert finish_of(ask(server)).reason == "filtered"


def test_a_refused_prompt_is_filtered_though_no_candidate_comes() -> None:
    body = events(json.dumps({"promptFeedback": {"blockReason": "SAFETY"}}))
    with RawServer(reply(body)) as server:
        chunks = ask(server)
    assert passed_on(chunks) == [finish_of(chunks)]
    assert finish_of(chunks).reason == "filtered"


def test_calls_without_ids_get_different_ones() -> None:
    parts = [{"functionCall": {"name": "f", "args": {"n": n}}} for n in (1, 2)]
    with RawServer(reply(events(event(parts, "STOP")))) as server:
        chunks = ask(server)
    first, second = calls_of(chunks)
    assert (first.arguments, second.arguments) == ({"n": 1}, {"n": 2})
    assert first.id != second.id
    assert finish_of(chunks).reason == "tool_calls"


def test_a_call_the_model_could_not_write_is_malformed() -> None:
    body = events(event([], "MALFORMED_FUNCTION_CALL"))
    with RawServer(reply(body)) as server, pytest.raises(CloudMalformed):
        ask(server)


@pytest.mark.parametrize("data", ['{"candidates": 7}', "{", '{"candidates": [{"content": 3}]}'])
def test_json_of_another_shape_is_malformed_and_not_quoted(data: str) -> None:
    with RawServer(reply(events(data))) as server, pytest.raises(CloudMalformed) as caught:
        ask(server)
    assert "candidates" not in str(caught.value)


def error_reply(line: str, **error: Any) -> list[Step]:
    return reply(json.dumps({"error": error}), kind="application/json", status=line)


def test_a_wrong_key_is_an_auth_failure_though_google_says_400() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
    sent = error_reply(
        "400 Bad Request",
        code=400,
        message="API key not valid.",
        status="INVALID_ARGUMENT",
        details=details,
    )
    with RawServer(sent) as server, pytest.raises(CloudAuthFailed, match="API key not valid"):
        ask(server)


def test_a_rate_limit_without_a_delay_is_one_all_the_same() -> None:
    sent = error_reply("429 Too Many Requests", code=429, message="Slow down.", details="none")
    with RawServer(sent) as server, pytest.raises(CloudRateLimited) as caught:
        ask(server)
    assert caught.value.retry_after_s is None


def test_tool_choice_none_names_the_tools_and_forbids_calls() -> None:
    request = Request(messages=(Message("user", "Hi"),), tools=(Tool("get_weather"),))
    assert "toolConfig" not in sent_for(request)
    body = sent_for(replace(request, tool_choice="none"))
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}
    assert len(body["tools"]) == 1
    body = sent_for(replace(request, tool_choice="required"))
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as running:
        yield running


@pytest.fixture
def provider(cloud: LoopbackCloud) -> Iterator[CloudProvider]:
    made = open_adapter("gemini", cloud.gemini_url, model=speech_model("gemini"))
    yield made
    made.close()


def hear(provider: CloudProvider, **options: object) -> list[Chunk]:
    return list(provider.stream(spoken(SOUND, **options), "try-1"))  # type: ignore[arg-type]


def test_the_instruction_the_language_and_the_words_before_go_with_the_sound(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    hear(provider, words="the quick brown fox", language="en", hint="Zürich")
    body = cloud.requests[0].body
    sound, task = body["contents"][0]["parts"]
    assert sound["inlineData"]["mimeType"] == "audio/wav"
    assert task["text"].splitlines() == [
        "Transcribe this recording.",
        "The language is en.",
        "Not said in it, but how such words are spelt: Zürich",
        "Right before it was said, not to be repeated: the quick brown fox",
    ]
    assert "verbatim" in body["systemInstruction"]["parts"][0]["text"]


def test_the_transcript_is_yielded_in_one_piece(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Answer(text=" Jumps over the dog.\n", chunk_size=3))
    chunks = hear(provider)
    assert passed_on(chunks)[:-1] == ["Jumps over the dog."]
    assert arrived_in(chunks) == len(" Jumps over the dog.\n"), "or it would be taken for silence"


@pytest.mark.parametrize("words", [NO_SPEECH, f" {NO_SPEECH}\n", "[No speech].", ""])
def test_the_word_for_silence_is_not_taken_for_speech(
    cloud: LoopbackCloud, provider: CloudProvider, words: str
) -> None:
    cloud.script(Answer(text=words))
    chunks = hear(provider)
    assert passed_on(chunks) == ["", finish_of(chunks)]


def test_a_refusal_is_not_taken_for_silence(cloud: LoopbackCloud, provider: CloudProvider) -> None:
    cloud.script(Answer(text="", finish="filtered"))
    chunks = hear(provider)
    assert [chunk for chunk in chunks if isinstance(chunk, str)] == []
    assert finish_of(chunks).reason == "filtered"


def test_tokens_of_sound_are_told_from_tokens_of_text(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Answer(text="Yes.", input_tokens=150, audio_tokens=128, output_tokens=2))
    finish = finish_of(hear(provider))
    assert (finish.input_tokens, finish.audio_tokens, finish.audio_seconds) == (150, 128, 4.0)


def test_tokens_that_are_not_told_apart_all_count_as_sound(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Answer(text="Yes.", input_tokens=150))
    assert finish_of(hear(provider)).audio_tokens == 150


def test_a_long_sound_may_have_more_words_than_a_chat_answer(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    chunks = list(provider.stream(spoken(Audio(b"x", seconds=60.0), max_tokens=256), "try-1"))
    assert text_of(chunks)
    assert cloud.requests[0].body["generationConfig"]["maxOutputTokens"] == 960
