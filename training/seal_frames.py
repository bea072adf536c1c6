"""Requests for the tools of Seal-Tools, made from what their schemas say about parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from typing import Any, cast

from training.frame_types import (
    Choice,
    Choices,
    Frame,
    Kind,
    Number,
    Parameter,
    Pool,
    Template,
    Values,
)
from training.frames_parser import BadLine, read_template
from training.naming import words_of
from training.wording import is_imperative, lower_first

_EXAMPLES = re.compile(r"(?:e\.g\.|for example|such as|example:|i\.e\.)[,:]?\s*(.+?)(?:\)|$)", re.I)
_POOL_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("date", ("date", "day", "deadline")),
    ("time", ("time", "hour")),
    ("duration", ("duration", "period", "timeframe", "interval")),
    ("email", ("email",)),
    ("phone", ("phone",)),
    ("url", ("url", "link", "website")),
    ("country", ("country", "nation", "nationality")),
    ("street", ("address", "street")),
    ("city", ("city", "location", "place", "destination", "origin", "region", "town", "area")),
    ("language", ("language",)),
    ("currency", ("currency",)),
    ("company", ("company", "organization", "manufacturer", "brand", "employer", "supplier")),
    ("id", ("id", "identifier", "code", "number", "isbn", "reference")),
    ("song", ("song", "track")),
    ("artist", ("artist", "band", "musician", "singer", "composer")),
    ("movie", ("movie", "film")),
    ("book", ("book",)),
    ("restaurant", ("restaurant",)),
    ("food", ("food", "dish", "ingredient", "meal", "recipe")),
    ("product", ("product", "item", "device")),
    ("animal", ("animal", "species", "pet", "breed")),
    ("color", ("color", "colour")),
    ("filename", ("file", "filename", "path")),
    ("username", ("username", "handle", "account")),
    ("topic", ("topic", "subject", "keyword", "keywords", "theme", "query")),
    ("person", ("person", "patient", "player", "author", "customer", "employee", "student",
                "teacher", "client", "director", "owner", "user", "scientist", "recipient")),
)  # fmt: skip
_RANGES: tuple[tuple[tuple[str, ...], tuple[float, float]], ...] = (
    (("age",), (3, 95)), (("percentage", "percent"), (1, 100)),
    (("price", "budget", "cost", "amount", "salary", "income"), (10, 200_000)),
    (("limit", "count", "quantity", "number", "num", "people", "guests"), (1, 60)),
    (("temperature",), (-15, 300)), (("latitude",), (-60, 70)), (("longitude",), (-170, 170)),
    (("rating", "level", "priority"), (1, 10)), (("population",), (1_000, 90_000_000)),
    (("weight", "mass"), (1, 500)),
    (("height", "length", "width", "depth", "distance"), (1, 3_000)),
)  # fmt: skip
_SPECIFIC = re.compile(
    r"\s+(?:in|for|of|on|at|about|from|to|with|by)\s+(?:a|an|the)\s+"
    r"(?:specific|given|particular|certain|specified)\s+[\w\s'-]+$"
)
_PLACE_POOLS = ("city", "country", "street")


def seal_frame(tool: Mapping[str, Any]) -> Frame | None:
    """A frame with made-up templates; None where a required parameter has no believable values."""
    rng = Random(tool["api_name"])
    frame = Frame(tool["api_name"], tool["api_description"], tool["field"], source="seal")
    for name, schema in tool["parameters"].items():
        required = name in tool["required"]
        found = _values(name, schema)
        if found is None and required:
            return None
        if found is not None and re.fullmatch(r"[A-Za-z]\w*", name):
            kind = cast(Kind, schema["type"] if schema["type"] in ("int", "float") else "str")
            frame.parameters[name] = Parameter(name, required, kind, found, schema["description"])
    if not frame.parameters or len(frame.description) > 110:
        return None
    try:
        frame.templates = [_template(frame, form, rng) for form in range(6)]
    except BadLine:
        return None
    return frame


def _values(name: str, schema: Mapping[str, Any]) -> Values | None:
    words = words_of(name)
    examples = _examples(schema["description"])
    if schema["type"] in ("int", "float"):
        return _numbers(words, examples, schema["type"] == "int")
    if schema["type"] != "str":
        return None
    if re.search(r"\d{4}-\d\d-\d\d(?!T| \d)|YYYY-MM-DD(?!T| H)", schema["description"]):
        return Pool("date", "iso")
    if len(examples) >= 2:
        return Choices(tuple(Choice(text, (text,), verbatim=True) for text in examples))
    head = words[-2:-1] if words[-1:] == ["name"] else words[-1:]
    for pool, keys in _POOL_WORDS:
        if head and head[0] in keys:
            return Pool(pool)
    return None


def _examples(description: str) -> list[str]:
    match = _EXAMPLES.search(description)
    if not match:
        return []
    parts = re.split(r",\s*(?:or |and )?|\s+or\s+|;\s*", match[1].strip(" ."))
    cleaned = [part.strip(" '\"“”.") for part in parts]
    good = [
        part
        for part in cleaned
        if 1 < len(part) < 40 and not re.search(r"[(){}\[\]]|\betc\b|\bformat\b", part)
    ]
    return list(dict.fromkeys(good))[:8]


def _numbers(words: list[str], examples: list[str], integral: bool) -> Number | None:
    numbers = []
    for text in examples:
        try:
            numbers.append(float(text.replace(",", "")))
        except ValueError:
            continue
    if "year" in words or (numbers and all(1900 < number < 2100 for number in numbers)):
        return Number(1950, 2025, kind="year")
    if numbers and min(numbers) > 0:
        low, high = min(numbers) / 2, max(numbers) * 3
        low = max(1, round(low)) if integral else round(low, 3)
        return Number(low, max(low + 1, round(high)), integral=integral)
    for keys, (low, high) in _RANGES:
        if any(word in keys for word in words):
            return Number(low, high, integral=integral)
    return Number(1, 500, integral=integral)


def _action(description: str) -> str:
    """`Retrieves the height of a specific tree.` → `retrieve the height`; "" without a verb."""
    text = _SPECIFIC.sub("", lower_first(description.rstrip(". ")))
    verb, space, rest = text.partition(" ")
    for form in (verb, verb.removesuffix("s"), verb.removesuffix("es")):
        if is_imperative(form):
            return form + space + rest
    return ""


def _label(name: str) -> str:
    return " ".join(words_of(name))


def _phrase(parameter: Parameter, rng: Random) -> str:
    """How a value is brought in: "in {x}", "with a depth of {x}", "depth {x}", …"""
    name, label = parameter.name, _label(parameter.name)
    slot = f"{{{name}}}"
    options = [f"with {label} {slot}", f"{label} {slot}", f"with the {label} {slot}",
               f"where the {label} is {slot}", f"with a {label} of {slot}",
               f"({label}: {slot})"]  # fmt: skip
    pool = parameter.values.name if isinstance(parameter.values, Pool) else ""
    if pool in _PLACE_POOLS:
        options += [f"in {slot}", f"in {slot}", f"in {slot}"]
    elif pool == "date":
        options += [f"on {slot}", f"on {slot}", f"for {slot}"]
    elif pool == "time":
        options += [f"at {slot}", f"at {slot}"]
    elif pool == "person" or (not pool and isinstance(parameter.values, Choices)):
        options += [f"for {slot}", f"for {slot}"]
    elif isinstance(parameter.values, Number) and parameter.values.kind == "year":
        options += [f"in {slot}", f"for {slot}"]
    return rng.choice(options)


def _template(frame: Frame, form: int, rng: Random) -> Template:
    """One of six sentence plans, all required parameters and some optional ones in it."""
    names = frame.required + rng.sample(
        optional := [n for n in frame.parameters if n not in frame.required],
        min(len(optional), rng.randint(0, 2)),
    )
    names = names or [rng.choice(list(frame.parameters))]
    rng.shuffle(names)
    action = _action(frame.description)
    if not action:
        raise BadLine("the description does not say what to do")
    phrases = [_phrase(frame.parameters[name], rng) for name in names]
    pairs = [f"{_label(name)} {{{name}}}" for name in names]
    facts = [f"the {_label(name)} is {{{name}}}" for name in names]
    text = {
        0: f"{action[:1].upper()}{action[1:]} {', '.join(phrases)}.",
        1: f"I need to {action} {' '.join(phrases)}",
        2: f"{', '.join(pairs)}: {action}",
        3: f"Can you {action} {' and '.join(phrases)}?",
        4: f"{_and(facts)[:1].upper()}{_and(facts)[1:]}. Please {action}.",
        5: f"{action} {' '.join(f'{_label(name)}={{{name}}}' for name in names)}"
        if rng.random() < 0.3
        else f"{action} {', '.join(phrases)}",
    }[form]
    return read_template(text)


def _and(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
