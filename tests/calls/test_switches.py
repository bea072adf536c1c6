"""On and off, by the verb of the request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.ground import ground
from edgewise.calls.values.read import hear
from edgewise.calls.values.switches import set_switches
from edgewise.types.messages import Tool, ToolCall


def fan(name: str = "enabled", description: str = "", **more: str) -> Tool:
    told = {name: description, **more}
    return Tool(
        "garage_fan",
        "Controls the fan of the garage",
        {"properties": {key: {"type": "boolean", "description": told[key]} for key in told}},
    )


@pytest.mark.parametrize(
    ("request_text", "state"),
    [
        ("turn on the fan", True),
        ("please switch the garage fan on", True),
        ("could you enable the fan for an hour", True),
        ("start the fan", True),
        ("turn the fan off please", False),
        ("switch off the fan in the garage", False),
        ("deactivate the fan", False),
        ("stop the fan", False),
        ("don't turn on the fan", None),
        ("never enable the fan", None),
        ("turn the fan off and then turn on the fan", None),
        ("turn on the oven", None),
        ("turn the volume up on the fan", None),
        ("is the fan on", None),
    ],
)
def test_the_verb_that_governs_the_thing_sets_its_switch(
    request_text: str, state: bool | None
) -> None:
    for given_state in (True, False):
        call = ToolCall("garage_fan", {"enabled": given_state})
        changed, changes = set_switches(call, fan(), hear(request_text))
        assert changed.arguments == {"enabled": given_state if state is None else state}
        assert changes == (("switched:enabled",) if state is (not given_state) else ())


@pytest.mark.parametrize(
    ("tool", "sets"),
    [
        (fan("power"), True),
        (fan("quiet_hours", "Set to true to enable, false to disable"), True),
        (fan("loud", "Whether it hums"), False),
        (fan("status", "True to turn off the fan"), False),
        (fan("active", powered="On or off"), False),
    ],
)
def test_only_the_one_boolean_that_means_on_or_off_is_a_switch(tool: Tool, sets: bool) -> None:
    name = next(iter(tool.parameters["properties"]))
    call = ToolCall("garage_fan", {name: False})
    changed, _ = set_switches(call, tool, hear("turn on the fan"))
    assert changed.arguments == {name: sets}


def test_a_switch_against_the_verb_is_worse_grounded_than_one_with_it() -> None:
    scores = [
        ground(ToolCall("garage_fan", {"enabled": state}), fan(), "turn my fan off").score
        for state in (True, False)
    ]
    assert scores[0] < scores[1]


ORDERS = "turn on off the fan garage switch enable disable don't not never and stop start"


@given(st.lists(st.sampled_from(ORDERS.split()), max_size=9).map(" ".join), st.booleans())
def test_a_switch_set_once_stays_set(request: str, state: bool) -> None:
    heard = hear(request)
    changed, changes = set_switches(ToolCall("garage_fan", {"enabled": state}), fan(), heard)
    assert set_switches(changed, fan(), heard) == (changed, ())
    assert bool(changes) is (changed.arguments["enabled"] is not state)
