"""Numbers that a text says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.values.numbers import find_numbers, whole


@pytest.mark.parametrize(
    ("text", "kind", "value", "unit"),
    [
        ("a 15% tip", "percent", 15, "%"),
        ("fifteen per cent", "percent", 15, "%"),
        ("losses 2.5 percent", "percent", 2.5, "%"),
        ("$20", "money", 20, "USD"),
        ("€14,000 in damage", "money", 14_000, "EUR"),
        ("twenty bucks", "money", 20, "USD"),
        ("300 GBP", "money", 300, "GBP"),
        ("71 kg", "number", 71, "kg"),
        ("0.0043sqm", "number", 0.0043, "sqm"),
        ("5 °C", "number", 5, "°c"),
        ("seven", "number", 7, ""),
    ],
)
def test_a_number_keeps_what_it_counts(text: str, kind: str, value: float, unit: str) -> None:
    (found,) = find_numbers(text)
    assert (found.kind, found.value, found.unit) == (kind, value, unit)


SMALL = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
TENS = ["-", "-", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def spell(value: int, hyphen: str = "-", boundary: str = " and ") -> str:
    """A number below a million in words, the other way round from what is tested."""
    if value < 20:
        return SMALL[value]
    if value < 100:
        return TENS[value // 10] + (hyphen + SMALL[value % 10] if value % 10 else "")
    size, name = (1000, "thousand") if value >= 1000 else (100, "hundred")
    rest = value % size
    mark = boundary if rest < 100 else " "
    return f"{spell(value // size, hyphen, boundary)} {name}" + (
        mark + spell(rest, hyphen, boundary) if rest else ""
    )


def values(text: str) -> list[float]:
    return [number.value for number in find_numbers(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a town of 5,000,000", [5_000_000]),
        ("213 million people", [213_000_000]),
        ("1.5e6 cells", [1_500_000]),
        ("twenty-five chairs", [25]),
        ("a dozen eggs and two dozen rolls", [12, 24]),
        ("two and a half cups", [2.5]),
        ("1/2 cup, 2 1/2 cups, 2½ cups", [0.5, 2.5, 2.5]),
        ("-5 outside, minus three inside", [-5, -3]),
        ("12k followers, 1.5M views", [12_000, 1_500_000]),
        ("eighty point five metres", [80.5]),
        ("half a million", [500_000]),
        ("two thirds, three quarters, one half", [2 / 3, 0.75, 0.5]),
        ("nineteen ninety-nine, twenty twenty-four, twenty oh five", [1999, 2024, 2005]),
        ("the 3rd time, the twenty-first", [3, 21]),
        ("one hundred and then two thousand and five", [100, 2005]),
        ("86 minus 6", [86, 6]),
        ("five, six and seven", [5, 6, 7]),
        ("zoom x1.5", [1.5]),
        ("a7 b52c", []),
        ("this one, not that one", []),
    ],
)
def test_a_number_is_read_in_every_common_form(text: str, expected: list[float]) -> None:
    assert values(text) == pytest.approx(expected)


@given(st.integers(0, 9999), st.sampled_from(["-", " "]), st.sampled_from([" and ", " "]))
def test_a_number_spelled_out_is_read_back(value: int, hyphen: str, boundary: str) -> None:
    assert values(f"give me {spell(value, hyphen, boundary)} of them") == [value]


@given(st.integers(-(10**15), 10**15))
def test_digits_are_read_back_with_and_without_separators(value: int) -> None:
    assert values(f"take {value} now") == [value]
    assert values(f"take {value:,} now") == [value]


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader_and_every_span_holds_its_text(text: str) -> None:
    for number in find_numbers(text):
        assert text[number.start : number.end] == number.text
        assert number.value == whole(number.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Stell die Heizung auf neunzehn Grad", [19]),
        ("dreißig oder fünfundzwanzig Prozent, einundzwanzig Minuten", [30, 25, 21]),
        ("vingt-deux degrés, vingt et un, soixante-dix, dix-sept", [22, 21, 70, 17]),
        ("treinta y cinco grados y veintidós minutos, dieciséis", [35, 22, 16]),
        ("ventuno gradi, ventotto, trentasei", [21, 28, 36]),
        ("elf, once, due, sei, quince and seize are English", []),
    ],
)
def test_numbers_of_other_languages_are_read(text: str, expected: list[float]) -> None:
    assert [one.value for one in find_numbers(text)] == expected


def test_a_number_too_long_to_keep_is_not_read() -> None:
    assert values("9" * 5000) == []
    assert values("1e999") == []
