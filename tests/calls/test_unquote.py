"""Quotes that stuck to a value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.normalize import unquote
from edgewise.calls.values.read import hear
from edgewise.types.messages import Tool, ToolCall

NOTE = Tool("note", parameters={"properties": {"text": {"type": "string"}}})


@pytest.mark.parametrize(
    ("value", "request_text", "expected"),
    [
        ("running late'", "tell Ida 'running late'", "running late"),
        ("'running late", "tell Ida 'running late'", "running late"),
        ("'running late,", "tell Ida 'running late', then stop", "running late"),
        ("\u201crunning late", 'tell Ida "Running late!"', "Running late!"),
        ("the dogs'", "walk the dogs' friends", "the dogs'"),
        ("rock 'n' roll", "play 'rock 'n' roll'", "rock 'n' roll"),
        ("'running", "tell Ida 'running late'", "'running"),
        ("'", "tell Ida 'running late'", "'"),
    ],
)
def test_the_inside_of_a_quotation_is_taken_whole_or_not_at_all(
    value: str, request_text: str, expected: str
) -> None:
    call, changes = unquote(ToolCall("note", {"text": value}), NOTE, hear(request_text))
    assert call.arguments == {"text": expected}
    assert changes == (("unquoted:text",) if value != expected else ())


@given(st.text(max_size=20), st.sampled_from(["'{}'", '"{}"', "{}", "say {} and 'so'"]))
def test_what_the_request_quotes_is_never_changed(inside: str, quoting: str) -> None:
    heard = hear(f"write {quoting.format(inside)} down")
    for one in heard.found:
        if one.kind == "quoted":
            call = ToolCall("note", {"text": one.value})
            changed, _ = unquote(call, NOTE, heard)
            assert str(changed.arguments["text"]).strip("'\" .,;:!?") in one.value
