"""A conversation stays where it is: stories of agents, told over HTTP."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend, ScriptedFunctionModel, Status
from edgewise.types.messages import ToolCall
from tests.pictures import one_pixel
from tests.server.conftest import Serving
from tests.server.served import Served

TOOLS: Any = [{"type": "function", "function": {"name": "read_file"}}]
CALL = ToolCall("read_file", {"path": "a.py"}, id="call_1")
ASKED: Any = {"role": "user", "content": "Mend the greeting in a.py"}


@pytest.fixture
def served(serving: Serving, cloud: LoopbackCloud) -> Served:
    """A device that is sure of what it says; its function model would call nothing."""
    cloud.always(Answer(text="The cloud goes on."))
    backend = ScriptedBackend.confident("The device is sure.")
    return serving(backend, function_model=ScriptedFunctionModel(["[]"]))


def say(served: Served, *messages: Any, **options: Any) -> Any:
    headers = {"x-edgewise-policy": options.pop("policy", "prefer_local")}
    response = served.chat(messages=messages, tools=TOOLS, headers=headers, **options)
    return response.raise_for_status().json()


def begin(served: Served, cloud: LoopbackCloud, more: Any = ()) -> list[Any]:
    """A conversation whose first turn the cloud answered, with a call."""
    cloud.script(Answer(text="", tool_calls=(CALL,)))
    words = {"type": "text", "text": ASKED["content"]}
    asked = {**ASKED, "content": [words, *more]} if more else ASKED
    first = say(served, asked, policy="cloud_only")["choices"][0]["message"]
    assert first["tool_calls"][0]["function"]["name"] == "read_file"
    return [asked, first, {"role": "tool", "tool_call_id": "call_1", "content": "def greet():"}]


def test_the_result_of_a_clouds_call_goes_to_the_cloud_and_the_device_does_not_begin(
    served: Served, cloud: LoopbackCloud
) -> None:
    answer = say(served, *begin(served, cloud))
    ours = answer["edgewise"]
    assert answer["choices"][0]["message"]["content"] == "The cloud goes on."
    assert (ours["source"], ours["decision"]["code"]) == ("cloud", "handoff_session")
    assert [attempt["place"] for attempt in ours["attempts"]] == ["cloud"]
    assert cloud.requests[-1].body["tools"] == TOOLS


def test_a_picture_in_a_loop_of_tools_is_not_looked_at_again(
    served: Served, cloud: LoopbackCloud
) -> None:
    url = "data:image/png;base64," + base64.b64encode(one_pixel()).decode()
    turns = begin(served, cloud, [{"type": "image_url", "image_url": {"url": url}}])
    # Not by a skill for pictures, which would have to be loaded to find out.
    ours = say(served, *turns)["edgewise"]
    assert (ours["source"], ours["decision"]["code"]) == ("cloud", "handoff_images_unsupported")


def test_a_conversation_that_the_cloud_did_not_begin_stays_on_the_device(
    served: Served, cloud: LoopbackCloud
) -> None:
    turns = begin(served, cloud)
    turns[0] = {**ASKED, "content": "Mend another greeting"}
    assert say(served, *turns)["edgewise"]["source"] == "local"
    assert len(cloud.requests) == 1


def test_if_the_cloud_fails_the_device_goes_on(served: Served, cloud: LoopbackCloud) -> None:
    turns = begin(served, cloud)
    cloud.always(Status(401))
    ours = say(served, *turns)["edgewise"]
    assert (ours["source"], ours["decision"]["code"]) == ("local", "fallback_local")
    private = say(served, *turns, policy="local_only")["edgewise"]
    assert private["source"] == "local"


def test_an_agent_that_turns_in_circles_on_the_device_gets_the_cloud(
    served: Served, cloud: LoopbackCloud
) -> None:
    called = {"role": "assistant", "content": "", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
    ]}  # fmt: skip
    result = {"role": "tool", "tool_call_id": "c1", "content": "Which file?"}
    once = say(served, ASKED, called, result)["edgewise"]
    assert once["source"] == "local"
    twice = say(served, ASKED, called, result, called, result)["edgewise"]
    assert (twice["source"], twice["decision"]["code"]) == ("cloud", "handoff_no_progress")
    assert len(cloud.requests) == 1


def test_the_provider_that_made_a_call_gets_its_result_first(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    """The first of the chain failed for once: its successor has read the conversation."""
    keys = {"ANTHROPIC_API_KEY": "sk-ant-0123456789", "ANTHROPIC_BASE_URL": cloud.anthropic_url}
    served = serving(environment=keys, settings={"chain": ("openai", "anthropic")})
    cloud.script(Status(404), Answer(text="", tool_calls=(CALL,)), Answer(text="Done."))
    called = say(served, ASKED, policy="cloud_only")["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": "greet"}
    answer = say(served, ASKED, called, result, policy="cloud_only")
    assert [each.protocol for each in cloud.requests] == ["openai", "anthropic", "anthropic"]
    assert answer["edgewise"]["attempts"][0]["backend"] == "anthropic"


def test_an_error_that_anthropic_marks_is_seen(serving: Serving, cloud: LoopbackCloud) -> None:
    backend = ScriptedBackend.confident("The device is sure.")
    served = serving(backend, function_model=ScriptedFunctionModel(["[]"]))
    cloud.always(Answer(text="The cloud goes on."))
    called = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}
    failed = {"type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": True}
    again = {**called, "input": {"command": "ls ."}}
    turns = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [called]},
        {"role": "user", "content": [failed]},
        {"role": "assistant", "content": [again]},
        {"role": "user", "content": [{**failed, "content": "no, really"}]},
    ]
    tools = [{"name": "Bash", "input_schema": {"type": "object"}}]
    body = {"model": "auto", "max_tokens": 99, "messages": turns, "tools": tools}
    ours = served.http.post("/v1/messages", json=body).json()["edgewise"]
    assert (ours["source"], ours["decision"]["code"]) == ("cloud", "handoff_no_progress")
    left = cloud.requests[-1].body["messages"]
    results = [turn["content"] for turn in left if turn["role"] == "tool"]
    assert results == ["Error: no", "Error: no, really"], (
        "what another protocol cannot mark it says"
    )
