"""Words as they are compared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.values.words import edits, fold, locate, name_words, spaced, stem, tokens


def test_case_accents_and_marks_are_folded_away() -> None:
    assert fold("Älvsjö") == "alvsjo"
    assert spaced("  Ne me quitte-pas! ") == " ne me quitte pas "
    assert spaced("Tom's") == spaced("Toms")


@pytest.mark.parametrize(
    ("one", "other"),
    [("boxes", "box"), ("stopped", "stopping"), ("cities", "city"), ("lights", "light")],
)
def test_inflections_share_a_stem(one: str, other: str) -> None:
    assert stem(one) == stem(other)


def test_an_identifier_is_split_into_its_words() -> None:
    assert name_words("maxPrice_eur") == ["max", "price", "eur"]
    assert name_words("HTTPServerURL") == ["http", "server", "url"]


def test_a_phrase_is_located_in_another_inflection() -> None:
    text = "no spicy dishes, please"
    assert locate("spicy dish", tokens(text)) == (3, 15)
    assert locate("sweet dish", tokens(text)) is None


def plain_distance(first: str, second: str) -> int:
    """The whole table, slowly: edits with swaps of neighbours."""
    table = {(row, 0): row for row in range(len(first) + 1)}
    table |= {(0, column): column for column in range(len(second) + 1)}
    for row in range(1, len(first) + 1):
        for column in range(1, len(second) + 1):
            table[row, column] = min(
                table[row - 1, column] + 1,
                table[row, column - 1] + 1,
                table[row - 1, column - 1] + (first[row - 1] != second[column - 1]),
            )
            if first[row - 2 : row] == second[column - 2 : column][::-1] and min(row, column) > 1:
                table[row, column] = min(table[row, column], table[row - 2, column - 2] + 1)
    return table[len(first), len(second)]


@given(st.text("abc", max_size=8), st.text("abc", max_size=8), st.integers(0, 4))
def test_the_bounded_distance_is_the_distance_up_to_its_limit(
    first: str, second: str, limit: int
) -> None:
    assert edits(first, second, limit) == min(plain_distance(first, second), limit + 1)
