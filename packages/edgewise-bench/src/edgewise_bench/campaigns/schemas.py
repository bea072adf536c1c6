"""Hostile schemas: those that once ended, bloated or stalled a process, and a generator of more."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]

# What is past a limit, and words of the message that names it.
TOO_MUCH: dict[str, tuple[Schema, str]] = {
    "a number of 19 digits": (
        {"type": "integer", "minimum": 9223372036854775807},
        "minimum has more than 15 digits",
    ),
    "a pattern that can be read in many ways": (
        {"type": "string", "pattern": "^((a?){50}){50}b$"},
        "states",
    ),
    "a pattern with an escape of the runtime's own": (
        {"type": "string", "pattern": r"^\U00050000$"},
        r"\U is not understood",
    ),
    "three thousand optional properties": (
        {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(3000)}},
        "more than 1,000 schemas",
    ),
    "twenty thousand choices": (
        {"enum": [f"value {n}" for n in range(20_000)]},
        "more than 20,000 values",
    ),
    "itself and nothing else": (
        {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#/$defs/a"}}},
        "refers to itself",
    ),
    "a length of a million": (
        {"type": "string", "minLength": 1_000_000},
        "minLength is more than 2,000",
    ),
    "a keyword that nobody knows": ({"type": "object", "propertyNames": {}}, "propertyNames"),
}
# Bytes that the default model's vocabulary does not have: no token may be asked to write them.
UNSPELT: dict[str, tuple[Schema, Any]] = {
    **{
        f"a pattern of {code:#04x}": (
            {"type": "string", "pattern": f"^\\u{code:04x}$"},
            chr(code),
        )
        for code in (0x04, 0x06, 0x13, 0x14, 0x16, 0x1D)
    },
    "a pattern of an empty plane": ({"type": "string", "pattern": "^\U00050000$"}, "\U00050000"),
    "a choice of an empty plane": ({"enum": ["\U00050000"]}, "\U00050000"),
    "a name of an empty plane": (
        {"properties": {"\U00050000": {"const": 1}}, "required": ["\U00050000"]},
        {"\U00050000": 1},
    ),
}
# Patterns that a backtracking engine would not survive, or that no engine should accept.
PATTERNS = (
    *("^(a+)+$", "^(a|a)*b$", "^(a|aa)+$", "^(.*)*$", "^([a-z]+)*\\d$", "^(a?){200}a{200}$"),
    *("(((((((((((x*)*)*)*)*)*)*)*)*)*)*)*", "^(?=a)(?!b)(?<=c)x$", "\\1(a)", "^\\p{L}+$"),
    *("[", "(", "*", "a{9999999999}", "a{3,1}", "[z-a]", "^[^\\x00-\\uffff]$", "\\u{110000}"),
    *("a|" * 400, "(a)" * 160, "[\\w\\W]" * 60, "^.{0,2000}$", "^(.{0,200}){0,200}$", "\\Z\\A\\b"),
)
KEYWORDS = (
    *("not", "if", "then", "else", "contains", "propertyNames", "patternProperties", "multipleOf"),
    *("uniqueItems", "dependentRequired", "unevaluatedProperties", "$dynamicRef", "$anchor"),
    *("minProperties", "contentEncoding", "$id", "__proto__", "constructor"),
)


def bent_schema(rng: random.Random, depth: int = 3) -> Any:
    """A schema with something odd in it: large, empty, contradictory, circular, unspellable."""
    odd = rng.choice(["\x04", "\U00050000", "\ud800", '"', "\\", "é", "", "a" * 300])
    large = rng.choice([0, 1, -1, 3, 10**6, 2**63, -(10**30), 1e300, 0.1])
    leaves: list[Any] = [
        {"type": "integer", "minimum": large, "maximum": rng.choice([large, 5, 10**18])},
        {"type": "number", "exclusiveMinimum": large},
        {"type": "string", "minLength": rng.choice([0, 2, large]), "maxLength": rng.choice([2, 9])},
        {"pattern": rng.choice([f"^{odd}$", odd, f"[^{odd}]", f"({odd}|{odd})*"])},
        {"type": "string", "pattern": "".join(rng.choices(string.printable, k=12))},
        {"type": "string", "pattern": f"^((a?){{{rng.randint(1, 60)}}}){{{rng.randint(1, 60)}}}$"},
        {"enum": [odd, large, None, [odd], {odd: odd}][: rng.randint(0, 5)]},
        {"const": {odd: [odd]}},
        {"$ref": rng.choice(["#", "#/$defs/a", "#/properties/x", "nowhere"])},
        rng.choice([True, False, None, 7, [], {}]),
    ]  # fmt: skip
    if depth == 0:
        return rng.choice(leaves)
    inner = [bent_schema(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    names = [rng.choice(["x", odd, f"k{number}"]) for number in range(len(inner))]
    deeper = bent_schema(rng, depth - 1)
    return rng.choice(
        [
            *leaves,
            {"type": "object", "properties": dict(zip(names, inner, strict=True)),
             "required": rng.choice([[], names[:1], [odd]])},
            {"type": "array", "items": deeper, "minItems": rng.choice([0, 2, 99])},
            {"type": "array", "prefixItems": inner},
            {rng.choice(["anyOf", "oneOf", "allOf"]): inner},
            {"type": "object", "additionalProperties": deeper},
            {"$defs": {"a": deeper}, "$ref": "#/$defs/a"},
            {"type": rng.choice([["string", "null"], "object", [], "odd", None]), "items": inner},
        ]
    )  # fmt: skip


# -- shapes that are large, deep or slow ----------------------------------------------------------


def _deep(rng: random.Random) -> Any:
    schema: Any = {"type": "string"}
    wrap = rng.choice(["properties", "items", "anyOf", "additionalProperties"])
    for _ in range(rng.choice([5, 31, 33, 60, 200, 300])):
        inner = {"x": schema} if wrap == "properties" else [schema] if wrap == "anyOf" else schema
        schema = {wrap: inner}
        if wrap in ("properties", "additionalProperties"):
            schema["type"] = "object"
    return schema


def _wide(rng: random.Random) -> Any:
    count = rng.choice([20, 99, 101, 400, 999, 5000])
    first = rng.choice(["p", "é", "a b", "\\"])
    names = [f"{first}{number}" for number in range(count)]
    inner = {name: rng.choice([{"type": "string"}, True, {"type": "integer"}]) for name in names}
    required = rng.choice([[], names, names[::2]])
    return {"type": "object", "properties": inner, "required": required}


def _choices(rng: random.Random) -> Any:
    count, length = rng.choice([(50, 400), (999, 90), (5000, 10), (20_000, 4), (3, 30_000)])
    values = [f"{number}" + "v" * length for number in range(count)]
    if rng.random() < 0.5:
        return {"enum": values}
    return {rng.choice(["anyOf", "oneOf"]): [{"const": value} for value in values[:2000]]}


def _circular(rng: random.Random) -> Any:
    names = [f"d{number}" for number in range(rng.choice([1, 2, 8, 60]))]
    links = [{"$ref": f"#/$defs/{rng.choice(names)}"} for _ in range(3)]
    shapes: list[Callable[[], Any]] = [
        lambda: rng.choice(links),
        lambda: {"anyOf": [*links, {"type": "null"}]},
        lambda: {"type": "object", "properties": {"a": rng.choice(links)}, "required": ["a"]},
        lambda: {"type": "array", "items": rng.choice(links), "minItems": rng.choice([0, 1, 9])},
        lambda: {"allOf": [rng.choice(links), rng.choice(links)]},
    ]
    return {"$defs": {name: rng.choice(shapes)() for name in names}, "$ref": "#/$defs/d0"}


def _doubling(rng: random.Random) -> Any:
    """Every definition names the next one twice: small to send, exponential to write out."""
    count = rng.choice([6, 14, 30, 60])
    join = rng.choice(["anyOf", "allOf", "prefixItems"])
    defs: Schema = {f"d{count}": {"type": "string"}}
    for number in range(count):
        defs[f"d{number}"] = {join: [{"$ref": f"#/$defs/d{number + 1}"}] * 2}
    return {"$defs": defs, "$ref": "#/$defs/d0"}


def _bounds(rng: random.Random) -> Any:
    low = rng.choice([-(10**15), 10**14, 0.1, 1e-300, -1e308, 5, 2**64, -0.0])
    high = rng.choice([low, 10**15 - 1, 1e308, 6, -5, 10**40])
    return {
        "type": rng.choice(["integer", "number", ["integer", "null"], "string"]),
        rng.choice(["minimum", "exclusiveMinimum"]): low,
        rng.choice(["maximum", "exclusiveMaximum"]): high,
    }


def _lengths(rng: random.Random) -> Any:
    low = rng.choice([0, 1, 50, 1999, 2000, 2001, 10**9, -1, 0.5])
    high = rng.choice([0, 3, 2000, 10**9, low])
    if rng.random() < 0.5:
        return {"type": "string", "minLength": low, "maxLength": high}
    items = rng.choice([{"type": "integer"}, True, {"type": "array", "minItems": 50}])
    return {"type": "array", "items": items, "minItems": low, "maxItems": high}


def _pattern(rng: random.Random) -> Any:
    pattern = rng.choice(PATTERNS)
    if rng.random() < 0.4:
        letters = "ab*+?()[]{}|^$\\.,-0129éd\U0001f600"
        pattern = "".join(rng.choices(letters, k=rng.choice([6, 20, 80, 400])))
    schema = {"type": "string", "pattern": pattern}
    if rng.random() < 0.3:
        count = rng.choice([3, 40])
        properties = {f"p{number}": schema for number in range(count)}
        return {"type": "object", "properties": properties, "required": list(properties)}
    return schema


def _contradiction(rng: random.Random) -> Any:
    return rng.choice(
        [
            {"allOf": [{"type": "string"}, {"type": "integer"}]},
            {"type": "string", "enum": [1, 2]},
            {"type": "object", "required": ["x"], "properties": {"x": False}},
            {"type": "array", "minItems": 3, "maxItems": 1},
            {"allOf": [{"const": "a"}, {"const": "b"}]},
            {"type": "object", "required": ["a"], "additionalProperties": False},
            {"not": {}},
            {"type": [], "enum": []},
        ]
    )


def _unknown(rng: random.Random) -> Any:
    keyword = rng.choice(KEYWORDS)
    value = rng.choice([{}, True, [], 0, -1, 0.1, "x", {"type": "string"}, {"$ref": "#"}])
    return {"type": rng.choice(["object", "array", "string", "number"]), keyword: value}


def _letters(rng: random.Random) -> Any:
    codes = [0, 1, 0x1F, 0x7F, 0x85, 0x2028, 0xFEFF, 0xFFFF, 0xD7FF, 0x1F600, 0x10FFFF, 0xDC00]
    text = "".join(chr(rng.choice(codes)) for _ in range(rng.choice([1, 5, 200])))
    return rng.choice(
        [
            {"enum": [text, text + "x"]},
            {"type": "object", "properties": {text: {"const": text}}, "required": [text]},
            {"type": "string", "pattern": f"^[{text}]+$"},
            {"title": text * 50, "description": text * 500, "type": "string"},
        ]
    )


SHAPES: tuple[Callable[[random.Random], Any], ...] = (
    *(_deep, _wide, _choices, _circular, _doubling, _bounds, _lengths),
    *(_pattern, _contradiction, _unknown, _letters),
)


def hostile_schema(rng: random.Random) -> tuple[str, Any]:
    """A schema of any of these kinds, and the kind's name."""
    where = rng.random()
    if where < 0.45:
        return "bent", bent_schema(rng)
    if where < 0.50:
        name = rng.choice([*TOO_MUCH, *UNSPELT])
        return name, {**TOO_MUCH, **UNSPELT}[name][0]
    shape = rng.choice(SHAPES)
    schema = shape(rng)
    if rng.random() < 0.3:
        schema = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    return shape.__name__.strip("_"), schema
