"""Tools like another that do something else with the same thing: cancel it, list it, rate it."""

from __future__ import annotations

from random import Random

from training.frame_types import Choice, Choices, Frame, Number, Parameter, Pool
from training.naming import words_of

_OPPOSITE = {
    "create": ("delete", "archive", "list"),
    "add": ("remove", "list", "count"),
    "make": ("delete", "share"),
    "book": ("cancel", "review", "transfer"),
    "reserve": ("cancel", "rate"),
    "schedule": ("cancel", "list"),
    "order": ("cancel", "return", "review"),
    "send": ("delete", "archive", "translate"),
    "start": ("stop", "rename"),
    "open": ("close", "rename"),
    "play": ("rate", "download", "share"),
    "set": ("reset", "delete", "export"),
    "find": ("rate", "report", "delete"),
    "search": ("rate", "report", "archive"),
    "get": ("delete", "share", "rename"),
    "convert": ("print", "archive"),
    "translate": ("print", "archive"),
    "buy": ("sell", "review"),
    "track": ("cancel", "insure"),
    "cancel": ("book", "list"),
    "delete": ("restore", "share"),
    "list": ("export", "delete"),
    "update": ("delete", "export"),
    "upload": ("delete", "share"),
    "register": ("unregister", "list"),
}
_REASON = Parameter(
    "reason", False, "str", Choices((Choice("changed plans", ("changed plans",), True),)), "Reason"
)


def sibling_frames(frame: Frame, rng: Random, count: int) -> list[Frame]:
    """Up to `count` invented tools that do not serve the requests of this one."""
    words = words_of(frame.name)
    if frame.source.startswith("seal"):
        return []  # "rename an atomic number": their things are rarely of a kind one acts upon
    for position in (0, len(words) - 1):
        verbs = _OPPOSITE.get(words[position])
        if verbs and len(words) > 1:
            things = [word for place, word in enumerate(words) if place != position]
            chosen = rng.sample(verbs, min(count, len(verbs)))
            return [_sibling(frame, verb, things, rng) for verb in chosen]
    return []


def _sibling(frame: Frame, verb: str, things: list[str], rng: Random) -> Frame:
    thing = " ".join(things)
    article = "an" if thing[0] in "aeiou" else "a"
    described = f"{verb.capitalize()} {article} {thing}" + rng.choice((".", " by its id.", ""))
    if verb in ("list", "export", "count"):
        described = f"{verb.capitalize()} every {thing}."
    sibling = Frame("_".join((verb, *things)), described, frame.domain, source="sibling")
    key = f"{things[-1]}_id"
    sibling.parameters[key] = Parameter(key, True, "str", Pool("id"), f"Id of the {thing}")
    if verb in ("rate", "review"):
        sibling.parameters["stars"] = Parameter("stars", True, "int", Number(1, 5), "Stars, 1 to 5")
    elif verb in ("cancel", "delete", "return", "report"):
        sibling.parameters["reason"] = _REASON
    elif verb in ("list", "export", "count"):
        sibling.parameters = {
            "limit": Parameter("limit", False, "int", Number(5, 100), "How many at most")
        }
    return sibling
