"""Names as the list of known things spells them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.parse import as_listed
from edgewise.types.messages import ToolCall

HOME = {
    "date": "2026-11-16",
    "areas": [{"name": "Kitchen"}, {"name": "Bedroom"}],
    "entities": [
        {"name": "Desk Lamp", "domain": "light", "area": "Study"},
        {"name": "Ceiling Fan", "domain": "fan", "area": "Bedroom"},
        {"name": "Night Light", "domain": "light", "area": "Bedroom"},
        {"name": "Reading Light", "domain": "light", "area": "Bedroom"},
    ],
}


@pytest.mark.parametrize(
    ("said", "listed"),
    [
        ({"area": "bedroom"}, {"area": "Bedroom"}),
        ({"name": "desk lamp"}, {"name": "Desk Lamp"}),
        ({"name": "the bedroom fan"}, {"name": "Ceiling Fan"}),
        ({"name": "bedroom light"}, {"name": "bedroom light"}),  # two of them
        ({"name": "toaster"}, {"name": "toaster"}),
        ({"name": "the"}, {"name": "the"}),
        ({"domain": "LIGHT", "brightness": 40}, {"domain": "light", "brightness": 40}),
        ({"song": "Desk lamp"}, {"song": "Desk lamp"}),  # no list has songs
    ],
)
def test_what_a_list_knows_is_called_as_it_is_there(
    said: dict[str, object], listed: dict[str, object]
) -> None:
    call = as_listed(ToolCall("HassTurnOn", said), HOME)
    assert dict(call.arguments) == listed
    changed = tuple(f"listed:{name}" for name in said if said[name] != listed[name])
    assert call.repairs == changed


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
)


@given(st.dictionaries(st.sampled_from("ab"), VALUES), st.dictionaries(st.text(max_size=4), VALUES))
def test_no_context_changes_what_it_does_not_list(
    arguments: dict[str, object], context: dict[str, object]
) -> None:
    call = ToolCall("f", arguments)
    read = as_listed(call, context)
    assert read == call or read.repairs
    assert as_listed(call, {}) == call
