"""Currency names and codes."""

from __future__ import annotations

import pytest

from edgewise.calls.values.money import currency_code, says_currency
from edgewise.calls.values.words import spaced


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("rupiah", "IDR"), ("Indonesian Rupiah", "IDR"), ("dollars", "USD"), ("bucks", "USD"),
        ("Canadian dollars", "CAD"), ("Euros", "EUR"), ("£", "GBP"), ("pounds", "GBP"),
        ("pounds sterling", "GBP"), ("Egyptian pounds", "EGP"), ("yen", "JPY"), ("won", "KRW"),
        ("Swiss francs", "CHF"), ("Swedish kronor", "SEK"), ("Brazilian reais", "BRL"),
        ("Mexican pesos", "MXN"), ("złoty", None), ("pesos", None), ("francs", None),
        ("crowns", None), ("kroner", None), ("dinars", None), ("¥", None), ("", None),
        ("shells", None),
    ],
)  # fmt: skip
def test_a_name_has_a_code_where_it_means_one_currency(name: str, code: str | None) -> None:
    assert currency_code(name) == code


@pytest.mark.parametrize(("name", "code"), [("Thai baht", "THB"), ("naira", "NGN")])
def test_a_text_says_a_currency_by_any_of_its_names(name: str, code: str) -> None:
    assert says_currency(code, spaced(f"how many {name} is that"))
    assert not says_currency(code, spaced("how much is that"))
