"""Names in other manners: cases, namespaces, synonyms of verbs and of parameter names."""

from __future__ import annotations

import re
from random import Random
from typing import Literal

Case = Literal["as_is", "snake", "camel", "pascal", "dotted", "kebab"]
CASES: tuple[Case, ...] = ("as_is", "snake", "camel", "pascal", "dotted", "kebab")

_VERBS = {
    "get": ("fetch", "retrieve", "lookup", "read", "query"),
    "fetch": ("get", "retrieve", "load"),
    "find": ("search", "locate", "lookup", "discover"),
    "search": ("find", "lookup", "query"),
    "create": ("make", "add", "new", "open"),
    "add": ("create", "insert", "append"),
    "make": ("create", "build"),
    "calculate": ("compute", "calc", "determine", "work_out"),
    "compute": ("calculate", "calc", "evaluate"),
    "estimate": ("predict", "compute", "approximate"),
    "set": ("update", "configure", "adjust", "change"),
    "update": ("set", "modify", "edit", "change"),
    "delete": ("remove", "drop", "erase"),
    "remove": ("delete", "drop"),
    "send": ("dispatch", "deliver", "submit"),
    "book": ("reserve", "order"),
    "reserve": ("book",),
    "convert": ("transform", "change", "translate"),
    "check": ("verify", "test", "inspect"),
    "list": ("show", "enumerate", "get_all"),
    "start": ("begin", "launch", "run"),
    "schedule": ("plan", "arrange", "book"),
    "play": ("start", "stream"),
    "generate": ("create", "produce", "make"),
    "analyze": ("analyse", "evaluate", "assess"),
    "translate": ("convert",),
    "track": ("follow", "monitor"),
    "compare": ("contrast", "match"),
}
_PARAMETERS = {
    "city": ("location", "place", "town", "city_name"),
    "location": ("place", "where", "city"),
    "country": ("nation", "country_name"),
    "date": ("day", "on_date", "when"),
    "time": ("at", "at_time", "clock_time"),
    "duration": ("length", "how_long"),
    "name": ("title", "label"),
    "title": ("name", "heading"),
    "recipient": ("to", "contact", "receiver"),
    "message": ("text", "body", "content"),
    "text": ("content", "message", "input"),
    "amount": ("sum", "value", "quantity"),
    "quantity": ("count", "amount", "qty", "number"),
    "count": ("number", "quantity", "n", "num"),
    "limit": ("max_results", "top_k", "count"),
    "origin": ("from_place", "source", "start", "departure"),
    "destination": ("to_place", "target", "arrival", "dest"),
    "start_date": ("from_date", "begin_date", "date_from"),
    "end_date": ("to_date", "until", "date_to"),
    "price": ("cost", "amount"),
    "language": ("lang", "locale", "target_language"),
    "email": ("email_address", "mail"),
    "phone": ("phone_number", "tel"),
    "person": ("who", "person_name", "name"),
    "query": ("q", "search_term", "keywords"),
    "file": ("path", "filename", "file_path"),
    "path": ("file", "location", "file_path"),
    "unit": ("units", "measure"),
    "weight": ("mass",),
    "height": ("tall", "elevation"),
    "speed": ("velocity", "pace"),
    "rate": ("interest_rate", "rate_value"),
    "year": ("in_year", "yr"),
    "color": ("colour", "color_name"),
    "colour": ("color", "colour_name"),
    "reason": ("why", "note"),
    "note": ("comment", "remark"),
    "priority": ("urgency", "importance"),
    "status": ("state",),
    "category": ("type", "kind", "group"),
    "guests": ("party_size", "people", "num_guests"),
    "id": ("identifier", "ref"),
}
_OBSCURE = "bcdfghjklmnpqrstvwxzaeiou"
_NAMESPACES = ("api", "assistant", "tools", "service", "app", "client", "v1", "core", "app_utils")


def words_of(name: str) -> list[str]:
    """`regularPolygon.area` → regular, polygon, area."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return [word.lower() for word in re.split(r"[^A-Za-z0-9]+", spaced) if word]


def join_words(words: list[str], case: Case, rng: Random) -> str:
    """Words written in one case; `dotted` puts a dot at one of the joints."""
    if case == "camel":
        return words[0] + "".join(word.capitalize() for word in words[1:])
    if case == "pascal":
        return "".join(word.capitalize() for word in words)
    if case == "kebab":
        return "-".join(words)
    if case == "dotted" and len(words) > 1:
        cut = rng.randrange(1, len(words))
        inner: Case = "camel" if rng.random() < 0.3 else "snake"
        return f"{'_'.join(words[:cut])}.{join_words(words[cut:], inner, rng)}"
    return "_".join(words)


def tool_name(name: str, domain: str, case: Case, namespaced: bool, rng: Random) -> str:
    """The tool's name in another manner, sometimes with another verb or a namespace."""
    if rng.random() < 0.015:
        return "".join(rng.choice(_OBSCURE) for _ in range(rng.randint(4, 9)))
    changed = _other_verb(name, rng) if rng.random() < 0.2 else name
    if changed == name and case == "as_is":
        styled = name
    else:
        styled = join_words(words_of(changed), "snake" if case == "as_is" else case, rng)
    if namespaced:
        room = "_".join(words_of(domain.rpartition("/")[2])[:2]) or "api"
        space = rng.choice((room, rng.choice(_NAMESPACES)))
        styled = f"{space}{rng.choice(('.', '.', '_', '_'))}{styled}"
    return styled


def _other_verb(name: str, rng: Random) -> str:
    words = words_of(name)
    for position in (0, len(words) - 1):
        options = _VERBS.get(words[position])
        if options:
            words[position] = rng.choice(options)
            return "_".join(words)
    return name


def parameter_name(name: str, case: Case, rename: bool, rng: Random) -> str:
    """One part of a parameter's path in another manner."""
    if rename:
        options = _PARAMETERS.get(name)
        if options:
            name = rng.choice(options)
    if case == "as_is":
        return name
    return join_words(words_of(name), "snake" if case in ("dotted", "kebab") else case, rng)


_ODD_FORMS = (
    "{}_value", "input_{}", "p_{}", "the_{}", "{}_1", "user_{}", "target_{}", "{}_param", "{}_arg",
    "my_{}", "{}_text", "chosen_{}", "req_{}", "{}_field", "wanted_{}", "{}_in", "x_{}", "for_{}",
)  # fmt: skip
_SYLLABLES = (
    "ba", "cor", "dil", "fen", "gra", "hus", "jor", "kel", "lim", "mon", "nar", "pol", "quo", "ris",
    "sta", "tul", "vex", "wim", "zan", "eth", "ox", "ur", "ip", "aft", "disp", "ment", "als", "ti",
)  # fmt: skip


def odd_name(name: str, described: bool, rng: Random) -> str:
    """A name nobody has seen before; one without any sense only where a description explains it."""
    chance = rng.random()
    if described and chance < 0.35:
        return "".join(rng.choice(_SYLLABLES) for _ in range(rng.choice((2, 3))))
    if chance < 0.5 and len(name) > 4 and name.isalpha():
        return name[0] + re.sub(r"[aeiou]", "", name[1:]) if chance < 0.43 else name[:4]
    return rng.choice(_ODD_FORMS).format(name)


def odd_options(options: list[str], name: str, rng: Random) -> list[str]:
    """The choices of an enum written so that they must be copied from the schema."""
    label = words_of(name)[-1] if words_of(name) else "kind"
    form = rng.choice(("{1}_{0}", "{0}_{1}", "{0}", "{0}", "{1}-{0}", "is_{0}", "{0}!", "{1}:{0}"))
    joint = rng.choice(("_", "-", " ", "."))
    case = rng.choice((str.lower, str.upper, str.title, str))
    changed = [case(form.format(re.sub(r"[ _-]", joint, text), label)) for text in options]
    return changed if len(set(changed)) == len(changed) else list(options)
