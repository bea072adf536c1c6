"""The grammar of the answers that these tools allow, for llama.cpp (GBNF)."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import Any, Literal

from edgewise.calls.memory import per_tool, per_toolbox
from edgewise.calls.prompt import ASK, NO_CALL, untagged
from edgewise.calls.schema import ANY, Field, Shape, encodable, read_parameters, whole_bounds
from edgewise.errors import InvalidRequest
from edgewise.types.messages import Tool

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
    for tail in _at_least(low[same + 1 :]):
        yield f'{start}"{low[same]}" {tail}'
    if int(high[same]) - int(low[same]) > 1:
        middle = f"[{int(low[same]) + 1}-{int(high[same]) - 1}]"
        yield f"{start}{middle} {_any_digits(rest)}"
    for tail in _at_most(high[same + 1 :]):
        yield f'{start}"{high[same]}" {tail}'


def _at_least(low: str) -> Iterator[str]:
    yield from _digits(low, "9" * len(low))


def _at_most(high: str) -> Iterator[str]:
    yield from _digits("0" * len(high), high)


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
