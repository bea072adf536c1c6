"""Ollama's API, with Ollama's own client: Home Assistant and Open WebUI speak it."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import ollama
import pytest

from edgewise.testing import (
    Answer,
    Cut,
    LoopbackCloud,
    ScriptedBackend,
    ScriptedEmbedder,
    ScriptedFunctionModel,
)
from edgewise.testing.scripted import SCRIPTED_FACTS
from tests.pictures import one_pixel
from tests.server.conftest import Serving
from tests.server.served import HELLO, Served

PARIS = "Paris is the capital of France."
TIMER: Any = {
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
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def client(served: Served, **headers: str) -> ollama.Client:
    """Closed with the server."""
    made = ollama.Client(host=served.url, headers=headers)
    served.closing.callback(made.close)
    return made


def only_call(reply: ollama.ChatResponse) -> Any:
    calls = reply.message.tool_calls
    assert calls is not None and len(calls) == 1
    return calls[0].function


# -- chat and completions --------------------------------------------------------------------------


def test_a_chat_is_answered_whole_and_line_by_line(serving: Serving) -> None:
    served = serving()
    whole = client(served).chat("auto", HELLO)
    assert whole.message.content == PARIS
    assert (whole.done, whole.done_reason) == (True, "stop")
    assert (whole.eval_count, whole.model) == (6, "local/scripted-1")
    assert whole.total_duration and whole.created_at
    lines = list(client(served).chat("local", HELLO, stream=True))  # which holds nothing back
    assert len(lines) > 2
    assert "".join(line.message.content or "" for line in lines) == PARIS
    assert [line.done for line in lines] == [False] * (len(lines) - 1) + [True]


@pytest.mark.anyio
async def test_the_asynchronous_client_is_answered_too(serving: Serving) -> None:
    served = serving(embedder=ScriptedEmbedder())
    async with ollama.AsyncClient(host=served.url) as asking:
        whole = await asking.chat("auto", HELLO)
        assert whole.message.content == PARIS
        lines = [line async for line in await asking.generate("auto", "And?", stream=True)]
        assert "".join(line.response or "" for line in lines) == PARIS
        assert len((await asking.embed("auto", ["a", "b"])).embeddings) == 2
        with pytest.raises(ollama.ResponseError) as caught:
            await asking.show("llama3")
        assert caught.value.status_code == 404


def test_the_end_says_where_it_came_from_how_sure_it_is_and_what_it_cost(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    cloud.always(Answer(text="From the cloud."))
    served = serving(ScriptedBackend.doubtful("hm"))
    body = {"model": "auto", "messages": HELLO}
    answer = served.http.post("/api/chat", json=body)
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["x-edgewise-source"] == "cloud"
    *lines, last = [json.loads(line) for line in answer.text.splitlines()]
    assert not any("edgewise" in line for line in lines)
    told = last["edgewise"]
    assert (last["done"], told["source"]) == (True, "cloud")
    assert 0 <= told["confidence"] < 0.5 and told["cost_microdollars"] > 0
    assert last["model"].startswith("cloud/openai/")
    whole = served.http.post("/api/chat", json=body | {"stream": False})
    assert whole.json()["edgewise"]["source"] == "cloud"
    row = served.state.engine.ledger.get(told["id"])
    assert row is not None and {each["state"] for each in row["attempts"]} == {"settled"}


def test_a_prompt_is_completed(serving: Serving) -> None:
    backend = ScriptedBackend.confident(PARIS)
    served = serving(backend)
    asked = "What is the capital of France?"
    made = client(served).generate("auto:latest", asked, system="Short.")
    assert (made.response, made.done_reason) == (PARIS, "stop")
    turns = backend.requests[-1].messages
    assert [(turn.role, turn.content) for turn in turns] == [("system", "Short."), ("user", asked)]
    lines = client(served).generate("auto", "And?", stream=True)
    assert "".join(line.response or "" for line in lines) == PARIS


def test_an_answer_cut_short_says_so(serving: Serving) -> None:
    made = client(serving()).chat("local", HELLO, options={"num_predict": 2})
    assert made.done_reason == "length"


def test_options_and_formats_reach_the_device(serving: Serving) -> None:
    facts = replace(SCRIPTED_FACTS, schemas=True)
    backend = ScriptedBackend.confident('{"city": "Paris"}', facts=facts)
    asking = client(serving(backend))
    options = {"temperature": 0.5, "seed": 7, "num_predict": 20, "stop": ["###"], "num_ctx": 4096}
    reply = asking.chat("auto", HELLO, format=SCHEMA, options=options)
    assert json.loads(reply.message.content or "") == {"city": "Paris"}
    request = backend.requests[-1]
    assert (request.temperature, request.seed, request.max_tokens) == (0.5, 7, 20)
    assert request.stop == ("###",)
    assert request.response_format is not None and request.response_format.schema == SCHEMA
    asking.generate("auto", "A city, as JSON.", format="json", options={"num_predict": -1})
    request = backend.requests[-1]
    assert request.max_tokens == 256
    assert request.response_format is not None and not request.response_format.schema
    asking.generate("auto", "A city.", format="", keep_alive=-1, think=False)
    assert backend.requests[-1].response_format is None


def test_tools_are_called_and_results_are_read(serving: Serving) -> None:
    model = ScriptedFunctionModel(['set_timer {"minutes":5}'])
    backend = ScriptedBackend.confident(PARIS)
    asking = client(serving(backend, function_model=model))
    asked: list[Any] = [{"role": "user", "content": "Set a timer for 5 minutes"}]
    reply = asking.chat("auto", asked, tools=[TIMER])
    call = only_call(reply)
    assert (call.name, call.arguments) == ("set_timer", {"minutes": 5})
    asked += [reply.message, {"role": "tool", "content": "done", "tool_name": "set_timer"}]
    assert asking.chat("auto", asked, tools=[TIMER]).message.content == PARIS
    *_, said, result = backend.requests[-1].messages
    assert said.tool_calls[0].id == result.tool_call_id != ""


def test_results_belong_to_the_calls_that_they_name(serving: Serving) -> None:
    backend = ScriptedBackend.confident(PARIS)
    served = serving(backend)

    def call(name: str, **more: str) -> dict[str, Any]:
        return {**more, "function": {"name": name, "arguments": {}}}

    first = [call("light"), call("timer"), call("light")]
    turns = [
        {"role": "user", "content": "Do it."},
        {"role": "assistant", "tool_calls": first},
        {"role": "tool", "content": "timer set", "tool_name": "timer"},
        {"role": "tool", "content": "light one"},  # as Home Assistant sends them
        {"role": "tool", "content": "light two"},
        {"role": "assistant", "tool_calls": [call("light", id="mine")]},
        {"role": "tool", "content": "light three", "tool_call_id": "mine"},
    ]
    body = {"model": "local", "messages": turns, "stream": False}
    assert served.http.post("/api/chat", json=body).status_code == 200
    turns_read = backend.requests[-1].messages
    calls = {each.id: each.name for turn in turns_read for each in turn.tool_calls}
    assert len(calls) == 4
    results = [(calls[turn.tool_call_id], turn.content) for turn in turns_read if turn.tool_call_id]
    assert results == [
        ("timer", "timer set"),
        ("light", "light one"),
        ("light", "light two"),
        ("light", "light three"),
    ]
    used = [turn.tool_call_id for turn in turns_read if turn.tool_call_id]
    assert len(set(used)) == 4


def test_pictures_reach_the_cloud_with_their_kind(serving: Serving, cloud: LoopbackCloud) -> None:
    asking = client(serving())
    turn = {"role": "user", "content": "What is this?", "images": [one_pixel()]}
    asking.chat("cloud/openai", [turn])
    asking.generate("cloud/openai", "What is this?", images=[one_pixel()])
    for seen in cloud.requests:
        (part,) = [
            part
            for part in seen.body["messages"][-1]["content"]
            if isinstance(part, dict) and part["type"] == "image_url"
        ]
        head, _, data = part["image_url"]["url"].partition(",")
        assert head == "data:image/png;base64" and base64.b64decode(data)


def test_an_error_in_a_stream_is_its_last_line(serving: Serving, cloud: LoopbackCloud) -> None:
    cloud.always(Cut(after_chunks=2))
    with pytest.raises(ollama.ResponseError):
        list(client(serving()).chat("cloud/openai", HELLO, stream=True))


def test_a_request_without_words_that_keeps_nothing_lets_the_model_go(serving: Serving) -> None:
    made = client(serving()).generate("auto", "", keep_alive=0)
    assert (made.response, made.done, made.done_reason) == ("", True, "unload")


@pytest.mark.parametrize("keep_alive", [None, "5m", -1])
def test_a_request_without_words_loads_the_model(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, keep_alive: Any
) -> None:
    loads: list[str] = []
    backend = ScriptedBackend.confident(PARIS)
    monkeypatch.setattr(backend, "load", lambda: loads.append("loaded"), raising=False)
    asking = client(serving(backend))
    made = asking.generate("auto", "", keep_alive=keep_alive)
    assert (made.response, made.done, made.done_reason) == ("", True, "load")
    said = asking.chat("auto", [])
    assert (said.message.content, said.done_reason) == ("", "load")
    assert [line.done_reason for line in asking.generate("auto", stream=True)] == ["load"]
    assert loads == ["loaded"] * 3 and not backend.requests
    asking.generate("cloud/openai", "")
    assert len(loads) == 3, "the cloud loads its own"


# -- models ----------------------------------------------------------------------------------------


def test_models_are_listed_and_shown(serving: Serving) -> None:
    asking = client(serving())
    found = asking.list().models
    names = [model.model for model in found]
    assert names[:2] == ["auto:latest", "local/scripted-1:latest"]
    assert any((name or "").startswith("cloud/openai/") for name in names)
    assert len({model.digest for model in found}) == len(names)
    for name in ("auto", *names):
        assert "tools" in (asking.show(name or "").capabilities or [])
    assert asking.show("auto").modelinfo == {
        "general.architecture": "edgewise",
        "edgewise.context_length": 4096,
    }
    (loaded,) = asking.ps().models
    assert loaded.model == "local/scripted-1:latest"
    assert loaded.expires_at and loaded.expires_at.astimezone().year >= 2317


def test_every_listed_name_can_be_asked(serving: Serving) -> None:
    asking = client(serving())
    for model in asking.list().models:
        assert asking.chat(model.model or "", HELLO).message.content


def test_an_unknown_model_is_a_404_in_ollamas_words(serving: Serving) -> None:
    served = serving(any_model=False)
    for path, body in (
        ("/api/chat", {"messages": HELLO}),
        ("/api/generate", {"prompt": "x"}),
        ("/api/generate", {}),
        ("/api/embed", {"input": "x"}),
        ("/api/embeddings", {"prompt": "x"}),
        ("/api/show", {}),
    ):
        answer = served.http.post(path, json={"model": "llama3:8b", **body})
        assert answer.status_code == 404, path
        assert answer.json()["error"].startswith("model 'llama3:8b' not found")
    with pytest.raises(ollama.ResponseError, match="not found") as caught:
        client(served).chat("llama3", HELLO)
    assert caught.value.status_code == 404
    assert served.http.post("/api/pull", json={"model": "llama3"}).json()["error"]


def test_any_other_name_means_auto_unless_the_settings_say_no(serving: Serving) -> None:
    assert client(serving()).chat("llama3.2", HELLO).message.content == PARIS


# -- vectors ---------------------------------------------------------------------------------------


def test_texts_become_vectors(serving: Serving) -> None:
    served = serving(embedder=ScriptedEmbedder())
    asking = client(served)
    made = asking.embed("nomic-embed-text", ["one text", "another"])
    assert len(made.embeddings) == 2 and made.prompt_eval_count
    assert made.model == "local/scripted"
    one = asking.embed("auto", "one text")
    assert one.embeddings[0] == pytest.approx(made.embeddings[0])
    assert asking.embeddings("auto", "one text").embedding == pytest.approx(one.embeddings[0])
    assert asking.embed("auto", []).embeddings == []
    for path, body in (("/api/embed", {"input": "x"}), ("/api/embeddings", {"prompt": "x"})):
        told = served.http.post(path, json={"model": "auto", **body}).json()["edgewise"]
        assert (told["source"], told["space"]) == ("local", "scripted@none-32")


# -- the same rules as elsewhere -------------------------------------------------------------------


def test_a_key_rules_here_too(serving: Serving) -> None:
    served = serving(key="server-secret-key-12345")
    for ask in (client(served).list, lambda: client(served).chat("auto", HELLO)):
        with pytest.raises(ollama.ResponseError) as caught:
            ask()
        assert caught.value.status_code == 401
    headers = {"authorization": "Bearer server-secret-key-12345"}
    assert client(served, **headers).chat("auto", HELLO).message.content == PARIS


def test_a_key_s_rate_and_budget_rule_here_too(serving: Serving) -> None:
    keys = {"home": {"key_env": "HOME_KEY", "budgets": ["$1/day"], "requests_per_minute": 1}}
    served = serving(environment={"HOME_KEY": "home-key-1"}, keys=keys)
    asking = client(served, authorization="Bearer home-key-1")
    assert asking.chat("auto", HELLO).message.content == PARIS
    assert served.state.engine.ledger.recent()[0]["budget_key"] == "home"
    with pytest.raises(ollama.ResponseError) as caught:
        asking.chat("auto", HELLO)
    assert caught.value.status_code == 429


def test_a_private_request_stays_here(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving(ScriptedBackend.doubtful("hm"))
    private = client(served, **{"x-edgewise-privacy": "private"})
    assert private.chat("auto", HELLO).message.content == "hm"
    body = {"model": "auto", "messages": HELLO, "stream": False, "metadata": {"privacy": "private"}}
    assert served.http.post("/api/chat", json=body).json()["edgewise"]["degraded"]
    assert not cloud.requests


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("chat", {"messages": [{"role": "nobody", "content": "x"}]}, "messages[0].role"),
        ("chat", {"messages": HELLO, "options": {"temperature": "hot"}}, "options.temperature"),
        ("chat", {"messages": HELLO, "options": {"num_predict": "5"}}, "options.num_predict"),
        (
            "chat",
            {"messages": [{"role": "user", "content": "x", "images": ["%%%"]}]},
            "messages[0].images[0]",
        ),
        ("chat", {"messages": HELLO, "format": 5}, "format"),
        ("chat", {"messages": HELLO, "model": None}, "model"),
        ("generate", {"prompt": "x", "raw": True}, "raw"),
        ("generate", {"prompt": "x", "template": "{{ .Prompt }}"}, "template"),
        ("generate", {"prompt": "x", "suffix": "y"}, "suffix"),
        ("embed", {"input": 5}, "input"),
        ("embed", {"input": ["x"] * 3000}, "input"),
    ],
)
def test_what_is_wrong_is_a_400_in_ollamas_words(
    session_served: Served, path: str, body: dict[str, Any], named: str
) -> None:
    answer = session_served.http.post(f"/api/{path}", json={"model": "auto", **body})
    assert answer.status_code == 400
    assert named in answer.json()["error"]


# -- as its users call it --------------------------------------------------------------------------


def test_what_the_command_line_looks_for_is_there(serving: Serving) -> None:
    """`ollama` asks whether a server lives before each command, and cuts digests to twelve."""
    served = serving()
    assert served.http.head("/").status_code == 200
    assert all(len(each["digest"]) >= 12 for each in served.http.get("/api/tags").json()["models"])


def test_home_assistant_holds_its_conversation(serving: Serving) -> None:
    """Its integration lists, then streams with tools; its results do not name their tools."""
    model = ScriptedFunctionModel(['HassTurnOn {"name":"kitchen light"}'])
    backend = ScriptedBackend.confident("The kitchen light is on.")
    served = serving(backend, function_model=model)
    asking = client(served, authorization="Bearer anything")
    names = {each["model"] for each in asking.list()["models"]}
    assert "auto:latest" in names, "otherwise it would pull the model"
    tool = {
        "type": "function",
        "function": {
            "name": "HassTurnOn",
            "parameters": {"type": "object", "properties": {"name": {"type": "string"}}},
            "description": "Turns on a device",
        },
    }
    turns: list[Any] = [
        {"role": "system", "content": "You control a home."},
        {"role": "user", "content": "Turn on the kitchen light"},
    ]

    def ask() -> list[ollama.ChatResponse]:
        return list(
            asking.chat(
                "auto:latest",
                turns,
                tools=[tool],
                stream=True,
                keep_alive="300s",
                options={"num_ctx": 8192},
                think=False,
            )
        )

    lines = ask()
    (calling,) = [line for line in lines if line["message"].get("tool_calls") is not None]
    assert only_call(calling).arguments == {"name": "kitchen light"} and not calling.done
    assert lines[-1].done and lines[-1].message.tool_calls is None
    turns += [calling.message, {"role": "tool", "content": '{"data": "done", "error": null}'}]
    assert "".join(line["message"].get("content") for line in ask()) == "The kitchen light is on."


def test_open_webui_finds_its_models_and_chats(serving: Serving) -> None:
    """It compares versions as numbers, and adds `:latest` to names before it looks them up."""
    served = serving()
    version = served.http.get("/api/version").json()["version"]
    assert [int(part) for part in version.split(".")] > [0, 1, 0]
    known = {each["model"]: each for each in served.http.get("/api/tags").json()["models"]}
    expires = {each["name"] for each in served.http.get("/api/ps").json()["models"]}
    assert expires < set(known)
    for name in ("auto", "local/scripted-1"):
        assert f"{name}:latest" in known
        body = {"model": f"{name}:latest", "messages": HELLO, "stream": True, "options": {}}
        lines = served.http.post("/api/chat", json=body).text.splitlines()
        assert "".join(json.loads(line)["message"]["content"] for line in lines) == PARIS
    unload = {"model": "auto:latest", "keep_alive": 0, "prompt": ""}
    assert served.http.post("/api/generate", json=unload).json()["done"]
