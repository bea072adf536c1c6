"""How people come back to what they asked: other values for it, and answers to our questions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random

from training.frame_types import Choices, Frame, Number, Parameter, Pool
from training.generic import be_of, label_of
from training.values import Said, sample_value

_CHANGE = (
    "make it {v}", "make that {v}", "actually, {v}", "no, {v}", "{v} instead", "no wait, {v}",
    "sorry, I meant {v}", "I meant {v}, sorry", "change it to {v}", "hmm, better {v}",
    "let's say {v}", "{v} please, I changed my mind", "rather {v}", "Oh, {v} actually.",
    "Can we make it {v}?", "On second thought, {v}.", "could you change that to {v}",
    "wait, {v}", "Oops, {v}!", "{v} is better", "I'd rather have {v}",
)  # fmt: skip
_CHANGE_OLD = (
    "not {old}, {v}", "{v}, not {old}", "{v} instead of {old}", "I said {v}, not {old}",
    "no, I meant {v}, not {old}", "Not {old}. {v}.", "replace {old} with {v}",
    "it should be {v} instead of {old}", "{old} was wrong, {v} is right",
)  # fmt: skip
_CHANGE_NAMED = (
    "change the {label} to {v}", "the {label} should be {v}", "no, the {label} {be} {v}",
    "set the {label} to {v} instead", "{label}: {v}, sorry", "Use {v} as the {label}.",
    "make the {label} {v}", "I got the {label} wrong, it's {v}", "with {v} as the {label}, please",
    "The {label} must be {v}.", "can you change the {label} to {v}?", "{v} for the {label}",
)  # fmt: skip
_SAME = (
    "and {v}?", "what about {v}?", "how about {v}?", "the same for {v}", "same for {v} please",
    "do the same for {v}", "and the same for {v}, please", "once more for {v}", "also for {v}",
    "repeat that for {v}", "And for {v}?", "now for {v}", "and now the same for {v}", "{v} too",
    "{v} as well, please", "And {v}, please.", "again, but for {v}", "I need it for {v} as well",
)  # fmt: skip
_SAME_NUMBER = (
    "and with {v}?", "what about {v}?", "how about {v}?", "again with {v}", "now with {v}",
    "and if it is {v}?", "try {v}", "once more with {v}", "the same with {v}, please",
)  # fmt: skip
_SAME_NAMED = (
    "the same with {v} as the {label}", "again, but with {label} {v}", "and with {label} {v}?",
    "what if the {label} {be} {v}?", "once more with the {label} {v}", "now with {label} {v}",
    "same thing, but the {label} {be} {v}", "try it with {label} {v}",
)  # fmt: skip
_ANSWERS = (
    "{v}", "{v}", "{v}", "{v}.", "{v} please", "{v}, please", "it's {v}", "Let's take {v}.",
    "I'd say {v}", "oh, {v}", "{v}, thanks", "Sorry, {v}.", "take {v}",
)  # fmt: skip
_ANSWERS_NAMED = ("the {label} {be} {v}", "{label} {v}", "The {label}? {v}.", "{label}: {v}")
_LEAD = {"place": "in", "date": "on", "time": "at"}
_RUNS_ON = re.compile(
    r"(with|in|on|at|by|for|from|to|as|without|and|or|until|since|before|after|no|not|every|only)\b",
    re.IGNORECASE,
)
_JOINED = re.compile(r"[,;?!:\n]|\b(and|or|to)\b")
_SHORT = 3


def kind_of(parameter: Parameter) -> str:
    """What sort of thing a value is, as a hearer tells them apart; "" for what is never brief."""
    values = parameter.values
    if parameter.counts is not None or parameter.kind == "bool":
        return ""
    if isinstance(values, Number):
        return "year" if values.kind == "year" else "number"
    if isinstance(values, Choices):
        return "choice" if values.closed else "text"
    if isinstance(values, Pool):
        groups = {"city": "place", "country": "place", "first_name": "person", "weekday": "date",
                  "datetime": "date"}  # fmt: skip
        return groups.get(values.name, values.name)
    return ""


def fresh_value(frame: Frame, name: str, old: Mapping[str, Said], rng: Random) -> Said | None:
    """Another value for a slot that can be said on its own."""
    parameter = frame.parameters[name]
    known = {said.text.lower() for said in old.values()}
    for _ in range(6):
        said = sample_value(parameter, rng)
        if said.text.lower() not in known and said.value != old[name].value and brief(said):
            return said
    return None


def brief(said: Said) -> bool:
    """Whether the words can stand alone in an answer."""
    return (
        said.text.count(" ") < 6
        and not _RUNS_ON.match(said.text)
        and not (_JOINED.search(said.text) and not said.text[:1].isdigit())
    )


def varied(
    frame: Frame, values: Mapping[str, Said], rng: Random, *, again: bool
) -> tuple[str, Said, str] | None:
    """A slot, its new value and the words: "make it ten", or (`again`) "the same for Oslo"."""
    kinds = {name: kind_of(frame.parameters[name]) for name in values}
    able = [name for name, kind in kinds.items() if kind]
    if not able:
        return None
    name = rng.choice(able)
    said = fresh_value(frame, name, values, rng)
    if said is None:
        return None
    label, old = label_of(frame.parameters[name].name.rpartition(".")[2]), values[name]
    kind = kinds[name]
    alone = len(values) == 1 or (kind != "text" and list(kinds.values()).count(kind) == 1)
    named = len(label) >= _SHORT and (kind != "text" or len(values) > 1)
    forms = _again(kind, said, alone) if again else list(_CHANGE) if alone else []
    if not again and brief(old) and old.text.lower() not in said.text.lower():
        forms += rng.sample(_CHANGE_OLD, 4)
    if named:
        forms += rng.sample(_SAME_NAMED if again else _CHANGE_NAMED, 4)
    if not forms:
        return None
    form = _cased(rng.choice(forms), rng)
    return name, said, form.format(v=said.text, old=old.text, label=label, be=be_of(label))


def _again(kind: str, said: Said, alone: bool) -> list[str]:
    """Ways to ask for the same with another value; the value alone, if that is clear."""
    if not alone or kind == "choice":
        return []
    if kind in ("number", "year", "duration", "time"):
        return list(_SAME_NUMBER)
    lead = _LEAD.get(kind)
    return [*_SAME, *([f"and {lead} {{v}}?"] * 2 if lead and not _is_relative(said) else [])]


def answered(frame: Frame, names: list[str], values: Mapping[str, Said], rng: Random) -> str:
    """An answer to "What is the …?" that gives these values."""
    if len(names) > 1:
        parts = [_with_label(frame, name, values[name]) for name in names]
        return f"{', '.join(parts[:-1])} and {parts[-1]}"
    [name] = names
    said, label = values[name], label_of(frame.parameters[name].name.rpartition(".")[2])
    forms = list(_ANSWERS)
    lead = _LEAD.get(kind_of(frame.parameters[name]))
    if lead and not _is_relative(said) and brief(said):
        forms += [f"{lead} {{v}}", f"{lead} {{v}}, please"]
    if len(label) >= _SHORT:
        forms += _ANSWERS_NAMED
    form = rng.choice(forms) if brief(said) else rng.choice(("{v}", "{v}, please"))
    return _cased(form, rng).format(v=said.text, label=label, be=be_of(label))


def _with_label(frame: Frame, name: str, said: Said) -> str:
    label = label_of(frame.parameters[name].name.rpartition(".")[2])
    return f"the {label} {be_of(label)} {said.text}" if len(label) >= _SHORT else said.text


def _is_relative(said: Said) -> bool:
    return not said.text[:1].isdigit() and not said.text[:1].isupper()


def _cased(text: str, rng: Random) -> str:
    """A form that may begin with a capital; a value keeps its case, because it is copied."""
    return text[0].upper() + text[1:] if rng.random() < 0.4 and text[0].isalpha() else text
