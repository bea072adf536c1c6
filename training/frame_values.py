"""Reads the type and values of a parameter line, as `int 8..60 cm | Diameter of the pot`."""

from __future__ import annotations

import re
from typing import cast

from training.articles import without_article
from training.frame_types import (
    Choice,
    Choices,
    Clock,
    Flag,
    Kind,
    Number,
    NumberKind,
    Objects,
    Pairs,
    Pool,
    Values,
)
from training.templates import read_template

POOLS = frozenset(
    [
        "person",
        "first_name",
        "city",
        "country",
        "street",
        "company",
        "product",
        "email",
        "phone",
        "url",
        "date",
        "time",
        "datetime",
        "weekday",
        "month",
        "duration",
        "language",
        "currency",
        "song",
        "artist",
        "movie",
        "book",
        "restaurant",
        "food",
        "topic",
        "username",
        "filename",
        "id",
        "animal",
        "color",
        "sentence",
        "code",
    ]
)
_POOL_ALIASES = {
    "name": "person", "full_name": "person", "firstname": "first_name", "colour": "color",
    "film": "movie", "dish": "food", "file": "filename", "user": "username", "location": "city",
    "place": "city", "address": "street", "day": "weekday", "subject": "topic", "brand": "company",
    "organisation": "company", "organization": "company", "band": "artist", "title": "book",
    "phone_number": "phone", "datetime_iso": "datetime", "identifier": "id", "link": "url",
}  # fmt: skip
_FORMS = {
    "date": ("", "iso"), "time": ("", "24h"), "datetime": ("", "iso"), "duration": ("", "min", "s"),
}  # fmt: skip
_NUMBER = r"[-+\u2212]?\$?(?:\d[\d,_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[kKM]?"
_RANGE = re.compile(rf"({_NUMBER})\s*(?:\.\.\.?|…)\s*({_NUMBER})")
_STEP = re.compile(rf"\bstep\s+({_NUMBER})")
_COUNTS = re.compile(r"^\s*(\d+)\s*(?:\.\.|-)\s*(\d+)\s*$")
_NUMERIC = ("int", "float", "percent", "fraction", "money", "year", "integer", "number")
_YES = ("yes", "true", "on")
_NO = ("no", "false", "off")
DEFAULT_COUNTS = (2, 4)


class BadValues(ValueError):
    """A type or a list of values that cannot be read."""


def read_values(rest: str) -> tuple[Kind, Values, tuple[int, int] | None, str]:
    """Kind, values, item counts (for a list) and description."""
    word, _, after = rest.strip().partition(" ")
    word = word.lower().rstrip(":")
    if word.startswith("list[") and word.endswith("]"):
        word, after = "list", f"{word[5:-1]} {after}"
    if word not in ("list", "objects"):
        kind, values, leftover, description = _scalar(word, after)
        return kind, values, None, description
    if word == "objects":
        after = f"objects {after}"
    inner, _, after = after.strip().partition(" ")
    kind, values, leftover, description = _scalar(inner.lower(), after)
    counts = _COUNTS.match(leftover)
    low, high = (int(counts[1]), int(counts[2])) if counts else DEFAULT_COUNTS
    if isinstance(values, Flag | Pairs):
        raise BadValues("a list of these is not supported")
    return kind, values, (min(low, high), max(low, high)), description


def _scalar(word: str, after: str) -> tuple[Kind, Values, str, str]:
    """One value's kind and values, the text left between values and description, and that."""
    bracket, middle, description = _split(after)
    if word.startswith("@") or word.split(":")[0] in _FORMS:
        pool = _pool(word.removeprefix("@"))
        return _pool_kind(pool), pool, middle, description
    if word in ("str", "string", "text", "enum"):
        return _text(word, bracket, middle, description)
    if word in ("int", "integer") and middle.startswith("clock:"):
        return "int", _clock(middle), "", description
    if word in _NUMERIC:
        return _number(word, bracket, middle, description)
    if word in ("bool", "boolean"):
        return "bool", _flag(bracket), middle, description
    if word == "objects":
        forms = tuple(read_template(item) for item in bracket or [])
        if not forms:
            raise BadValues("objects without a way to say one")
        return "str", Objects(forms, {}), middle, description
    if word.startswith("dict"):
        return "str", _pairs(bracket, middle), "", description
    raise BadValues(f"unknown type {word!r}")


def _split(after: str) -> tuple[list[str] | None, str, str]:
    """`[a|b] 1..5 | words` → ["a", "b"], "1..5", "words"."""
    text = after.strip()
    items: list[str] | None = None
    start = text.find("[")
    bar = text.find("|")
    before = ""
    if start >= 0 and (bar < 0 or start < bar):
        end = _bracket_end(text, start)
        before = text[:start].strip()
        items = [item.strip() for item in text[start + 1 : end].split("|") if item.strip()]
        text = text[end + 1 :]
    middle, _, description = text.partition("|")
    return items, f"{before} {middle.strip()}".strip(), description.strip()


def _bracket_end(text: str, start: int) -> int:
    """The bracket that closes the list: the last one before ` | description`."""
    depth = 0
    for position in range(start, len(text)):
        depth += {"[": 1, "]": -1}.get(text[position], 0)
        if depth == 0:
            return position
    raise BadValues("a list of values without a closing bracket")


def _pool(word: str) -> Pool:
    name, _, form = word.strip().lower().partition(":")
    name = _POOL_ALIASES.get(name, name)
    if name not in POOLS:
        raise BadValues(f"unknown pool @{name}")
    if form not in _FORMS.get(name, ("",)):
        raise BadValues(f"unknown form {form!r} of @{name}")
    return Pool(name, form)


def _clock(words: str) -> Clock:
    part = words.split()[0].removeprefix("clock:")
    if part not in ("hour", "minute"):
        raise BadValues(f"unknown part {part!r} of a clock: hour or minute")
    return Clock("hour" if part == "hour" else "minute")


def _pool_kind(pool: Pool) -> Kind:
    return "int" if pool.form in ("min", "s") else "str"


def _text(
    word: str, bracket: list[str] | None, middle: str, description: str
) -> tuple[Kind, Values, str, str]:
    pool = re.match(r"@?([a-z_]+(?::\w+)?)", middle)
    if bracket is None:
        if not pool:
            raise BadValues(f"{word} without values")
        found = _pool(pool[1])
        return _pool_kind(found), found, middle[pool.end() :], description
    if not bracket:
        raise BadValues("an empty list of values")
    closed = word == "enum"
    options = tuple(_choice(item, closed) for item in bracket)
    return "str", Choices(options, closed), middle, description


def _choice(item: str, closed: bool) -> Choice:
    """`JFK=Kennedy airport` and, in an enum, `low=dim/dark`."""
    value, equals, said = item.partition("=")
    looks_like_text = "://" in item or " = " in item or "==" in item or "'" in value
    if not equals or (looks_like_text and not closed) or not value.strip() or not said.strip():
        if not closed and without_article(item) != item:
            return Choice(without_article(item), (item,), verbatim=False)
        return Choice(item, (_spoken(item) if closed else item,), verbatim=not closed)
    ways = _ways(said) if closed else (said.strip(),)
    return Choice(value.strip(), ways, verbatim=False)


def _spoken(value: str) -> str:
    return value.replace("_", " ") if "_" in value else value


def _ways(said: str) -> tuple[str, ...]:
    """Alternatives split at `/`, but not `km/h` or `m/s`."""
    separator = " / " if " / " in said else "/"
    ways = [way.strip() for way in said.split(separator) if way.strip()]
    if separator == "/" and any(len(way) < 2 for way in ways):
        return (said.strip(),)
    return tuple(ways)


def _flag(bracket: list[str] | None) -> Flag:
    yes: list[str] = []
    no: list[str] = []
    for item in bracket or []:
        key, colon, phrases = item.partition(":")
        if not colon:
            key, colon, phrases = item.partition("=")
        ways = [way.strip() for way in phrases.split(" / ") if way.strip()]
        if key.strip().lower() in _YES:
            yes += ways
        elif key.strip().lower() in _NO:
            no += ways
        else:
            raise BadValues(f"{item!r} is neither `yes: …` nor `no: …`")
    if not yes and not no:
        raise BadValues("bool without phrases")
    return Flag(tuple(yes), tuple(no))


def _number(
    word: str, bracket: list[str] | None, middle: str, description: str
) -> tuple[Kind, Values, str, str]:
    kind: Kind = "int" if word in ("int", "integer", "year") else "float"
    if bracket is not None:
        return kind, _number_choices(kind, bracket), middle, description
    match = _RANGE.search(middle)
    if not match:
        raise BadValues(f"{word} without a range A..B")
    rest = (middle[: match.start()] + " " + middle[match.end() :]).strip()
    step = _STEP.search(rest)
    rest = _STEP.sub("", rest).strip() if step else rest
    counts = re.search(r"(?:^|\s)(\d+\s*\.\.\s*\d+)$", rest)
    leftover = counts[1] if counts else ""
    unit = rest[: counts.start()].strip() if counts else rest
    low, high = to_number(match[1]), to_number(match[2])
    integral = word not in ("float", "fraction", "number") and low == int(low) and high == int(high)
    if word in ("percent", "money") and integral and step is None:
        kind = "float" if word == "money" else "int"
    style = cast(NumberKind, word if word in ("percent", "fraction", "money", "year") else "plain")
    every = to_number(step[1]) if step else None
    number = Number(min(low, high), max(low, high), every, unit.strip("()"), style, integral)
    return kind, number, leftover, description


def _number_choices(kind: Kind, bracket: list[str]) -> Choices:
    options = []
    for item in bracket:
        text, equals, said = item.partition("=")
        number = to_number(text.strip())
        value = int(number) if number == int(number) else number
        options.append(Choice(value, (said.strip() if equals else text.strip(),)))
    return Choices(tuple(options))


def to_number(text: str) -> float:
    """`1,000`, `5k`, `2M`, `1e6`, `-4.5`."""
    digits = text.strip().replace("\u2212", "-").replace(",", "").replace("_", "").replace("$", "")
    scale = {"k": 1e3, "K": 1e3, "M": 1e6}.get(digits[-1:], 1.0)
    try:
        return float(digits.rstrip("kKM")) * scale
    except ValueError as error:
        raise BadValues(f"{text!r} is no number") from error


def _pairs(bracket: list[str] | None, middle: str) -> Pairs:
    if not bracket:
        raise BadValues("dict without keys")
    keys = tuple(item.partition("=")[0].strip() for item in bracket)
    match = _RANGE.search(middle)
    if match:
        return Pairs(keys, Number(to_number(match[1]), to_number(match[2])))
    said = [item.partition("=")[2].strip() for item in bracket]
    if not all(said):
        return Pairs(keys, Number(1, 12))
    if all(re.fullmatch(_NUMBER, text) for text in said):
        return Pairs(keys, _number_choices("int", said))
    return Pairs(keys, Choices(tuple(Choice(text, (text,), verbatim=True) for text in said)))
