"""`/v1/messages` as Anthropic's own client sees it."""

from __future__ import annotations

import base64
from typing import Any

import anthropic
import pytest

from edgewise.testing import (
    Answer,
    Cut,
    LoopbackCloud,
    ScriptedBackend,
    ScriptedFunctionModel,
    Status,
)
from tests.grammar.gbnf_walker import Grammar
from tests.server.conftest import Serving
from tests.server.served import HELLO, Served
from tests.server.test_chat import png

TIMER: Any = {
    "name": "set_timer",
    "description": "Set a timer.",
    "input_schema": {
        "type": "object",
        "properties": {"minutes": {"type": "integer"}},
        "required": ["minutes"],
    },
}


def test_a_message_is_answered(served: Served) -> None:
    answer = served.anthropic().messages.create(
        model="auto",
        max_tokens=50,
        messages=HELLO,
    )
    (block,) = answer.content
    assert block.type == "text" and block.text == "Paris is the capital of France."
    assert (answer.stop_reason, answer.model) == ("end_turn", "local/scripted-1")
    assert answer.usage.output_tokens == 6
    assert answer.edgewise["source"] == "local"


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "set_timer"}])
def test_a_tool_choice_is_enforced_on_the_device(serving: Serving, choice: Any) -> None:
    written = ScriptedFunctionModel.doubtful('set_timer {"minutes":5}')
    served = serving(function_model=written)
    asked = {"model": "local", "max_tokens": 50, "messages": HELLO, "tools": [TIMER]}
    create = served.anthropic().messages.create
    answer = create(**asked, tool_choice=choice)
    (block,) = answer.content
    assert (block.type, block.name, block.input) == ("tool_use", "set_timer", {"minutes": 5})
    assert answer.stop_reason == "tool_use" and answer.edgewise["needs_cloud_handoff"]
    assert not Grammar(written.asked[0].grammar).accepts("none")
    words = create(**asked, tool_choice={"type": "none"})
    assert words.content[0].text == "Paris is the capital of France."
    with pytest.raises(anthropic.BadRequestError, match="there are no tools"):
        create(**(asked | {"tools": []}), tool_choice={"type": "any"})


def test_a_message_is_streamed(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving(ScriptedBackend.doubtful("Perhaps Lyon."))
    cloud.script("Paris it is.")
    with served.anthropic().messages.stream(
        model="auto",
        max_tokens=50,
        messages=HELLO,
    ) as stream:
        events = list(stream)
        final = stream.get_final_message()
    kinds = [event.type for event in events]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
    assert final.content[0].text == "Paris it is."
    first = events[0].message.edgewise
    assert (first["source"], first["code"]) == ("cloud", "handoff_low_confidence")
    (last,) = [event for event in events if event.type == "message_delta"]
    assert last.edgewise["cost_microdollars"] > 0


def test_tools_are_called_and_answered_from(serving: Serving) -> None:
    served = serving(function_model=ScriptedFunctionModel(['set_timer {"minutes":5}']))
    client = served.anthropic()
    asked: list[Any] = [{"role": "user", "content": "Set a timer for 5 minutes."}]
    answer = client.messages.create(model="local", max_tokens=50, messages=asked, tools=[TIMER])
    (block,) = answer.content
    assert block.type == "tool_use"
    assert (block.name, block.input, answer.stop_reason) == (
        "set_timer",
        {"minutes": 5},
        "tool_use",
    )
    with client.messages.stream(
        model="local", max_tokens=50, messages=asked, tools=[TIMER]
    ) as stream:
        (streamed,) = stream.get_final_message().content
    assert streamed.type == "tool_use" and streamed.input == {"minutes": 5}
    asked += [
        {"role": "assistant", "content": [block.to_dict()]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": block.id, "content": "done"}],
        },
    ]
    last = client.messages.create(model="local", max_tokens=50, messages=asked, tools=[TIMER])
    assert last.content[0].type == "text"


def test_system_images_and_stop_words_arrive(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving()
    picture = {
        "type": "image",
        "source": {
            "type": "base64",
            "media_type": "image/png",
            "data": base64.b64encode(png()).decode(),
        },
    }
    served.anthropic().messages.create(
        model="cloud/openai",
        max_tokens=50,
        system=[{"type": "text", "text": "Be short."}],
        stop_sequences=["END"],
        messages=[
            {"role": "user", "content": [picture, {"type": "text", "text": "What is this?"}]}
        ],
    )
    sent = cloud.requests[0].body
    assert sent["messages"][0] == {"role": "system", "content": "Be short."}
    assert sent["stop"] == ["END"]
    assert sent["messages"][1]["content"][1]["type"] == "image_url"


def test_an_answer_cut_short_says_so(serving: Serving) -> None:
    served = serving(ScriptedBackend.confident("One two three four five."))
    answer = served.anthropic().messages.create(
        model="local",
        max_tokens=2,
        messages=HELLO,
    )
    assert answer.stop_reason == "max_tokens"


def test_errors_have_anthropic_s_shape(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving()
    with pytest.raises(anthropic.BadRequestError) as caught:
        served.anthropic().messages.create(
            model="auto",
            max_tokens=0,
            messages=HELLO,
        )
    assert caught.value.type == "invalid_request_error"
    assert "max_tokens" in str(caught.value)
    cloud.always(Status(500))
    with pytest.raises(anthropic.InternalServerError):
        served.anthropic().messages.create(
            model="cloud/openai",
            max_tokens=9,
            messages=HELLO,
        )


def test_an_error_in_a_stream_is_an_event(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving()
    cloud.always(Cut(after_chunks=2))
    with (
        pytest.raises(anthropic.APIError),
        served.anthropic().messages.stream(
            model="cloud/openai",
            max_tokens=9,
            messages=HELLO,
        ) as stream,
    ):
        list(stream)


def test_tokens_are_counted_as_the_device_reads_them(serving: Serving) -> None:
    served = serving()
    messages = served.anthropic().messages
    counted = messages.count_tokens(model="auto", messages=HELLO)
    assert counted.input_tokens == len(HELLO[0]["content"].split())
    assert counted.edgewise == {"model": "local/scripted-1", "estimated": False}
    longer = messages.count_tokens(
        model="claude-sonnet-4", messages=HELLO, system="Be very short.", tools=[TIMER]
    )
    assert longer.input_tokens > counted.input_tokens + 3
    unused = messages.count_tokens(
        model="auto", messages=HELLO, tools=[TIMER], tool_choice={"type": "none"}
    )
    assert unused.input_tokens == counted.input_tokens
    assert not served.state.engine.ledger.recent(), "nothing was asked"


def test_a_runtime_that_cannot_count_estimates(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(ScriptedBackend, "count_tokens")
    counted = serving().anthropic().messages.count_tokens(model="auto", messages=HELLO)
    assert counted.edgewise["estimated"] and counted.input_tokens > 5


def test_a_text_that_fits_no_device_is_estimated_not_counted(serving: Serving) -> None:
    served = serving()
    long = [{"role": "user", "content": "a word " * 150_000}]
    counted = served.anthropic().messages.count_tokens(model="auto", messages=long)
    assert counted.edgewise["estimated"] and counted.input_tokens > 100_000


def test_counting_refuses_what_answering_would(serving: Serving) -> None:
    served = serving(any_model=False, key="right")
    with pytest.raises(anthropic.AuthenticationError):
        served.anthropic("wrong").messages.count_tokens(model="auto", messages=HELLO)
    with pytest.raises(anthropic.NotFoundError, match="not found"):
        served.anthropic("right").messages.count_tokens(model="claude", messages=HELLO)
    with pytest.raises(anthropic.BadRequestError, match="messages"):
        served.anthropic("right").messages.count_tokens(model="auto", messages=5)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"max_tokens": None}, "max_tokens"),
    ({"messages": None}, "messages"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": [{"type": 5}]}]}, "content[0].type"),
    ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "source.type"),
    ({"system": 5}, "system"),
    ({"tools": [{"type": 5, "name": "bash"}]}, "tools[0].type"),
    ({"tools": [{"name": ""}]}, "tools[0].name"),
    ({"tool_choice": {"type": "tool", "name": "x"}}, "tool_choice.name"),
    ({"stop_sequences": 5}, "stop_sequences"),
]


@pytest.mark.parametrize(("wrong", "named"), WRONG, ids=[named for _, named in WRONG])
def test_what_is_wrong_is_named(session_served: Served, wrong: dict[str, Any], named: str) -> None:
    body = {"model": "auto", "max_tokens": 9, "messages": HELLO, **wrong}
    response = session_served.http.post("/v1/messages", json=body)
    assert response.status_code == 400, response.text
    assert response.json()["type"] == "error"
    assert named in response.json()["error"]["message"]


def test_the_key_may_come_in_anthropic_s_header(serving: Serving) -> None:
    served = serving(key="right")
    with pytest.raises(anthropic.AuthenticationError):
        served.anthropic("wrong").messages.create(
            model="auto",
            max_tokens=9,
            messages=HELLO,
        )
    answer = served.anthropic("right").messages.create(
        model="auto",
        max_tokens=9,
        messages=HELLO,
    )
    assert answer.content


def test_answers_from_the_cloud_keep_their_source(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving()
    cloud.script(Answer(text="From afar."))
    answer = served.anthropic().messages.create(
        model="cloud/openai/gpt-6-luna",
        max_tokens=9,
        messages=HELLO,
    )
    assert answer.model == "cloud/openai/gpt-6-luna"
