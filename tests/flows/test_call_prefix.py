"""What a function model has read already is not estimated again."""

from __future__ import annotations

from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from edgewise.flows.call import (
    note,
    unread,
)
from edgewise.local.backend import CallBackend
from edgewise.testing import ScriptedFunctionModel

TEXT = st.text("ab", max_size=8)


@given(TEXT, TEXT)
def test_what_two_prompts_begin_with_is_read_once(before: str, after: str) -> None:
    function_model = ScriptedFunctionModel(["none"])
    assert unread(function_model, "", after) == after
    note(function_model, "", before)
    rest = unread(function_model, "", after)
    shared = after.removesuffix(rest) if rest else after
    assert shared + rest == after and before.startswith(shared)
    assert not rest or not before.startswith(shared + rest[0])


def test_each_function_model_has_read_its_own_prompt() -> None:
    one, other = ScriptedFunctionModel(["none"]), ScriptedFunctionModel(["none"])
    note(one, "", "tools and words")
    assert unread(one, "", "tools and more") == "more"
    assert unread(other, "", "tools and more") == "tools and more"


def test_what_another_owner_asked_is_no_reason_to_be_quick() -> None:
    function_model = ScriptedFunctionModel(["none"])
    note(function_model, "alice", "tools and words")
    assert unread(function_model, "mallory", "tools and words") == "tools and words"
    assert unread(function_model, "alice", "tools and words") == ""


def test_a_backend_that_cannot_be_remembered_is_new_every_time() -> None:
    class Slotted:
        __slots__ = ()

    function_model = cast(CallBackend, Slotted())
    note(function_model, "", "tools")
    assert unread(function_model, "", "tools") == "tools"
