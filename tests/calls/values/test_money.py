"""Currencies by their names."""

from __future__ import annotations

import pytest

from edgewise.calls.values.numbers import says_currency
from edgewise.calls.values.words import spaced


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("rupiah", "IDR"), ("Indonesian Rupiah", "IDR"), ("dollars", "USD"), ("bucks", "usd"),
        ("Canadian dollars", "CAD"), ("Euros", "EUR"), ("pounds", "GBP"), ("Thai baht", "THB"),
        ("pounds sterling", "GBP"), ("Egyptian pounds", "EGP"), ("naira", "NGN"), ("won", "KRW"),
        ("Swiss francs", "CHF"), ("Swedish kronor", "SEK"), ("Brazilian reais", "BRL"),
    ],
)  # fmt: skip
def test_a_text_says_a_currency_by_any_of_its_names(name: str, code: str) -> None:
    assert says_currency(code, spaced(f"how many {name} is that"))
    assert not says_currency(code, spaced("how much is that"))


@pytest.mark.parametrize(
    ("name", "code"),
    [("pesos", "MXN"), ("francs", "CHF"), ("kroner", "NOK"), ("shells", "XYZ"), ("", "")],
)
def test_a_name_that_several_currencies_share_says_none(name: str, code: str) -> None:
    assert not says_currency(code, spaced(f"how many {name} is that"))
