"""What a model puts around a string, and what it must not lose."""

from __future__ import annotations

import pytest

from edgewise.calls.coerce import clean_text


@pytest.mark.parametrize(
    ("text", "request_text", "clean"),
    [
        ("back at 5.", "write that I am back at 5.", "back at 5"),
        ("back at 5 p.m.", "write that I am back at 5 p.m.", "back at 5 p.m."),
        ("see Ann J.", "say see Ann J.", "see Ann J."),
        ("wait...", "say wait...", "wait..."),
        ("'fine'", "say 'fine'", "fine"),
        ("done.", "say done. Then stop", "done."),
    ],
)
def test_the_full_stop_of_the_request_goes_and_that_of_a_word_stays(
    text: str, request_text: str, clean: str
) -> None:
    assert clean_text(text, request_text) == clean
