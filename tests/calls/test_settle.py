"""The last hand on a call, on everyday tools and on any: done once, it has nothing more to do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgewise.calls.normalize import (
    FATAL,
    normalize,
)
from edgewise.calls.values.read import hear
from edgewise.types.messages import Source, Tool, ToolCall
from tests.calls.schemas import SCALARS, WORDS, tools, valid_calls
from tests.flows.calling import MESSAGE, TIMER, WEATHER, tool

LIGHT = tool(
    "set_light",
    "Set the brightness of a light",
    room={"type": "string", "enum": ["kitchen", "bedroom", "hall"]},
    level={"type": "integer", "minimum": 0, "maximum": 100},
)


def local(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments, source="local")


def test_a_good_call_is_left_as_it_is() -> None:
    call = ToolCall("set_timer", {"minutes": 5}, id="call_1", source="cloud", confidence=0.9)
    assert normalize(call, TIMER, hear("Set a timer for 5 minutes")) == call


@pytest.mark.parametrize(("given_value", "normalized"), [("5", 5), (5.0, 5)], ids=["text", "float"])
def test_numbers_are_brought_to_their_type(given_value: Any, normalized: int) -> None:
    call = normalize(
        ToolCall("set_timer", {"minutes": given_value}), TIMER, hear("Set a timer for 5 minutes")
    )
    value = call.arguments["minutes"]
    assert (value, type(value)) == (normalized, int)
    assert call.complaints == () and call.repairs


def test_a_tool_nobody_offered_is_flagged_and_nothing_else_is_touched() -> None:
    call = ToolCall("order_pizza", {"size": "5"})
    normalized = normalize(call, None, hear("Order a pizza"))
    assert (normalized.arguments, normalized.complaints) == (call.arguments, ("unknown_tool",))
    assert "unknown_tool" in FATAL


def test_what_the_words_say_is_filled_in() -> None:
    normalized = normalize(local("get_weather"), WEATHER, hear("What is the weather in London?"))
    assert (normalized.arguments, normalized.complaints) == ({"location": "London"}, ())


def test_what_nobody_says_is_missed() -> None:
    normalized = normalize(local("set_timer"), TIMER, hear("Set a timer"))
    assert "missing_argument" in normalized.complaints


def test_what_is_made_up_is_replaced_or_complained_about() -> None:
    normalized = normalize(
        local("get_weather", location="Paris"), WEATHER, hear("the weather in London")
    )
    assert normalized.arguments == {"location": "London"} or "ungrounded" in normalized.complaints


def test_what_the_cloud_knows_beyond_the_words_is_left_to_it() -> None:
    call = ToolCall("get_weather", {"location": "Paris"}, source="cloud")
    normalized = normalize(
        call, WEATHER, hear("the weather where the Eiffel Tower is, not in London")
    )
    assert normalized.arguments == {"location": "Paris"}


def test_what_is_said_in_another_part_of_the_request_is_not_made_up() -> None:
    call = local("send_message", recipient="Tom", message="good luck")
    whole = hear("Find Tom in my contacts and send him a message saying good luck")
    normalized = normalize(call, MESSAGE, hear("send him a message saying good luck"), whole=whole)
    assert normalized.arguments["recipient"] == "Tom"


def test_choices_are_snapped_and_numbers_kept_in_range() -> None:
    call = ToolCall("set_light", {"room": "Kitchn", "level": 140})
    normalized = normalize(call, LIGHT, hear("Set the kitchen light to 140"))
    assert normalized.arguments["room"] == "kitchen"
    assert normalized.arguments["level"] == 100 or "out_of_range" in normalized.complaints


def test_earlier_repairs_are_kept_and_none_is_told_twice() -> None:
    call = ToolCall("set_timer", {"minutes": "5"}, repairs=("renamed_tool", "coerced:minutes"))
    normalized = normalize(call, TIMER, hear("Set a timer for 5 minutes"))
    assert normalized.repairs == ("renamed_tool", "coerced:minutes")


SAID = st.sampled_from(["5", "seven", "London", "kitchen", "tomorrow", "7pm", "Tom"])
REQUESTS = st.lists(WORDS | SAID, max_size=8).map(" ".join)
JSON = st.recursive(
    SCALARS | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)


@st.composite
def any_call(draw: st.DrawFn) -> tuple[ToolCall, Tool, str]:
    """A tool of any spelling, a call that is valid or has anything for some of its arguments."""
    offered = draw(tools())
    chosen = draw(st.sampled_from(offered))
    valid = draw(valid_calls([chosen]))
    arguments = dict(valid[0].arguments) if valid else {}
    names = [*(chosen.parameters.get("properties") or {}), "unheard_of"]
    for name in draw(st.lists(st.sampled_from(names), max_size=3)):
        arguments[name] = draw(JSON)
    source: Source = draw(st.sampled_from(["local", "cloud"]))
    return ToolCall(chosen.name, arguments, source=source), chosen, draw(REQUESTS)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(any_call())
def test_settling_twice_changes_nothing_more(case: tuple[ToolCall, Tool, str]) -> None:
    call, chosen, request = case
    once = normalize(call, chosen, hear(request))
    again = normalize(once, chosen, hear(request))
    assert repr(again.arguments) == repr(once.arguments)
    assert again.complaints == once.complaints


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([TIMER, WEATHER, MESSAGE, LIGHT]).flatmap(
        lambda each: st.tuples(
            st.just(each),
            st.dictionaries(st.sampled_from(list(each.parameters["properties"])), JSON, max_size=2),
        )
    ),
    REQUESTS,
)
def test_settling_is_idempotent_for_everyday_tools(
    case: tuple[Tool, dict[str, Any]], request_text: str
) -> None:
    chosen, arguments = case
    once = normalize(local(chosen.name, **arguments), chosen, hear(request_text))
    again = normalize(once, chosen, hear(request_text))
    assert repr(again.arguments) == repr(once.arguments)
    assert again.complaints == once.complaints
