"""What every adapter must know about a request."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.cloud import anthropic, cactus_cloud, gemini, openai
from edgewise.cloud.conversation import (
    MOST_TOKENS_PER_IMAGE,
    MOST_WORDS_PER_SECOND,
    TOKENS_PER_IMAGE,
    TOKENS_PER_SECOND,
    audio_seconds,
    believable,
    call_names,
    counted,
    data_url,
    estimated_finish,
    estimated_input_tokens,
    estimated_tokens,
    most_input_tokens,
    most_output_tokens,
    paired,
    system_prompt,
    words_before,
)
from edgewise.cloud.provider import ProviderConfig
from edgewise.cloud.providers import PROVIDERS
from edgewise.types.messages import Audio, Image, Message, Request, ResponseFormat, Tool, ToolCall
from edgewise.types.replies import Finish

CALLED = Message("assistant", "", tool_calls=(ToolCall("a", {}), ToolCall("b", {})))


def test_calls_without_ids_get_ids_and_results_take_them_in_order() -> None:
    _, called, first, second = paired(
        (Message("user", "Go."), CALLED, Message("tool", "1"), Message("tool", "2"))
    )
    ids = [call.id for call in called.tool_calls]
    assert ids == ["call_1_0", "call_1_1"]
    assert [first.tool_call_id, second.tool_call_id] == ids


def test_results_that_name_their_call_keep_it_whatever_the_order() -> None:
    calls = (ToolCall("a", {}, id="x"), ToolCall("b", {}, id="y"))
    _, first, second = paired(
        (
            Message("assistant", "", tool_calls=calls),
            Message("tool", "2", tool_call_id="y"),
            Message("tool", "1"),
        )
    )
    assert (first.tool_call_id, second.tool_call_id) == ("y", "x")


def test_two_rounds_of_calls_do_not_share_ids() -> None:
    linked = paired((CALLED, Message("tool", "1"), Message("tool", "2"), CALLED))
    first, second = linked[0].tool_calls, linked[3].tool_calls
    assert not {call.id for call in first} & {call.id for call in second}


def test_short_ids_still_match_each_other() -> None:
    call = ToolCall("a", {}, id="an id much longer than nine characters")
    called, result = paired(
        (
            Message("assistant", "", tool_calls=(call,)),
            Message("tool", "1", tool_call_id=call.id),
        ),
        short_ids=True,
    )
    assert called.tool_calls[0].id == result.tool_call_id
    assert len(result.tool_call_id) == 9


def test_a_result_nobody_asked_for_still_gets_an_id() -> None:
    (result,) = paired((Message("tool", "1"),))
    assert result.tool_call_id


def test_names_are_found_by_id() -> None:
    linked = paired((CALLED,))
    assert call_names(linked) == {"call_0_0": "a", "call_0_1": "b"}


def test_system_messages_become_one_text() -> None:
    messages = (
        Message("system", "One."),
        Message("user", "Hi"),
        Message("system", ""),
        Message("system", "Two."),
    )
    assert system_prompt(messages) == "One.\n\nTwo."


def test_an_image_becomes_a_data_url() -> None:
    assert data_url(Image(b"\x00\xff", "image/webp")) == "data:image/webp;base64,AP8="


def test_four_characters_make_a_token_and_a_rest_makes_one_too() -> None:
    assert [estimated_tokens(count) for count in (0, 1, 4, 5, 8)] == [0, 1, 1, 2, 2]


def test_everything_in_a_prompt_is_counted() -> None:
    def tokens(message: Message, *tools: Tool) -> int:
        return estimated_input_tokens(Request(messages=(message,), tools=tools))

    plain = tokens(Message("user", "x" * 40))
    assert plain == 10
    assert tokens(Message("user", "x" * 40, images=(Image(b"1"),))) == plain + TOKENS_PER_IMAGE
    assert tokens(Message("user", "x" * 40), Tool("f", "y" * 40)) > plain + 10
    call = ToolCall("f", {"text": "z" * 40})
    assert tokens(Message("assistant", "x" * 40, tool_calls=(call,))) > plain + 10


def test_an_estimate_says_so() -> None:
    finish = estimated_finish(Request(messages=(Message("user", "x" * 8),)), "length", 12)
    assert (finish.reason, finish.input_tokens, finish.output_tokens) == ("length", 2, 3)
    assert finish.estimated


# -- sound ----------------------------------------------------------------------------------------


def spoken(*sounds: Audio, words: str = "") -> Request:
    return Request(messages=(Message("user", words, audio=sounds),), task="transcribe")


def test_sound_counts_its_seconds_and_some_tokens_for_each() -> None:
    request = spoken(Audio(b"x", seconds=2.5))
    assert audio_seconds(request) == 2.5
    assert estimated_input_tokens(request) == 80 == 2.5 * TOKENS_PER_SECOND
    finish = estimated_finish(request, "stop", 8)
    assert (finish.audio_tokens, finish.audio_seconds, finish.output_tokens) == (80, 2.5, 2)


def test_sound_that_does_not_say_how_long_it_is_lasts_as_long_as_its_bytes_can() -> None:
    assert audio_seconds(spoken(Audio(b"x" * 16_000))) == 2.0
    assert audio_seconds(spoken(Audio(b"x" * 1500, "audio/ogg; codecs=opus"))) == 2.0


def test_sound_is_counted_only_where_it_is_sent() -> None:
    chat = Request(messages=(Message("user", "Hello", audio=(Audio(b"x", seconds=9),)),))
    assert audio_seconds(chat) == 0


def test_a_transcript_may_be_longer_than_a_chat_and_vectors_have_no_words() -> None:
    assert most_output_tokens(spoken(Audio(b"x", seconds=1.0))) == 256
    assert most_output_tokens(spoken(Audio(b"x", seconds=600))) == 600 * MOST_WORDS_PER_SECOND
    assert most_output_tokens(Request(messages=(Message("user", "x"),), task="embed")) == 0


def test_the_words_before_are_those_of_the_message_with_the_sound() -> None:
    messages = (Message("user", "old"), Message("assistant", "no"), Message("user", "so he"))
    assert words_before(Request(messages=messages, task="transcribe")) == "so he"
    assert words_before(Request(messages=(Message("system", "x"),))) == ""


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
QUESTION = (Message("user", "Name a city."),)
PLAIN = Request(messages=QUESTION)
HELD = Request(messages=QUESTION, response_format=ResponseFormat(SCHEMA, "city", strict=True))
ANY_OBJECT = Request(messages=QUESTION, response_format=ResponseFormat())


def test_openai_has_a_field_for_both() -> None:
    def sent(request: Request) -> object:
        return openai.payload(request, "gpt-6-luna", PROVIDERS["openai"]).get("response_format")

    named = {"name": "city", "schema": SCHEMA, "strict": True}
    assert sent(HELD) == {"type": "json_schema", "json_schema": named}
    assert sent(ANY_OBJECT) == {"type": "json_object"}
    assert sent(PLAIN) is None


def test_anthropic_has_a_field_for_schemas_and_gets_the_rest_in_words() -> None:
    def sent(request: Request) -> tuple[object, object]:
        body = anthropic.payload(request, "claude-haiku-5-5", PROVIDERS["anthropic"])
        return body.get("output_config"), body.get("system")

    assert sent(HELD) == ({"format": {"type": "json_schema", "schema": SCHEMA}}, None)
    assert sent(ANY_OBJECT) == (None, "Answer with one JSON object and nothing else.")
    assert sent(PLAIN) == (None, None)


def test_gemini_has_fields_for_both() -> None:
    def sent(request: Request) -> tuple[object, object]:
        config = gemini.payload(request)["generationConfig"]
        return config.get("responseMimeType"), config.get("responseJsonSchema")

    assert sent(HELD) == ("application/json", SCHEMA)
    assert sent(ANY_OBJECT) == ("application/json", None)
    assert sent(PLAIN) == (None, None)


def test_cactus_cloud_gets_it_in_words() -> None:
    config = ProviderConfig(name="cactus_cloud", protocol="cactus_cloud", model="any")

    def sent(request: Request) -> str:
        return str(cactus_cloud.payload(request, config)[1]["text"])

    assert sent(HELD).endswith(f"JSON Schema: {json.dumps(SCHEMA)}")
    assert sent(ANY_OBJECT).endswith("[answer] Answer with one JSON object and nothing else.")
    assert sent(PLAIN) == "Name a city."


# -- the most that a request can be ---------------------------------------------------------------

LETTERS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = st.recursive(
    LETTERS | st.integers() | st.booleans() | st.none(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(LETTERS, inside, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(LETTERS, VALUES, max_size=3)
CALLS = st.lists(st.builds(ToolCall, name=LETTERS, arguments=OBJECTS, id=LETTERS), max_size=3)
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant"]),
    content=LETTERS,
    tool_calls=CALLS.map(tuple),
) | st.builds(Message, role=st.just("tool"), content=LETTERS, tool_call_id=LETTERS)
REQUESTS = st.builds(
    Request,
    messages=st.lists(MESSAGES, min_size=1, max_size=6).map(tuple),
    stop=st.lists(LETTERS, max_size=3).map(tuple),
    tools=st.lists(st.builds(Tool, LETTERS, LETTERS, OBJECTS), max_size=3).map(tuple),
    tool_choice=st.sampled_from(["auto", "none", "required"]),
    response_format=st.none() | st.builds(ResponseFormat, OBJECTS, LETTERS, st.booleans()),
)
CACTUS = ProviderConfig(name="cactus_cloud", protocol="cactus_cloud", model="m")


@given(request=REQUESTS)
def test_no_protocol_writes_more_bytes_than_are_reserved(request: Request) -> None:
    bodies = [
        openai.payload(request, "gpt-6-luna", PROVIDERS["openai"]),
        openai.payload(request, "mistral-small-latest", PROVIDERS["mistral"]),
        anthropic.payload(request, "claude-sonnet-5-5", PROVIDERS["anthropic"]),
        gemini.payload(request),
        cactus_cloud.payload(request, CACTUS)[1],
    ]
    for body in bodies:
        assert len(json.dumps(body, default=repr)) <= most_input_tokens(request)


@pytest.mark.parametrize(
    "grown",
    [
        {"response_format": ResponseFormat({"description": "x" * 4000})},
        {"response_format": ResponseFormat({}, name="x" * 4000)},
        {"stop": ("x" * 4000,)},
        {"tools": (Tool("x" * 4000),)},
        {"tools": (Tool("f", "x" * 4000),)},
        {"tools": (Tool("f", "", {"enum": ["x" * 4000]}),)},
        {"messages": (Message("user", "街" * 4000),)},
        {"messages": (Message("system", "x" * 4000), *QUESTION)},
        {"messages": (*QUESTION, Message("assistant", "", tool_calls=(ToolCall("x" * 4000, {}),)))},
        {
            "messages": (
                *QUESTION,
                Message("assistant", "", tool_calls=(ToolCall("f", {}, "x" * 4000),)),
            )
        },
        {"messages": (*QUESTION, Message("tool", "1", tool_call_id="x" * 4000))},
    ],
    ids=lambda grown: next(iter(grown)),
)
def test_every_text_that_leaves_counts_byte_by_byte(grown: dict[str, Any]) -> None:
    assert most_input_tokens(replace(PLAIN, **grown)) >= most_input_tokens(PLAIN) + 4000


def test_a_name_that_gemini_repeats_counts_each_time() -> None:
    called = Message("assistant", "", tool_calls=(ToolCall("x" * 4000, {}, "a"),))
    results = [Message("tool", "1", tool_call_id="a")] * 50
    assert most_input_tokens(Request(messages=(*QUESTION, called, *results))) > 51 * 4000


def test_a_picture_counts_as_its_provider_says_or_as_the_most() -> None:
    def most(image: Image) -> int:
        return most_input_tokens(Request(messages=(Message("user", "", images=(image,)),)))

    assert most(Image(b"x", tokens=1)) - 1 == most(Image(b"x")) - MOST_TOKENS_PER_IMAGE


# -- what a provider says -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": -5},
        {"input_tokens": 0},
        {"input_tokens": None},
        {"input_tokens": 1.5},
        {"input_tokens": True},
        {"input_tokens": "12"},
        {"input_tokens": 10**25},
        {"input_tokens": 5, "output_tokens": -1},
        {"input_tokens": 5, "output_tokens": 10**8},
        {"input_tokens": 5, "cached_tokens": -1},
        {"audio_seconds": math.nan},
        {"audio_seconds": 1e12},
    ],
    ids=str,
)
def test_a_usage_that_cannot_be_is_not_believed(usage: dict[str, Any]) -> None:
    assert not believable(Finish("stop", **usage))


def test_a_usage_that_can_be_is_believed_even_if_it_is_large() -> None:
    assert believable(Finish("stop", input_tokens=2_000_000, output_tokens=0))
    assert believable(Finish("stop", audio_seconds=60.0))


def test_counts_are_added_only_if_all_are_counts() -> None:
    assert counted(2, 3) == 5
    assert [counted(2, each) for each in (-1, None, 1.0, "3", True)] == [-1] * 5
