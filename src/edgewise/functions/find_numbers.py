"""Numbers that a text says, with what they count: units, percentages and money."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgewise.functions.fold import fold
from edgewise.functions.number_words import TOKEN, NumberReader, Token, whole
from edgewise.types.calls import Found, FoundKind


@dataclass(frozen=True, slots=True)
class Said(Found):
    """A found value with its unit: a currency, `am`, `kg`, or the word after a bare number."""

    unit: str = ""


_CURRENCIES = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR", "₩": "KRW", "₿": "BTC"}
CURRENCY_WORDS = {
    **dict.fromkeys(("dollar", "dollars", "bucks", "buck", "usd"), "USD"),
    **dict.fromkeys(("euro", "euros", "eur"), "EUR"),
    **dict.fromkeys(("quid", "gbp", "sterling"), "GBP"),
    **dict.fromkeys(("yen", "jpy"), "JPY"), **dict.fromkeys(("rupees", "rupee", "inr"), "INR"),
    **dict.fromkeys(("francs", "franc", "chf"), "CHF"), "yuan": "CNY", "cny": "CNY",
    "cad": "CAD", "aud": "AUD", "sek": "SEK", "nok": "NOK", "dkk": "DKK", "pln": "PLN",
}  # fmt: skip


def find_numbers(text: str) -> Iterator[Said]:
    """Numbers, percentages and amounts of money, in the order of the text."""
    tokens = [Token(match.group(), *match.span()) for match in TOKEN.finditer(text)]
    reader = NumberReader(tokens)
    position = 0
    while position < len(tokens):
        read = reader.read(position)
        if read is None:
            position += 1
            continue
        value, following = read
        yield _said(text, tokens, position, following, value)
        position = max(following, position + 1)


def _said(text: str, tokens: Sequence[Token], first: int, after: int, value: float) -> Said:
    start, end = tokens[first].start, tokens[after - 1].end
    kind: FoundKind = "number"
    unit = ""
    following = fold(tokens[after].text) if after < len(tokens) else ""
    beyond = fold(tokens[after + 1].text) if after + 1 < len(tokens) else ""
    currency = _CURRENCIES.get(tokens[first - 1].text) if first else None
    if following == "%" or following in ("percent", "pct"):
        kind, unit, end = "percent", "%", tokens[after].end
    elif following == "per" and beyond == "cent":
        kind, unit, end = "percent", "%", tokens[after + 1].end
    elif currency:
        kind, unit, start = "money", currency, tokens[first - 1].start
    elif following in CURRENCY_WORDS or following in _CURRENCIES:
        kind, end = "money", tokens[after].end
        unit = CURRENCY_WORDS.get(following) or _CURRENCIES[following]
    elif following.isalpha() or following == "°":
        unit = f"{following}{beyond}" if following == "°" else following
    return Said(kind, whole(value), text[start:end], start, end, unit)
