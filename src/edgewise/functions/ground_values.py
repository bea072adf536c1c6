"""Scores how far the words of a request support one value: a string, a number, a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from edgewise.functions.currencies import says_currency
from edgewise.functions.find_numbers import CURRENCY_WORDS, Said
from edgewise.functions.fold import fold, name_words, spaced, stem, words
from edgewise.functions.ground_forms import form_support, number_support, typed_support
from edgewise.functions.heard import Heard, Support
from edgewise.functions.parameter import listed_choice, parameters, resolve, wanted
from edgewise.functions.switches import state_said

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


_NONE = Support(0.0, "none")


def support(
    value: Any,
    name: str,
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    heard: Heard,
    depth: int = 0,
) -> Support:
    """How far the words support a value. Of a list or object the worst part counts."""
    found = _of_type(value, name, schema, root, heard, depth)
    if found.score < 0.35 and value is not None and schema.get("default") == value:
        return Support(0.35, "default")
    return found


def _of_type(
    value: Any,
    name: str,
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    heard: Heard,
    depth: int,
) -> Support:
    if value is None or depth > _DEEPEST:
        return Support(0.5, "default")
    if isinstance(value, bool):
        return _boolean(value, name, schema, heard)
    if isinstance(value, Mapping):
        fields = parameters({**root, "properties": schema.get("properties") or {}})
        return _worst(
            support(inner, str(key), fields.get(str(key), {}), root, heard, depth + 1)
            for key, inner in value.items()
        )
    if isinstance(value, list | tuple):
        items = resolve(schema.get("items"), root)
        return _worst(
            support(inner, name, items, root, heard, depth + 1) for inner in value[:_LONGEST_LIST]
        )
    if isinstance(value, int | float):
        return number_support(value, wanted(name, schema), heard) if abs(value) < 1e300 else _NONE
    choices = schema.get("enum")
    if isinstance(choices, list | tuple) and value in choices:
        return _choice(str(value), schema, heard)
    found = form_support(str(value), name, schema, heard) or _string(str(value), heard)
    if found.score < 0.6 and listed_choice(str(value), schema):
        return _choice(str(value), schema, heard)
    return found


def _worst(parts: Iterable[Support]) -> Support:
    return min(parts, key=lambda one: one.score, default=Support(1.0, "derived"))


def _string(value: str, heard: Heard) -> Support:
    folded = spaced(value)
    if folded == " ":
        return Support(1.0, "verbatim") if value.strip() in heard.text else _NONE
    head = spaced(value.partition(",")[0])
    if folded in heard.spaced:
        exact = value.strip() in heard.text
        return Support(1.0, "verbatim") if exact else Support(0.97, "folded")
    typed = typed_support(value, heard)
    if typed.score > 0.5:
        return typed
    joined = folded.replace(" ", "")
    if len(joined) >= 4 and joined in heard.joined:
        return Support(0.85, "folded")
    if len(head) > 5 and head in heard.spaced and "," in value:
        return Support(0.6, "derived")  # "Marseille, France" where the request names the city.
    others = (_stemmed(folded, heard), _initials(value, heard), _short_form(value, heard), typed)
    return max(others, key=lambda one: one.score)


def _stemmed(folded: str, heard: Heard) -> Support:
    """All words there in some inflection, side by side or apart; or some of them."""
    wanted = [word for word in folded.split() if word not in _LITTLE] or folded.split()
    present = sum(stem(word) in heard.stems for word in wanted) / len(wanted)
    if present < 1.0:
        return Support(0.29 * present, "none")
    together = f" {' '.join(stem(word) for word in folded.split())} " in heard.stemmed
    return Support(0.8 if together else 0.4, "folded")


def _initials(value: str, heard: Heard) -> Support:
    """`F1` for Formula 1, `NYC`, or a short form such as `lib` for library."""
    short = "".join(words(value))
    if not 1 < len(short) <= 5:
        return _NONE
    letters = "".join(word if word.isdigit() else word[0] for word in heard.spaced.split())
    if short in letters:
        return Support(0.6, "derived")
    begun = len(short) > 2 and f" {short}" in heard.spaced
    return Support(0.6, "derived") if begun else _NONE


def _short_form(value: str, heard: Heard) -> Support:
    """`USD` for bucks, `kg` for kilos."""
    short = fold(value.strip())
    if len(short) > 5:
        return _NONE
    said = heard.spaced.split()
    money = any(CURRENCY_WORDS.get(word, "").lower() == short for word in said)
    sign = any(isinstance(one, Said) and one.unit.lower() == short for one in heard.found)
    unit = any(word in said for word in _UNITS.get(short, ()))
    named = money or sign or unit or says_currency(value.strip(), heard)
    return Support(0.8, "derived") if named else _NONE


def _choice(value: str, schema: Mapping[str, Any], heard: Heard) -> Support:
    """A choice by its own words, its short form, or the words beside it in the description."""
    own = " ".join(name_words(value))
    direct = _string(own, heard) if own else _NONE
    if direct.score >= 0.6:
        return Support(direct.score, "enum")
    root = stem(own)[:5]
    if len(root) >= 4 and any(word.startswith(root) for word in heard.stems):
        return Support(0.75, "enum")
    if len(own) <= 2 and any(word.startswith(own) for word in heard.spaced.split()):
        return Support(0.55, "enum")
    described = schema.get("description")
    if isinstance(described, str):
        plain = words(described)
        for place in (index for index, word in enumerate(plain) if word == own):
            near = {stem(word) for word in plain[place + 1 : place + 4] if word not in _LITTLE}
            if near & heard.stems:
                return Support(0.6, "enum")
    return Support(0.35, "enum")


def _boolean(value: bool, name: str, schema: Mapping[str, Any], heard: Heard) -> Support:
    """Weak evidence only: the parameter's words are said, or for `false` a negation is."""
    switched = state_said(name, schema, heard)
    if switched is not None:
        return Support(0.9 if switched is value else _CONTRADICTED, "boolean")
    described = schema.get("description")
    own = {stem(word) for word in name_words(name) if len(word) > 2 and word not in _LITTLE}
    told = words(described)[:12] if isinstance(described, str) else []
    more = {stem(word) for word in told if len(word) > 3}
    negated = not value and bool(_NEGATIONS & set(heard.spaced.split()))
    if own & heard.stems:
        return Support(0.8 if value or negated else 0.5, "boolean")
    if negated or more & heard.stems:
        return Support(0.6, "boolean")
    return Support(0.4, "boolean")
