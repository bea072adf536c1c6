"""What came of a call, as a model reads it, and which calls still wait."""

from __future__ import annotations

import datetime

import pytest

from edgewise.conversation import (
    answer_all,
    as_message,
    open_calls,
)
from edgewise.types.messages import Message, ToolCall
from edgewise.types.replies import ToolResult

CALL = ToolCall("get_weather", {"city": "Oslo"}, id="a")
KNOT: list[object] = []
KNOT.append(KNOT)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (ToolResult(CALL), "done"),
        (ToolResult(CALL, "Rain."), "Rain."),
        (ToolResult(CALL, 0), "0"),
        (ToolResult(CALL, {"sky": "bewölkt"}), '{"sky": "bewölkt"}'),
        (ToolResult(CALL, [datetime.date(2026, 3, 1)]), '["2026-03-01"]'),
        (ToolResult(CALL, {(1, 2): 3}), "{(1, 2): 3}"),
        (ToolResult(CALL, KNOT), "[[...]]"),
        (ToolResult(CALL, error="KeyError: 'Oslo'"), "failed: KeyError: 'Oslo'"),
    ],
)
def test_a_result_is_told_in_words(result: ToolResult, words: str) -> None:
    message = as_message(result)
    assert (message.role, message.content, message.tool_call_id) == ("tool", words, "a")


def test_only_calls_without_a_result_wait() -> None:
    other = ToolCall("set_timer", {"minutes": 5}, id="b")
    said = [
        Message("assistant", tool_calls=(CALL, other)),
        Message("tool", "Rain.", tool_call_id="a"),
    ]
    assert open_calls(said) == (other,)
    (closed,) = answer_all(said, ())
    assert (closed.tool_call_id, closed.content) == ("b", "failed: no result was given")
    assert open_calls([*said, closed]) == ()
