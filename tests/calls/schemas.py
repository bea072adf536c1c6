"""Tools of every spelling for property tests, and calls that are valid for them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from edgewise.calls.parse import clean_text
from edgewise.grammar.check import problem_in
from edgewise.grammar.tools import Field, Shape, read_parameters
from edgewise.types.messages import Tool, ToolCall

WORDS = st.text("abcdeéßñ東_ -'\"\\.?", min_size=1, max_size=8)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.\-]{0,12}", fullmatch=True)
FIELD_NAMES = NAMES | st.sampled_from(["größe", 'a"b', "x y", "name", "arguments", "function", "0"])
SCALARS = st.none() | st.booleans() | st.integers(-99, 99) | WORDS
BOUNDS = st.integers(-500, 500) | st.floats(-50, 50).map(lambda number: round(number, 3))


def optional(**choices: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=choices)


def with_type(names: list[str], **choices: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(lambda name, rest: {"type": name, **rest}, st.sampled_from(names),
                     optional(**choices))  # fmt: skip


LENGTHS = st.integers(0, 6)
LEAVES = (
    with_type(["string", "str", "text", "STRING"], minLength=LENGTHS, maxLength=LENGTHS,
              format=st.just("date"), default=WORDS)
    | with_type(["integer", "int", "long"], minimum=BOUNDS, maximum=BOUNDS,
                exclusiveMinimum=BOUNDS | st.booleans())
    | with_type(["number", "float", "double"], minimum=BOUNDS, maximum=BOUNDS,
                exclusiveMinimum=BOUNDS, exclusiveMaximum=BOUNDS | st.booleans())
    | with_type(["boolean", "bool", "null", "any", "list[int]", "array", "dict", "object"])
    | st.builds(lambda values: {"enum": values}, st.lists(SCALARS, min_size=1, max_size=5))
    | st.builds(lambda value: {"const": value}, SCALARS)
    | st.sampled_from([{}, {"$ref": "#/$defs/Node"}, {"$ref": "#/$defs/Level"}, {"$ref": "#/no"},
                       {"type": ["integer", "string", "null"]}, {"type": "array", "enum": ["a"]}])
)  # fmt: skip


def nest(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(FIELD_NAMES, inner, max_size=3)
    return (
        st.builds(lambda items, limits: {"type": "tuple", "items": items, **limits},
                  inner, optional(minItems=st.integers(0, 2), maxItems=st.integers(0, 3)))
        | st.builds(lambda given: {"properties": given, "required": list(given)[::2]}, properties)
        | st.builds(lambda options: {"anyOf": options}, st.lists(inner, min_size=1, max_size=3))
        | st.builds(lambda extra: {"type": "object", "additionalProperties": extra}, inner)
        | st.builds(lambda field: {**field, "required": True}, inner)
    )  # fmt: skip


SCHEMAS = st.recursive(LEAVES, nest, max_leaves=6)
DEFINITIONS = {
    "Node": {"properties": {"next": {"$ref": "#/$defs/Node"}, "level": {"$ref": "#/$defs/Level"}}},
    "Level": {"type": "string", "enum": ["low", "high"]},
}


@st.composite
def tools(draw: st.DrawFn) -> list[Tool]:
    found = []
    for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        properties = draw(st.dictionaries(FIELD_NAMES, SCHEMAS, max_size=4))
        required = draw(st.lists(st.sampled_from([*properties, "absent"]), unique=True))
        schema = {"properties": properties, "required": required, "$defs": DEFINITIONS}
        found.append(Tool(name, "", schema))
    return found


@st.composite
def valid_calls(draw: st.DrawFn, given: list[Tool]) -> list[ToolCall]:
    """Calls these tools allow, with strings that need no cleaning and no empty optional ones."""
    calls = []
    for tool in draw(st.lists(st.sampled_from(given), max_size=4)):
        fields = read_parameters(tool).fields or ()
        calls.append(ToolCall(tool.name, draw(members(fields)), source="local"))
    return calls


@st.composite
def members(draw: st.DrawFn, fields: tuple[Field, ...]) -> dict[str, Any]:
    found = {}
    for field in fields:
        if field.required or draw(st.booleans()):
            value = draw(st.sampled_from(field.shapes).flatmap(values))
            if value != "" or field.required:
                found[field.name] = value
    return found


def values(shape: Shape) -> st.SearchStrategy[Any]:
    fixed: dict[str, st.SearchStrategy[Any]] = {
        "bool": st.booleans(), "null": st.none(), "any": SCALARS
    }  # fmt: skip
    if shape.kind in fixed:
        return fixed[shape.kind]
    if shape.kind == "choice":
        return st.sampled_from(shape.choices)
    if shape.kind in ("int", "float"):
        return numbers(shape)
    if shape.kind == "list":
        longest = min(3 if shape.longest is None else shape.longest, 3)
        item = st.sampled_from(shape.items).flatmap(values)
        return st.lists(item, min_size=shape.shortest, max_size=max(longest, shape.shortest))
    if shape.kind == "obj":
        inner = st.sampled_from(shape.extra).flatmap(values) if shape.extra else SCALARS
        some = st.dictionaries(WORDS, inner, max_size=2)
        return some if shape.fields is None else members(shape.fields)
    low = max(shape.shortest, 1)
    high = 9 if shape.longest is None else max(shape.longest, low)
    return st.text("abé東'?\n", min_size=low, max_size=high).filter(is_clean)


def numbers(shape: Shape) -> st.SearchStrategy[Any]:
    low = shape.low if shape.low is not None else min(-100, (shape.high or 0) - 1)
    high = shape.high if shape.high is not None else max(100, low + 1)
    if shape.kind == "int":
        every = [n for n in range(int(low) - 1, int(high) + 2) if problem_in(n, shape) is None]
        return st.sampled_from(every)
    between = [low, high, round((low + high) / 2, 6), round(low + (high - low) / 3, 5)]
    return st.sampled_from([n + 0 for n in between if problem_in(n, shape) is None])  # no -0.0


def is_clean(text: str) -> bool:
    return clean_text(text) == text
