"""Currencies by their names."""

from __future__ import annotations

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


def _spoken() -> dict[str, list[str]]:
    """The names of every code, in the singular and in the plural."""
    codes = dict(_ALONE)
    for noun, countries in _SHARED.items():
        codes.update({f"{country} {noun}": code for country, code in countries.items()})
    names: dict[str, list[str]] = {}
    for name, code in codes.items():
        plurals = (
            name.removesuffix(one) + many for one, many in _PLURALS.items() if name.endswith(one)
        )
        names.setdefault(code, []).extend((name, f"{name}s", *plurals))
    return names


_NAMES = _spoken()


def says_currency(code: str, text: str) -> bool:
    """Whether the request (spaced text) names the currency of a code, by any of its names."""
    return any(f" {name} " in text for name in _NAMES.get(code.upper(), ()))
