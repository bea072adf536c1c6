"""Refuses answer schemas that llama.cpp must not be given: no answer could ever fulfil them.

The runtime makes a grammar of a schema. One that leads nowhere ends the whole process when the
model gets there (or never comes to an end itself), so what is contradictory is found before.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from edgewise.errors import InvalidRequest

DEEPEST = 64
LONGEST = 2000  # repetitions that the runtime takes
# Unicode has left these planes empty. Their first bytes are in no text that a model learnt from,
# so that a vocabulary may not have them.
UNWRITABLE = re.compile("[\U00040000-\U000dffff]")
_BOUNDS = (("minLength", "maxLength"), ("minItems", "maxItems"))
_CLASS = re.compile(r"\[(?:\\.|[^\]\\])+\]", re.DOTALL)
_SOME = "".join(map(chr, range(32, 127))) + "éßжאع中あ한\n\t"


def check_held(schema: Mapping[str, Any]) -> None:
    """Raises InvalidRequest with what is wrong, and where."""
    if UNWRITABLE.search(json.dumps(schema, ensure_ascii=False)):
        raise _wrong("$", "a character that no model writes")
    for place, part in _parts(schema, "$", DEEPEST):
        for complaint in (_bounds(part), _numbers(part), _choices(part), _pattern(part)):
            if complaint:
                raise _wrong(place, complaint)


def _parts(value: Any, place: str, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every object in a schema: more than the schemas in it, and none of them is left out."""
    if depth == 0:
        raise _wrong(place, "nested too deeply")
    inner: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        yield place, value
        inner = [(f"{place}.{name}", each) for name, each in value.items()]
    elif isinstance(value, list):
        inner = [(f"{place}[{number}]", each) for number, each in enumerate(value)]
    for where, each in inner:
        yield from _parts(each, where, depth - 1)


def _bounds(part: Mapping[str, Any]) -> str:
    for least, most in _BOUNDS:
        low, high = _number(part, least, 0), _number(part, most, LONGEST)
        for name, bound in ((least, low), (most, high)):
            if not 0 <= bound <= LONGEST:
                return f"{name} = {bound:g}: 0 to {LONGEST}"
        if low > high:
            return f"{least} = {low:g} is more than {most} = {high:g}"
    return ""


def _numbers(part: Mapping[str, Any]) -> str:
    above, below = _number(part, "exclusiveMinimum"), _number(part, "exclusiveMaximum")
    low = max(_number(part, "minimum", -math.inf), -math.inf if math.isnan(above) else above)
    high = min(_number(part, "maximum", math.inf), math.inf if math.isnan(below) else below)
    if low > high or (low == high and (low == above or high == below)):
        return f"no number is from {low:g} to {high:g}"
    if part.get("type") == "integer" and math.isfinite(low) and math.isfinite(high):
        first = math.floor(low) + 1 if low == above else math.ceil(low)
        last = math.ceil(high) - 1 if high == below else math.floor(high)
        if first > last:
            return f"no whole number is between {low:g} and {high:g}"
    return ""


def _number(part: Mapping[str, Any], name: str, default: float = math.nan) -> float:
    value = part.get(name)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and value is not None else default


def _choices(part: Mapping[str, Any]) -> str:
    for name in ("enum", "anyOf", "oneOf", "allOf"):
        if part.get(name) == []:
            return f"{name} has nothing in it"
    wholes = part.get("allOf")
    enums = [
        [json.dumps(value, sort_keys=True) for value in each["enum"]]
        for each in (wholes if isinstance(wholes, list) else ())
        if isinstance(each, Mapping) and isinstance(each.get("enum"), list)
    ]
    if len(enums) > 1 and not set(enums[0]).intersection(*enums[1:]):
        return "allOf has enums with nothing in common"
    return ""


def _pattern(part: Mapping[str, Any]) -> str:
    pattern = part.get("pattern")
    if not isinstance(pattern, str):
        return ""
    for found in _CLASS.findall(pattern):
        try:
            some = re.compile(found).search(_SOME)
        except re.error:
            return f"pattern {found[:40]!r} cannot be read"
        if some is None:
            return f"pattern {found[:40]!r} leaves no character to write"
    for low, high in re.findall(r"\{(\d+),(\d+)\}", pattern):
        if int(low) > int(high):
            return f"pattern {{{low},{high}}} is upside down"
    if any(int(count) > LONGEST for count in re.findall(r"\{,?(\d+)", pattern)):
        return f"pattern repeats more than {LONGEST} times"
    return ""


def _wrong(place: str, words: str) -> InvalidRequest:
    return InvalidRequest(f"the answer's schema cannot be held to: {place}: {words}")
