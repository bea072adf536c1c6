"""`/v1/responses` as the official client sees it: stateless, whole and streamed."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend, ScriptedFunctionModel, Status
from tests.server.conftest import Serving
from tests.server.served import Served

TIMER: Any = {
    "type": "function",
    "name": "set_timer",
    "description": "Set a timer.",
    "parameters": {
        "type": "object",
        "properties": {"minutes": {"type": "integer"}},
        "required": ["minutes"],
    },
    "strict": True,
}


def test_a_text_in_a_text_out(served: Served) -> None:
    answer = served.openai().responses.create(model="auto", input="Capital of France?")
    assert answer.output_text == "Paris is the capital of France."
    assert (answer.status, answer.model) == ("completed", "local/scripted-1")
    assert answer.usage and answer.usage.output_tokens == 6
    assert answer.edgewise["source"] == "local"


def test_events_come_in_order_and_are_numbered(served: Served) -> None:
    with served.openai().responses.stream(model="auto", input="Capital of France?") as stream:
        events = list(stream)
        final = stream.get_final_response()
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert final.output_text == "Paris is the capital of France."
    assert events[0].response.edgewise["source"] == "local"
    assert final.edgewise["decision"]["code"] == "kept_confident"


def test_a_whole_conversation_can_be_sent(serving: Serving) -> None:
    backend = ScriptedBackend.confident("Fine.")
    served = serving(backend)
    served.openai().responses.create(
        model="auto",
        instructions="Be short.",
        input=[
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": "Hello, you."},
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "How are you?"}],
            },
        ],
    )
    said = [(message.role, message.content) for message in backend.requests[0].messages]
    assert said == [
        ("system", "Be short."),
        ("user", "Hello."),
        ("assistant", "Hello, you."),
        ("user", "How are you?"),
    ]


def test_calls_and_their_results(serving: Serving) -> None:
    served = serving(function_model=ScriptedFunctionModel(['set_timer {"minutes":5}']))
    client = served.openai()
    asked: list[Any] = [{"role": "user", "content": "Set a timer for 5 minutes."}]
    first = client.responses.create(model="local", input=asked, tools=[TIMER])
    (call,) = [item for item in first.output if item.type == "function_call"]
    assert (call.name, json.loads(call.arguments)) == ("set_timer", {"minutes": 5})
    asked += [
        call.to_dict(),
        {"type": "function_call_output", "call_id": call.call_id, "output": "done"},
    ]
    second = client.responses.create(model="local", input=asked, tools=[TIMER])
    assert second.output_text
    with client.responses.stream(model="local", input=asked[:1], tools=[TIMER]) as stream:
        (streamed,) = stream.get_final_response().output
    assert streamed.type == "function_call" and json.loads(streamed.arguments) == {"minutes": 5}


def test_a_schema_and_evidence_can_be_asked_for(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving()
    cloud.always(Answer(text='{"city": "Paris"}'))
    answer = served.openai().responses.create(
        model="cloud/openai",
        input="Name a city.",
        text={
            "format": {
                "type": "json_schema",
                "name": "city",
                "schema": {"type": "object", "properties": {"city": {"type": "string"}}},
            }
        },
    )
    assert json.loads(answer.output_text) == {"city": "Paris"}
    assert cloud.requests[0].body["text"]["format"]["name"] == "city"
    local = served.openai().responses.create(
        model="local", input="Capital?", include=["message.output_text.logprobs"]
    )
    part = local.output[0].content[0]
    assert [each.token for each in part.logprobs][:1] == ["Paris"]


def test_an_answer_cut_short_says_so(serving: Serving) -> None:
    served = serving(ScriptedBackend.confident("One two three four five."))
    answer = served.openai().responses.create(model="local", input="Count.", max_output_tokens=2)
    assert answer.status == "incomplete"
    assert answer.incomplete_details and answer.incomplete_details.reason == "max_output_tokens"


def test_what_needs_a_memory_is_refused(served: Served) -> None:
    for model, field in (
        ("local", {"previous_response_id": "resp_1"}),
        ("local", {"conversation": "c"}),
        ("auto", {"background": True}),  # its answer would have to be asked for later
    ):
        body = {"model": model, "input": "Hello.", **field}
        response = served.http.post("/v1/responses", json=body)
        assert response.status_code == 400
        assert response.json()["error"]["param"] == next(iter(field))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"input": 5}, "input"),
    ({"input": [5]}, "input[0]"),
    ({"input": [{"type": 5, "id": "x"}]}, "input[0].type"),
    ({"input": [{"type": "function_call", "name": "x", "call_id": "1", "arguments": 5}]}, "arg"),
    ({"instructions": 5}, "instructions"),
    ({"text": {"format": {"type": "yaml"}}}, "text.format.type"),
    ({"max_output_tokens": "many"}, "max_output_tokens"),
    ({"tools": [{"type": 5}]}, "tools[0].type"),
    ({"model": []}, "model"),
]


@pytest.mark.parametrize(("wrong", "named"), WRONG, ids=[named for _, named in WRONG])
def test_what_is_wrong_is_named(session_served: Served, wrong: dict[str, Any], named: str) -> None:
    body = {"model": "auto", "input": "Hello.", **wrong}
    response = session_served.http.post("/v1/responses", json=body)
    assert response.status_code == 400, response.text
    assert named in response.json()["error"]["message"]


def test_a_fault_in_a_stream_is_an_event(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving()
    cloud.always(Status(500, after_chunks=2))
    events = list(
        served.openai().responses.create(model="cloud/openai", input="Hello.", stream=True)
    )
    assert (events[-1].type, events[-1].code) == ("error", "server_error")


def test_a_cloud_that_is_asked_too_often_is_429_before_the_stream_begins(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving()
    cloud.always(Status(429))
    with pytest.raises(openai.RateLimitError) as caught:
        served.openai().responses.create(model="cloud/openai", input="Hello.", stream=True)
    assert caught.value.code == "rate_limit_exceeded"
