"""`/v1/chat/completions` as the official client sees it: every option, whole and streamed."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from dataclasses import replace
from typing import Any

import httpx2
import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from edgewise.testing import (
    Answer,
    Cut,
    LoopbackCloud,
    ScriptedBackend,
    ScriptedFunctionModel,
    Status,
)
from edgewise.testing.scripted import SCRIPTED_FACTS
from edgewise.types.messages import ToolCall
from edgewise.types.replies import Token
from tests.grammar.gbnf_walker import Grammar
from tests.server.conftest import Serving
from tests.server.served import HELLO, Served


def png() -> bytes:
    """One grey pixel."""

    def part(kind: bytes, data: bytes) -> bytes:
        crc = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + crc

    size = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"\0\x80")
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", size) + part(b"IDAT", pixels) + part(b"IEND", b"")


PIXEL = base64.b64encode(png()).decode()
HOLDS_SCHEMAS = replace(SCRIPTED_FACTS, schemas=True)
TIMER: Any = {
    "type": "function",
    "function": {
        "name": "set_timer",
        "description": "Set a timer.",
        "parameters": {
            "type": "object",
            "properties": {"minutes": {"type": "integer"}},
            "required": ["minutes"],
        },
    },
}


def extra(answer: Any) -> dict[str, Any]:
    """The object that the official client keeps, though it does not know it."""
    found = answer.edgewise
    assert isinstance(found, dict)
    return found


def test_a_sure_device_answers_and_the_answer_says_so(served: Served) -> None:
    answer = served.openai().chat.completions.create(model="auto", messages=HELLO)
    assert answer.choices[0].message.content == "Paris is the capital of France."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == "local/scripted-1"
    assert answer.usage and answer.usage.total_tokens == 6 + 6
    found = extra(answer)
    assert (found["source"], found["decision"]["code"]) == ("local", "kept_confident")
    assert found["confidence"] > 0.5 and found["cost_microdollars"] == 0
    assert [each["place"] for each in found["attempts"]] == ["local"]


def test_the_headers_say_it_in_short(served: Served) -> None:
    response = served.chat()
    assert response.headers["x-edgewise-source"] == "local"
    assert response.headers["x-edgewise-reason"] == "kept_confident"
    assert 0.5 < float(response.headers["x-edgewise-confidence"]) <= 1
    assert float(response.headers["x-edgewise-cost"]) == 0


def test_doubt_goes_to_the_cloud_and_costs_what_it_costs(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(ScriptedBackend.doubtful("Perhaps Lyon."))
    cloud.script("Paris.")
    answer = served.openai().chat.completions.create(model="auto", messages=HELLO)
    assert answer.choices[0].message.content == "Paris."
    assert answer.model == "gpt-6-luna", "in the words of its provider"
    found = extra(answer)
    assert found["decision"]["code"] == "handoff_low_confidence"
    assert found["cost_microdollars"] > 0
    assert [each["outcome"] for each in found["attempts"]] == ["handed_off", "answered"]
    assert answer.usage and answer.usage.prompt_tokens == 12, "of the attempt that answered"


def test_a_stream_says_where_it_comes_from_first_and_everything_at_the_end(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(ScriptedBackend.doubtful("Perhaps Lyon."))
    cloud.script("Paris it is.")
    chunks = list(
        served.openai().chat.completions.create(model="auto", messages=HELLO, stream=True)
    )
    assert all(isinstance(chunk, ChatCompletionChunk) for chunk in chunks)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == "Paris it is."
    assert chunks[0].choices[0].delta.role == "assistant"
    assert extra(chunks[0])["source"] == "cloud"
    assert extra(chunks[0])["code"] == "handoff_low_confidence"
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert extra(chunks[-1])["decision"]["code"] == "handoff_low_confidence"
    assert extra(chunks[-1])["cost_microdollars"] > 0
    assert {chunk.id for chunk in chunks} == {chunks[0].id}


def test_a_stream_s_headers_say_what_is_known_at_its_first_byte(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(ScriptedBackend.doubtful("Perhaps Lyon."))
    body = {"model": "auto", "messages": HELLO, "stream": True}
    with served.http.stream("POST", "/v1/chat/completions", json=body) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-edgewise-source"] == "cloud"
        assert response.headers["x-edgewise-reason"] == "handoff_low_confidence"
        assert float(response.headers["x-edgewise-confidence"]) < 0.5
        assert response.read().endswith(b"data: [DONE]\n\n")


def test_usage_comes_in_a_chunk_of_its_own_where_asked_for(served: Served) -> None:
    chunks = served.chunks(stream_options={"include_usage": True})
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == {
        "prompt_tokens": 6,
        "completion_tokens": 6,
        "total_tokens": 12,
    }
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert all("usage" not in chunk for chunk in served.chunks())


def test_logprobs_are_the_device_s_evidence(serving: Serving) -> None:
    tokens = (
        Token("Par", -0.1, 3.0, 0.2, alternatives=(("Par", -0.1), ("Lyon", -3.1))),
        Token("is.", -0.2, 3.0, 0.2, alternatives=(("is.", -0.2), ("k", -3.2))),
    )
    served = serving(ScriptedBackend([tokens]))
    answer = served.openai().chat.completions.create(
        model="local",
        messages=HELLO,
        logprobs=True,
        top_logprobs=1,
    )
    evidence = answer.choices[0].logprobs
    assert evidence and evidence.content
    assert [(each.token, each.logprob) for each in evidence.content] == [
        ("Par", -0.1),
        ("is.", -0.2),
    ]
    assert [each.top_logprobs[0].token for each in evidence.content] == ["Par", "is."]
    streamed = [
        entry["token"]
        for chunk in served.chunks(model="local", logprobs=True)
        if chunk["choices"][0]["logprobs"]
        for entry in chunk["choices"][0]["logprobs"]["content"]
    ]
    assert streamed == ["Par", "is."]


def test_a_cloud_answer_has_no_logprobs_of_ours(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving(ScriptedBackend.doubtful("Perhaps Lyon."))
    assert served.chat(logprobs=True).json()["choices"][0]["logprobs"] is None


def test_a_schema_reaches_the_device_and_the_cloud(serving: Serving, cloud: LoopbackCloud) -> None:
    backend = ScriptedBackend.doubtful('{"city": "Lyon"}', facts=HOLDS_SCHEMAS)
    served = serving(backend)
    cloud.script('{"city": "Paris"}')
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    named = {"name": "city", "schema": schema, "strict": True}
    answer = served.openai().chat.completions.create(
        model="auto",
        messages=HELLO,
        response_format={"type": "json_schema", "json_schema": named},
    )
    assert json.loads(answer.choices[0].message.content or "") == {"city": "Paris"}
    held = backend.requests[0].response_format
    assert held and (held.schema, held.name, held.strict) == (schema, "city", True)
    assert cloud.requests[0].body["response_format"]["json_schema"]["schema"] == schema


def test_any_json_object_can_be_asked_for(serving: Serving) -> None:
    backend = ScriptedBackend.confident("{}", facts=HOLDS_SCHEMAS)
    served = serving(backend)
    assert served.chat(response_format={"type": "json_object"}).status_code == 200
    held = backend.requests[0].response_format
    assert held and held.schema == {}


def test_images_in_data_urls_go_where_they_can_be_seen(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving()
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
    ]
    answer = served.openai().chat.completions.create(
        model="auto",
        messages=[{"role": "user", "content": parts}],
    )
    assert extra(answer)["source"] == "cloud"
    assert extra(answer)["decision"]["code"].startswith("handoff_")
    sent = cloud.requests[0].body["messages"][0]["content"]
    assert sent[1]["image_url"]["url"].startswith("data:image/")
    broken = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}]
    refused = served.chat(messages=[{"role": "user", "content": broken}])
    assert refused.status_code == 400
    assert "messages[0].content[0].image_url.url" in refused.json()["error"]["message"]


def test_the_device_calls_tools(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving(function_model=ScriptedFunctionModel(['set_timer {"minutes":5}']))
    asked = [{"role": "user", "content": "Set a timer for 5 minutes."}]
    answer = served.openai().chat.completions.create(
        model="local",
        messages=asked,
        tools=[TIMER],
    )
    (call,) = answer.choices[0].message.tool_calls
    assert call.type == "function" and call.id
    assert (call.function.name, json.loads(call.function.arguments)) == (
        "set_timer",
        {"minutes": 5},
    )
    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.choices[0].message.content is None
    assert extra(answer)["calls"][0]["source"] == "local"
    assert not cloud.requests


def test_calls_are_streamed_too(serving: Serving) -> None:
    served = serving(function_model=ScriptedFunctionModel(['set_timer {"minutes":5}']))
    asked = [{"role": "user", "content": "Set a timer for 5 minutes."}]
    stream = served.openai().chat.completions.stream(
        model="local",
        messages=asked,
        tools=[TIMER],
    )
    with stream as events:
        final = events.get_final_completion()
    (call,) = final.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"minutes": 5}
    assert final.choices[0].finish_reason == "tool_calls"


def test_the_results_of_tools_are_answered_from(served: Served) -> None:
    history: Any = [
        {"role": "user", "content": "Set a timer for 5 minutes."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "set_timer", "arguments": '{"minutes": 5}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "done"},
    ]
    answer = served.openai().chat.completions.create(model="local", messages=history, tools=[TIMER])
    assert answer.choices[0].message.content


def test_tools_from_the_cloud_keep_their_ids(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving()
    cloud.script(Answer(text="", tool_calls=(ToolCall("set_timer", {"minutes": 7}, "call_x"),)))
    body = served.chat(model="cloud/openai", tools=[TIMER]).json()
    assert body["choices"][0]["message"]["tool_calls"][0]["id"] == "call_x"


def test_a_tool_choice_reaches_the_cloud(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving()
    other = {"type": "function", "function": {"name": "lights"}}
    cloud.always(Answer(text="", tool_calls=(ToolCall("lights", {}, "call_x"),)))
    for choice in (other, "required", "none"):
        served.chat(model="cloud/openai", tools=[TIMER, other], tool_choice=choice)
    named, required, forbidden = cloud.requests
    assert [len(each.body["tools"]) for each in cloud.requests] == [2, 2, 2]
    assert named.body["tool_choice"] == {"type": "function", "function": {"name": "lights"}}
    assert (required.body["tool_choice"], forbidden.body["tool_choice"]) == ("required", "none")


def test_a_tool_choice_is_enforced_on_the_device(serving: Serving) -> None:
    written = ScriptedFunctionModel.doubtful('set_timer {"minutes":5}')
    served = serving(function_model=written)
    for path, choice in (
        ("/v1/chat/completions", "required"),
        ("/v1/chat/completions", {"type": "function", "function": {"name": "set_timer"}}),
        ("/v1/responses", "required"),
        ("/v1/responses", {"type": "function", "name": "set_timer"}),
    ):
        told = {"messages": HELLO} if "chat" in path else {"input": "Hello"}
        tools = [TIMER] if "chat" in path else [{"type": "function", **TIMER["function"]}]
        body = {"model": "local", "tools": tools, "tool_choice": choice, **told}
        answer = served.http.post(path, json=body).json()
        assert '"name":"set_timer"' in json.dumps(answer, separators=(",", ":")), answer
        assert not Grammar(written.asked[-1].grammar).accepts("none")
        assert answer.get("tool_choice", choice) == choice, "responses repeat it"
        assert answer["edgewise"]["needs_cloud_handoff"], "nobody asked for a timer"
    words = served.chat(model="local", tools=[TIMER], tool_choice="none").json()
    assert words["choices"][0]["message"]["content"] == "Paris is the capital of France."
    refused = served.chat(model="local", tool_choice="required")
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "tool_choice"


def test_sampling_options_reach_the_device(serving: Serving) -> None:
    backend = ScriptedBackend.confident("Paris.")
    served = serving(backend)
    served.chat(max_completion_tokens=7, temperature=0.5, seed=-1, stop="X", top_p=0.9, user="me")
    request = backend.requests[0]
    assert (request.max_tokens, request.temperature, request.stop) == (7, 0.5, ("X",))
    assert request.seed >= 0
    served.chat(max_tokens=9, stop=["A", "B"])
    assert (backend.requests[1].max_tokens, backend.requests[1].stop) == (9, ("A", "B"))


def test_developer_messages_are_system_messages(serving: Serving) -> None:
    backend = ScriptedBackend.confident("Paris.")
    served = serving(backend)
    served.chat(messages=[{"role": "developer", "content": "Be short."}, *HELLO])
    assert backend.requests[0].messages[0].role == "system"


def test_a_fault_before_the_first_text_has_its_own_status_even_in_a_stream(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving()
    cloud.always(Status(500))
    with pytest.raises(openai.InternalServerError) as caught:
        served.openai().chat.completions.create(model="cloud/openai", messages=HELLO, stream=True)
    assert caught.value.status_code == 500
    assert caught.value.type == "server_error"


def test_a_fault_after_the_first_text_ends_the_stream_with_an_error(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving()
    cloud.always(Cut(after_chunks=2))
    stream = served.openai().chat.completions.create(
        model="cloud/openai", messages=HELLO, stream=True
    )
    with pytest.raises(openai.APIError) as caught:
        list(stream)
    assert caught.value.code in ("cloud_cut", "cloud_unreachable")
    served.settle()


def test_a_cut_cloud_is_continued_by_the_device_and_the_stream_says_so(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(ScriptedBackend.confident("and the device goes on."))
    cloud.always(Cut(after_chunks=2))
    # Facts are ours, so the request is translated, and we may go on in our own words.
    chunks = served.chunks(metadata={"policy": "prefer_cloud", "context": {"place": "Rome"}})
    switches = [each["edgewise"] for each in chunks if "switched_to" in each.get("edgewise", {})]
    assert [each["switched_to"] for each in switches] == ["local"]
    assert chunks[-1]["edgewise"]["source"] == "mixed"
    assert chunks[-1]["edgewise"]["degraded"] is True


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"messages": "hello"}, "messages"),
    ({"messages": [7]}, "messages[0]"),
    ({"messages": []}, "there is no message"),
    ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    (
        {"messages": [{"role": "user", "content": [{"type": 5}]}]},
        "messages[0].content[0].type",
    ),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
    ({"model": 5}, "model"),
    ({"model": None}, "model"),
    ({"stream": "yes"}, "stream"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": 3}, "temperature"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"max_completion_tokens": True}, "max_completion_tokens"),
    ({"n": 0}, "n"),
    ({"stop": 5}, "stop"),
    ({"seed": "x"}, "seed"),
    ({"tools": {}}, "tools"),
    ({"tools": [{"type": 5}]}, "tools[0].type"),
    ({"tools": [{"type": "function", "function": {"name": 5}}]}, "tools[0].function.name"),
    ({"tools": [TIMER], "tool_choice": "perhaps"}, "tool_choice"),
    ({"tools": [TIMER], "tool_choice": {"function": {"name": "x"}}}, "tool_choice"),
    ({"response_format": "json"}, "response_format"),
    ({"response_format": {"type": "xml"}}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
        "response_format.json_schema.schema",
    ),
    ({"logprobs": 1}, "logprobs"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 99}, "top_logprobs"),
    ({"stream_options": []}, "stream_options"),
    ({"metadata": "x"}, "metadata"),
    ({"metadata": {"policy": "prefer_moon"}}, "prefer_moon"),
    ({"metadata": {"threshold": "high"}}, "metadata.threshold"),
    ({"metadata": {"privacy": "Privat"}}, "metadata.privacy"),
    ({"metadata": {"handoff": "sometimes"}}, "metadata.handoff"),
    ({"functions": []}, "functions"),
]


@pytest.mark.parametrize(("wrong", "named"), WRONG, ids=[named for _, named in WRONG])
def test_what_is_wrong_is_named(session_served: Served, wrong: dict[str, Any], named: str) -> None:
    response = session_served.chat(**wrong)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert named in error["message"]


def test_the_official_client_gets_the_field_that_was_wrong(served: Served) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        served.openai().chat.completions.create(
            model="local",
            messages=HELLO,
            temperature=9,
        )
    assert caught.value.param == "temperature"
    assert caught.value.type == "invalid_request_error"


def test_unknown_fields_are_ignored(served: Served) -> None:
    assert served.chat(frobnicate={"deep": [1]}, service_tier="auto").status_code == 200


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "JSON object"),
        (b'"text"', "JSON object"),
        (b'{"model": NaN}', "NaN"),
        (b'{"model": "auto", "x": -1e400}', "-1e400, which is larger"),
        (b'{"model": "\xff\xfe"}', "UTF-8"),
        (b'{"model": "auto", "messages": [{"role": "user", "content": "\\ud800"}]}', "surrogate"),
        (b'{"a":' * 5000, "nested"),
        (b'{"model":' + b"9" * 6000 + b"}", "too many digits"),
        (b'{"a":' + b"[" * 100 + b"]" * 100 + b"}", "nested"),
    ],
    ids=[
        "nothing",
        "half",
        "list",
        "text",
        "nan",
        "large",
        "utf-8",
        "surrogate",
        "deep",
        "digits",
        "lists",
    ],
)
def test_a_body_that_cannot_be_read_is_400(session_served: Served, body: bytes, words: str) -> None:
    response = session_served.http.post("/v1/chat/completions", content=body)
    assert response.status_code == 400, response.text
    assert words in response.json()["error"]["message"]


def test_raw_bytes_of_an_answer_are_utf_8(serving: Serving) -> None:
    served = serving(ScriptedBackend.confident("Zürich 東京 🙂"))
    assert "Zürich 東京 🙂".encode() in served.chat().content
    response: httpx2.Response = served.chat(stream=True)
    assert "東京".encode() in response.content


@pytest.mark.parametrize(
    "wrong",
    [
        {"tools": [{"type": "function", "function": {}}], "tool_choice": "none"},
        {"max_tokens": "many", "max_completion_tokens": 5},
        {"max_tokens": 1.5},
    ],
    ids=str,
)
def test_what_is_not_used_may_not_be_wrong_either(served: Served, wrong: dict[str, Any]) -> None:
    answer = served.chat(model="local", **wrong)
    assert answer.status_code == 400
    assert next(iter(wrong)) in answer.json()["error"]["message"]


def test_a_whole_number_may_be_written_with_a_point(served: Served) -> None:
    assert served.chat(max_tokens=5.0, seed=1.0).status_code == 200
