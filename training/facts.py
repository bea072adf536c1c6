"""Requests that lean on what is known beside them: the day, the place, contacts, addresses."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from random import Random
from typing import Any

from training.dialogues import said_turn
from training.example import Example
from training.followups import kind_of
from training.frame_types import Frame, Parameter, Pool, Template
from training.number_forms import in_words
from training.offer import offer
from training.references import BEFORE_A_THING, with_reference
from training.sample import Clause, clause_from, sample_clause
from training.time_forms import MONTHS, WEEKDAYS, ordinal, say_exact_time
from training.values import Said
from training.word_pools import from_pool, pool_entries
from training.world import World, tool_count

Facts = dict[str, Any]
TRIES = 30
_IN_A_PLACE = re.compile(r"\b(in|at|around|near|for) $")
_PAST = re.compile(
    r"\b(bought|born|birth\w*|since|purchase\w*|issued|taken|happened|was|were|did|had|ended|ending|"
    r"last|measured|log\w*|past|history|historic\w*|archive\w*|expired?|flown|met|married|founded|"
    r"recorded|back then|ago|yesterday|sown|planted|fed|ate|paid|worked|drove|ran|slept|got)\b",
    re.IGNORECASE,
)
# "by in two hours", "from in a week", "the today"
_CLUMSY = re.compile(
    r"\b(by|from|until|till|before|after|to|of|between|starting|since|is|the|a) (in|now|tonight)\b|"
    r"\b(the|a|an) (to(day|morrow|night)|this)\b|'s? (in|to) (a|two|ten|\d)",
    re.IGNORECASE,
)
# The kinds of values that can be looked up, and how often each is.
_LEANING = {
    Pool("date", "iso"): 40, Pool("datetime", "iso"): 10, Pool("time", "24h"): 10, Pool("city"): 15,
    Pool("phone"): 8, Pool("email"): 10, Pool("street"): 5,
}  # fmt: skip
_HERE = ("here", "around here", "where I am")
_CITY = ("my city", "my town", "this city", "this town")
_MINE = {
    "email": ("email", ("my email address", "my e-mail", "my address")),
    "phone": ("phone", ("my number", "my phone number", "my mobile")),
    "street": ("home", ("my home address", "my place", "my house")),
    "person": ("name", ("me",)),
}


def some_facts(rng: Random, most: int = 6) -> Facts:
    """What an assistant may know, in no particular order."""
    today = dt.date(2024, 1, 1) + dt.timedelta(days=rng.randrange(1400))
    makers: dict[str, Callable[[], Any]] = {
        "date": today.isoformat,
        "time": lambda: f"{rng.randint(6, 21):02}:{rng.randrange(60):02}",
        "place": lambda: rng.choice(pool_entries("city")),
        "locale": lambda: rng.choice(("en-GB", "en-US", "de-DE", "fr-FR", "en-IN", "pt-BR")),
        "units": lambda: rng.choice(("metric", "imperial")),
        "name": lambda: _full_name(rng),
        "email": lambda: from_pool("email", rng),
        "phone": lambda: from_pool("phone", rng),
        "home": lambda: from_pool("street", rng),
        "contacts": lambda: contacts(rng),
    }
    chosen = rng.sample(list(makers), rng.randint(1, most))
    return {name: makers[name]() for name in chosen}


def _full_name(rng: Random) -> str:
    return f"{rng.choice(pool_entries('first_name'))} {rng.choice(pool_entries('last_name'))}"


def contacts(rng: Random) -> list[dict[str, str]]:
    """People by name with their numbers; no two share a first name."""
    firsts = rng.sample(pool_entries("first_name"), rng.randint(2, 6))
    return [
        {
            "name": f"{first} {rng.choice(pool_entries('last_name'))}",
            "phone": from_pool("phone", rng),
            "email": from_pool("email", rng),
        }
        for first in firsts
    ]


def relative_day(today: dt.date, rng: Random) -> Said:
    """A day as it is said from today, and its ISO form."""
    chance = rng.random()
    if chance < 0.16:
        return Said(today.isoformat(), rng.choice(("today", "today", "tonight")))
    if chance < 0.42:
        return _ahead(today, 1, "tomorrow")
    if chance < 0.5:
        return _ahead(today, 2, "the day after tomorrow")
    if chance < 0.78:
        days = rng.randint(1, 6)
        name = WEEKDAYS[(today + dt.timedelta(days=days)).weekday()]
        return _ahead(today, days, rng.choice(("", "", "this ", "this coming ")) + name)
    if chance < 0.87:
        days = rng.choice((2, 3, 4, 5, 7, 10, 14))
        words = {7: "in a week", 14: "in two weeks"}
        number = in_words(days) if rng.random() < 0.6 else str(days)
        return _ahead(today, days, words.get(days, f"in {number} days"))
    later = today + dt.timedelta(days=rng.randint(3, 200))
    month, nth = MONTHS[later.month - 1], ordinal(later.day)
    if later.month == today.month and later.year == today.year and rng.random() < 0.5:
        return Said(later.isoformat(), f"the {nth}")
    forms = (
        f"{month} {later.day}",
        f"{month} {nth}",
        f"the {nth} of {month}",
        f"{later.day} {month}",
    )
    return Said(later.isoformat(), rng.choice(forms))


def _ahead(today: dt.date, days: int, text: str) -> Said:
    return Said((today + dt.timedelta(days=days)).isoformat(), text)


def relative_time(now: str, rng: Random) -> Said | None:
    """A time as it is said from now, within the day."""
    hour, minute = (int(part) for part in now.split(":"))
    ahead, text = rng.choice(
        ((60, "in an hour"), (120, "in two hours"), (180, "in 3 hours"), (30, "in half an hour"),
         (30, "in 30 minutes"), (10, "in ten minutes"), (20, "in 20 minutes"), (0, "now"),
         (15, "in a quarter of an hour"), (45, "in 45 minutes"), (90, "in an hour and a half"))
    )  # fmt: skip
    total = hour * 60 + minute + ahead
    return Said(f"{total // 60:02}:{total % 60:02}", text) if total < 24 * 60 else None


def with_facts(world: World, rng: Random) -> Example | None:
    """A request of which one value must be looked up; now and then the facts are idle."""
    if rng.random() < 0.2:
        frame = rng.choice(world.by_source["frames"] or world.frames)
        return _example(world, rng, some_facts(rng), sample_clause(frame, rng), "idle")
    pool = rng.choices(list(_LEANING), list(_LEANING.values()))[0]
    frames = world.users_of(pool)
    for _ in range(TRIES if frames else 0):  # many requests have no place for such words
        facts = some_facts(rng)
        found = _leaning(rng.choice(frames), pool, facts, rng)
        if found:
            return _example(world, rng, facts, *found)
    return None


def _example(world: World, rng: Random, facts: Facts, clause: Clause, kind: str) -> Example:
    frame, text = clause.frame, clause.text
    query = said_turn([clause], clause.pieces, rng)
    styled, offered = offer(world, rng, [(frame, [clause.values])], tool_count(rng, 1))
    calls = [styled[id(frame)].call(clause.values)]
    return Example(query, offered, calls, f"facts_{kind}", frame.source, [text, query], facts)


def _leaning(frame: Frame, pool: Pool, facts: Facts, rng: Random) -> tuple[Clause, str] | None:
    template = rng.choice(frame.templates)
    names = [name for name in template.slots if frame.parameters[name].values == pool]
    if len(names) != 1 or frame.parameters[names[0]].counts is not None:
        return None
    [name] = names
    if pool.name in ("date", "datetime"):
        return _on_a_day(frame, template, name, facts, rng)
    clause = clause_from(frame, template, rng)
    found = _looked_up(clause, name, facts, rng) if name in clause.values else ""
    return (clause, found) if found else None


def _on_a_day(
    frame: Frame, template: Template, name: str, facts: Facts, rng: Random
) -> tuple[Clause, str] | None:
    parameter = frame.parameters[name]
    written = " ".join(part.text for part in template.parts)
    if _PAST.search(f"{parameter.name} {parameter.description} {written}".replace("_", " ")):
        return None  # nobody was born tomorrow
    days = [one for one in frame.parameters.values() if kind_of(one) == "date"]
    if len(days) > 1:
        return None  # what is said of one day says something of the other
    facts.setdefault("date", (dt.date(2024, 1, 1) + dt.timedelta(rng.randrange(1400))).isoformat())
    said = relative_day(dt.date.fromisoformat(facts["date"]), rng)
    if parameter.values == Pool("datetime", "iso"):
        if said.text in ("tonight",) or said.text.startswith("in "):
            return None
        time, words = say_exact_time(rng)
        said = Said(f"{said.value}T{time}:00", f"{said.text} at {words}")
    clause = clause_from(frame, template, rng, {name: said})
    if name not in clause.values or _CLUMSY.search(clause.text):
        return None
    return clause, "day"


def _looked_up(clause: Clause, name: str, facts: Facts, rng: Random) -> str:
    """Exchange the words of a slot for words that point at a fact; the kind, "" if none fits."""
    pool = _pool(clause.frame.parameters[name])
    if pool == "time 24h":
        facts.setdefault("time", f"{rng.randint(6, 19):02}:{rng.randrange(60):02}")
        said = relative_time(facts["time"], rng)
        way = clause.template
        again = clause_from(clause.frame, way, rng, {name: said}) if said and way else None
        if again is None or name not in again.values or again.values[name] is not said:
            return ""
        if _CLUMSY.search(again.text):
            return ""
        clause.pieces, clause.values = again.pieces, again.values
        return "time"
    if pool == "city ":
        facts.setdefault("place", rng.choice(pool_entries("city")))
        near = with_reference(clause.pieces, name, rng.choice(_HERE), _IN_A_PLACE, alone=True)
        if near is None or rng.random() < 0.3:
            near = with_reference(clause.pieces, name, rng.choice(_CITY), _IN_A_PLACE)
        return _pointed(clause, name, near, facts["place"], "place")
    kind = pool.strip()
    if kind in ("phone", "email") and rng.random() < 0.6:
        facts.setdefault("contacts", contacts(rng))
        person = rng.choice(facts["contacts"])
        words = person["name"] if rng.random() < 0.4 else person["name"].split(" ")[0]
        if rng.random() < 0.2:
            words += "'s number" if kind == "phone" else "'s email"
        near = with_reference(clause.pieces, name, words, BEFORE_A_THING)
        return _pointed(clause, name, near, person[kind], "contact")
    if kind in _MINE and kind != "person":
        fact, ways = _MINE[kind]
        if fact not in facts:
            facts[fact] = from_pool(kind, rng)
        near = with_reference(clause.pieces, name, rng.choice(ways), BEFORE_A_THING)
        return _pointed(clause, name, near, facts[fact], "mine")
    return ""


def _pointed(clause: Clause, name: str, pieces: Any, value: str, kind: str) -> str:
    if pieces is None:
        return ""
    clause.pieces = pieces
    clause.values[name] = Said(value, value)
    return kind


def _pool(parameter: Parameter) -> str:
    values = parameter.values
    return f"{values.name} {values.form}" if isinstance(values, Pool) else "-"
