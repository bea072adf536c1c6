"""Ollama's API, with Ollama's own client: Home Assistant and Open WebUI speak it."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import ollama
import pytest

from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend, ScriptedFunctionModel
from edgewise.testing.scripted import SCRIPTED_FACTS
from tests.pictures import one_pixel
from tests.server.conftest import Serving
from tests.server.served import HELLO, Served

PARIS = "Paris is the capital of France."
TIMER = {
    "type": "function",
    "function": {
        "name": "set_timer",
        "description": "Set a timer",
        "parameters": {
            "type": "object",
            "properties": {"minutes": {"type": "integer"}},
            "required": ["minutes"],
        },
    },
}


def client(served: Served, **headers: str) -> Any:
    """Closed with the server."""
    made = ollama.Client(host=served.url, headers=headers)
    served.closing.callback(made._client.close)
    return made


def test_a_chat_is_answered_whole_and_line_by_line(serving: Serving) -> None:
    served = serving()
    whole = client(served).chat("auto", HELLO)
    assert whole.message.content == PARIS
    assert (whole.done, whole.done_reason) == (True, "stop")
    assert whole.eval_count and whole.total_duration
    lines = list(client(served).chat("auto", HELLO, stream=True))
    assert "".join(line.message.content or "" for line in lines) == PARIS
    assert [line.done for line in lines] == [False] * (len(lines) - 1) + [True]


def test_the_last_line_says_where_it_came_from(serving: Serving, cloud: LoopbackCloud) -> None:
    cloud.always(Answer(text="From the cloud."))
    served = serving(ScriptedBackend.doubtful("hm"))
    body = {"model": "auto", "messages": HELLO}
    lines = served.http.post("/api/chat", json=body).text.splitlines()
    last = json.loads(lines[-1])
    assert last["done"] and last["edgewise"]["source"] == "cloud"
    assert last["model"].startswith("cloud/openai/")


def test_a_prompt_is_completed(serving: Serving) -> None:
    served = serving()
    made = client(served).generate("auto:latest", "What is the capital of France?", system="Short.")
    assert made.response == PARIS
    lines = client(served).generate("auto", "And?", stream=True)
    assert "".join(line.response for line in lines) == PARIS


def test_tools_are_called_and_results_are_read(serving: Serving) -> None:
    model = ScriptedFunctionModel(['set_timer {"minutes":5}'])
    served = serving(function_model=model)
    asked: list[Any] = [{"role": "user", "content": "Set a timer for 5 minutes"}]
    reply = client(served).chat("auto", asked, tools=[TIMER])
    (call,) = reply.message.tool_calls or ()
    assert (call.function.name, call.function.arguments) == ("set_timer", {"minutes": 5})
    asked += [reply.message, {"role": "tool", "content": "done", "tool_name": "set_timer"}]
    assert client(served).chat("auto", asked, tools=[TIMER]).message.content == PARIS


def test_options_and_formats_reach_the_device(serving: Serving) -> None:
    facts = replace(SCRIPTED_FACTS, schemas=True)
    backend = ScriptedBackend.confident('{"city": "Paris"}', facts=facts)
    served = serving(backend)
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    options = {"temperature": 0.5, "seed": 7, "num_predict": 20, "stop": ["###"], "num_ctx": 4096}
    client(served).chat("auto", HELLO, format=schema, options=options)
    request = backend.requests[-1]
    assert (request.temperature, request.seed, request.max_tokens) == (0.5, 7, 20)
    assert request.stop == ("###",)
    assert request.response_format is not None and request.response_format.schema == schema


def test_models_are_listed_and_shown(serving: Serving) -> None:
    served = serving()
    names = [model.model for model in client(served).list().models]
    assert names[:2] == ["auto", "local/scripted-1"]
    shown = client(served).show("auto")
    assert "tools" in (shown.capabilities or [])
    with pytest.raises(ollama.ResponseError, match="not found") as caught:
        client(served).show("llama3")
    assert caught.value.status_code == 404
    assert client(served).ps().models is not None
    assert served.http.get("/api/version").json()["version"]


def test_a_key_rules_here_too(serving: Serving) -> None:
    served = serving(key="server-secret-key-12345")
    with pytest.raises(ollama.ResponseError) as caught:
        client(served).chat("auto", HELLO)
    assert caught.value.status_code == 401
    headers = {"authorization": "Bearer server-secret-key-12345"}
    assert client(served, **headers).chat("auto", HELLO).message.content == PARIS


@pytest.mark.parametrize(
    "body",
    [
        {"model": "auto", "messages": [{"role": "nobody", "content": "x"}]},
        {"model": "auto", "messages": HELLO, "options": {"temperature": "hot"}},
        {"model": "auto", "messages": [{"role": "user", "content": "x", "images": ["%%%"]}]},
        {"model": "auto", "messages": HELLO, "format": 5},
        {"messages": HELLO},
    ],
)
def test_a_wrong_body_is_a_400_in_ollamas_words(serving: Serving, body: dict[str, Any]) -> None:
    answer = serving().http.post("/api/chat", json=body)
    assert answer.status_code == 400 and isinstance(answer.json()["error"], str)


def test_pictures_come_without_their_kind(serving: Serving) -> None:
    served = serving()
    turn = {"role": "user", "content": "What is this?", "images": [one_pixel()]}
    reply = served.http.post(
        "/api/chat",
        json={"model": "auto", "stream": False, "messages": [_coded(turn)]},
    )
    assert reply.status_code in (200, 400, 422, 501, 503)
    assert "base64" not in reply.text


def _coded(turn: dict[str, Any]) -> dict[str, Any]:
    return turn | {"images": [base64.b64encode(each).decode() for each in turn["images"]]}
