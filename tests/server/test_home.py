"""Home Assistant through the APIs: the list in its system prompt is read, whoever carries it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import ollama
import pytest

from edgewise.testing import ScriptedFunctionModel
from edgewise.testing.scripted import SCRIPTED_FUNCTION_MODEL_FACTS
from tests.server.conftest import Serving
from tests.server.served import Served

# In the form in which Home Assistant's Assist API writes prompts and describes tools.
PROMPT = """You are a voice assistant for Home Assistant.
When controlling Home Assistant always call the intent tools.
Static Context: An overview of the areas and the devices in this smart home:
- names: Reading Lamp, desk light
  domain: light
  areas: Study
- names: Cellar Door
  domain: lock
"""
SLOTS = {
    "name": {"type": "string"},
    "area": {"type": "string"},
    "floor": {"type": "string"},
    "domain": {"type": "array", "items": {"type": "string"}},
}
SCHEMA = {"type": "object", "properties": SLOTS, "required": []}
TURN_ON = {
    "type": "function",
    "function": {"name": "HassTurnOn", "description": "Turns on a device", "parameters": SCHEMA},
}
READS_TURNS = replace(SCRIPTED_FUNCTION_MODEL_FACTS, call_format="conversation")


def messages(words: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": PROMPT}, {"role": "user", "content": words}]


def by_openai(served: Served, words: str) -> tuple[list[Any], str]:
    message = served.chat(messages=messages(words), tools=[TURN_ON]).json()["choices"][0]["message"]
    calls = message.get("tool_calls") or []
    return [json.loads(call["function"]["arguments"]) for call in calls], message["content"] or ""


def by_ollama(served: Served, words: str) -> tuple[list[Any], str]:
    client = ollama.Client(host=served.url)
    served.closing.callback(client._client.close)
    message = client.chat("auto", messages(words), tools=[TURN_ON]).message
    return [dict(call.function.arguments) for call in message.tool_calls or ()], (
        message.content or ""
    )


def by_anthropic(served: Served, words: str) -> tuple[list[Any], str]:
    answer = served.anthropic().messages.create(
        model="auto",
        max_tokens=64,
        system=PROMPT,
        messages=[{"role": "user", "content": words}],
        tools=[{"name": "HassTurnOn", "description": "Turns on", "input_schema": SCHEMA}],
    )
    calls = [dict(block.input) for block in answer.content if block.type == "tool_use"]
    return calls, "".join(block.text for block in answer.content if block.type == "text")


@pytest.mark.parametrize("ask", [by_openai, by_ollama, by_anthropic])
def test_a_device_is_named_as_the_prompt_lists_it(serving: Serving, ask: Any) -> None:
    model = ScriptedFunctionModel(['HassTurnOn {"name":"desk light"}'], facts=READS_TURNS)
    calls, _ = ask(serving(function_model=model), "turn on the desk light")
    assert calls == [{"name": "Reading Lamp", "domain": ["light"]}]
    assert "Reading Lamp | light | Study" in model.asked[0].prompt


@pytest.mark.parametrize("ask", [by_openai, by_ollama, by_anthropic])
def test_a_device_that_is_not_listed_is_asked_for(serving: Serving, ask: Any) -> None:
    model = ScriptedFunctionModel(['HassTurnOn {"name":"toaster"}'], facts=READS_TURNS)
    served = serving(function_model=model, settings={"policy": "local_only"})
    calls, text = ask(served, "turn on the toaster")
    assert calls == []
    assert text == "What is the name?"
