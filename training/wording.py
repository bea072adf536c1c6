"""Descriptions in other words: shorter, longer, missing, with hints on form, examples, defaults."""

from __future__ import annotations

import re
from random import Random
from typing import Any

from training.frame_types import Choices, Flag, Number, Parameter, Pool
from training.number_forms import unit_words
from training.values import sample_value

_THIRD = {"search": "searches", "fetch": "fetches", "switch": "switches", "publish": "publishes",
          "launch": "launches", "match": "matches", "fix": "fixes", "do": "does", "apply": "applies",
          "copy": "copies", "classify": "classifies", "push": "pushes", "reach": "reaches",
          "watch": "watches", "flash": "flashes", "verify": "verifies", "notify": "notifies",
          "modify": "modifies", "attach": "attaches", "dispatch": "dispatches",
          "identify": "identifies", "tally": "tallies", "query": "queries"}  # fmt: skip
IMPERATIVES = frozenset(
    """add adjust allocate analyse analyze apply approve archive arrange ask assess assign attach
    balance ban begin block book borrow brew bring build buy calculate call cancel change charge
    check choose classify clean clear close combine compare compile compose compress compute
    configure connect convert copy count create cut deactivate decode decrease define delete deliver
    deploy describe detect determine dim disable dispatch display divide do donate download draft
    draw drop edit email enable encode encrypt enrol enter erase estimate evaluate examine execute
    explain export extend extract fetch figure fill filter find finish fix flag flash flip follow
    forecast format forward freeze fetch generate get give go grade grant group hang help hide
    hold identify import increase insert inspect install invite issue join keep label launch lend
    let lift limit link list load locate lock log look lower mail make mark match measure merge
    message mix model modify monitor mount move multiply mute name note notify open order pack park
    pause pay pick ping plan plant play plot point post predict prepare print process produce
    project publish pull purchase push put query queue rank rate reach read rebook recommend record
    redirect reduce refund register release remind remove rename renew rent reorder repeat replace
    reply report request reschedule reserve reset resize resolve restart restore retrieve return
    reverse review revoke ring roll rotate round route run save scale scan schedule score search
    see select sell send separate serve set share shift ship show shut sign simulate skip snap solve
    sort split spell start stop store stream submit subscribe subtract suggest sum summarise
    summarize switch sync tag take tally tell test text toggle total track transcribe transfer
    translate trigger trim tune turn unblock undo unlock unmute unsubscribe update upgrade upload
    use validate verify view vote wake warm watch water weigh withdraw work wrap write zip zoom
    """.split()
)
_HINTED = {
    ("date", "iso"): ("(YYYY-MM-DD)", "in YYYY-MM-DD format", "ISO date"),
    ("time", "24h"): ("(HH:MM)", "in 24-hour HH:MM format", "24-hour clock, HH:MM"),
    ("datetime", "iso"): ("(ISO 8601)", "as YYYY-MM-DDTHH:MM:SS", "ISO 8601 date and time"),
    ("duration", "min"): ("in minutes", "(minutes)", "minutes"),
    ("duration", "s"): ("in seconds", "(seconds)", "seconds"),
}
_FRACTION_HINTS = ("as a decimal", "(0.15 for 15%)", "as a fraction of 1", "in decimal form")


def is_imperative(text: str) -> bool:
    first = re.match(r"[A-Za-z]+", text)
    return bool(first) and first[0].lower() in IMPERATIVES if first else False


def lower_first(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def third_person(text: str) -> str:
    """ "Set the lamp" → "Sets the lamp"."""
    verb, space, rest = text.partition(" ")
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
        return rng.choice(_FRACTION_HINTS)
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
    return rng.choice((f"in {rng.choice(words)}", f"({values.unit})", ""))


def extra_hint(parameter: Parameter, rng: Random) -> str:
    """Examples or the word "optional", now and then."""
    chance = rng.random()
    if chance < 0.06 and not parameter.required:
        return "(optional)"
    if chance < 0.16 and not isinstance(parameter.values, Flag):
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


def parameter_description(parameter: Parameter, rng: Random, keep: float) -> str:
    """The parameter's description with what must be known, and sometimes more."""
    text = parameter.description if rng.random() < keep else ""
    hint = required_hint(parameter, text, rng) or unit_hint(parameter, text, rng)
    more = extra_hint(parameter, rng) if text else ""
    if text and rng.random() < 0.08 and parameter.required:
        text = f"Required. {text}"
    elif text and rng.random() < 0.1:
        text = f"The {lower_first(text)}" if not is_imperative(text) and _takes_the(text) else text
    joined = " ".join(part for part in (text.rstrip("."), hint, more) if part)
    return joined[:1].upper() + joined[1:] if text else joined


def _takes_the(text: str) -> bool:
    first = text.split(" ")[0].lower()
    return first not in (
        "the a an how whether what which who where when only if one your this all each number "
        "optional highest lowest maximum minimum any names ids".split()
    )


def choice_values(parameter: Parameter) -> list[Any] | None:
    """The values of an enum, or of a short open list that could be one."""
    values = parameter.values
    if not isinstance(values, Choices):
        return None
    return [choice.value for choice in values.options]
