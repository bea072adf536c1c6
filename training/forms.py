"""The same value in another form the schema asks for: 5 percent as 0.05, a day as MM/DD/YYYY, …"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from training.frame_types import Kind, Number, Parameter, Pool
from training.number_forms import digits
from training.values import Said
from training.word_pools import full_cities


@dataclass(frozen=True, slots=True)
class Form:
    """How a value is written in the call, and what the description says about it."""

    kind: Kind
    hints: tuple[str, ...]
    convert: Callable[[Said], Any]


def _tidy(value: float) -> int | float:
    rounded = round(value, 6)
    return int(rounded) if rounded == int(rounded) else rounded


def _words(said: Said) -> Any:
    return said.text


def _day(pattern: str) -> Callable[[Said], Any]:
    return lambda said: dt.date.fromisoformat(said.value).strftime(pattern)


def _twelve_hours(said: Said) -> Any:
    hour, minute = (int(part) for part in said.value.split(":"))
    return f"{hour % 12 or 12}:{minute:02} {'AM' if hour < 12 else 'PM'}"


CODE_LENGTH = 3
CURRENCY_CODES = {
    "swiss francs": "CHF", "japanese yen": "JPY", "euros": "EUR", "us dollars": "USD",
    "british pounds": "GBP", "indian rupees": "INR", "mexican pesos": "MXN", "thai baht": "THB",
    "swedish kronor": "SEK", "polish zloty": "PLN", "south korean won": "KRW", "reais": "BRL",
    "canadian dollars": "CAD", "brazilian reais": "BRL", "turkish lira": "TRY", "yuan": "CNY",
    "norwegian kroner": "NOK", "czech koruna": "CZK", "hungarian forint": "HUF", "rand": "ZAR",
    "south african rand": "ZAR", "chinese yuan": "CNY", "dollars": "USD", "pounds": "GBP",
    "yen": "JPY", "rupees": "INR", "australian dollars": "AUD", "danish kroner": "DKK",
    "zloty": "PLN", "singapore dollars": "SGD", "bitcoin": "BTC", "sterling": "GBP", "quid": "GBP",
    "won": "KRW", "baht": "THB", "francs": "CHF", "lira": "TRY", "hong kong dollars": "HKD",
    "new zealand dollars": "NZD", "israeli shekels": "ILS", "dirhams": "AED", "greenbacks": "USD",
}  # fmt: skip
_CODE = re.compile(r"\bcode|iso|letter", re.IGNORECASE)
FRACTION_HINTS = (
    "as a decimal", "(0.15 for 15%)", "as a fraction of 1", "in decimal form", "between 0 and 1",
)  # fmt: skip
PERCENT_HINTS = ("in percent", "as a percentage", "(%)", "(15 for 15%)")
AS_FRACTION = Form("float", FRACTION_HINTS, lambda said: _tidy(said.value / 100))
AS_PERCENT = Form("float", PERCENT_HINTS, lambda said: _tidy(said.value * 100))
AS_SAID = Form("str", ("", "", "as the user says it"), _words)
_DATES = (
    (0.6, None),
    (0.15, AS_SAID),
    (0.12, Form("str", ("(MM/DD/YYYY)", "in MM/DD/YYYY format"), _day("%m/%d/%Y"))),
    (0.07, Form("str", ("(DD/MM/YYYY)", "in DD/MM/YYYY format"), _day("%d/%m/%Y"))),
    (0.03, Form("str", ("as DD.MM.YYYY",), _day("%d.%m.%Y"))),
    (0.03, Form("str", ("as YYYYMMDD",), _day("%Y%m%d"))),
)
_TIMES = (
    (0.65, None),
    (0.2, AS_SAID),
    (0.15, Form("str", ("like 7:30 PM", "in 12-hour format, e.g. 9:05 AM"), _twelve_hours)),
)
_MINUTES = (
    (0.65, None),
    (0.2, Form("int", ("in seconds", "(seconds)"), lambda said: said.value * 60)),
    (0.15, AS_SAID),
)
_SECONDS = ((0.8, None), (0.2, AS_SAID))
_CITY_HINTS = (
    "City and country (state in the US), e.g. Lima, Peru or Boston, MA",
    "in the form City, Country (City, State for the US)",
    "City, State (abbr) for US cities or City, Country",
    "formatted as 'City, Country' or 'City, ST'",
)
AS_FULL_CITY = Form("str", _CITY_HINTS, lambda said: full_city(said.text))
AS_TEXT = Form("str", ("", "", "as text", "given as a string"), lambda said: digits(said.value))
_CURRENCY_HINTS = (
    "ISO 4217 code", "three-letter code, e.g. USD", "as a currency code (EUR, JPY)", "(ISO code)",
)  # fmt: skip
AS_CODE = Form("str", _CURRENCY_HINTS, lambda said: currency_code(said.text))
_FIXED = re.compile(
    r"percent|%|pct|decimal|fraction|0\.|yyyy|iso|hh:mm|24|minute|second|_min\b|_s\b|mins|secs",
    re.IGNORECASE,
)


def currency_code(text: str) -> str:
    """The three letters of a currency, given as a code or by name; "" where we do not know it."""
    if len(text) == CODE_LENGTH and text.isalpha():
        return text.upper()
    return CURRENCY_CODES.get(text.lower(), "")


def full_city(text: str) -> str:
    """The city with its country, where we know it; "" where not."""
    return text if ", " in text else full_cities().get(text.lower(), "")


def _number_form(values: Number, manner: float) -> Form | None:
    if values.kind == "plain" and not values.unit:
        return AS_TEXT if manner > 0.96 else None
    if manner >= 0.3:
        return None
    return {"percent": AS_FRACTION, "fraction": AS_PERCENT}.get(values.kind)


def pick_form(parameter: Parameter, manner: float, said: Sequence[Said] = ()) -> Form | None:
    """Another form for a parameter's values, unless its name or description settles the form.

    `manner`, in [0, 1), belongs to the tool: all its dates are written alike. `said` are the
    values that will have to be converted.
    """
    if parameter.counts is not None or _FIXED.search(f"{parameter.name} {parameter.description}"):
        return None
    values = parameter.values
    if values == Pool("city"):
        known = all(full_city(one.text) for one in said)
        return AS_FULL_CITY if manner > 0.9 and known else None
    if values == Pool("currency"):
        wanted = manner > 0.5 or _CODE.search(parameter.description)
        return AS_CODE if wanted and all(currency_code(one.text) for one in said) else None
    if isinstance(values, Number):
        return _number_form(values, manner)
    if isinstance(values, Pool) and values.form:
        table = {"date": _DATES, "time": _TIMES}.get(values.name, ())
        if values.name == "duration":
            table = _MINUTES if values.form == "min" else _SECONDS
        for share, form in table:
            if manner < share:
                return form
            manner -= share
    return None
