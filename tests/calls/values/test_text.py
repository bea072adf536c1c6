"""All typed values of a text together."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.values.text import LONGEST_TEXT, find_values

PIECES = """at 7 half past six to nine pm 3/4/2025 March 3rd 2024 an hour and a half - "x" ' Paris
in INV-20 5,000 € % 1/2 minus o'clock next Friday 1h30 12:30 . , a@b.co http://x.y é ½"""
WORDS = st.lists(st.sampled_from(PIECES.split()), max_size=30)


def test_a_whole_request_is_read_in_order() -> None:
    text = "Book a table for 4 at 7:30 pm on May 3rd 2026 in Porto, 90 minutes, up to $80"
    assert [(found.kind, found.value) for found in find_values(text)] == [
        ("number", 4),
        ("time", "19:30"),
        ("date", "2026-05-03"),
        ("place", "Porto"),
        ("duration", 5400),
        ("money", 80),
    ]


@given(st.one_of(st.text(max_size=300), WORDS.map(" ".join), WORDS.map("".join)))
def test_values_stand_where_they_say_in_order_and_never_overlap(text: str) -> None:
    end = 0
    for found in find_values(text):
        assert text[found.start : found.end] == found.text
        assert found.start >= end
        end = found.end


@pytest.mark.parametrize(
    "unit",
    ["7 ", "a", "twenty ", '"', "'", "Aa ", "1/", "half past ", "x.y/", "1,234,", "-",
     "an hour and ", "March 3 ", "(", "@a.", "one hundred and ", "\u00bd", "A. ", "in x "],
)  # fmt: skip
def test_a_long_text_of_any_kind_is_read_in_time(unit: str) -> None:
    text = (unit * LONGEST_TEXT)[:20_000]
    started = time.process_time()
    find_values(text)
    assert time.process_time() - started < 5, "quadratic work shows here"
