"""Numbers that a text says, in digits or in words, with what they count."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from edgewise.calls.values.words import fold
from edgewise.types.replies import Found, FoundKind

# No number is longer; what is (a hash, a serial number) would not survive as a float anyway.
LONGEST_DIGITS = 18
TOKEN = re.compile(
    r"\d{1,3}(?:,\d{3})+(?![\d])(?:\.\d+)?|\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3}(?!\w))?|[^\W\d_]+|[^\s]"
)
_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
ONES = {word: value for value, word in enumerate(_ONES)}
TENS = {word: 10 * value for value, word in enumerate(_TENS, start=2)} | {"fourty": 40}
# German, French, Spanish and Italian, folded. What is an English word or name too ("elf", "once",
# "due", "otto") is left out, unless it stands behind a ten.
_ELSEWHERE = {
    2: "zwei deux dos", 3: "drei trois tres", 4: "vier quatre cuatro quattro",
    5: "funf cinq cinco cinque", 6: "sechs seis", 7: "sieben siete sette", 8: "acht huit ocho",
    9: "neun neuf nueve nove", 10: "zehn dix diez dieci", 11: "onze undici",
    12: "zwolf douze doce dodici", 13: "dreizehn treize trece tredici",
    14: "vierzehn quatorze catorce quattordici", 15: "funfzehn quinze quindici",
    16: "sechzehn dieciseis sedici", 17: "siebzehn diecisiete diciassette",
    18: "achtzehn dieciocho diciotto", 19: "neunzehn diecinueve diciannove",
    20: "zwanzig vingt veinte venti", 30: "dreissig trente treinta trenta",
    40: "vierzig quarante cuarenta quaranta", 50: "funfzig cinquante cincuenta cinquanta",
    60: "sechzig soixante sesenta sessanta", 70: "siebzig setenta settanta",
    80: "achtzig ochenta ottanta", 90: "neunzig noventa novanta",
}  # fmt: skip
_ALSO_BEHIND_TENS = {
    1: "ein un uno", 2: "due", 3: "tre", 6: "six sei", 7: "sept", 8: "otto", 11: "onze",
    16: "seize",
}  # fmt: skip
_UNITS = (  # as they stand inside of longer words
    "ein zwei drei vier funf sechs sieben acht neun",
    "uno dos tres cuatro cinco seis siete ocho nueve",
    "uno due tre quattro cinque sei sette otto nove",
)
_JOINTS = frozenset({"-", "y", "et", "e"})  # "vingt-deux", "treinta y dos", "vingt et un"


def _elsewhere() -> dict[str, int]:
    """The words of other languages up to 99, those that are written in one word among them."""
    plain = {word: value for value, each in _ELSEWHERE.items() for word in each.split()}
    german, spanish, italian = (
        {word: unit for unit, word in enumerate(each.split(), start=1)} for each in _UNITS
    )
    for value, each in _ELSEWHERE.items():
        if value < 20 or value % 10:
            continue
        words = each.split()
        plain |= {f"{one}und{words[0]}": value + unit for one, unit in german.items()}
        if value == 20:
            plain |= {f"veinti{one}": value + unit for one, unit in spanish.items()}
        for one, unit in italian.items():
            ten = words[-1][:-1] if one[0] in "uo" else words[-1]
            plain[f"{ten}{one}"] = value + unit
    return plain


ELSEWHERE = _elsewhere()
_BEHIND_TENS = {
    word: value
    for table in (_ELSEWHERE, _ALSO_BEHIND_TENS)
    for value, each in table.items()
    for word in each.split()
    if value < 20
}
SCALES = {
    "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "lakh": 1e5, "crore": 1e7,
    "mn": 1e6, "mln": 1e6, "bn": 1e9, "millions": 1e6, "thousands": 1e3,
}  # fmt: skip
_ATTACHED = {"k": 1e3, "K": 1e3, "M": 1e6, "bn": 1e9, "B": 1e9, "mn": 1e6}
_ORDINALS = {
    "first": 1, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8,
    "ninth": 9, "tenth": 10, "eleventh": 11, "twelfth": 12, "twentieth": 20, "thirtieth": 30,
}  # fmt: skip
_PARTS = {
    "half": 2, "halves": 2, "quarter": 4, "quarters": 4, "third": 3, "thirds": 3, "fifths": 5,
    "tenths": 10, "eighths": 8,
}  # fmt: skip
_FRACTION_SIGNS = {"½": 0.5, "¼": 0.25, "¾": 0.75, "⅓": 1 / 3, "⅔": 2 / 3, "⅛": 0.125}
_SOME = {"dozen": 12.0, "dozens": 12.0, "couple": 2.0, "score": 20.0, "hundred": 100.0, **SCALES}
_NOT_A_COUNT_BEFORE_ONE = frozenset({
    "the", "this", "that", "which", "no", "any", "some", "every", "another", "each", "last", "next",
    "good", "first", "other",
})  # fmt: skip
_MINUS = frozenset("-\u2212\u2013")
_CURRENCIES = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR", "₩": "KRW", "₿": "BTC"}
CURRENCY_WORDS = {
    **dict.fromkeys(("dollar", "dollars", "bucks", "buck", "usd"), "USD"),
    **dict.fromkeys(("euro", "euros", "eur"), "EUR"),
    **dict.fromkeys(("quid", "gbp", "sterling"), "GBP"),
    **dict.fromkeys(("yen", "jpy"), "JPY"), **dict.fromkeys(("rupees", "rupee", "inr"), "INR"),
    **dict.fromkeys(("francs", "franc", "chf"), "CHF"), "yuan": "CNY", "cny": "CNY",
    "cad": "CAD", "aud": "AUD", "sek": "SEK", "nok": "NOK", "dkk": "DKK", "pln": "PLN",
}  # fmt: skip


class NumberToken(NamedTuple):
    text: str
    start: int
    end: int


def whole(value: float) -> int | float:
    """7.0 as 7: an answer never says `.0`."""
    rounded = round(float(value), 10)
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e18 else rounded


class NumberReader:
    """Reads one number from a place in a list of tokens; each method returns where it stopped."""

    def __init__(self, tokens: Sequence[NumberToken]) -> None:
        self.tokens = tokens
        self.words = [token.text.lower() for token in tokens]

    def word(self, position: int) -> str:
        return self.words[position] if 0 <= position < len(self.words) else ""

    def joined(self, position: int) -> bool:
        """Whether a token follows the one before without a space."""
        if not 0 < position < len(self.tokens):
            return False
        return self.tokens[position - 1].end == self.tokens[position].start

    def read(self, position: int) -> tuple[float, int] | None:
        word = self.word(position)
        if word in _MINUS or word in ("minus", "negative"):
            return self._negative(position)
        before = self.word(position - 1)
        if self.joined(position) and before[-1:].isalnum() and not self._times(position - 1):
            return None  # The 7 of `a7`: part of a code.
        if word[0].isdigit():
            return self._digits(position)
        if word in _FRACTION_SIGNS:
            return _FRACTION_SIGNS[word], position + 1
        if word in ONES or word in TENS:
            return self._spelled(position)
        return self._in_other_words(position) or self._some(position)

    def _in_other_words(self, position: int) -> tuple[float, int] | None:
        """`neunzehn`, `vingt-deux`, `treinta y cinco`, `soixante-dix`, `dix-sept`."""
        value = ELSEWHERE.get(fold(self.word(position)))
        if value is None:
            return None
        after = position + 1
        if self.word(after) in _JOINTS and (value == 10 or value % 10 == 0):
            unit = _BEHIND_TENS.get(fold(self.word(after + 1)), 0)
            if 0 < unit < (20 if value == 60 else 10):
                return value + unit, after + 2
        return value, after

    def _times(self, position: int) -> bool:
        """The `x` of `x1.5`."""
        return self.word(position) == "x" and not self.joined(position)

    def _negative(self, position: int) -> tuple[float, int] | None:
        sign = self.word(position) in _MINUS
        before = self.word(position - 1)
        if sign and (not self.joined(position + 1) or self.joined(position)):
            return None
        # "86 minus 6" takes six away; it names no negative number.
        if not sign and (before[:1].isdigit() or before in ONES or before in TENS):
            return None
        rest = self.word(position + 1)
        if not (rest[:1].isdigit() or rest in ONES or rest in TENS):
            return None
        read = self._digits(position + 1) if rest[0].isdigit() else self._spelled(position + 1)
        return (-read[0], read[1]) if read else None

    def _digits(self, position: int) -> tuple[float, int] | None:
        text = self.word(position)
        if len(text) > LONGEST_DIGITS + 6:
            return None
        try:
            value = float(text.replace(",", ""))
        except ValueError:  # Digits of another script inside a token.
            return None
        if not math.isfinite(value):
            return None
        after = position + 1
        if self.joined(after) and self.word(after) in ("st", "nd", "rd", "th"):
            return value, after + 1
        if self.joined(after) and self.word(after) == "/" and self.joined(after + 1):
            divisor = self.word(after + 1)
            if divisor.isdecimal() and 0 < int(divisor[:9]) <= 1000:
                return value / int(divisor[:9]), after + 2
        mixed = self._mixed_fraction(after)
        if mixed:
            return value + mixed[0], mixed[1]
        return self._scaled(value, after)

    def _mixed_fraction(self, position: int) -> tuple[float, int] | None:
        """The `1/2` of `2 1/2`, or the `½` of `2½`."""
        top, stroke, bottom = (self.word(position + step) for step in range(3))
        if top in _FRACTION_SIGNS:
            return _FRACTION_SIGNS[top], position + 1
        if stroke == "/" and len(top) == 1 and top.isdecimal() and bottom.isdecimal():
            ok = self.joined(position + 1) and self.joined(position + 2) and len(bottom) <= 2
            if ok and int(bottom) > int(top):
                return int(top) / int(bottom), position + 3
        return None

    def _scaled(self, value: float, position: int) -> tuple[float, int]:
        """What a number becomes by `million`, `k`, `dozen`, `and a half` after it."""
        following = self.word(position)
        if self.joined(position) and self.tokens[position].text in _ATTACHED:
            return value * _ATTACHED[self.tokens[position].text], position + 1
        if not self.joined(position) and following in _SOME and following not in ("couple",):
            value *= _SOME[following]
            position += 1
            if self.word(position) in SCALES:
                value *= SCALES[self.word(position)]
                position += 1
        return self._and_a_part(value, position)

    def _and_a_part(self, value: float, position: int) -> tuple[float, int]:
        if self.word(position) == "and":
            article = self.word(position + 1)
            if article in ("a", "one") and self.word(position + 2) in ("half", "quarter", "third"):
                return value + 1 / _PARTS[self.word(position + 2)], position + 3
            if article == "three" and self.word(position + 2) == "quarters":
                return value + 0.75, position + 3
        return value, position

    def _some(self, position: int) -> tuple[float, int] | None:
        """`a dozen`, `half a million`, `the second`, `third`."""
        word, following = self.word(position), self.word(position + 1)
        if word in ("a", "an") and following in _SOME:
            return self._scaled_again(_SOME[following], position + 2)
        if word == "half":
            if following in ("a", "an") and self.word(position + 2) in _SOME:
                return _SOME[self.word(position + 2)] / 2, position + 3
            return 0.5, position + 1
        if word in ("dozen", "hundred", "thousand") and following not in ("of", "s"):
            return self._scaled_again(_SOME[word], position + 1)
        if word == "second" and self.word(position - 1) == "the":
            return 2, position + 1
        return (_ORDINALS[word], position + 1) if word in _ORDINALS else None

    def _scaled_again(self, value: float, position: int) -> tuple[float, int]:
        if self.word(position) in SCALES:
            return value * SCALES[self.word(position)], position + 1
        return value, position

    def _spelled(self, position: int) -> tuple[float, int] | None:
        if self.word(position) == "one" and self.word(position - 1) in _NOT_A_COUNT_BEFORE_ONE:
            return None
        value, after = self._cardinal(position)
        year = self._year(value, after)
        if year:
            return year
        part = self.word(after)
        if part in _PARTS and value <= 10 and (value == 1) != part.endswith("s"):
            return value / _PARTS[part], after + 1
        if self.word(after) == "point" and self.word(after + 1) in ONES:
            digits = ""
            after += 1
            while self.word(after) in ONES and len(digits) < LONGEST_DIGITS:
                digits += str(ONES[self.word(after)])
                after += 1
            value += float(f"0.{digits}")
        return self._scaled(value, after)

    def _year(self, value: float, position: int) -> tuple[float, int] | None:
        """`nineteen ninety-nine`, `twenty twenty-four`, `twenty oh five`."""
        if not (13 <= value <= 20 and value == int(value)):
            return None
        if self.word(position) in ("oh", "o") and self.word(position + 1) in ONES:
            return value * 100 + ONES[self.word(position + 1)], position + 2
        if self.word(position) in TENS or ONES.get(self.word(position), 0) >= 10:
            rest, after = self._cardinal(position)
            return (value * 100 + rest, after) if rest < 100 else None
        return None

    def _cardinal(self, position: int) -> tuple[float, int]:
        """`one hundred and twenty-five thousand`: groups below a thousand, times their scales."""
        total = 0.0
        ceiling = math.inf
        while True:
            group, after = self._below_thousand(position)
            if group is None:
                return total, self._without_and(position)
            if self.word(after) in SCALES and SCALES[self.word(after)] < ceiling:
                ceiling = SCALES[self.word(after)]
                total += group * ceiling
                position = after + 1 if self.word(after + 1) != "and" else after + 2
                if self.word(position) not in ONES and self.word(position) not in TENS:
                    return total, self._without_and(position)
                continue
            return total + group, after

    def _without_and(self, position: int) -> int:
        return position - 1 if self.word(position - 1) == "and" else position

    def _below_thousand(self, position: int) -> tuple[float | None, int]:
        value, position = self._below_hundred(position)
        if value is None or self.word(position) != "hundred":
            return value, position
        value *= 100
        position += 1
        following = position + 1 if self.word(position) == "and" else position
        rest, after = self._below_hundred(following)
        return (value + rest, after) if rest is not None else (value, position)

    def _below_hundred(self, position: int) -> tuple[float | None, int]:
        word = self.word(position)
        if word in ONES:
            return ONES[word], position + 1
        if word not in TENS:
            return None, position
        position += 1
        following = position + 1 if self.word(position) == "-" else position
        unit = self.word(following)
        if 0 < ONES.get(unit, 0) < 10:
            return TENS[word] + ONES[unit], following + 1
        ordinal = _ORDINALS.get(unit, 0)
        if 0 < ordinal < 10 and following > position:
            return TENS[word] + ordinal, following + 1
        return TENS[word], position


@dataclass(frozen=True, slots=True)
class Said(Found):
    """A found value with its unit: a currency, `am`, `kg`, or the word after a bare number."""

    unit: str = ""


def find_numbers(text: str) -> Iterator[Said]:
    """Numbers, percentages and amounts of money, in the order of the text."""
    tokens = [NumberToken(match.group(), *match.span()) for match in TOKEN.finditer(text)]
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


def _said(text: str, tokens: Sequence[NumberToken], first: int, after: int, value: float) -> Said:
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


# -- amounts of money ------------------------------------------------------------------------------


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
