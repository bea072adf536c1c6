"""Descriptions in other words: shorter, longer, missing, with hints on form, examples, defaults."""

from __future__ import annotations

import re
from random import Random
from typing import Any

from training.forms import FRACTION_HINTS
from training.frame_types import Choices, Clock, Flag, Number, Objects, Parameter, Pool
from training.number_forms import unit_words
from training.values import sample_value
from training.word_pools import pool_entries

_THIRD = {
    "search": "searches", "fetch": "fetches", "switch": "switches", "publish": "publishes",
    "launch": "launches", "match": "matches", "fix": "fixes", "do": "does", "copy": "copies",
    "apply": "applies", "classify": "classifies", "push": "pushes", "reach": "reaches",
    "watch": "watches", "flash": "flashes", "verify": "verifies", "notify": "notifies",
    "modify": "modifies", "attach": "attaches", "dispatch": "dispatches", "tally": "tallies",
    "identify": "identifies", "query": "queries",
}  # fmt: skip
IMPERATIVES = frozenset(pool_entries("imperative"))
_HINTED = {
    ("date", "iso"): ("(YYYY-MM-DD)", "in YYYY-MM-DD format", "ISO date"),
    ("time", "24h"): ("(HH:MM)", "in 24-hour HH:MM format", "24-hour clock, HH:MM"),
    ("datetime", "iso"): ("(ISO 8601)", "as YYYY-MM-DDTHH:MM:SS", "ISO 8601 date and time"),
    ("duration", "min"): ("in minutes", "(minutes)", "minutes"),
    ("duration", "s"): ("in seconds", "(seconds)", "seconds"),
}


def is_imperative(text: str) -> bool:
    first = re.match(
        r"([A-Za-z]+)(?: (?:you|i|we|they|it|this|that|he|she|of)\b)?", text, re.IGNORECASE
    )
    return bool(first and first[0] == first[1] and first[1].lower() in IMPERATIVES)


def lower_first(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def third_person(text: str) -> str:
    """ "Set the lamp" → "Sets the lamp"."""
    verb, space, rest = text.partition(" ")
    if not verb.isalpha():
        return text  # "Add, subtract or divide …"
    low = verb.lower()
    changed = _THIRD.get(low) or low + "s"
    return (changed.capitalize() if verb[0].isupper() else changed) + space + rest


def tool_description(text: str, rng: Random) -> str:
    """The tool's description as it is, cut to a sentence, or put another way."""
    chance = rng.random()
    if chance < 0.5:
        return text
    if chance < 0.6:
        return text.split(". ")[0].rstrip(".")
    if not is_imperative(text):
        return text if chance < 0.8 else lower_first(text.rstrip("."))
    if chance < 0.75:
        return third_person(text)
    lead = rng.choice(
        ("This function ", "This tool ", "A tool that ", "Function that ", "API which ")
    ) if chance < 0.85 else ""  # fmt: skip
    if lead:
        return lead + lower_first(third_person(text))
    opener = rng.choice(
        ("Use this to ", "Tool to ", "Call this to ", "Allows you to ", "Helps to ")
    )
    return opener + lower_first(text)


def required_hint(parameter: Parameter, text: str, rng: Random) -> str:
    """What the model must know to write the value in the right form, unless it is said already."""
    values = parameter.values
    low = text.lower()
    if isinstance(values, Pool) and values.form:
        known = {
            "iso": ("yyyy", "iso"),
            "24h": ("hh:mm", "24"),
            "min": ("minute",),
            "s": ("second",),
        }
        if any(word in low for word in known[values.form]):
            return ""
        return rng.choice(_HINTED[values.name, values.form])
    if isinstance(values, Number) and values.kind == "fraction":
        if any(word in low for word in ("decimal", "fraction", "0.", "between 0 and 1")):
            return ""
        return rng.choice(FRACTION_HINTS)
    if isinstance(values, Number) and values.kind == "percent" and "percent" not in low:
        return rng.choice(("in percent", "as a percentage", "(%)", ""))
    return ""


def unit_hint(parameter: Parameter, text: str, rng: Random) -> str:
    values = parameter.values
    if not isinstance(values, Number) or not values.unit or values.kind != "plain":
        return ""
    words = unit_words(values.unit)
    if any(word.lower() in text.lower() for word in words if len(word) > 2):
        return ""
    return rng.choice((f"in {words[-1]}", f"in {values.unit}", f"({values.unit})", ""))


def extra_hint(parameter: Parameter, text: str, rng: Random) -> str:
    """Examples or the word "optional", now and then."""
    chance = rng.random()
    if chance < 0.06 and not parameter.required:
        return "(optional)"
    if isinstance(parameter.values, Choices) and not parameter.values.options:
        return ""
    if isinstance(parameter.values, Objects | Clock):
        return ""
    if chance < 0.16 and not isinstance(parameter.values, Flag) and "e.g" not in text:
        first, second = (example(parameter, rng) for _ in range(2))
        return rng.choice((f"e.g. {first}", f"(e.g., {first}, {second})", f"for example '{first}'"))
    return ""


def example(parameter: Parameter, rng: Random) -> Any:
    """A value of the parameter, of which it may hold several."""
    value = sample_value(parameter, rng).value
    return value[0] if isinstance(value, list) and value else value


def prose_choices(values: list[Any], rng: Random) -> str:
    listed = ", ".join(str(value) for value in values)
    return rng.choice(
        (f"One of: {listed}", f"({listed})", f"Options: {listed}", f"Can be {listed}")
    )


_MORE_ON_TOOLS = (
    "Returns the result as JSON.", "Use it whenever the user asks for this kind of thing.",
    "Requires an active account.", "Results may be a few minutes old.",
    "If nothing is found, an empty list is returned.", "The answer is given in plain text.",
    "Fails if the arguments are not valid.", "This endpoint is rate limited.",
    "Arguments that are not needed can be left out.", "Works for signed-in users only.",
    "Provides detailed results suitable for further processing.",
)  # fmt: skip
_MANUAL = (
    "The service answers within two seconds; longer jobs are queued and reported by e-mail.",
    "Every call is written to the audit log together with the account that made it.",
    "Dates without a time zone are taken to be local to the account.",
    "Fields that are left out keep the value they had before.",
    "Large results come in pages of one hundred entries.",
    "Version 2 of this interface replaces the older form-based one, which stays available until "
    "the end of next year.",
    "Errors carry a code, a sentence for the user and, where it helps, the field that is wrong.",
    "Values are checked before anything is changed, so a call either succeeds as a whole or "
    "leaves everything as it was.",
    "Callers without the right role get an empty answer instead of an error.",
    "Calls are counted against the monthly quota of the workspace.",
    "The same call repeated within a minute has no further effect.",
    "Text may be given in any language and is stored as it comes.",
    "See the handbook for a list of known limits and for examples in several languages.",
    "In the test environment nothing leaves the sandbox, and identifiers begin with the letter T.",
    "A webhook can be registered to learn about changes made by others.",
)  # fmt: skip
_MORE_ON_PARAMETERS = {
    "str": ("Given as text.", "A non-empty string.", "Spelling is not checked.", "Free text."),
    "int": ("A whole number.", "Given as an integer.", "Must be a valid number."),
    "float": ("A number, decimals allowed.", "Numeric value.", "Must be a valid number."),
    "bool": ("True or false.", "Set to true to switch it on.", "A flag."),
}
_MORE_IF_OPTIONAL = (
    "This parameter is optional.", "Can be left out.", "If not provided, it is ignored.",
    "Only needed in special cases.", "Leave empty if unknown.",
)  # fmt: skip


def longer_tool_description(text: str, rng: Random) -> str:
    """A second sentence, as in the documentation of big interfaces."""
    return f"{text.rstrip('.')}. {rng.choice(_MORE_ON_TOOLS)}"


def documented(text: str, rng: Random) -> str:
    """A description as long as a page of a manual; the prompt keeps its beginning."""
    sentences = rng.sample(_MANUAL, rng.randint(3, len(_MANUAL)))
    return f"{text.rstrip('.')}. {' '.join(sentences)}"


def longer_parameter_description(parameter: Parameter, text: str, rng: Random) -> str:
    more = [rng.choice(_MORE_ON_PARAMETERS[parameter.kind])]
    if parameter.counts is not None:
        more = [rng.choice(("A list.", "One or more entries.", "An array of values."))]
    if not parameter.required:
        more.append(rng.choice(_MORE_IF_OPTIONAL))
    elif rng.random() < 0.3:
        more.append("This parameter is required.")
    kept = more if rng.random() < 0.4 else [rng.choice(more)]
    return f"{text.rstrip('.')}. {' '.join(kept)}"


def join_hint(text: str, hint: str) -> str:
    """A description and something more about it, with the mark that fits between them."""
    if not text or not hint:
        return text or hint
    if hint[0].isupper():
        return f"{text}. {hint}"
    return f"{text} {hint}" if hint.startswith(("(", "in ", "as ")) else f"{text}, {hint}"


def parameter_description(
    parameter: Parameter, rng: Random, keep: float, form_hint: str | None = None
) -> str:
    """The parameter's description with what must be known, and sometimes more.

    `form_hint` is what to say of a form other than the parameter's own.
    """
    text = parameter.description if rng.random() < keep else ""
    hint = form_hint
    if hint is None:
        hint = required_hint(parameter, text, rng) or unit_hint(parameter, text, rng)
    more = extra_hint(parameter, text, rng) if text and form_hint is None else ""
    if text and rng.random() < 0.08 and parameter.required:
        text = f"Required. {text}"
    elif text and rng.random() < 0.1:
        text = f"The {lower_first(text)}" if not is_imperative(text) and _takes_the(text) else text
    joined = text.rstrip(".")
    for part in (hint, more):
        joined = join_hint(joined, part)
    return joined[:1].upper() + joined[1:] if text else joined


def _takes_the(text: str) -> bool:
    first = text.split(" ")[0].lower()
    return first not in pool_entries("no_article")
