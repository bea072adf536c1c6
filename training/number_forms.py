"""Numbers and the ways people write and say them; every form means exactly its number."""

from __future__ import annotations

import math
from random import Random

from training.frame_types import Number

_ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = [
    "zero",
    "ten",
    "twenty",
    "thirty",
    "forty",
    "fifty",
    "sixty",
    "seventy",
    "eighty",
    "ninety",
]
_SCALES = ((10**9, "billion"), (10**6, "million"), (10**3, "thousand"))
_SHORT = {"billion": ("B", "bn"), "million": ("M", "m", "mn"), "thousand": ("k", "K")}

# unit as a frame writes it: symbols, singular, plural
_UNITS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "mm": (("mm",), "millimetre", "millimetres"),
    "cm": (("cm",), "centimetre", "centimetres"),
    "m": (("m",), "metre", "metres"),
    "km": (("km",), "kilometre", "kilometres"),
    "g": (("g",), "gram", "grams"),
    "mg": (("mg",), "milligram", "milligrams"),
    "kg": (("kg", "kilos"), "kilogram", "kilograms"),
    "lb": (("lb", "lbs"), "pound", "pounds"),
    "oz": (("oz",), "ounce", "ounces"),
    "t": (("t",), "tonne", "tonnes"),
    "s": (("s", "sec", "secs"), "second", "seconds"),
    "ms": (("ms",), "millisecond", "milliseconds"),
    "min": (("min", "mins"), "minute", "minutes"),
    "h": (("h", "hrs"), "hour", "hours"),
    "°C": (("°C", "degrees C", "C"), "degree Celsius", "degrees Celsius"),
    "°F": (("°F", "degrees F", "F"), "degree Fahrenheit", "degrees Fahrenheit"),
    "km/h": (("km/h", "kph", "kmh"), "kilometre per hour", "kilometres per hour"),
    "mph": (("mph",), "mile per hour", "miles per hour"),
    "m/s": (("m/s",), "metre per second", "metres per second"),
    "W": (("W",), "watt", "watts"),
    "kW": (("kW",), "kilowatt", "kilowatts"),
    "kWh": (("kWh",), "kilowatt-hour", "kilowatt-hours"),
    "V": (("V",), "volt", "volts"),
    "A": (("A", "amps"), "ampere", "amperes"),
    "Hz": (("Hz",), "hertz", "hertz"),
    "kHz": (("kHz",), "kilohertz", "kilohertz"),
    "MHz": (("MHz",), "megahertz", "megahertz"),
    "GHz": (("GHz",), "gigahertz", "gigahertz"),
    "MB": (("MB",), "megabyte", "megabytes"),
    "GB": (("GB", "gigs"), "gigabyte", "gigabytes"),
    "TB": (("TB",), "terabyte", "terabytes"),
    "px": (("px",), "pixel", "pixels"),
    "L": (("L", "l"), "litre", "litres"),
    "l": (("l", "L"), "litre", "litres"),
    "ml": (("ml", "mL"), "millilitre", "millilitres"),
    "N": (("N",), "newton", "newtons"),
    "J": (("J",), "joule", "joules"),
    "Pa": (("Pa",), "pascal", "pascals"),
    "°": (("°", "deg"), "degree", "degrees"),
    "degrees": (("°", "deg"), "degree", "degrees"),
    "m²": (("m²", "sqm", "m2"), "square metre", "square metres"),
    "m2": (("m²", "sqm", "m2"), "square metre", "square metres"),
    "mi": (("mi",), "mile", "miles"),
    "ft": (("ft",), "foot", "feet"),
    "in": (("in", '"'), "inch", "inches"),
    "ha": (("ha",), "hectare", "hectares"),
    "dB": (("dB",), "decibel", "decibels"),
    "kcal": (("kcal",), "kilocalorie", "kilocalories"),
}
_MONEY: dict[str, tuple[str, str]] = {
    "USD": ("$", "dollars"),
    "EUR": ("€", "euros"),
    "GBP": ("£", "pounds"),
    "JPY": ("¥", "yen"),
    "INR": ("₹", "rupees"),
    "CHF": ("CHF ", "Swiss francs"),
    "CAD": ("CA$", "Canadian dollars"),
    "AUD": ("A$", "Australian dollars"),
    "SEK": ("", "kronor"),
    "NOK": ("", "kroner"),
    "PLN": ("", "zloty"),
    "MXN": ("", "pesos"),
    "BRL": ("R$", "reais"),
}
_SYMBOLS = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR"}


def in_words(number: int) -> str:
    """213 → "two hundred and thirteen"."""
    if number < 0:
        return "minus " + in_words(-number)
    if number < 20:
        return _ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _TENS[tens] + (f"-{_ONES[ones]}" if ones else "")
    if number < 1000:
        hundreds, rest = divmod(number, 100)
        return f"{_ONES[hundreds]} hundred" + (f" and {in_words(rest)}" if rest else "")
    for scale, name in _SCALES:
        if number >= scale:
            count, rest = divmod(number, scale)
            joint = " and " if rest < 100 else " "
            return f"{in_words(count)} {name}" + (f"{joint}{in_words(rest)}" if rest else "")
    raise AssertionError(number)


def digits(value: float) -> str:
    """Plain digits without a needless `.0` and without an exponent."""
    if value == int(value):
        return str(int(value))
    text = repr(value)
    return text if "e" not in text else f"{value:.12f}".rstrip("0")


def scaled(value: float, rng: Random) -> str | None:
    """ "213 million", "1.5 billion", "5M", "20k" where that says the number exactly."""
    for scale, name in _SCALES:
        count = value / scale
        if abs(value) >= scale and round(count, 2) * scale == value and len(digits(count)) <= 5:
            if rng.random() < 0.35:
                return digits(count) + rng.choice(_SHORT[name])
            spoken = count == int(count) and count <= 20 and rng.random() < 0.3
            return f"{in_words(int(count)) if spoken else digits(count)} {name}"
    return None


def say_number(value: float, rng: Random) -> str:
    """A number in digits, with separators, in words, or scaled."""
    if 0 < abs(value) < 0.001:
        return _tiny(value, rng)
    if abs(value) >= 1000:
        chance = rng.random()
        text = scaled(value, rng) if chance < 0.4 else None
        if text:
            return text
        if value == int(value):
            if chance < 0.75:
                return f"{int(value):,}"
            if chance < 0.8 and value % 100 == 0:
                return in_words(int(value))
        return digits(value)
    if value == int(value) and rng.random() < _spoken_chance(value):
        return in_words(int(value))
    if value != int(value) and rng.random() < 0.04:
        return _point_words(value)
    return digits(value)


def _tiny(value: float, rng: Random) -> str:
    base, _, power = f"{value:e}".partition("e")
    base = base.rstrip("0").rstrip(".")
    exponent = int(power)
    forms = (f"{base}e{exponent}", f"{base} x 10^{exponent}", f"{base}\u00d710^{exponent}")
    return digits(value) if rng.random() < 0.4 else rng.choice(forms)


def _spoken_chance(value: float) -> float:
    if 0 <= value <= 12:
        return 0.3
    if -60 <= value < 0:
        return 0.2
    return 0.1 if 0 <= value <= 100 or value % 100 == 0 else 0.02


def _point_words(value: float) -> str:
    whole, _, fraction = digits(value).partition(".")
    sign = "minus " if whole.startswith("-") else ""
    ending = " ".join(_ONES[int(digit)] for digit in fraction)
    return f"{sign}{in_words(abs(int(whole)))} point {ending}"


def pick_number(spec: Number, rng: Random) -> float:
    """A believable number in range: round ones often, exact ones too, big ranges by magnitude."""
    low, high = spec.low, spec.high
    if spec.step:
        return _tidy(low + spec.step * rng.randrange(int((high - low) / spec.step + 1e-9) + 1))
    if low > 0 and high / low > 100:
        value = math.exp(rng.uniform(math.log(low), math.log(high)))
    else:
        value = rng.uniform(low, high)
    value = _round_integer(value, rng) if spec.integral else _round_float(value, low, rng)
    value = min(max(value, low), high)
    return _tidy(math.floor(value) if spec.integral else value)


def _tidy(value: float) -> float:
    return round(value, 10)


def _round_integer(value: float, rng: Random) -> float:
    size = len(str(abs(int(value))))
    if size <= 2 or rng.random() < 0.35:
        return round(value)
    return round(value, rng.choice((1, 2, 2, 3)) - size)


def _round_float(value: float, low: float, rng: Random) -> float:
    if rng.random() < 0.3 and abs(value) >= 2 and low >= 0:
        return _round_integer(value, rng)
    places = 1 if abs(value) >= 10 else 2
    if 0 < abs(value) < 0.1:
        places = 1 - math.floor(math.log10(abs(value)))
    return round(value, places + (rng.random() < 0.3))


def say(spec: Number, value: float, rng: Random, bare: bool = False) -> str:
    """The number as said, with its unit unless the sentence already has it."""
    if spec.kind == "year":
        return digits(value)
    if spec.kind == "fraction" and rng.random() < 0.3 and 0 < value < 1:
        return digits(value)
    if spec.kind in ("percent", "fraction"):
        shown = _tidy(value * 100) if spec.kind == "fraction" else value
        return _percent(shown, rng, bare)
    if spec.kind == "money" and not bare:
        return _money(value, spec.unit, rng)
    text = say_number(value, rng)
    return text if bare or not spec.unit else with_unit(text, value, spec.unit, rng)


def _percent(value: float, rng: Random, bare: bool) -> str:
    if bare:
        return digits(value)
    spoken = value == int(value) and rng.random() < 0.1
    number = in_words(int(value)) if spoken else digits(value)
    signs = (" percent", " per cent") if spoken else ("%", "%", "%", " percent", " per cent", " %")
    return number + rng.choice(signs)


def _money(value: float, unit: str, rng: Random) -> str:
    code = _SYMBOLS.get(unit.strip(), unit.strip().upper())
    symbol, word = _MONEY.get(code, ("", code))
    if symbol and rng.random() < 0.5:
        return symbol + (f"{value:,.2f}" if value != int(value) else say_digits(value, rng))
    number = say_number(value, rng)
    return f"{number} {rng.choice((word, word, code) if code else (word,))}".strip()


def say_digits(value: float, rng: Random) -> str:
    """Digits with or without separators, or `5k`, as follows a currency sign."""
    if rng.random() < 0.2:
        text = scaled(value, rng)
        if text and text[0].isdigit():
            return text
    return f"{int(value):,}" if rng.random() < 0.7 else str(int(value))


def with_unit(number: str, value: float, unit: str, rng: Random) -> str:
    """Symbol or words; words agree in number."""
    known = _UNITS.get(unit)
    if known is None:
        singular = unit.endswith("s") and value == 1 and len(unit) > 3
        return f"{number} {unit[:-1] if singular and not unit.endswith('ss') else unit}"
    symbols, one, many = known
    if number[-1:].isdigit() and rng.random() < 0.6:
        symbol = rng.choice(symbols)
        tight = rng.random() < 0.3 or symbol in ("°", '"')
        return number + ("" if tight else " ") + symbol
    return f"{number} {one if value == 1 else many}"


def unit_words(unit: str) -> tuple[str, ...]:
    """Every way a sentence might already name the unit after the number."""
    known = _UNITS.get(unit)
    found = [unit, *known[0], *known[1:]] if known else [unit]
    if unit.upper() in _MONEY:
        found += [_MONEY[unit.upper()][1], unit.upper()]
    return tuple(word for word in found if word)
