"""Typed answers as people ask for them: openai's `parse`, pydantic-ai, instructor; real clients."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import BaseModel

from edgewise.local.store import InstalledModel
from edgewise.settings import Settings
from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend, ScriptedFunctionModel
from edgewise.testing.scripted import SCRIPTED_FACTS
from edgewise.types.messages import ToolCall
from tests.server.conftest import Serving
from tests.server.served import HELLO, Served
from tests.server.test_examples import python_with, run


class City(BaseModel):
    name: str
    people: int


ASKED = "Oslo has 700000 people."
CITY = City(name="Oslo", people=700_000)
OSLO = CITY.model_dump()
SAID = json.dumps(OSLO)


def typed(serving: Serving, tool: str) -> Served:
    """A device that answers in JSON if it is asked for text, and with a call of this tool."""
    backend = ScriptedBackend.confident(SAID, facts=replace(SCRIPTED_FACTS, schemas=True))
    return serving(backend, function_model=ScriptedFunctionModel([f"{tool} {SAID}"]))


def test_the_official_client_parses_chat_and_responses(serving: Serving) -> None:
    served = typed(serving, "City")
    client = served.openai()
    answer = client.chat.completions.parse(model="auto", messages=HELLO, response_format=City)
    assert answer.choices[0].message.parsed == CITY
    assert answer.edgewise["source"] == "local"
    response = client.responses.parse(model="auto", input="Which city?", text_format=City)
    assert response.output_parsed == CITY
    with client.chat.completions.stream(
        model="auto", messages=HELLO, response_format=City
    ) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.parsed == CITY


def test_the_official_client_parses_the_call_of_a_tool(serving: Serving) -> None:
    import openai

    served = typed(serving, "City")
    answer = served.openai().chat.completions.parse(
        model="auto",
        messages=[{"role": "user", "content": ASKED}],
        tools=[openai.pydantic_function_tool(City)],
        tool_choice="required",
    )
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.parsed_arguments == CITY


PYDANTIC_AI = """
import sys
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

class City(BaseModel):
    name: str
    people: int

url, asked = sys.argv[1:]
provider = OpenAIProvider(base_url=f"{url}/v1", api_key="any")
for model in (OpenAIChatModel, OpenAIResponsesModel):
    for kind in (City, NativeOutput(City)):
        agent = Agent(model("auto", provider=provider), output_type=kind)
        city = agent.run_sync(asked).output
        assert type(city) is City
        print(city.model_dump_json())
"""


def test_pydantic_ai_gets_its_output_type(serving: Serving, cloud: LoopbackCloud) -> None:
    """The default asks for a call of `final_result` and allows nothing else."""
    served = typed(serving, "final_result")
    said = run(python_with("pydantic_ai"), "-c", PYDANTIC_AI, served.url, ASKED)
    assert [json.loads(line) for line in said.splitlines()] == [OSLO] * 4
    assert not cloud.requests


def test_pydantic_ai_gets_it_from_the_cloud_if_the_device_is_unsure(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    backend = ScriptedBackend.doubtful(SAID, facts=replace(SCRIPTED_FACTS, schemas=True))
    unsure = ScriptedFunctionModel.doubtful('final_result {"name":"Rome","people":1}')
    served = serving(backend, function_model=unsure)
    called = Answer(text="", tool_calls=(ToolCall("final_result", OSLO, "call_1"),))
    cloud.script(called, SAID, called, SAID)
    said = run(python_with("pydantic_ai"), "-c", PYDANTIC_AI, served.url, "Which city?")
    assert [json.loads(line) for line in said.splitlines()] == [OSLO] * 4
    choices = [request.body.get("tool_choice") for request in cloud.requests]
    assert choices == ["required", None, "required", None]


INSTRUCTOR = """
import sys
import instructor, openai
from pydantic import BaseModel

class City(BaseModel):
    name: str
    people: int

url, asked, *modes = sys.argv[1:]
for mode in modes:
    plain = openai.OpenAI(base_url=f"{url}/v1", api_key="any")
    client = instructor.from_openai(plain, mode=instructor.Mode[mode])
    asks = [{"role": "user", "content": asked}]
    city = client.chat.completions.create(
        model="auto", messages=asks, response_model=City, max_retries=0
    )
    assert isinstance(city, City)
    print(city.model_dump_json())
"""


def test_instructor_gets_its_response_model(serving: Serving, cloud: LoopbackCloud) -> None:
    served = typed(serving, "City")
    python = python_with("instructor")
    said = run(python, "-c", INSTRUCTOR, served.url, ASKED, "TOOLS", "JSON_SCHEMA", "JSON")
    assert [json.loads(line) for line in said.splitlines()] == [OSLO] * 3
    assert not cloud.requests


# -- the real models ------------------------------------------------------------------------------


@pytest.mark.real_model
def test_the_real_models_answer_all_three(
    default_model: InstalledModel, default_function_model: InstalledModel, tmp_path: Path
) -> None:
    settings = Settings.load(
        {**os.environ, "EDGEWISE_CACHE_DIR": str(default_function_model.path.parents[2])},
        data_dir=tmp_path,
        policy="local_only",
        server={"port": 0},
    )
    with Served.started(settings, None) as served:
        answer = served.openai().chat.completions.parse(
            model="auto", messages=HELLO, response_format=City, max_tokens=60
        )
        assert isinstance(answer.choices[0].message.parsed, City)
        said = run(python_with("pydantic_ai"), "-c", PYDANTIC_AI, served.url, ASKED)
        chat, _, responses, _ = (json.loads(line) for line in said.splitlines())
        assert chat == responses == OSLO
        said = run(python_with("instructor"), "-c", INSTRUCTOR, served.url, ASKED, "TOOLS")
        assert json.loads(said) == OSLO
