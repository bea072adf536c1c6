from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.normalize import plain_hours
from edgewise.calls.values.read import hear
from edgewise.types.messages import Tool, ToolCall

ALARM = Tool(
    "set_alarm",
    parameters={
        "type": "object",
        "properties": {"hour": {"type": "integer"}, "count": {"type": "integer"}},
    },
)


def hour_of(request: str, hour: int) -> int:
    call, _ = plain_hours(ToolCall("set_alarm", {"hour": hour}), ALARM, hear(request))
    return int(call.arguments["hour"])


@pytest.mark.parametrize(
    ("request_text", "written", "meant"),
    [
        ("Wake me at half past six", 18, 6),
        ("Set an alarm for 6:30", 18, 6),
        ("Set an alarm for 6:30 pm", 18, 18),
        ("Wake me at half past six in the evening", 18, 18),
        ("An alarm for dinner at half past six", 18, 18),
        ("Set an alarm for 18:30", 18, 18),
        ("Set an alarm for quarter past seven", 18, 18),
        ("Wake me at half past six", 6, 6),
    ],
)
def test_an_hour_is_taken_as_it_was_said(request_text: str, written: int, meant: int) -> None:
    assert hour_of(request_text, written) == meant


def test_the_change_is_named_and_other_numbers_are_left_alone() -> None:
    call = ToolCall("set_alarm", {"hour": 19, "count": 19})
    normalized, made = plain_hours(call, ALARM, hear("Wake me at seven o'clock"))
    assert normalized.arguments == {"hour": 7, "count": 19}
    assert made == ("as_said:hour",)


@given(st.text(max_size=60), st.integers(min_value=0, max_value=30))
def test_doing_it_twice_changes_nothing_more(text: str, hour: int) -> None:
    once = hour_of(text, hour)
    assert hour_of(text, once) == once
