"""What any version of OpenAI's client must get from the server: `python openai_contract.py URL`.

Imports nothing of edgewise, so that it runs in an environment with the client's previous major.
The server it talks to is that of `test_openai_contract.py`.
"""

from __future__ import annotations

import io
import json
import sys
import wave
from typing import Any

import openai
from pydantic import BaseModel

QUESTION: Any = [{"role": "user", "content": "Name a city."}]
TIMER: Any = [{"role": "user", "content": "Set a timer for 5 minutes."}]
PARAMETERS = {
    "type": "object",
    "properties": {"minutes": {"type": "integer"}},
    "required": ["minutes"],
}
FUNCTION: Any = {"name": "set_timer", "description": "Set a timer.", "parameters": PARAMETERS}


class City(BaseModel):
    city: str


def check_chat(client: Any) -> None:
    create = client.chat.completions.create
    local = {"policy": "local_only"}
    answer = create(model="auto", messages=QUESTION, logprobs=True, metadata=local)
    assert answer.edgewise["source"] == "local"
    assert answer.choices[0].logprobs.content
    usage = {"include_usage": True}
    chunks = list(create(model="cloud", messages=QUESTION, stream=True, stream_options=usage))
    assert chunks[0].edgewise["source"] == "cloud"
    assert chunks[-2].edgewise["cost_microdollars"] > 0
    assert chunks[-1].usage.total_tokens > 0
    parsed = client.chat.completions.parse(model="local", messages=QUESTION, response_format=City)
    assert parsed.choices[0].message.parsed == City(city="Paris")


def check_tools(client: Any) -> None:
    tools = [{"type": "function", "function": FUNCTION}]
    answer = client.chat.completions.create(model="local", messages=TIMER, tools=tools)
    (call,) = answer.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"minutes": 5}
    with client.chat.completions.stream(model="local", messages=TIMER, tools=tools) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.tool_calls[0].function.name == "set_timer"
    flat = [{"type": "function", **FUNCTION}]
    answer = client.responses.create(model="local", input=TIMER, tools=flat)
    assert answer.output[0].type == "function_call"


def check_responses(client: Any) -> None:
    assert client.responses.create(model="auto", input="Name a city.").output_text
    with client.responses.stream(model="auto", input="Name a city.") as stream:
        kinds = [event.type for event in stream]
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    parsed = client.responses.parse(model="local", input="Name a city.", text_format=City)
    assert parsed.output_parsed == City(city="Paris")


def check_embeddings(client: Any) -> None:
    made = client.embeddings.create(model="auto", input=["one", "two"])
    assert [row.index for row in made.data] == [0, 1] and len(made.data[0].embedding) == 32
    plain = client.embeddings.create(model="auto", input=["one", "two"], encoding_format="float")
    assert plain.data[1].embedding == made.data[1].embedding
    assert plain.edgewise["space"] == "scripted@none-32" and plain.usage.total_tokens == 2


def check_transcriptions(client: Any) -> None:
    def hear(**options: Any) -> Any:
        sound = io.BytesIO()
        with wave.open(sound, "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", ""))
            file.writeframes(bytes(64_000))
        given = {"model": "auto", "file": ("quiet.wav", sound.getvalue()), **options}
        return client.audio.transcriptions.create(**given)

    assert hear().text == "" and hear().edgewise["source"] == "local"
    assert hear(response_format="text") == "\n"
    assert hear(response_format="vtt").startswith("WEBVTT")
    assert hear(response_format="srt") == ""
    both = ["word", "segment"]
    verbose = hear(response_format="verbose_json", timestamp_granularities=both)
    assert (verbose.duration, verbose.segments, verbose.words) == (2.0, [], [])
    assert hear(include=["logprobs"]).logprobs == []
    assert [event.type for event in hear(stream=True)] == ["transcript.text.done"]


def check_models_and_errors(client: Any) -> None:
    assert next(iter(client.models.list())).id == "auto"
    assert client.models.retrieve("auto").id == "auto"
    for wrong, kind in (
        ({"model": "local", "temperature": 9}, openai.BadRequestError),
        ({"model": "cloud/nosuch/model"}, openai.BadRequestError),
        ({"model": "local/nothing"}, openai.NotFoundError),
    ):
        try:
            client.chat.completions.create(**{"model": "auto", "messages": QUESTION, **wrong})
        except kind:
            continue
        raise AssertionError(f"{wrong} was accepted")
    raw = client.chat.completions.with_raw_response.create(
        model="auto",
        messages=QUESTION,
        extra_headers={"x-edgewise-handoff": "signal", "x-edgewise-threshold": "1"},
    )
    assert raw.headers["x-edgewise-reason"] == "signalled_low_confidence"
    assert raw.parse().edgewise["cloud_handoff"] is True


def main(url: str) -> None:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)
    for check in (
        check_chat,
        check_tools,
        check_responses,
        check_embeddings,
        check_transcriptions,
        check_models_and_errors,
    ):
        check(client)
    sys.stdout.write(f"openai {openai.__version__}: all good\n")


if __name__ == "__main__":
    main(sys.argv[1])
