"""Requests for the tools of Seal-Tools, made from what their schemas say about parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from typing import Any, cast

from training.frame_types import Choice, Choices, Frame, Kind, Number, Parameter, Pool, Values
from training.generic import action_of, generic_template
from training.naming import words_of
from training.templates import BadLine

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
    if not frame.parameters or len(frame.description) > 110 or not action_of(frame.description):
        return None
    try:
        frame.templates = [generic_template(frame, form, rng) for form in range(7)]
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


# Examples that name a kind of value and no value: "(e.g., city, country)".
_KINDS_OF_VALUES = frozenset(
    ("city", "country", "state", "region", "address", "coordinates", "city name", "country name",
     "continent", "zip code", "street address", "latitude and longitude", "name", "title", "date",
     "time", "location", "url", "ip address", "domain name", "author", "keywords", "id", "global",
     "county", "province", "village", "town", "district", "neighborhood", "zip", "postal code",
     "latitude", "longitude", "landmark", "string", "number", "text", "word", "phrase")
)  # fmt: skip


def _examples(description: str) -> list[str]:
    match = _EXAMPLES.search(description)
    if not match:
        return []
    parts = re.split(r",\s*(?:or |and )?|\s+or\s+|;\s*", match[1].strip(" ."))
    cleaned = [part.strip(" '\"“”.") for part in parts]
    good = [
        part
        for part in cleaned
        if 1 < len(part) < 40
        and not re.search(r"[(){}\[\]]|\betc\b|\bformat\b", part)
        and part.lower() not in _KINDS_OF_VALUES
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
