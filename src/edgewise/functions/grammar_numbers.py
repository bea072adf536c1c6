"""Grammar fragments for numbers, digit by digit, so that a range holds while it is written."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

from edgewise.functions.schema import Shape

# As Python writes them: `5`, `0.25`, `1e-07`. 16 digits and exponents below 300 stay finite.
ANY_INT = '"0" | "-"? [1-9] [0-9]{0,15}'
ANY_FLOAT = (
    '"-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,17})? | '
    '"-"? [1-9] ("." [0-9]{1,16})? "e" [+-] ("0" [5-9] | [1-9] [0-9] | [12] [0-9] [0-9])'
)
_HIGHEST = 10**16 - 1
_PLACES = 9  # decimal places of a bound that are kept; it is rounded inwards
_OPEN_PLACES = 4  # how near to a bound that is itself excluded a value may come


def number_rule(shape: Shape) -> str:
    """What an `int` or `float` shape may be written as."""
    if shape.low is None and shape.high is None:
        return ANY_INT if shape.kind == "int" else ANY_FLOAT
    if shape.kind == "int":
        return " | ".join(_whole(*_whole_bounds(shape)))
    return " | ".join(_decimal(shape)) or ANY_FLOAT


def _whole_bounds(shape: Shape) -> tuple[int, int]:
    low, high = -_HIGHEST, _HIGHEST
    if shape.low is not None:
        low = math.floor(shape.low) + 1 if shape.low_open else math.ceil(shape.low)
    if shape.high is not None:
        high = math.ceil(shape.high) - 1 if shape.high_open else math.floor(shape.high)
    return low, high


def _whole(low: int, high: int) -> Iterator[str]:
    if high >= 0:
        yield from _positive(max(low, 0), high)
    if low < 0:
        for alternative in _positive(max(-high, 1), -low):
            yield f'"-" {alternative}'


def _positive(low: int, high: int) -> Iterator[str]:
    """Whole numbers from low to high, both at least 0, without leading zeros."""
    for length in range(len(str(low)), len(str(high)) + 1):
        first = max(low, 10 ** (length - 1) if length > 1 else 0)
        yield from _digits(str(first), str(min(high, 10**length - 1)))


def _digits(low: str, high: str) -> Iterator[str]:
    """Strings of digits of one length from low to high."""
    same = 0
    while same < len(low) and low[same] == high[same]:
        same += 1
    start = f'"{low[:same]}" ' if same else ""
    if same == len(low):
        yield start.strip()
        return
    rest = len(low) - same - 1
    if low[same:].strip("0") == "" and high[same:].strip("9") == "":
        yield f"{start}{_any_digits(rest + 1)}"
        return
    if not rest:
        yield f"{start}[{low[same]}-{high[same]}]"
        return
    for tail in _at_least(low[same + 1 :]):
        yield f'{start}"{low[same]}" {tail}'
    if int(high[same]) - int(low[same]) > 1:
        middle = f"[{int(low[same]) + 1}-{int(high[same]) - 1}]"
        yield f"{start}{middle} {_any_digits(rest)}"
    for tail in _at_most(high[same + 1 :]):
        yield f'{start}"{high[same]}" {tail}'


def _at_least(low: str) -> Iterator[str]:
    yield from _digits(low, "9" * len(low))


def _at_most(high: str) -> Iterator[str]:
    yield from _digits("0" * len(high), high)


def _any_digits(count: int) -> str:
    return "[0-9]" if count == 1 else f"[0-9]{{{count}}}"


def _decimal(shape: Shape) -> Iterator[str]:
    """Decimals in a range that has at least one end; nothing if rounding leaves no room."""
    with localcontext() as context:
        context.prec = 40
        step = Decimal(1).scaleb(-_PLACES)
        low = -Decimal(_HIGHEST) if shape.low is None else Decimal(repr(shape.low))
        high = Decimal(_HIGHEST) if shape.high is None else Decimal(repr(shape.high))
        low = low.quantize(step, ROUND_CEILING)
        high = high.quantize(step, ROUND_FLOOR)
        if low > high:
            return
        if high >= 0:
            inner_open = shape.low_open and low >= 0
            yield from _magnitude(max(low, Decimal(0)), high, inner_open, shape.high_open)
        if low < 0:
            inner_open = shape.high_open and high <= 0
            for alternative in _magnitude(max(-high, Decimal(0)), -low, inner_open, shape.low_open):
                yield f'"-" {alternative}'


def _magnitude(low: Decimal, high: Decimal, low_open: bool, high_open: bool) -> Iterator[str]:
    """Decimals from low to high, both at least 0."""
    first, last = int(low), int(high)
    if last - first > 1:
        between = " | ".join(_positive(first + 1, last - 1))
        yield f'({between}) ("." [0-9]{{1,17}})?'
    if first == last:
        yield from _beside(first, low - first, high - first, low_open, high_open)
        return
    yield from _beside(first, low - first, None, low_open, False)
    yield from _beside(last, Decimal(0), high - last, False, high_open)


def _beside(
    whole: int, low: Decimal, high: Decimal | None, low_open: bool, high_open: bool
) -> Iterator[str]:
    """`whole` with the fractions from low to high; no `high` means up to the next whole number."""
    places = max(_places(low), _places(high), 1)
    if low_open or high_open:
        places = max(places, min(places + 1, _PLACES), _OPEN_PLACES)
    scale = 10**places
    least = int(low * scale) + low_open
    most = scale - 1 if high is None else int(high * scale) - high_open
    if least > most:
        return
    if least == 0:
        yield f'"{whole}"'
    fractions: list[str] = []
    for count in range(1, places + 1):
        unit = 10 ** (places - count)
        fewest, highest = -(-least // unit), most // unit
        if fewest <= highest:
            fractions += _digits(str(fewest).zfill(count), str(highest).zfill(count))
    # More digits may follow as long as they cannot pass the end.
    longer = most if high is None or high_open else most - 1
    if least <= longer:
        more = f"[0-9]{{1,{17 - places}}}"
        for start in _digits(str(least).zfill(places), str(longer).zfill(places)):
            fractions.append(f"{start} {more}")
    yield f'"{whole}." ({" | ".join(fractions)})'


def _places(value: Decimal | None) -> int:
    if not value:
        return 0
    exponent = value.normalize().as_tuple().exponent
    return -exponent if isinstance(exponent, int) and exponent < 0 else 0
