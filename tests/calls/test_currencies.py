"""Currency names and codes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.ground import (
    UNGROUNDED,
    ground,
)
from edgewise.calls.values.money import (
    code_currencies,
    currency_code,
)
from edgewise.calls.values.read import hear
from edgewise.types.messages import Tool, ToolCall


def rates(description: str, name: str = "currency") -> Tool:
    return Tool(
        "rates", parameters={"properties": {name: {"type": "string", "description": description}}}
    )


RATES = rates("Three-letter code")


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


@pytest.mark.parametrize(
    ("value", "request_text", "expected"),
    [
        ("rupiah", "90 dollars in rupiah", "IDR"),
        ("RUPIAH", "90 dollars in rupiah", "IDR"),
        ("$", "$90 in rupiah", "USD"),
        ("dollars", "90 Canadian dollars", "CAD"),
        ("dollars", "90 New Zealand dollars", "NZD"),
        ("dollars", "90 Canadian dollars in American dollars", "dollars"),
        ("rupees", "90 Indian rupees", "INR"),
        ("rupees", "90 rupees", "rupees"),
        ("Canadian dollars", "90 Canadian dollars", "CAD"),
        ("yen", "90 euros", "yen"),
        ("JPY", "90 yen", "JPY"),
        ("pesos", "90 pesos", "pesos"),
    ],
)
def test_a_currency_that_the_request_names_becomes_its_code(
    value: str, request_text: str, expected: str
) -> None:
    call, changes = code_currencies(
        ToolCall("rates", {"currency": value}), RATES, hear(request_text)
    )
    assert call.arguments == {"currency": expected}
    assert changes == (("coded:currency",) if value != expected else ())


@pytest.mark.parametrize(
    ("tool", "coded"),
    [
        (rates("ISO 4217"), True),
        (rates("Which one, e.g. EUR"), True),
        (rates("Target currency code", "to"), True),
        (rates("As the user says it"), False),
        (rates("Code of the door", "door"), False),
    ],
)
def test_names_stay_where_no_code_is_wanted(tool: Tool, coded: bool) -> None:
    name = next(iter(tool.parameters["properties"]))
    call, _ = code_currencies(ToolCall("rates", {name: "yen"}), tool, hear("pay in yen"))
    assert call.arguments == {name: "JPY" if coded else "yen"}


@pytest.mark.parametrize("name", ["rupiah", "Thai baht", "Swedish kronor", "naira"])
def test_a_code_is_grounded_by_any_name_of_its_currency(name: str) -> None:
    call = ToolCall("rates", {"currency": currency_code(name)})
    assert ground(call, RATES, f"how many {name} is that").score > UNGROUNDED
    assert ground(call, RATES, "how much is that").score < UNGROUNDED


@given(st.from_regex(r"[A-Z]{3}", fullmatch=True), st.text(max_size=40))
def test_a_code_is_never_changed(code: str, request: str) -> None:
    call = ToolCall("rates", {"currency": code})
    assert code_currencies(call, RATES, hear(request)) == (call, ())
