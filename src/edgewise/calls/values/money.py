"""Currencies by their names and signs."""

from __future__ import annotations

from edgewise.calls.values.words import spaced

SIGNS = {
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
_CODES = frozenset({*_NAMES.values(), *SIGNS.values()})


def currency_code(name: str) -> str | None:
    """`IDR` for `Indonesian rupiah`; None where the name means no currency, or several."""
    sign = SIGNS.get(name.strip().lower())
    if sign:
        return sign
    return _NAMES.get(spaced(name).strip())


def says_currency(code: str, text: str) -> bool:
    """Whether the request (spaced text) names the currency of a code, by any of its names."""
    return code.upper() in _CODES and any(
        f" {name} " in text for name, one in _NAMES.items() if one == code.upper()
    )


def currency_said(value: str, text: str) -> str | None:
    """The code of the currency that ends in these words wherever a spaced text says them."""
    own, codes = spaced(value), set()
    place = text.find(own)
    while place >= 0 and own != " ":
        before = text[:place].split()[-2:]
        names = (" ".join((*before[skip:], own.strip())) for skip in range(len(before) + 1))
        codes.add(next((code for name in names if (code := currency_code(name))), None))
        place = text.find(own, place + 1)
    return codes.pop() if len(codes) == 1 else None
