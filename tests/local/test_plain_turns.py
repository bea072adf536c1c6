"""What a small model reads of a conversation in which tools were called."""

from __future__ import annotations

from edgewise.local.llama_cpp import plain_turns
from edgewise.types.messages import Message, ToolCall

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
