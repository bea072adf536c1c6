"""One value with the words that say it, for every kind of parameter a frame can have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from training import number_forms, time_forms
from training.articles import without_article
from training.frame_types import (
    Choice,
    Choices,
    Clock,
    Flag,
    Number,
    Objects,
    Pairs,
    Parameter,
    Pool,
    Values,
)
from training.word_pools import from_pool


@dataclass(frozen=True, slots=True)
class Said:
    """A value, the words for it, and whether the value is those very words."""

    value: Any
    text: str
    verbatim: bool = False
    low: Any = None  # the value in lower case, where only parts of it are copied

    def lowered(self) -> Said:
        """The same in lower case, where the call copies the words."""
        if self.low is not None:
            return Said(self.low, self.text.lower(), low=self.low)
        if not self.verbatim:
            return replace(self, text=self.text.lower())
        value = self.value
        low = [item.lower() for item in value] if isinstance(value, list) else value.lower()
        return Said(low, self.text.lower(), True)


def sample_value(parameter: Parameter, rng: Random, bare: bool = False) -> Said:
    """A value for a parameter; `bare` leaves out a unit that the sentence already has."""
    if parameter.counts is None:
        return _one(parameter.values, rng, bare)
    count = rng.randint(*parameter.counts)
    if isinstance(parameter.values, Objects):
        return _objects(parameter.values, count, rng)
    items: list[Said] = []
    for _ in range(count * 4):
        item = _one(parameter.values, rng, bare=True)
        if len(items) < count and all(item.value != other.value for other in items):
            items.append(item)
    verbatim = all(item.verbatim for item in items)
    texts = [item.text for item in items]
    if isinstance(parameter.values, Number) and parameter.values.kind == "plain":
        # One list is written in one manner: all digits.
        texts = [number_forms.digits(item.value) for item in items]
    low = None
    if not verbatim and all(item.verbatim or item.low is not None for item in items):
        low = [item.lowered().value for item in items]
    return Said([item.value for item in items], join_list(texts, rng), verbatim, low)


def join_list(texts: list[str], rng: Random) -> str:
    """ "a, b and c", and the other ways to write a list."""
    if len(texts) == 1:
        return texts[0]
    plain = any("," in text or " and " in text for text in texts)
    if len(texts) == 2:
        return rng.choice((" and ", " and ", " & ", ", ") if not plain else (" and ",)).join(texts)
    if plain:
        return (
            "; ".join(texts) if rng.random() < 0.5 else ", ".join(texts[:-1]) + f", and {texts[-1]}"
        )
    chance = rng.random()
    if chance < 0.2:
        return ", ".join(texts)
    last = rng.choice((" and ", " and ", ", and ")) + texts[-1]
    return ", ".join(texts[:-1]) + last if chance < 0.95 else " and ".join(texts)


def _one(values: Values, rng: Random, bare: bool) -> Said:
    if isinstance(values, Choices):
        return _choice(rng.choice(values.options), rng)
    if isinstance(values, Number):
        value = number_forms.pick_number(values, rng)
        text = number_forms.say(values, value, rng, bare)
        return Said(int(value) if value == int(value) else value, text)
    if isinstance(values, Flag):
        phrases = [(True, text) for text in values.yes] + [(False, text) for text in values.no]
        value, text = rng.choice(phrases)
        return Said(value, text)
    if isinstance(values, Pairs):
        return _pairs(values, rng)
    if isinstance(values, Objects):
        return _objects(values, 1, rng)
    if isinstance(values, Clock):
        return Said(*time_forms.say_exact_time(rng))
    return _pooled(values, rng)


def _choice(choice: Choice, rng: Random) -> Said:
    text = choice.said[0] if len(choice.said) == 1 else rng.choice(choice.said)
    if not choice.verbatim and without_article(text) == choice.value != text:
        return Said(choice.value, text, low=choice.value.lower())
    return Said(choice.value, text, choice.verbatim)


def _pairs(values: Pairs, rng: Random) -> Said:
    keys = rng.sample(values.keys, min(len(values.keys), rng.randint(2, 3)))
    found = {key: _one(values.values, rng, bare=True) for key in keys}
    joint = rng.choice((": ", " ", " = "))
    text = join_list([f"{key}{joint}{said.text}" for key, said in found.items()], rng)
    return Said({key: said.value for key, said in found.items()}, text)


def _objects(values: Objects, count: int, rng: Random) -> Said:
    """Some entries, each said in the same manner."""
    form = rng.choice(values.forms)
    entries: list[dict[str, Any]] = []
    low: list[dict[str, Any]] = []
    texts: list[str] = []
    for _ in range(count * 3):
        if len(entries) == count:
            break
        optional = {name for name in sorted(form.conditions) if rng.random() < 0.6}
        present = [name for name in form.slots if name not in form.conditions or name in optional]
        said = {name: sample_value(values.fields[name], rng) for name in present}
        names = {one.value for one in said.values() if one.verbatim}
        if any(name in entry.values() for name in names for entry in entries):
            continue  # nobody orders the same thing twice in one breath
        parts = [part for part in form.parts if not part.condition or part.condition in said]
        texts.append("".join(said[p.slot].text if p.slot in said else p.text for p in parts))
        entries.append({name: one.value for name, one in said.items()})
        low.append({name: one.lowered().value for name, one in said.items()})
    return Said(entries, join_list(texts, rng), low=low)


def _pooled(pool: Pool, rng: Random) -> Said:
    if not pool.form:
        text = from_pool(pool.name, rng)
        return Said(text, text, verbatim=True)
    if pool.name == "date":
        return Said(*time_forms.say_iso_date(rng))
    if pool.name == "time":
        return Said(*time_forms.say_exact_time(rng))
    if pool.name == "datetime":
        return Said(*time_forms.say_iso_datetime(rng))
    return Said(*time_forms.say_exact_duration(pool.form, rng))
