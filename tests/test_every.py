"""A test over many items is as strict as one for each."""

from __future__ import annotations

import re

import pytest

from tests.every import every


def test_every_failure_is_reported_in_one_message() -> None:
    @every(range(6))
    def is_even(number: int) -> None:
        assert number % 2 == 0, f"{number} is odd"

    with pytest.raises(AssertionError) as caught:
        is_even()
    assert re.findall(r"(\d): \1 is odd", str(caught.value)) == ["1", "3", "5"]


def test_what_holds_of_all_passes_and_what_breaks_is_no_failure_of_one_item() -> None:
    @every([1, 2, 0])
    def divides(number: int) -> None:
        assert 1 / number > 0

    with pytest.raises(ZeroDivisionError):
        divides()
    every([1, 2])(lambda number: None)()


def test_nothing_to_ask_of_is_a_failure() -> None:
    with pytest.raises(AssertionError, match="nothing"):
        every([])(lambda item: None)()
