"""What a tool's JSON Schema allows: read once into shapes, and written as a grammar (GBNF).

The prompt, the grammar, the coercion and the checks all read a tool's schema here, so that they
cannot disagree on what a parameter is.

What was worked out about tools is kept, because the same ones are offered again and again. Tools
cannot be hashed, so they are told apart by identity, and held so that no other can take it. A tool
that was offered must not be changed; one that is made anew is read anew. What is held is bounded in
number and in size: a stranger may offer tools of a megabyte, each time others."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import Any, Generic, Literal, TypeVar

from edgewise.errors import InvalidRequest
from edgewise.types.messages import Tool

Found = TypeVar("Found")
Key = TypeVar("Key")
MOST_TOOLS = 4_000
MOST_TOOLBOXES = 64
MOST_HELD = 4_000_000  # characters of the tools that one kind of work holds, and of their texts
_VALUE_HELD = 50  # characters that a value beside texts counts as

Kind = Literal["str", "int", "float", "bool", "list", "obj", "null", "choice", "any"]
TYPE_NAMES: Mapping[str, Kind] = {
    **dict.fromkeys(("string", "str", "text", "char", "character"), "str"),
    **dict.fromkeys(("integer", "int", "long", "short", "byte", "bigint"), "int"),
    **dict.fromkeys(("number", "float", "double", "decimal"), "float"),
    **dict.fromkeys(("boolean", "bool"), "bool"),
    **dict.fromkeys(("array", "list", "tuple", "set", "arraylist"), "list"),
    **dict.fromkeys(("object", "dict", "map", "hashmap", "hash"), "obj"),
}
DEPTH_LIMIT = 8  # what is nested deeper may be anything
SHAPE_LIMIT = 2000  # shapes read of one tool; a schema that refers to itself in many places grows
READ_LIMIT = 1_000_000  # characters read of one tool, references followed; beyond, any value goes
VALUE_CHARS = 20  # that a value counts as, beside its text
KEYWORD_LIMIT = 200  # of a schema that others refer to, and options of one: all of them are copied
_UNWRITABLE = re.compile("[\ud800-\udfff\U00040000-\U000dffff]")


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of value, with its limits. A parameter allows one or several of these."""

    kind: Kind
    choices: tuple[Any, ...] = ()
    low: int | float | None = None
    high: int | float | None = None
    low_open: bool = False
    high_open: bool = False
    shortest: int = 0  # characters of a string, items of a list
    longest: int | None = None
    items: tuple[Shape, ...] = ()
    fields: tuple[Field, ...] | None = None  # None: an object with any names
    extra: tuple[Shape, ...] | None = None  # what unlisted names of an object may hold
    verbatim: bool = False  # a string in the user's own words: no format, no pattern
    hints: tuple[str, ...] = ()  # strings that the schema itself gives: default and examples


@dataclass(frozen=True, slots=True)
class Field:
    """A named value of an object: an argument, or a part of one."""

    name: str
    shapes: tuple[Shape, ...]
    required: bool


def per_tool(work: Callable[[Tool], Found]) -> Callable[[Tool], Found]:
    """`work`, done once for each tool. What raises is done again."""
    known = _Memory[int, tuple[Tool, Found]]()

    @functools.wraps(work)
    def remembered(tool: Tool) -> Found:
        entry = known.get(id(tool))
        if entry is None:
            entry = (tool, work(tool))
            known.put(id(tool), entry, _size(tool), MOST_TOOLS)
        return entry[1]

    return remembered


def per_toolbox(
    work: Callable[[str, Sequence[Tool]], Found],
) -> Callable[[str, Sequence[Tool]], Found]:
    """`work` on a text and some tools in their order, done once while they are talked about."""
    known = _Memory[tuple[str, tuple[int, ...]], tuple[tuple[Tool, ...], Found]]()
    sizes = per_tool(_size)

    @functools.wraps(work)
    def remembered(text: str, tools: Sequence[Tool]) -> Found:
        key = (text, tuple(map(id, tools)))
        entry = known.get(key)
        if entry is None:
            held = tuple(tools)
            entry = (held, work(text, held))
            known.put(key, entry, len(text) + sum(map(sizes, held)), MOST_TOOLBOXES)
        return entry[1]

    return remembered


def per_field(
    work: Callable[[str, Mapping[str, Any]], Found],
) -> Callable[[str, Mapping[str, Any]], Found]:
    """`work` on a parameter's name and its schema, done once while it is talked about."""
    known = _Memory[tuple[str, int], tuple[Mapping[str, Any], Found]]()

    @functools.wraps(work)
    def remembered(name: str, schema: Mapping[str, Any]) -> Found:
        key = (name, id(schema))
        entry = known.get(key)
        if entry is None:
            entry = (schema, work(name, schema))
            known.put(key, entry, len(name) + _size_of(schema), MOST_TOOLS)
        return entry[1]

    return remembered


class _Memory(Generic[Key, Found]):
    """When it is full, all of it goes: that is rare, and what is still needed is soon back."""

    def __init__(self) -> None:
        self._known: dict[Key, Found] = {}
        self._held = 0

    def get(self, key: Key) -> Found | None:
        return self._known.get(key)

    def put(self, key: Key, found: Found, size: int, most: int) -> None:
        if len(self._known) >= most or self._held + size > MOST_HELD:
            self._known.clear()
            self._held = 0
        self._known[key] = found
        self._held += size


def _size(tool: Tool) -> int:
    return len(tool.description) + _size_of(tool.parameters)


def _size_of(schema: object) -> int:
    size, waiting = 0, [schema]
    while waiting and size <= MOST_HELD:  # a schema made in Python may hold itself
        value: Any = waiting.pop()
        size += _VALUE_HELD
        if isinstance(value, Mapping):
            size += sum(len(name) for name in value if isinstance(name, str))
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value
        elif isinstance(value, str):
            size += len(value)
    return size


ANY: tuple[Shape, ...] = (Shape("any"),)
NULL = Shape("null")


@per_tool
def read_parameters(tool: Tool) -> Shape:
    """The arguments a tool takes, as an object with fields.

    Raises InvalidRequest, naming the tool and the field, where there is no sense to be made of it.
    """
    schema: object = tool.parameters
    if not isinstance(schema, Mapping):
        raise InvalidRequest(f"tool {tool.name!r}: its parameters are not a JSON object")
    reader = _SchemaReader(tool.name, definitions_of(schema))
    reader.check_definitions()
    shape = reader.object_shape(schema, "", 1)
    return replace(shape, fields=shape.fields or ())


def definitions_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """What `$ref` can point at, by its whole address."""
    found: dict[str, Any] = {}
    for key in ("definitions", "$defs"):
        if isinstance(schema.get(key), Mapping):
            found.update({f"#/{key}/{name}": value for name, value in schema[key].items()})
    return found


def resolve(raw: Any, definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """A field's schema with one `$ref` or lone `allOf` followed; {} where it is no schema."""
    if not isinstance(raw, Mapping):
        return {}
    target, parts = raw.get("$ref"), raw.get("allOf")
    if target is None and isinstance(parts, list) and len(parts) == 1:
        lone = parts[0] if isinstance(parts[0], Mapping) else {}
        raw = {**lone, **raw}
        target = lone.get("$ref")
    found = definitions.get(target) if isinstance(target, str) else None
    return {**found, **raw} if isinstance(found, Mapping) else raw


def options_of(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The alternatives of `anyOf` or `oneOf`, without null."""
    options = field.get("anyOf") or field.get("oneOf") or []
    if not isinstance(options, list):
        return []
    resolved = [resolve(option, definitions) for option in options]
    return [option for option in resolved if option.get("type") != "null"]


class _SchemaReader:
    def __init__(self, tool: str, definitions: Mapping[str, Any]) -> None:
        self._tool = tool
        self._definitions = definitions
        self._left = SHAPE_LIMIT
        self._unread = READ_LIMIT
        self._referred: dict[tuple[str, int], tuple[Shape, ...]] = {}

    def check_definitions(self) -> None:
        """What is referred to may be read many times, also by others than this file."""
        for address, target in self._definitions.items():
            named = target if isinstance(target, Mapping) else {}
            lists = [named.get(name) for name in ("anyOf", "oneOf", "allOf", "type")]
            sizes = [len(each) for each in (named, *lists) if isinstance(each, Mapping | list)]
            if max(sizes, default=0) > KEYWORD_LIMIT:
                raise self._wrong(address, f"it has more than {KEYWORD_LIMIT} keywords or options")

    def object_shape(self, field: Mapping[str, Any], path: str, depth: int) -> Shape:
        extra = field.get("additionalProperties")
        allowed: tuple[Shape, ...] | None = ANY if extra is True else None
        if isinstance(extra, Mapping):
            allowed = self.shapes(extra, f"{path}.*", depth + 1)
        properties = field.get("properties")
        if properties is None:
            return Shape("obj", extra=allowed)
        if not isinstance(properties, Mapping):
            raise self._wrong(path, "its properties are not a JSON object")
        required = self._required(field, path)
        fields = []
        for name, raw in properties.items():
            here = f"{path}.{name}" if path else str(name)
            if not isinstance(name, str) or not encodable(name):
                raise self._wrong(here, "its name is not text")
            if raw is not True and not isinstance(raw, Mapping):
                raise self._wrong(here, f"its schema is {raw!r}, not a JSON object")
            # Some schemas mark a parameter itself: {"type": "string", "required": true}.
            must = name in required or resolve(raw, self._definitions).get("required") is True
            fields.append(Field(name, self.shapes(raw, here, depth + 1), must))
        return Shape("obj", fields=tuple(fields), extra=allowed)

    def shapes(self, raw: Any, path: str, depth: int) -> tuple[Shape, ...]:
        self._left -= 1
        if not isinstance(raw, Mapping) or depth > DEPTH_LIMIT:
            return ANY
        if self._left < 0 or self._unread < 0:
            return ANY
        target = raw.get("$ref")
        if len(raw) == 1 and isinstance(target, str):  # the same wherever it is referred to
            key = (target, depth)
            if key not in self._referred:
                self._referred[key] = self._read(resolve(raw, self._definitions), path, depth)
            return self._referred[key]
        return self._read(resolve(raw, self._definitions), path, depth)

    def _read(self, field: Mapping[str, Any], path: str, depth: int) -> tuple[Shape, ...]:
        self._unread -= _characters(field)
        declared = field.get("type")
        names = list(declared) if isinstance(declared, list | tuple) else [declared]
        choices = _choices(field)
        if choices:
            return self._chosen(choices, names)
        null = (NULL,) if "null" in names or field.get("nullable") is True else ()
        found = [
            self._of_type(name, field, path, depth) for name in names if name not in (None, "null")
        ]
        if not found:
            for option in options_of(field, self._definitions):
                found += self.shapes(option, path, depth + 1)
            options = field.get("anyOf") or field.get("oneOf") or []
            if found and any(
                isinstance(one, Mapping) and one.get("type") == "null" for one in options
            ):
                null = (NULL,)
        if not found and "null" not in names:
            found = [self._guess(field, path, depth)]
        return (*(shape for shape in found if shape.kind != "null"), *null) or ANY

    def _of_type(self, name: Any, field: Mapping[str, Any], path: str, depth: int) -> Shape:
        base, _, inner = str(name).strip().lower().partition("[")
        kind = TYPE_NAMES.get(base.strip(), "any")
        if kind == "list":
            return self._list(field, inner.rstrip("]").strip(), path, depth)
        if kind == "obj":
            return self.object_shape(field, path, depth)
        if kind == "str":
            return _string(field)
        return _number(kind, field) if kind in ("int", "float") else Shape(kind)

    def _list(self, field: Mapping[str, Any], inner: str, path: str, depth: int) -> Shape:
        items = field.get("items")
        shapes = ANY
        if isinstance(items, Mapping) and items:
            shapes = self.shapes(items, f"{path}[]", depth + 1)
        elif inner:
            shapes = (Shape(TYPE_NAMES.get(inner, "any")),)
        low, high = _length(field, "minItems", "maxItems")
        return Shape("list", items=shapes, shortest=low, longest=high)

    def _guess(self, field: Mapping[str, Any], path: str, depth: int) -> Shape:
        if isinstance(field.get("properties"), Mapping):
            return self.object_shape(field, path, depth)
        if isinstance(field.get("items"), Mapping):
            return self._list(field, "", path, depth)
        return ANY[0]

    def _chosen(self, choices: tuple[Any, ...], names: list[Any]) -> tuple[Shape, ...]:
        shape = Shape("choice", choices=choices)
        kinds = {TYPE_NAMES.get(str(name).partition("[")[0].strip().lower()) for name in names}
        if kinds == {"list"} and not any(isinstance(choice, list | tuple) for choice in choices):
            return (Shape("list", items=(shape,)),)  # a list's choices, written one level too high
        return (shape,)

    def _required(self, field: Mapping[str, Any], path: str) -> set[str]:
        listed = field.get("required")
        if not isinstance(listed, list | tuple):
            return set()
        if not all(isinstance(name, str) for name in listed):
            raise self._wrong(path, "`required` is not a list of names")
        return set(listed)

    def _wrong(self, path: str, what: str) -> InvalidRequest:
        where = f"tool {self._tool!r}, field {path!r}" if path else f"tool {self._tool!r}"
        return InvalidRequest(f"{where}: {what}")


def encodable(text: str) -> bool:
    """Whether a model can write it: not half of a surrogate pair, nor what no text ever has.

    Unicode has left the planes 4 to 13 empty, and a vocabulary may lack their first bytes. A
    grammar that asks for one leads nowhere, which ends the runtime and the process with it.
    """
    return _UNWRITABLE.search(text) is None


def _characters(field: Mapping[str, Any]) -> int:
    """What reading a schema takes, beside the schemas inside it."""
    lists = [field.get(name) for name in ("enum", "required", "examples", "type")]
    values = [value for listed in lists if isinstance(listed, list | tuple) for value in listed]
    texts = (len(value) for value in (*values, field.get("const")) if isinstance(value, str))
    return VALUE_CHARS * (1 + len(field) + len(values)) + sum(texts)


def _choices(field: Mapping[str, Any]) -> tuple[Any, ...]:
    listed = [field["const"]] if "const" in field else field.get("enum")
    if not isinstance(listed, list | tuple):
        return ()
    return tuple(value for value in listed if not isinstance(value, str) or encodable(value))


def _string(field: Mapping[str, Any]) -> Shape:
    low, high = _length(field, "minLength", "maxLength")
    examples = field.get("examples")
    hints: Sequence[Any] = examples if isinstance(examples, list | tuple) else ()
    hints = [field.get("default"), field.get("example"), *hints]
    return Shape(
        "str",
        shortest=low,
        longest=high or None,  # some write 0 where there is no limit
        verbatim=not field.get("format") and not field.get("pattern"),
        hints=tuple(hint for hint in hints if isinstance(hint, str) and encodable(hint)),
    )


def _number(kind: Kind, field: Mapping[str, Any]) -> Shape:
    low, high = _bound(field.get("minimum")), _bound(field.get("maximum"))
    # Drafts before 6 write {"minimum": 0, "exclusiveMinimum": true}.
    low_open = field.get("exclusiveMinimum") is True
    high_open = field.get("exclusiveMaximum") is True
    above, below = _bound(field.get("exclusiveMinimum")), _bound(field.get("exclusiveMaximum"))
    if above is not None and (low is None or above >= low):
        low, low_open = above, True
    if below is not None and (high is None or below <= high):
        high, high_open = below, True
    shape = Shape(kind, low=low, high=high, low_open=low_open, high_open=high_open)
    if low is not None and high is not None and not has_room(shape, low, high):
        return Shape(kind)
    return shape


def has_room(shape: Shape, low: float, high: float) -> bool:
    """Whether there is a number between the ends of a shape's range."""
    if shape.kind == "float":
        return low < high or (low == high and not shape.low_open and not shape.high_open)
    first, last = whole_bounds(shape)
    return first is not None and last is not None and first <= last


def whole_bounds(shape: Shape) -> tuple[int | None, int | None]:
    """The lowest and the highest whole number of a range; None where it has no end."""
    low, high = shape.low, shape.high
    return (
        None if low is None else math.floor(low) + 1 if shape.low_open else math.ceil(low),
        None if high is None else math.ceil(high) - 1 if shape.high_open else math.floor(high),
    )


def _bound(value: Any) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < 1e15 else None


def _length(field: Mapping[str, Any], low: str, high: str) -> tuple[int, int | None]:
    shortest, longest = (
        value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
        for value in (field.get(low), field.get(high))
    )
    if shortest is not None and longest is not None and shortest > longest:
        return 0, None
    return shortest or 0, longest


# -- the grammar of calls --------------------------------------------------------------------------

# Code points, both ends included. Quote and backslash are here: JSON escapes them by itself.
PLAIN = ((0x20, 0x7E), (0xA0, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x3FFFF))
# The bytes that these are made of: all of ASCII's but the controls, and UTF-8's up to 0xF0.
PLAIN_BYTES = frozenset((*range(0x20, 0x7F), *range(0x80, 0xC0), *range(0xC2, 0xF1)))
_ODD = re.compile(f"[^{''.join(f'{chr(low)}-{chr(high)}' for low, high in PLAIN)}]")
# As Python writes them: `5`, `0.25`, `1e-07`. 16 digits and exponents below 300 stay finite.
ANY_INT = '"0" | "-"? [1-9] [0-9]{0,15}'
ANY_FLOAT = (
    '"-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,17})? | '
    '"-"? [1-9] ("." [0-9]{1,16})? "e" [+-] ("0" [5-9] | [1-9] [0-9] | [12] [0-9] [0-9])'
)
NO_CALL = "none"
ASK = "ask"  # begins the line that asks for what a tool requires and nobody said
_SPECIAL_TOKEN = re.compile(r"<\|(\w+)\|>")
_TAG = re.compile(r"<(?=/?[a-z_][a-z0-9_]*>)")
_HIGHEST = 10**16 - 1
_PLACES = 9  # decimal places of a bound that are kept; it is rounded inwards
_OPEN_PLACES = 4  # how near to a bound that is itself excluded a value may come
MOST_CALLS = 24
LONGEST_STRING = 400
MOST_ITEMS = 32
ANY_DEPTH = 4  # of values about which the schema says nothing
MOST_CHOICES = 4_000  # of an enum; beyond, the value is free
MOST_WRITTEN = 200_000  # characters of a grammar; beyond, values are held to their type alone
MOST_OPEN = 200  # ways to read what is written so far
MOST_COPIED = 200  # words and marks of a request; beyond, strings are free
_CHARACTER = r'[^"\\\x00-\x1f] | "\\" (["\\bfnrt] | "u00" [01] [0-9a-f])'
_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,15})(?:\.\d{1,17})?")
_BARE_NAME = re.compile(r"[\w.$-]+")
_UNIT = re.compile(r"\w+|[^\w\s]")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True, slots=True)
class Notation:
    """How a model writes calls: what stands around names and values. The default is our own.

    opening, named, closing   before a tool's name, between it and the arguments, after them
    before, behind            what may stand around a call
    between, ending           between two calls, and what may follow the last
    nothing                   the answer without a call, as GBNF
    quote, character          of a text: what encloses it, and what may stand in it, as GBNF
    json                      texts and names are spelled as in JSON, else as they are
    comma, colon              between the parts of an object or a list
    any_name                  a name that the schema does not give, as GBNF, beside any text
    sorted_names              arguments come in the order of their names, not of the schema
    """

    opening: str = ""
    named: str = " "
    closing: str = ""
    before: str = ""
    behind: str = ""
    between: str = "\n"
    ending: str = ""
    nothing: str = f'"{NO_CALL}"'
    quote: str = '"'
    character: str = _CHARACTER
    json: bool = True
    comma: str = ","
    colon: str = ":"
    any_name: str = ""
    sorted_names: bool = False

    def spelled(self, value: Any) -> str:
        """A value. Raises TypeError or ValueError for what cannot be written."""
        if isinstance(value, str):
            return f"{self.quote}{self.inside(value)}{self.quote}"
        if isinstance(value, Mapping):
            items = self.in_order([(str(name), inner) for name, inner in value.items()])
            parts = [f"{self.name(name)}{self.spelled(inner)}" for name, inner in items]
            return f"{{{self.comma.join(parts)}}}"
        if isinstance(value, list | tuple):
            return f"[{self.comma.join(map(self.spelled, value))}]"
        return spelled_json(value)

    def inside(self, text: str) -> str:
        """A text without what encloses it."""
        if self.json:
            return spelled_json(text)[1:-1]
        return "\n".join(_ODD.sub(" ", line) for line in untagged(text).split("\n"))

    def name(self, name: str) -> str:
        """The name of an argument, up to its value."""
        bare = not self.json and _BARE_NAME.fullmatch(name)
        return f"{name if bare else self.spelled(name)}{self.colon}"

    def in_order(self, items: Sequence[tuple[str, Any]]) -> Sequence[tuple[str, Any]]:
        if not self.sorted_names:
            return items
        return sorted(items, key=lambda item: (item[0].lower(), item[0]))


def plain_text(text: str) -> str:
    """Text that cannot end a turn: special tokens in it lose their bars."""
    return _SPECIAL_TOKEN.sub(r"<\1>", text)


def untagged(text: str) -> str:
    """Text that is no control token of any model: `<escape>` becomes `< escape>`, too."""
    return _TAG.sub("< ", plain_text(text))


LINES = Notation()
# How many calls an answer has: as many as fit the request, or none; at least one; exactly one.
Calls = Literal["any", "some", "one"]


def compile_grammar(
    tools: Sequence[Tool],
    request: str = "",
    *,
    copy: bool = False,
    ask: bool = False,
    notation: Notation = LINES,
    calls: Calls = "any",
) -> str:
    """A GBNF grammar for the answers to a request, as our own models write them.

    `ask` allows lines that ask for what a tool requires, after the calls (`calls.question`).
    `calls` says how many calls there must be and may be.

    `copy` limits strings for which the schema sets no choices, format or pattern to words that
    follow each other in the request (or to what the schema gives as default and example).
    Raises InvalidRequest, naming tool and field, for a schema that makes no sense.
    """
    compiled = _compiler(notation, ask, calls)
    return compiled(request if copy else "", tools)


def compile_question(tool: Tool) -> str:
    """A grammar for a question about this tool and nothing else; "" if it requires nothing."""
    writer = _Writer("", LINES)
    question = writer.question(_by_name([tool]))
    return f"root ::= {question}\n{writer.text()}" if question else ""


def check_tools(tools: Sequence[Tool]) -> None:
    """Raise InvalidRequest, naming tool and field, where `compile_grammar` would."""
    for tool in _by_name(tools).values():
        _read(tool)


@functools.cache  # few: a notation, with and without questions, and three kinds of `Calls`
def _compiler(notation: Notation, ask: bool, calls: Calls) -> Callable[[str, Sequence[Tool]], str]:
    @per_toolbox
    def compiled(copied: str, tools: Sequence[Tool]) -> str:
        return write_grammar(copied, tools, notation, ask=ask, calls=calls)

    return compiled


def write_grammar(
    copied: str,
    tools: Sequence[Tool],
    notation: Notation = LINES,
    *,
    ask: bool = False,
    calls: Calls = "any",
) -> str:
    """The grammar in any notation. `copied`: the request whose words strings are limited to."""
    writer = _Writer(copied, notation)
    named = [
        (f"{notation.opening}{notation.inside(name)}{notation.named}", writer.arguments(tool))
        for name, tool in _by_name(tools).items()
    ]
    root = notation.nothing
    if named:
        before, behind = (
            f"({literal(text)})?" if text else "" for text in (notation.before, notation.behind)
        )
        one = f"({choose(named)})" if notation.closing else choose(named)
        call = writer.rule(f"{before} {one} {literal(notation.closing)} {behind}".strip())
        more = f"{literal(notation.between)} {call}".strip()
        made = f"{call} ({more}){{0,{MOST_CALLS - 1}}}" if calls != "one" else call
        if notation.ending:
            made += f" ({literal(notation.ending)})?"
        question = writer.question(_by_name(tools)) if ask and calls == "any" else ""
        made += f' ("\\n" {question})? | {question}' if question else ""
        root = f"{root} | {made}" if calls == "any" else made
    return f"root ::= {root}\n{writer.text()}"


def is_plain(text: str) -> bool:
    """Whether every vocabulary can spell this text."""
    return _ODD.search(text) is None


def escaped(letter: str) -> str:
    """A character as JSON spells it in ASCII: one escape, or two beyond the first plane."""
    data = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))


def spelled_json(value: Any) -> str:
    """Compact JSON. Raises TypeError or ValueError for what JSON cannot write."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Beside its strings, JSON has plain characters only.
    return _ODD.sub(lambda odd: escaped(odd[0]), text)


def has_plain_numbers(value: Any) -> bool:
    """Whether all numbers in it are written as every range can have them: without an exponent."""
    if isinstance(value, Mapping):
        return all(map(has_plain_numbers, value.values()))
    if isinstance(value, list | tuple):
        return all(map(has_plain_numbers, value))
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return not number or _PLAIN_NUMBER.fullmatch(repr(value)) is not None


def number_rule(shape: Shape) -> str:
    """What an `int` or `float` shape may be written as."""
    if shape.low is None and shape.high is None:
        return ANY_INT if shape.kind == "int" else ANY_FLOAT
    if shape.kind == "int":
        low, high = whole_bounds(shape)
        low, high = -_HIGHEST if low is None else low, _HIGHEST if high is None else high
        return " | ".join(_whole(low, high))
    return " | ".join(_decimal(shape)) or ANY_FLOAT


def _whole(low: int, high: int) -> Iterator[str]:
    if high >= 0:
        yield from _positive(max(low, 0), high)
    if low < 0:
        for alternative in _positive(max(-high, 1), -low):
            yield f'"-" {alternative}'


def _positive(low: int, high: int) -> Iterator[str]:
    """Whole numbers from low to high, both at least 0, without leading zeros."""
    for length in range(len(str(low)), len(str(high)) + 1):
        first = max(low, 10 ** (length - 1) if length > 1 else 0)
        yield from _digits(str(first), str(min(high, 10**length - 1)))


def _digits(low: str, high: str) -> Iterator[str]:
    """Strings of digits of one length from low to high."""
    same = 0
    while same < len(low) and low[same] == high[same]:
        same += 1
    start = f'"{low[:same]}" ' if same else ""
    if same == len(low):
        yield start.strip()
        return
    rest = len(low) - same - 1
    if low[same:].strip("0") == "" and high[same:].strip("9") == "":
        yield f"{start}{_any_digits(rest + 1)}"
        return
    if not rest:
        yield f"{start}[{low[same]}-{high[same]}]"
        return
    for tail in _digits(low[same + 1 :], "9" * rest):
        yield f'{start}"{low[same]}" {tail}'
    if int(high[same]) - int(low[same]) > 1:
        middle = f"[{int(low[same]) + 1}-{int(high[same]) - 1}]"
        yield f"{start}{middle} {_any_digits(rest)}"
    for tail in _digits("0" * rest, high[same + 1 :]):
        yield f'{start}"{high[same]}" {tail}'


def _any_digits(count: int) -> str:
    return "[0-9]" if count == 1 else f"[0-9]{{{count}}}"


def _decimal(shape: Shape) -> Iterator[str]:
    """Decimals in a range that has at least one end; nothing if rounding leaves no room."""
    with localcontext() as context:
        context.prec = 40
        step = Decimal(1).scaleb(-_PLACES)
        low = -Decimal(_HIGHEST) if shape.low is None else Decimal(repr(shape.low))
        high = Decimal(_HIGHEST) if shape.high is None else Decimal(repr(shape.high))
        low = low.quantize(step, ROUND_CEILING)
        high = high.quantize(step, ROUND_FLOOR)
        if low > high:
            return
        if high >= 0:
            inner_open = shape.low_open and low >= 0
            yield from _magnitude(max(low, Decimal(0)), high, inner_open, shape.high_open)
        if low < 0:
            inner_open = shape.high_open and high <= 0
            for alternative in _magnitude(max(-high, Decimal(0)), -low, inner_open, shape.low_open):
                yield f'"-" {alternative}'


def _magnitude(low: Decimal, high: Decimal, low_open: bool, high_open: bool) -> Iterator[str]:
    """Decimals from low to high, both at least 0."""
    first, last = int(low), int(high)
    if last - first > 1:
        between = " | ".join(_positive(first + 1, last - 1))
        yield f'({between}) ("." [0-9]{{1,17}})?'
    if first == last:
        yield from _beside(first, low - first, high - first, low_open, high_open)
        return
    yield from _beside(first, low - first, None, low_open, False)
    yield from _beside(last, Decimal(0), high - last, False, high_open)


def _beside(
    whole: int, low: Decimal, high: Decimal | None, low_open: bool, high_open: bool
) -> Iterator[str]:
    """`whole` with the fractions from low to high; no `high` means up to the next whole number."""
    places = max(_places(low), _places(high), 1)
    if low_open or high_open:
        places = max(places, min(places + 1, _PLACES), _OPEN_PLACES)
    scale = 10**places
    least = int(low * scale) + low_open
    most = scale - 1 if high is None else int(high * scale) - high_open
    if least > most:
        return
    if least == 0:
        yield f'"{whole}"'
    fractions: list[str] = []
    for count in range(1, places + 1):
        unit = 10 ** (places - count)
        fewest, highest = -(-least // unit), most // unit
        if fewest <= highest:
            fractions += _digits(str(fewest).zfill(count), str(highest).zfill(count))
    # More digits may follow as long as they cannot pass the end.
    longer = most if high is None or high_open else most - 1
    if least <= longer:
        more = f"[0-9]{{1,{17 - places}}}"
        for start in _digits(str(least).zfill(places), str(longer).zfill(places)):
            fractions.append(f"{start} {more}")
    yield f'"{whole}." ({" | ".join(fractions)})'


def _places(value: Decimal | None) -> int:
    if not value:
        return 0
    exponent = value.normalize().as_tuple().exponent
    return -exponent if isinstance(exponent, int) and exponent < 0 else 0


@per_tool
def _read(tool: Tool) -> Shape:
    shape = read_parameters(tool)
    if _open_ways((shape,), {}) > MOST_OPEN:
        raise InvalidRequest(
            f"tool {tool.name!r}: its arguments can be read in more than {MOST_OPEN} ways at once"
        )
    return shape


def _open_ways(shapes: Sequence[Shape], known: dict[int, int]) -> int:
    """In how many ways a value can be read while it is written, at the worst.

    Objects that may begin alike add up: llama.cpp follows all of them, at every token.
    """
    alike: dict[tuple[str, str], int] = {}
    for shape in shapes:
        if id(shape) not in known:  # shapes that many refer to are looked at once
            inner = [_open_ways(each.shapes, known) for each in shape.fields or ()]
            inner += [_open_ways(each, known) for each in (shape.items, shape.extra or ())]
            known[id(shape)] = max(1, *inner)
        first = next(iter(shape.fields or ()), None)
        key = (shape.kind, first.name if first and first.required else "")
        alike[key] = alike.get(key, 0) + known[id(shape)]
    # One that may begin with anything cannot be told from its neighbours of the same kind.
    vague = {kind: count for (kind, name), count in alike.items() if not name}
    return max(
        (count + (vague.get(kind, 0) if name else 0) for (kind, name), count in alike.items()),
        default=1,
    )


def choose(pairs: Sequence[tuple[str, str]]) -> str:
    """Alternatives `text rule`; beginnings in common are written once, so few are tried at once."""
    return " | ".join(_branches(sorted(pairs), 0))


def _by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for tool in tools:
        name = tool.name
        if not isinstance(name, str) or not name or name != name.strip():
            raise InvalidRequest(f"tool {name!r}: its name is empty or not plain text")
        if any(letter in "{}" for letter in name) or not is_plain(name):
            raise InvalidRequest(f"tool {name!r}: its name has a brace or a control character")
        if name in found:
            raise InvalidRequest(f"tool {name!r}: two tools have this name")
        found[name] = tool
    return found


def _branches(pairs: Sequence[tuple[str, str]], depth: int) -> Iterable[str]:
    groups: dict[str, list[tuple[str, str]]] = {}
    for text, rule in pairs:
        groups.setdefault(text[:1], []).append((text, rule))
    for group in groups.values():
        if len(group) == 1 or depth > 40 or not group[0][0]:
            yield from (f"{literal(text)} {rule}".strip() for text, rule in group)
            continue
        start = common_start([text for text, _ in group])
        same = len(start)
        rest = [(text[same:], rule) for text, rule in group if text[same:] or rule]
        mark = "" if len(rest) == len(group) else "?"  # one of them may end here
        yield f"{literal(start)} ({' | '.join(_branches(rest, depth + 1))}){mark}"


class _Writer:
    def __init__(self, request: str, notation: Notation) -> None:
        self._notation = notation
        self._names: dict[str, str] = {}  # body: name
        self._written = 0
        self._copied = self._copy_rule(request)

    def rule(self, body: str) -> str:
        if body not in self._names:
            self._written += len(body)
            self._names[body] = f"r{len(self._names)}"
        return self._names[body]

    @property
    def _quote(self) -> str:
        return literal(self._notation.quote)

    @property
    def _comma(self) -> str:
        return literal(self._notation.comma)

    @property
    def _is_long(self) -> bool:
        """The runtime reads a grammar at every try, and nothing else meanwhile."""
        return self._written > MOST_WRITTEN

    def text(self) -> str:
        return "".join(f"{name} ::= {body}\n" for body, name in self._names.items())

    def arguments(self, tool: Tool) -> str:
        return self.rule(self._fields(_read(tool).fields or (), top=True))

    def question(self, tools: Mapping[str, Tool]) -> str:
        """A line that asks for required parameters of one tool; "" if none requires any."""
        named = []
        for name, tool in tools.items():
            lacking = list(dict.fromkeys(_required(_read(tool).fields or (), "", ANY_DEPTH)))
            if lacking:
                need = self.rule(choose([(one, "") for one in lacking]))
                # A name twice would be no harm, so their order and number are left open.
                more = f'(", " {need}){{0,{len(lacking) - 1}}}' if len(lacking) > 1 else ""
                named.append((f"{ASK} {name}: ", self.rule(f"{need} {more}".strip())))
        return self.rule(choose(named)) if named else ""

    def _fields(self, fields: Sequence[Field], *, top: bool = False) -> str:
        """An object with these fields in this order; the optional ones may be left out."""
        if self._notation.sorted_names:
            fields = sorted(fields, key=lambda field: (field.name.lower(), field.name))
        written = [
            f"{literal(self._notation.name(field.name))} "
            + self._value(field.shapes, filled=top and field.required)
            for field in fields
        ]
        # From the end: what may follow once something has been written, one rule per step.
        after = [""] * (len(fields) + 1)
        for index in range(len(fields) - 1, -1, -1):
            mark = "" if fields[index].required else "?"
            step = f"({self._comma} {written[index]}){mark} {after[index + 1]}".strip()
            after[index] = self.rule(step) if mark else step
        if not fields:
            return '"{}"'
        openings, mark = [], "?"
        for index, field in enumerate(fields):
            openings.append(f"{written[index]} {after[index + 1]}".strip())
            if field.required:
                mark = ""
                break
        return f'"{{" ({" | ".join(openings)}){mark} "}}"'

    def _value(self, shapes: Sequence[Shape], *, filled: bool = False) -> str:
        bodies = [self._shape(shape, filled) for shape in shapes]
        return self.rule(" | ".join(dict.fromkeys(bodies)))

    def _shape(self, shape: Shape, filled: bool) -> str:
        match shape.kind:
            case "str":
                return self._string(shape, filled)
            case "int" | "float":
                return self.rule(number_rule(Shape(shape.kind) if self._is_long else shape))
            case "bool":
                return '"true" | "false"'
            case "null":
                return '"null"'
            case "choice":
                return self._choice(shape)
            case "list":
                return self._list(shape)
            case "obj":
                return self._object(shape)
            case _:
                return self._any(ANY_DEPTH)

    def _choice(self, shape: Shape) -> str:
        if len(shape.choices) > MOST_CHOICES or self._is_long:  # checked when the call is written
            return self._any(0)
        try:
            texts = [self._notation.spelled(choice) for choice in shape.choices]
        except (TypeError, ValueError):  # a choice that JSON cannot write
            return self._any(ANY_DEPTH)
        return choose([(text, "") for text in dict.fromkeys(texts)])

    def _string(self, shape: Shape, filled: bool) -> str:
        if self._copied and shape.verbatim and shape.longest is None and shape.shortest <= 1:
            hints = set(map(self._notation.spelled, shape.hints))
            return " | ".join([self._copied, *map(literal, sorted(hints))])
        high = LONGEST_STRING if shape.longest is None else min(shape.longest, LONGEST_STRING)
        return self._characters(min(max(shape.shortest, 1 if filled else 0), high), high)

    def _characters(self, low: int, high: int) -> str:
        character = self.rule(self._notation.character)
        return self.rule(f"{self._quote} {character}{{{low},{high}}} {self._quote}")

    def _list(self, shape: Shape) -> str:
        high = MOST_ITEMS if shape.longest is None else min(shape.longest, MOST_ITEMS)
        return self._items(self._value(shape.items or ANY), min(shape.shortest, high), high)

    def _items(self, item: str, low: int, high: int) -> str:
        if not high:
            return '"[]"'
        body = f"{item} ({self._comma} {item}){{{max(low - 1, 0)},{high - 1}}}"
        return self.rule(f'"[" {body} "]"' if low else f'"[" ({body})? "]"')

    def _object(self, shape: Shape) -> str:
        if shape.fields is not None:
            return self.rule(self._fields(shape.fields))
        if shape.extra:
            return self._mapping(self._value(shape.extra))
        return self._any_object(ANY_DEPTH)

    def _mapping(self, value: str) -> str:
        bare, key = self._notation.any_name, self._characters(0, LONGEST_STRING)
        key = self.rule(f"{bare} | {key}") if bare else key
        pair = self.rule(f"{key} {literal(self._notation.colon)} {value}")
        return self.rule(f'"{{" ({pair} ({self._comma} {pair}){{0,{MOST_ITEMS - 1}}})? "}}"')

    def _any_object(self, depth: int) -> str:
        return self._mapping(self.rule(self._any(depth - 1)))

    def _any(self, depth: int) -> str:
        string = self._copied or self._characters(0, LONGEST_STRING)
        plain = f'{string} | {self.rule(ANY_FLOAT)} | "true" | "false" | "null"'
        if depth <= 0:
            return plain
        items = self._items(self.rule(self._any(depth - 1)), 0, MOST_ITEMS)
        return f"{plain} | {items} | {self._any_object(depth)}"

    def _copy_rule(self, request: str) -> str:
        """A string of words that follow each other in the request; "" where that is no help.

        Each word may begin with a small or a capital letter, whichever the request has.
        """
        text = "".join(letter for letter in request if encodable(letter))
        units = list(_UNIT.finditer(text))
        if not 0 < len(units) <= MOST_COPIED:
            return ""
        after, starts, gap = "", [], ""
        for unit in reversed(units):
            following = f"({gap}{after})?" if after else ""
            word = _either_case(unit.group(), self._notation)
            after = self.rule(f"{word} {following}".strip())
            starts.append(after)
            gap = '" " ' if unit.start() and text[unit.start() - 1].isspace() else ""
        return self.rule(f"{self._quote} ({' | '.join(dict.fromkeys(starts))}) {self._quote}")


def _required(fields: Sequence[Field], prefix: str, depth: int) -> Iterator[str]:
    """Names of what must be given; `a.b` for what is required inside an object that is."""
    for field in fields:
        if not field.required or not is_plain(field.name) or not field.name or "," in field.name:
            continue
        yield f"{prefix}{field.name}"
        for shape in field.shapes if depth else ():
            yield from _required(shape.fields or (), f"{prefix}{field.name}.", depth - 1)


def _either_case(word: str, notation: Notation) -> str:
    lower, upper = word[0].lower(), word[0].upper()
    if lower == upper or len(lower) > 1 or len(upper) > 1:
        return literal(notation.inside(word))
    rest = f" {literal(word[1:])}" if word[1:] else ""
    return f"[{lower}{upper}]{rest}"


def common_start(texts: Sequence[str]) -> str:
    """What sorted texts begin with, all of them."""
    first, last = texts[0], texts[-1]  # what these share, all share
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    return first[:same]


def literal(text: str) -> str:
    """A text as the grammar writes it."""
    return f'"{"".join(_ESCAPES.get(letter, letter) for letter in text)}"' if text else ""
