"""What a conversation becomes before a model reads it: turns, pictures, the template's text."""

from __future__ import annotations

import pytest

from edgewise.errors import GenerationFailed
from edgewise.local.chat_prompt import pictured_turns, plain_turns, render_turns, with_system
from edgewise.types.messages import Image, Message, ToolCall

WEATHER = ToolCall("get_weather", {"city": "Oslo"}, id="a")
TIMER = ToolCall("set_timer", {"minutes": 5}, id="b")


def test_turns_without_tools_are_left_as_they_are() -> None:
    said = [Message("system", "Be brief."), Message("user", "Hi."), Message("assistant", "Hello.")]
    assert plain_turns(said) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": "Hello."},
    ]


def test_results_are_something_to_read_in_the_turn_that_asked() -> None:
    said = [
        Message("user", "Weather in Oslo, and a timer?"),
        Message("assistant", tool_calls=(WEATHER, TIMER)),
        Message("tool", '{"sky": "rain"}', tool_call_id="a"),
        Message("tool", "done", tool_call_id="b"),
    ]
    (turn,) = plain_turns(said)
    assert turn["role"] == "user"
    assert turn["content"] == (
        'Read this: get weather: {"sky": "rain"}\nset timer: done\n\n'
        "Question: Weather in Oslo, and a timer?\nAnswer shortly."
    )


def test_an_answered_round_reads_the_same_later_so_that_its_prefix_is_reused() -> None:
    asked = [
        Message("user", "Weather?"),
        Message("assistant", "One moment.", tool_calls=(WEATHER,)),
        Message("tool", "rain", tool_call_id="a"),
    ]
    later = [*asked, Message("assistant", "Rain."), Message("user", "And tomorrow?")]
    assert plain_turns(later)[:1] == plain_turns(asked)
    assert "One moment." in plain_turns(asked)[0]["content"]
    assert [turn["role"] for turn in plain_turns(later)] == ["user", "assistant", "user"]


def test_a_result_whose_question_was_cut_away_is_still_read() -> None:
    assert plain_turns([Message("tool", "rain", tool_call_id="lost")]) == [
        {"role": "user", "content": "Read this: result: rain"}
    ]


def test_calls_nobody_answered_leave_no_empty_turn() -> None:
    said = [Message("user", "Weather?"), Message("assistant", tool_calls=(WEATHER,))]
    assert plain_turns(said) == [{"role": "user", "content": "Weather?"}]


def test_pictures_stand_before_the_words_of_their_turn() -> None:
    messages = (
        Message("system", "Be brief."),
        Message("user", "Look.", images=(Image(b"one", "image/png"), Image(b"two", "image/jpeg"))),
        Message("assistant", "I see."),
        Message("user", "And?"),
    )
    turns = pictured_turns(plain_turns(messages), messages)
    kinds = [part["type"] for part in turns[1]["content"]]
    assert kinds == ["image_url", "image_url", "text"]
    assert turns[1]["content"][1]["image_url"]["url"] == "data:image/jpeg;base64,dHdv"
    assert turns[3] == {"role": "user", "content": "And?"}


def test_a_system_prompt_comes_first_unless_there_is_one() -> None:
    turns = plain_turns([Message("user", "Hi.")])
    assert [turn["role"] for turn in with_system(turns, "Be brief.")] == ["system", "user"]
    own = plain_turns([Message("system", "Be long."), Message("user", "Hi.")])
    assert with_system(own, "Be brief.") == own


def test_a_model_without_a_template_reads_chat_ml() -> None:
    assert render_turns("", plain_turns([Message("user", "Hi.")])) == (
        "<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_template_sees_the_turns_and_the_special_tokens() -> None:
    template = """{{ bos_token }}{% for message in messages %}
    {{- message['role'] | upper }}: {{ message['content'] | trim }}{{ eos_token }}
{% endfor %}"""
    turns = plain_turns([Message("user", " Hi. ")])
    assert render_turns(template, turns, bos="<s>", eos="</s>") == "<s>USER: Hi.</s>\n"


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('roles must alternate') }}",
        "{{ messages.__class__.__mro__[1].__subclasses__() }}",
        "{% for a in range(99999999) %}x{% endfor %}",
        "{{ messages.append(1) }}",
        "{{ nothing.there }}",
        "{% if %}",
        "{{ 1 / 0 }}",
    ],
)
def test_a_bad_or_hostile_template_is_a_clear_error(template: str) -> None:
    with pytest.raises(GenerationFailed, match="chat template"):
        render_turns(template, plain_turns([Message("user", "Hi.")]))
