"""What numbers count."""

from __future__ import annotations

import pytest

from edgewise.calls.values.numbers import find_numbers


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
