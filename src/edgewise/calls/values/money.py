"""Currencies by their names and signs, and the code where a parameter asks for one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from edgewise.calls.parameters import revise
from edgewise.calls.values.read import Heard
from edgewise.calls.words import (
    name_words,
    spaced,
)
from edgewise.types.messages import Tool, ToolCall

_SIGNS = {
    "$": "USD", "us$": "USD", "€": "EUR", "£": "GBP", "₹": "INR", "₩": "KRW", "₺": "TRY",
    "₽": "RUB", "₫": "VND", "₱": "PHP", "₪": "ILS", "₦": "NGN", "₴": "UAH", "₿": "BTC",
    "฿": "THB", "r$": "BRL", "zł": "PLN", "a$": "AUD", "c$": "CAD", "nz$": "NZD", "hk$": "HKD",
    "s$": "SGD",
}  # fmt: skip
# Names that stand for one currency alone, in the singular.
_ALONE = {
    "us dollar": "USD", "american dollar": "USD", "dollar": "USD", "buck": "USD",
    "greenback": "USD", "euro": "EUR", "pound": "GBP", "pound sterling": "GBP",
    "sterling": "GBP", "quid": "GBP", "british pound": "GBP", "yen": "JPY", "yuan": "CNY",
    "renminbi": "CNY", "rmb": "CNY", "won": "KRW", "rupiah": "IDR", "ringgit": "MYR",
    "baht": "THB", "dong": "VND", "zloty": "PLN", "forint": "HUF", "lev": "BGN", "leva": "BGN",
    "shekel": "ILS", "sheqel": "ILS", "naira": "NGN", "cedi": "GHS", "rand": "ZAR",
    "birr": "ETB", "hryvnia": "UAH", "tenge": "KZT", "lari": "GEL", "taka": "BDT",
    "kyat": "MMK", "riel": "KHR", "kip": "LAK", "tugrik": "MNT", "quetzal": "GTQ",
    "lempira": "HNL", "guarani": "PYG", "boliviano": "BOB", "balboa": "PAB", "kwacha": "ZMW",
    "kwanza": "AOA", "pula": "BWP", "bitcoin": "BTC", "ruble": "RUB", "rouble": "RUB",
    "lira": "TRY", "loonie": "CAD", "somoni": "TJS", "manat": "AZN", "dram": "AMD",
}  # fmt: skip
# Names that several countries share, by the country's word before them.
_SHARED: dict[str, dict[str, str]] = {
    "dollar": {
        "canadian": "CAD", "australian": "AUD", "aussie": "AUD", "new zealand": "NZD",
        "kiwi": "NZD", "hong kong": "HKD", "singapore": "SGD", "singaporean": "SGD",
        "taiwan": "TWD", "taiwanese": "TWD", "new taiwan": "TWD", "jamaican": "JMD",
        "fijian": "FJD", "namibian": "NAD", "bahamian": "BSD",
    },
    "pound": {"egyptian": "EGP", "lebanese": "LBP", "syrian": "SYP", "sudanese": "SDG"},
    "rupee": {
        "indian": "INR", "pakistani": "PKR", "pakistan": "PKR", "sri lankan": "LKR",
        "nepalese": "NPR", "nepali": "NPR", "mauritian": "MUR",
    },
    "peso": {
        "mexican": "MXN", "argentine": "ARS", "argentinian": "ARS", "chilean": "CLP",
        "colombian": "COP", "philippine": "PHP", "filipino": "PHP", "uruguayan": "UYU",
        "cuban": "CUP", "dominican": "DOP",
    },
    "franc": {"swiss": "CHF", "cfa": "XOF", "rwandan": "RWF"},
    "krona": {"swedish": "SEK", "icelandic": "ISK"},
    "krone": {"norwegian": "NOK", "danish": "DKK"},
    "koruna": {"czech": "CZK"}, "crown": {"czech": "CZK", "swedish": "SEK"},
    "leu": {"romanian": "RON", "moldovan": "MDL"},
    "dinar": {
        "kuwaiti": "KWD", "serbian": "RSD", "jordanian": "JOD", "bahraini": "BHD",
        "iraqi": "IQD", "tunisian": "TND", "algerian": "DZD",
    },
    "dirham": {"uae": "AED", "emirati": "AED", "moroccan": "MAD"},
    "riyal": {"saudi": "SAR", "qatari": "QAR"},
    "rial": {"omani": "OMR", "iranian": "IRR", "yemeni": "YER"},
    "shilling": {"kenyan": "KES", "ugandan": "UGX", "tanzanian": "TZS"},
    "real": {"brazilian": "BRL"}, "sol": {"peruvian": "PEN"},
    "lira": {"turkish": "TRY"}, "won": {"korean": "KRW", "south korean": "KRW"},
    "yen": {"japanese": "JPY"}, "yuan": {"chinese": "CNY"}, "rupiah": {"indonesian": "IDR"},
    "ringgit": {"malaysian": "MYR"}, "baht": {"thai": "THB"}, "dong": {"vietnamese": "VND"},
    "zloty": {"polish": "PLN"}, "forint": {"hungarian": "HUF"}, "lev": {"bulgarian": "BGN"},
    "shekel": {"israeli": "ILS"}, "naira": {"nigerian": "NGN"}, "cedi": {"ghanaian": "GHS"},
    "rand": {"south african": "ZAR"}, "hryvnia": {"ukrainian": "UAH"},
    "ruble": {"russian": "RUB"}, "rouble": {"russian": "RUB"},
}  # fmt: skip
_PLURALS = {
    "krona": "kronor", "krone": "kroner", "koruna": "korun", "real": "reais", "leu": "lei",
    "sol": "soles", "pound sterling": "pounds sterling",
}  # fmt: skip


def _spoken() -> dict[str, str]:
    """The code of every name, in the singular and in the plural."""
    names = dict(_ALONE)
    for noun, countries in _SHARED.items():
        names.update({f"{country} {noun}": code for country, code in countries.items()})
    for name, code in tuple(names.items()):
        names[f"{name}s"] = code
        for one, many in _PLURALS.items():
            if name.endswith(one):
                names[name.removesuffix(one) + many] = code
    return names


_NAMES = _spoken()
_CODES = frozenset({*_NAMES.values(), *_SIGNS.values()})
_ASKS_CODE = re.compile(
    r"(?i:iso[ -]?4217|(?:3|three)[ -]letter|\bcode\b)|\b(?:USD|EUR|GBP|JPY|INR)\b"
)


def currency_code(name: str) -> str | None:
    """`IDR` for `Indonesian rupiah`; None where the name means no currency, or several."""
    sign = _SIGNS.get(name.strip().lower())
    if sign:
        return sign
    return _NAMES.get(spaced(name).strip())


def asks_currency_code(name: str, schema: Mapping[str, Any]) -> bool:
    """Whether the parameter wants a currency as its three letters."""
    described = schema.get("description")
    description = described if isinstance(described, str) else ""
    about = "currency" in name_words(name) or "currency" in description.lower()
    examples = schema.get("examples")
    listed = examples if isinstance(examples, list) else []
    told = " ".join((description, *name_words(name), *map(str, listed)))
    return about and "enum" not in schema and bool(_ASKS_CODE.search(told))


def says_currency(code: str, heard: Heard) -> bool:
    """Whether the request names the currency of a code, by any of its names."""
    return code.upper() in _CODES and any(
        f" {name} " in heard.spaced for name, one in _NAMES.items() if one == code.upper()
    )


def code_currencies(call: ToolCall, tool: Tool, heard: Heard) -> tuple[ToolCall, tuple[str, ...]]:
    """Codes for currencies that the request names, where codes are wanted: `coded:ARGUMENT`."""

    def better(name: str, schema: Mapping[str, Any], value: Any) -> Any:
        if not isinstance(value, str) or not asks_currency_code(name, schema):
            return None
        if re.fullmatch(r"[A-Z]{3}", value.strip()):
            return None
        sign = value.strip().lower()
        if sign in _SIGNS:
            return _SIGNS[sign] if sign in heard.text.lower() else None
        return _code_said(value, heard)

    return revise(call, tool, "coded", better)


def _code_said(value: str, heard: Heard) -> str | None:
    """The code of the currency that ends in these words wherever the request says them."""
    own, codes = spaced(value), set()
    place = heard.spaced.find(own)
    while place >= 0 and own != " ":
        before = heard.spaced[:place].split()[-2:]
        names = (" ".join((*before[skip:], own.strip())) for skip in range(len(before) + 1))
        codes.add(next((code for name in names if (code := currency_code(name))), None))
        place = heard.spaced.find(own, place + 1)
    return codes.pop() if len(codes) == 1 else None
