"""Gemini's API as a door, asked by Google's own client."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from google import genai
from google.genai import errors
from google.genai.types import (
    Content,
    FunctionDeclaration,
    GenerateContentConfig,
    HttpOptions,
    Part,
    Tool,
)
from PIL import Image as Pillow
from PIL.PngImagePlugin import PngInfo

from edgewise.server.gemini import json_schema, read_generate
from edgewise.testing import (
    Answer,
    LoopbackCloud,
    ScriptedBackend,
    ScriptedFunctionModel,
    Status,
)
from edgewise.testing.scripted import SCRIPTED_FACTS
from edgewise.types.messages import ToolCall
from tests.pictures import as_file
from tests.server.conftest import Serving
from tests.server.served import Served

ASKED = "What is the capital of France?"
HANDLED = Tool(
    function_declarations=[
        FunctionDeclaration.model_validate(
            {
                "name": "set_timer",
                "parameters": {
                    "type": "OBJECT",
                    "properties": {"minutes": {"type": "INTEGER"}},
                    "required": ["minutes"],
                    "propertyOrdering": ["minutes"],
                },
            }
        )
    ]
)


SEARCH = {"googleSearch": {"a": "b" * 80}}


def client(served: Served, **options: Any) -> genai.Client:
    found = genai.Client(api_key="any", http_options=HttpOptions(base_url=served.url, **options))
    served.closing.callback(found.close)
    return found


def post(served: Served, model: str = "auto", **body: Any) -> Any:
    whole = {"contents": [{"parts": [{"text": ASKED}]}], **body}
    return served.http.post(f"/v1beta/models/{model}:generateContent", json=whole)


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_googles_client_is_answered_by_the_device(served: Served, version: str) -> None:
    asked = client(served, api_version=version).models
    answer = asked.generate_content(model="gemini-2.5-flash", contents=ASKED)
    assert answer.text == "Paris is the capital of France."
    assert answer.model_version == "local/scripted-1"
    assert answer.candidates and answer.candidates[0].finish_reason
    assert answer.candidates[0].finish_reason.name == "STOP"
    assert answer.usage_metadata and answer.usage_metadata.total_token_count
    pieces = list(asked.generate_content_stream(model="auto", contents=ASKED))
    assert "".join(piece.text or "" for piece in pieces) == answer.text
    assert pieces[-1].usage_metadata and len(pieces) > 1


def test_a_stream_says_first_and_last_where_it_comes_from(served: Served) -> None:
    body = {"contents": [{"role": "user", "parts": [{"text": ASKED}]}]}
    path = "/v1beta/models/auto:streamGenerateContent"
    answer = served.http.post(f"{path}?alt=sse", json=body)
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line]
    assert events[0]["edgewise"]["source"] == "local"
    assert events[-1]["edgewise"]["decision"]["code"] == "kept_confident"
    assert all("edgewise" not in event for event in events[1:-1])
    refused = served.http.post(path, json=body)
    assert refused.status_code == 400 and "alt=sse" in refused.json()["error"]["message"]


def test_a_conversation_with_functions_and_pictures_is_read() -> None:
    data = "-_-_"  # in the alphabet for addresses, which Google's client uses
    contents = [
        {"role": "user", "parts": [{"text": "Look."}]},
        {
            "role": "model",
            "parts": [
                {"text": "Hm.", "thought": True},
                {"text": "I "},
                {"text": "look."},
                {"functionCall": {"name": "a", "args": {"x": 1}}},
                {"functionCall": {"name": "b", "id": "own"}},
                {"functionCall": {"name": "a"}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "b", "id": "own", "response": {"output": "two"}}},
                {"functionResponse": {"name": "a", "response": {"error": "no"}}},
                {"function_response": {"name": "a", "response": {"n": 3, "m": 4}}},
                {"inline_data": {"mime_type": "image/png", "data": data}},
            ],
        },
    ]
    body = {"contents": contents, "system_instruction": {"parts": {"text": "Be brief."}}}
    ask = read_generate(json.dumps(body).encode(), "auto", stream=False, remote_images=False)
    system, user, model, second, first, third, last = ask.messages
    assert (system.role, system.content, user.content) == ("system", "Be brief.", "Look.")
    assert model.content == "I look." and [each.name for each in model.tool_calls] == list("aba")
    ids = [each.id for each in model.tool_calls]
    assert [each.tool_call_id for each in (first, second, third)] == [ids[0], "own", ids[2]]
    told = [second.content, first.content, json.loads(third.content)]
    assert told == ["two", "Error: no", {"n": 3, "m": 4}]
    assert last.images[0].data == b"\xfb\xff\xbf" and ask.foreign == ()


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ({"fileData": {"fileUri": "https://x/y.pdf"}}, "fileData"),
        ({"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}, "audio/wav"),
        ({"executableCode": {"code": "1"}}, "executableCode"),
    ],
)
def test_what_only_google_can_read_leaves_to_google_or_is_refused(
    serving: Serving, cloud: LoopbackCloud, part: dict[str, Any], name: str
) -> None:
    turn = [{"role": "user", "parts": [{"text": "What is it?"}, part]}]
    refused = post(serving(), contents=turn)
    assert refused.status_code == 400 and name in refused.text and cloud.requests == []
    keys = {"GEMINI_API_KEY": "gm-0123456789", "GOOGLE_GEMINI_BASE_URL": cloud.gemini_url}
    served = serving(environment=keys, settings={"chain": ("gemini",)})
    answer = post(served, contents=turn)
    assert answer.json()["edgewise"]["decision"]["code"] == "handoff_parts_unsupported"
    assert cloud.requests[-1].body["contents"] == turn


def test_a_function_call_of_the_device_comes_back_in_googles_words(serving: Serving) -> None:
    model = ScriptedFunctionModel(['set_timer {"minutes":5}'], logprobs=[[-0.001]])
    served = serving(function_model=model)
    answer = client(served).models.generate_content(
        model="auto",
        contents="Set a timer for 5 minutes",
        config=GenerateContentConfig(tools=[HANDLED]),
    )
    [call] = answer.function_calls or []
    assert (call.name, call.args) == ("set_timer", {"minutes": 5})
    (part,) = [each for each in answer.parts or () if each.function_call]
    assert part.thought_signature, "or Gemini would refuse it in the history"


@pytest.mark.parametrize("field", ["response_schema", "response_json_schema"])
def test_a_schema_of_googles_holds_the_device(serving: Serving, field: str) -> None:
    """Its own words for types are in either field: gemini-cli writes them so."""
    holds = replace(SCRIPTED_FACTS, schemas=True)
    backend = ScriptedBackend.confident('{"city":"Paris"}', facts=holds)
    schema = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]}
    asked: Any = {field: schema}
    answer = client(serving(backend)).models.generate_content(
        model="local",
        contents=ASKED,
        config=GenerateContentConfig(
            response_mime_type="application/json", max_output_tokens=50, **asked
        ),
    )
    assert json.loads(answer.text or "") == {"city": "Paris"}
    wanted = backend.requests[0].response_format
    assert wanted and wanted.schema["properties"] == {"city": {"type": "string"}}
    assert backend.requests[0].max_tokens == 50


def test_a_schema_is_put_into_the_words_of_json_schema() -> None:
    given = {
        "type": "OBJECT",
        "nullable": True,
        "propertyOrdering": ["type"],
        "properties": {"type": {"type": "STRING", "format": "enum", "enum": ["A"]}},
        "any_of": [{"type": "ARRAY", "minItems": "2", "items": {"type": "NUMBER"}}],
    }
    assert json_schema(given) == {
        "type": "object",
        "nullable": True,
        "properties": {"type": {"type": "string", "enum": ["A"]}},
        "anyOf": [{"type": "array", "minItems": 2, "items": {"type": "number"}}],
    }


def test_another_cloud_answers_a_request_of_googles(serving: Serving, cloud: LoopbackCloud) -> None:
    call = ToolCall("set_timer", {"minutes": 7}, id="c1")
    cloud.script(Answer(text="Now.", tool_calls=(call,)), Answer(text="It is set."))
    chat = client(serving()).chats.create(
        model="cloud/openai", config=GenerateContentConfig(tools=[HANDLED], top_k=5)
    )
    first = chat.send_message("Set a timer for 7 minutes")
    [asked] = first.function_calls or []
    assert (first.text, asked.args, asked.id) == ("Now.", {"minutes": 7}, "c1")
    assert first.sdk_http_response and first.sdk_http_response.headers
    named = first.sdk_http_response.headers["x-edgewise-not-translated"]
    assert "generationConfig.topK" in named
    part = Part.from_function_response(name="set_timer", response={"result": "ok"})
    assert chat.send_message(part).text == "It is set."
    turns = cloud.requests[-1].body["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "tool"]
    assert turns[2] == {"role": "tool", "tool_call_id": "c1", "content": "ok"}


def test_a_picture_leaves_without_its_metadata(serving: Serving, cloud: LoopbackCloud) -> None:
    keys = {"GEMINI_API_KEY": "gm-0123456789", "GOOGLE_GEMINI_BASE_URL": cloud.gemini_url}
    served = serving(environment=keys, settings={"chain": ("gemini",)})
    info = PngInfo()
    info.add_text("Comment", "taken at home")
    data = as_file(Pillow.new("RGB", (9, 9), "red"), pnginfo=info)
    assert b"home" in data
    image = Part.from_bytes(data=data, mime_type="image/png")
    text = Part.from_text(text="What is this?")
    client(served).models.generate_content(
        model="cloud/gemini", contents=[Content(role="user", parts=[image, text])]
    )
    (left,) = cloud.requests
    blob = left.body["contents"][0]["parts"][0]["inlineData"]
    assert blob["data"] and b"home" not in left.content


def test_a_private_request_stays_here(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving(ScriptedBackend.doubtful("Perhaps."))
    inside = client(served, headers={"x-edgewise-privacy": "private"})
    assert inside.models.generate_content(model="auto", contents=ASKED).text == "Perhaps."
    kept = post(served, metadata={"privacy": "private"}).json()["edgewise"]
    assert (kept["source"], cloud.requests) == ("local", [])
    assert post(served, private=True).status_code == 400


def test_errors_have_googles_shape(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving()
    with pytest.raises(errors.ClientError) as caught:
        client(served).models.generate_content(model="local/none", contents=ASKED)
    assert (caught.value.code, caught.value.status) == (404, "NOT_FOUND")
    wrong = post(served, contents=[{"parts": [{"text": 5}]}]).json()["error"]
    assert wrong["status"] == "INVALID_ARGUMENT"
    assert wrong["message"].startswith("contents[0].parts[0].text")
    cloud.always(Status(429, retry_after_s=7))
    slow = post(served, "cloud").json()["error"]
    assert slow["status"] == "RESOURCE_EXHAUSTED"
    reason, wait = slow["details"]
    assert (reason["reason"], wait["retryDelay"]) == ("cloud_rate_limited", "7s")
    nothing = served.http.post("/v1beta/models/auto:embedContent", json={})
    assert nothing.json()["error"]["status"] == "NOT_FOUND"


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_a_key_is_asked_for_and_may_stand_where_google_has_it(
    serving: Serving, version: str
) -> None:
    served = serving(key="secret")
    path = f"/{version}/models/auto:generateContent"
    body = {"contents": [{"parts": [{"text": ASKED}]}]}
    refused = served.http.post(path, json=body)
    assert refused.json()["error"]["status"] == "UNAUTHENTICATED"
    assert served.http.post(f"{path}?key=secret", json=body).status_code == 200
    shown = served.http.post(path, json=body, headers={"x-goog-api-key": "secret"})
    assert shown.status_code == 200


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_models_are_listed_and_tokens_counted(served: Served, version: str) -> None:
    asked = client(served, api_version=version).models
    names = [model.name for model in asked.list()]
    assert names[:2] == ["models/auto", "models/local/scripted-1"]
    assert asked.get(model="local/scripted-1").name == "models/local/scripted-1"
    with pytest.raises(errors.ClientError):
        asked.get(model="nothing")
    plain = asked.count_tokens(model="auto", contents=ASKED).total_tokens or 0
    turn = {
        "contents": [{"parts": [{"text": ASKED}]}],
        "tools": [{"googleSearch": {"a": "b" * 80}}],
    }
    path = f"/{version}/models/auto:countTokens"
    counted = served.http.post(path, json={"generateContentRequest": turn}).json()
    assert counted["totalTokens"] > plain > 0 and counted["edgewise"]["estimated"]
    assert served.http.get("/v1/models").json()["object"] == "list", "OpenAI's clients get theirs"
