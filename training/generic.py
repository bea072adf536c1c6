"""Plain requests for any tool, made from its description and the names of its parameters."""

from __future__ import annotations

import re
from random import Random

from training.frame_types import (
    Choices,
    Clock,
    Flag,
    Frame,
    Number,
    Pairs,
    Parameter,
    Pool,
    Template,
)
from training.naming import words_of
from training.templates import BadLine, read_template
from training.wording import is_imperative, lower_first

_SPECIFIC = re.compile(
    r"\s+(?:in|for|of|on|at|about|from|to|with|by)\s+(?:a|an|the)\s+"
    r"(?:specific|given|particular|certain|specified)\s+[\w\s'-]+$"
)
_UNIT_ENDINGS = frozenset(
    ("km", "cm", "mm", "m", "s", "ms", "mb", "gb", "deg", "kg", "g", "kn", "eur", "usd", "kw", "c",
     "kwh", "min", "minutes", "seconds", "hours", "days", "f", "ml", "l", "pct", "percent", "mah",
     "ma", "h", "db")
)  # fmt: skip
_PLACE_POOLS = ("city", "country", "street")


def action_of(description: str) -> str:
    """`Retrieves the height of a specific tree.` → `retrieve the height`; "" without a verb."""
    text = _SPECIFIC.sub("", lower_first(description.split(". ")[0].rstrip(". ")))
    verb, space, rest = text.partition(" ")
    for form in (verb, verb.removesuffix("s"), verb.removesuffix("es")):
        if is_imperative(form):
            return form + space + rest
    return ""


def label_of(name: str) -> str:
    """The words of a parameter's name, without a unit at its end."""
    words = words_of(name)
    if len(words) > 1 and words[-1] in _UNIT_ENDINGS:
        words = words[:-1]
    return " ".join(words)


def phrase(parameter: Parameter, rng: Random) -> str:
    """How a value is brought in: "in {x}", "with a depth of {x}", "depth {x}", …"""
    label = label_of(parameter.name)
    slot = f"{{{parameter.name}}}"
    if isinstance(parameter.values, Flag):
        return slot
    options = [f"with {label} {slot}", f"{label} {slot}", f"with the {label} {slot}",
               f"({label}: {slot})", f"where the {label} {be_of(label)} {slot}"]  # fmt: skip
    if be_of(label) == "is":
        options.append(f"with {_a(label)} {label} of {slot}")
    pool = parameter.values.name if isinstance(parameter.values, Pool) else ""
    if pool in _PLACE_POOLS:
        options += [f"in {slot}", f"in {slot}", f"in {slot}"]
    elif pool == "date":
        options += [f"on {slot}", f"on {slot}", f"for {slot}"]
    elif pool == "time" or isinstance(parameter.values, Clock):
        options += [f"at {slot}", f"at {slot}"]
    elif pool == "person" or (not pool and isinstance(parameter.values, Choices)):
        options += [f"for {slot}", f"for {slot}"]
    elif isinstance(parameter.values, Number) and parameter.values.kind == "year":
        options += [f"in {slot}", f"for {slot}"]
    return rng.choice(options)


def _a(label: str) -> str:
    return "an" if label[:1] in "aeiou" else "a"


def be_of(label: str) -> str:
    return "are" if label.endswith("s") and not label.endswith("ss") else "is"


def _fact(parameter: Parameter) -> str:
    slot, label = f"{{{parameter.name}}}", label_of(parameter.name)
    return slot if isinstance(parameter.values, Flag) else f"the {label} {be_of(label)} {slot}"


def _pair(parameter: Parameter) -> str:
    slot = f"{{{parameter.name}}}"
    return slot if isinstance(parameter.values, Flag) else f"{label_of(parameter.name)} {slot}"


def joined(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def generic_template(frame: Frame, form: int, rng: Random) -> Template:
    """One of several sentence plans; all required parameters are in it and some optional ones."""
    spoken = [name for name in frame.parameters if name not in frame.silent]
    optional = [name for name in spoken if name not in frame.required]
    required = [name for name in frame.required if name in spoken]
    names = required + rng.sample(optional, min(len(optional), rng.randint(0, 2)))
    if not names and frame.parameters:
        names = [rng.choice(list(frame.parameters))]
    rng.shuffle(names)
    if not names:
        raise BadLine("nothing to say about a tool without parameters")
    chosen = [frame.parameters[name] for name in names]
    action = action_of(frame.description)
    plans = _asked(chosen, frame, rng) if not action else _ordered(action, chosen, rng)
    return read_template(plans[form % len(plans)])


def _ordered(action: str, chosen: list[Parameter], rng: Random) -> list[str]:
    phrases = [phrase(parameter, rng) for parameter in chosen]
    pairs = [_pair(parameter) for parameter in chosen]
    facts = joined([_fact(parameter) for parameter in chosen])
    equal = " ".join(f"{label_of(p.name)}={{{p.name}}}" for p in chosen)
    return [
        f"{action[:1].upper()}{action[1:]} {', '.join(phrases)}.",
        f"I need to {action} {' '.join(phrases)}",
        f"{', '.join(pairs)}: {action}",
        f"Can you {action} {' and '.join(phrases)}?",
        f"{facts[:1].upper()}{facts[1:]}. Please {action}.",
        f"{action} {equal if rng.random() < 0.3 else ', '.join(phrases)}",
        f"{action} with {joined(pairs)}",
    ]


def _asked(chosen: list[Parameter], frame: Frame, rng: Random) -> list[str]:
    """For descriptions that name a thing: "Volume of a cone" → "What is the volume of a cone"."""
    thing = _SPECIFIC.sub("", lower_first(frame.description.split(". ")[0].rstrip(". ")))
    thing = re.sub(r"^(the|a|an) ", "", thing)
    if re.match(r"(whether|how|what|which|who|where|when|why|if)\b", thing):
        raise BadLine("the description is a question itself")
    phrases = [phrase(parameter, rng) for parameter in chosen]
    pairs = [_pair(parameter) for parameter in chosen]
    facts = joined([_fact(parameter) for parameter in chosen])
    lead = rng.choice(("Give me", "Calculate", "Tell me", "I'd like to know"))
    plural = re.match(r"\w+s\b(?! of)", thing) and not re.match(r"\w*(ss|us|is)\b", thing)
    be = "are" if plural else "is"
    return [
        f"What {be} the {thing} if {facts}?",
        f"I need the {thing} with {joined(pairs)}.",
        f"{thing}: {', '.join(pairs)}",
        f"{lead} the {thing}, {', '.join(pairs)}",
        f"{facts[:1].upper()}{facts[1:]}. What {be} the {thing}?",
        f"find the {thing} {' '.join(phrases)}",
    ]


def add_generic_templates(frame: Frame, count: int) -> None:
    """A few such requests beside the written ones, the same ones every time."""
    rng = Random(f"generic {frame.name}")
    if any(isinstance(parameter.values, Pairs) for parameter in frame.parameters.values()):
        return
    if not frame.parameters or len(frame.description) > 90:
        return
    if not re.match(r"[A-Za-z]+ [A-Za-z]+ ", frame.description):
        return  # too terse to make a sentence of
    forms = rng.sample(range(7), count)
    try:
        frame.generic = [generic_template(frame, form, rng) for form in forms]
    except BadLine:
        frame.generic = []
