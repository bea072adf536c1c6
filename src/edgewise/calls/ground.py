"""Is each argument of a call supported by the words of the request?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from edgewise.calls.parameters import (
    Arguments,
    Wanted,
    description_of,
    listed_choice,
    means_on,
    nested_parameters,
    parameters,
    resolve,
    wanted,
    written_date,
)
from edgewise.calls.values.money import says_currency
from edgewise.calls.values.numbers import CURRENCY_WORDS, Said
from edgewise.calls.values.switches import switch_said
from edgewise.calls.values.text import (
    RequestText,
    Support,
    find_all_numbers,
    find_values,
    read_request,
)
from edgewise.calls.values.times import SECONDS, find_dates, unit_name
from edgewise.calls.values.words import fold, name_words, spaced, stem, words
from edgewise.types.calls import Found
from edgewise.types.messages import Tool

# Below this an argument counts as made up.
UNGROUNDED = 0.3
# The most that facts and earlier turns support a value: what is said now counts for more.
TOLD = 0.8
_NONE = Support(0.0, "none")
_LONGEST_TYPED = 60
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_COMPACT_DATE = re.compile(r"((?:19|20)\d\d)([01]\d)([0-3]\d)")
_NEGATIONS = frozenset(
    {"no", "not", "off", "without", "dont", "never", "disable", "isnt", "exclude", "except", "stop"}
)
_LITTLE = frozenset(
    {"the", "a", "an", "of", "for", "to", "in", "on", "at", "and", "or", "my", "is", "by", "with"}
)
_UNITS = {
    "kg": ("kilo", "kilos", "kilogram", "kilograms"), "g": ("gram", "grams"),
    "mg": ("milligram", "milligrams"), "t": ("tonne", "tonnes", "tons"),
    "lb": ("pound", "pounds"), "lbs": ("pound", "pounds"), "oz": ("ounce", "ounces"),
    "l": ("litre", "litres", "liter", "liters"), "dl": ("decilitre", "decilitres"),
    "ml": ("millilitre", "millilitres", "milliliter", "milliliters"),
    "tsp": ("teaspoon", "teaspoons"), "tbsp": ("tablespoon", "tablespoons"),
    "m": ("metre", "metres", "meter", "meters"), "mi": ("mile", "miles"),
    "km": ("kilometre", "kilometres", "kilometer", "kilometers"),
    "cm": ("centimetre", "centimetres", "centimeter", "centimeters"),
    "mm": ("millimetre", "millimetres", "millimeter", "millimeters"),
    "ft": ("foot", "feet"), "in": ("inch", "inches"), "yd": ("yard", "yards"),
    "c": ("celsius", "centigrade"), "f": ("fahrenheit",), "k": ("kelvin",),
    "h": ("hour", "hours"), "min": ("minute", "minutes"), "s": ("second", "seconds"),
}  # fmt: skip
# Of a switch that the verb says the other way: the least that does not count as made up.
_CONTRADICTED = 0.3
_DEEPEST = 6
_LONGEST_LIST = 200


@dataclass(frozen=True, slots=True)
class Grounding:
    """How well the request supports each argument, by name; nested ones count with their parent."""

    arguments: Mapping[str, Support]

    @property
    def score(self) -> float:
        """The worst argument's score: a call is as good as its worst argument."""
        return min((one.score for one in self.arguments.values()), default=1.0)

    @property
    def ungrounded(self) -> tuple[str, ...]:
        return tuple(name for name, one in self.arguments.items() if one.score < UNGROUNDED)


def ground(arguments: Arguments, tool: Tool, request: str | RequestText) -> Grounding:
    """Support for every argument."""
    request = read_request(request)
    fields = parameters(tool.parameters)
    return Grounding(
        {
            name: support(value, name, fields.get(name, {}), tool.parameters, request)
            for name, value in arguments.items()
        }
    )


def support(
    value: Any,
    name: str,
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    request: RequestText,
    depth: int = 0,
) -> Support:
    """How far the words support a value. Of a list or object the worst part counts."""
    found = _of_type(value, name, schema, root, request, depth)
    if request.told is not None and found.score < TOLD:
        earlier = _of_type(value, name, schema, root, request.told, depth)
        if min(earlier.score, TOLD) > found.score:
            found = Support(min(earlier.score, TOLD), "told")
    if found.score < 0.35 and value is not None and schema.get("default") == value:
        return Support(0.35, "default")
    return found


def _of_type(
    value: Any,
    name: str,
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    request: RequestText,
    depth: int,
) -> Support:
    if value is None or depth > _DEEPEST:
        return Support(0.5, "default")
    if isinstance(value, bool):
        return _boolean(value, name, schema, request)
    if isinstance(value, Mapping):
        fields = nested_parameters(schema, root)
        return _worst(
            support(inner, str(key), fields.get(str(key), {}), root, request, depth + 1)
            for key, inner in value.items()
        )
    if isinstance(value, list | tuple):
        items = resolve(schema.get("items"), root)
        return _worst(
            support(inner, name, items, root, request, depth + 1) for inner in value[:_LONGEST_LIST]
        )
    if isinstance(value, int | float):
        return (
            _number_support(value, wanted(name, schema), request) if abs(value) < 1e300 else _NONE
        )
    choices = schema.get("enum")
    if isinstance(choices, list | tuple) and value in choices:
        return _choice(str(value), schema, request)
    found = _form_support(str(value), name, schema, request) or _string(str(value), request)
    if found.score < 0.6 and listed_choice(str(value), schema):
        return _choice(str(value), schema, request)
    return found


def _worst(parts: Iterable[Support]) -> Support:
    return min(parts, key=lambda one: one.score, default=Support(1.0, "derived"))


def _string(value: str, request: RequestText) -> Support:
    folded = spaced(value)
    if folded == " ":
        return Support(1.0, "verbatim") if value.strip() in request.text else _NONE
    head = spaced(value.partition(",")[0])
    if folded in request.spaced:
        exact = value.strip() in request.text
        return Support(1.0, "verbatim") if exact else Support(0.97, "folded")
    typed = _typed_support(value, request)
    if typed.score > 0.5:
        return typed
    joined = folded.replace(" ", "")
    if len(joined) >= 4 and joined in request.joined:
        return Support(0.85, "folded")
    if len(head) > 5 and head in request.spaced and "," in value:
        return Support(0.6, "derived")  # "Marseille, France" where the request names the city.
    others = (
        _stemmed(folded, request),
        _initials(value, request),
        _short_form(value, request),
        typed,
    )
    return max(others, key=lambda one: one.score)


def _stemmed(folded: str, request: RequestText) -> Support:
    """All words there in some inflection, side by side or apart; or some of them."""
    wanted = [word for word in folded.split() if word not in _LITTLE] or folded.split()
    present = sum(stem(word) in request.stems for word in wanted) / len(wanted)
    if present < 1.0:
        return Support(0.29 * present, "none")
    together = f" {' '.join(stem(word) for word in folded.split())} " in request.stemmed
    return Support(0.8 if together else 0.4, "folded")


def _initials(value: str, request: RequestText) -> Support:
    """`F1` for Formula 1, `NYC`, or a short form such as `lib` for library."""
    short = "".join(words(value))
    if not 1 < len(short) <= 5:
        return _NONE
    letters = "".join(word if word.isdigit() else word[0] for word in request.spaced.split())
    if short in letters:
        return Support(0.6, "derived")
    begun = len(short) > 2 and f" {short}" in request.spaced
    return Support(0.6, "derived") if begun else _NONE


def _short_form(value: str, request: RequestText) -> Support:
    """`USD` for bucks, `kg` for kilos."""
    short = fold(value.strip())
    if len(short) > 5:
        return _NONE
    said = request.spaced.split()
    money = any(CURRENCY_WORDS.get(word, "").lower() == short for word in said)
    sign = any(isinstance(one, Said) and one.unit.lower() == short for one in request.found)
    unit = any(word in said for word in _UNITS.get(short, ()))
    named = money or sign or unit or says_currency(value.strip(), request.spaced)
    return Support(0.8, "derived") if named else _NONE


def _choice(value: str, schema: Mapping[str, Any], request: RequestText) -> Support:
    """A choice by its own words, its short form, or the words beside it in the description."""
    own = " ".join(name_words(value))
    direct = _string(own, request) if own else _NONE
    if direct.score >= 0.6:
        return Support(direct.score, "enum")
    root = stem(own)[:5]
    if len(root) >= 4 and any(word.startswith(root) for word in request.stems):
        return Support(0.75, "enum")
    if len(own) <= 2 and any(word.startswith(own) for word in request.spaced.split()):
        return Support(0.55, "enum")
    plain = words(description_of(schema))
    for place in (index for index, word in enumerate(plain) if word == own):
        near = {stem(word) for word in plain[place + 1 : place + 4] if word not in _LITTLE}
        if near & request.stems:
            return Support(0.6, "enum")
    return Support(0.35, "enum")


def _boolean(value: bool, name: str, schema: Mapping[str, Any], request: RequestText) -> Support:
    """Weak evidence only: the parameter's words are said, or for `false` a negation is."""
    switched = switch_said(request.text) if means_on(name, schema) else None
    if switched is not None:
        return Support(0.9 if switched is value else _CONTRADICTED, "boolean")
    own = {stem(word) for word in name_words(name) if len(word) > 2 and word not in _LITTLE}
    more = {stem(word) for word in words(description_of(schema))[:12] if len(word) > 3}
    negated = not value and bool(_NEGATIONS & set(request.spaced.split()))
    if own & request.stems:
        return Support(0.8 if value or negated else 0.5, "boolean")
    if negated or more & request.stems:
        return Support(0.6, "boolean")
    return Support(0.4, "boolean")


def _number_support(value: float, parameter: Wanted, request: RequestText) -> Support:
    """By the numbers said; of a time or a length only the part and unit that is asked for."""
    known = request.numbers.get(float(value), _NONE)
    if parameter.role in ("hour", "minute"):
        part = slice(0, 2) if parameter.role == "hour" else slice(3, 5)
        clocks = _readings(request.found)
        if clocks:
            said = any(int(clock[part]) == value for clock in clocks)
            twelve = parameter.role == "hour" and any(_twelve(clock) == value for clock in clocks)
            return Support(0.95, "derived") if said or twelve else Support(0.1, "none")
    if parameter.role == "duration" and parameter.unit:
        lengths = [one for one in request.found if one.kind == "duration"]
        if any(one.value / SECONDS[parameter.unit] == value for one in lengths):
            return Support(0.95, "derived")
        units = {
            unit_name(number.unit)
            for one in lengths
            for number in find_all_numbers(one.text)
            if number.value == value
        }
        if parameter.unit in units:
            return Support(0.6, "derived")  # 10 for "20 minutes and 10 seconds": perhaps two.
        if units and len(lengths) == 1:
            return Support(0.2, "none")  # 60 for "sixty minutes" where seconds are wanted.
    if parameter.role == "share" and value > 1:
        return Support(min(known.score, 0.25), "none")
    return known


def _form_support(
    value: str, name: str, schema: Mapping[str, Any], request: RequestText
) -> Support | None:
    """Where the description asks for a form of date: is it one said, in that form?"""
    parameter = wanted(name, schema)
    if parameter.role != "date" or "yyyy" not in parameter.form:
        return None
    dates = [one for one in request.found if one.kind == "date"]
    full = {str(one.value) for one in dates if _ISO_DATE.fullmatch(str(one.value))}
    full |= {str(day) for kind, day in _alternatives(dates) if kind == "date"}
    if value in {written_date(day, parameter.form) for day in full}:
        return Support(0.95, "derived")
    written_out = any(letter.isalpha() for letter in value)
    if full and len(full) == len(dates) and not written_out and value not in request.text:
        return Support(0.2, "none")
    return None


def _typed_support(value: str, request: RequestText) -> Support:
    """A date, time, length or number written in another form than the request's."""
    if len(value) > _LONGEST_TYPED or not any(letter.isdigit() for letter in value):
        return _word_numbers(value, request)
    compact = _COMPACT_DATE.fullmatch(value.strip())
    inside = find_values("-".join(compact.groups()) if compact else value)
    if not inside:
        return _NONE
    said = {(one.kind, one.value) for one in request.found} | _alternatives(request.found)
    scores = []
    for one in inside:
        if (one.kind, one.value) in said or _alternatives([one]) & said:
            scores.append(0.95)
        elif one.kind == "date":
            scores.append(_without_year(str(one.value), request))
        elif one.kind in ("number", "percent", "money", "duration"):
            known = request.numbers.get(float(one.value))
            scores.append(0.9 * known.score if known else 0.0)
        elif one.kind == "datetime":
            scores.append(_moment(str(one.value), said))
        else:
            scores.append(0.95 if spaced(str(one.value)) in request.spaced else 0.0)
    rest = value
    for one in inside:
        rest = rest.replace(one.text, " ", 1)
    left = [word for word in words(rest) if len(word) > 2]
    if left and not all(stem(word) in request.stems for word in left):
        scores.append(0.4)
    worst = min(scores)
    return Support(worst, "derived" if worst > 0 else "none")


def _without_year(value: str, request: RequestText) -> float:
    """Support for 2026-03-22 by "March 22", or by "tomorrow", whose date the words cannot tell."""
    if not _ISO_DATE.fullmatch(value):
        return 0.0
    best = 0.0
    for one in request.found:
        if one.kind != "date" or _ISO_DATE.fullmatch(str(one.value)):
            continue
        dated = next(find_dates(f"{one.text} {value[:4]}"), None)
        if dated and dated.value == value:
            return 0.8
        if int(value[8:]) in request.numbers and dated and str(dated.value)[:7] == value[:7]:
            best = max(best, 0.6)  # The 23 of "March 20 to 23".
        relative = not any(letter.isdigit() for letter in one.text)
        best = max(best, 0.4 if relative else 0.0)
    return best


def _word_numbers(value: str, request: RequestText) -> Support:
    """`fifteen` where the request says 15."""
    inside = find_all_numbers(value) if len(value) <= _LONGEST_TYPED else []
    if len(inside) == 1 and inside[0].text == value.strip():
        return request.numbers.get(float(inside[0].value), _NONE)
    return _NONE


def _moment(value: str, said: set[tuple[str, Any]]) -> float:
    day, _, clock = value.partition("T")
    if ("time", clock[:5]) not in said and clock[:5] != "00:00":
        return 0.0
    return 0.9 if ("date", day) in said else 0.6


def _twelve(clock: str) -> int:
    return int(clock[:2]) % 12 or 12


def _readings(found: Iterable[Found]) -> set[str]:
    """Each time said, and the other half of the day where the words leave it open."""
    times = [one for one in found if one.kind == "time"]
    also = {str(value) for kind, value in _alternatives(times) if kind == "time"}
    return {str(one.value) for one in times} | also


def _alternatives(found: Iterable[Found]) -> set[tuple[str, Any]]:
    """Other readings: 3/4/2025 day first, "at 7" in the evening, 07:30 with its seconds."""
    also: set[tuple[str, Any]] = set()
    for one in found:
        unit = one.unit if isinstance(one, Said) else ""
        if one.kind == "date" and unit == "?":
            year, month, day = one.value.split("-")
            also.add(("date", f"{year}-{day}-{month}"))
        if one.kind == "time":
            hour = int(one.value[:2])
            also.add(("time", f"{one.value}:00"))
            if not unit and hour <= 12:
                also.add(("time", f"{(hour + 12) % 24:02}{one.value[2:]}"))
        if one.kind == "datetime":
            also |= {("date", one.value[:10]), ("time", one.value[11:16])}
    return also
