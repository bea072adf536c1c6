"""The grammar of the answers that a JSON Schema allows, for llama.cpp (GBNF), within limits.

The runtime has its own compiler, but a schema can crash, bloat or stall it, and our process with
it. So the runtime never sees a schema. This file reads the keywords it knows and refuses the others
by name. It counts what it writes. Every grammar can reach an end from every point, and has few open
ways at a time. It may accept less than the schema allows, but never more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NoReturn

from edgewise.errors import InvalidRequest, SchemaUnsupported
from edgewise.grammar.check import is_a, pointed_at, short_place
from edgewise.grammar.patterns import Work, automaton, string_rules
from edgewise.grammar.tools import (
    ANY_FLOAT,
    MOST_OPEN,
    Shape,
    choose,
    common_start,
    has_room,
    literal,
    number_rule,
    spelled_json,
)

# Limits; the error names the one that was passed.
MOST_VALUES = 20_000  # of any kind in the schema's JSON
MOST_TEXT = 100_000  # characters in its names and texts
DEEPEST_JSON = 100
DEEPEST = 32  # nested values
MOST_SCHEMAS = 1_000  # that are read; a referenced one counts once
MOST_CHOICES = 1_000  # values in all enums
MOST_OPTIONAL = 100  # optional properties in a row
MOST_REPETITIONS = 2_000  # of one character or item
MOST_REPEATED = 50_000  # in all repetitions
MOST_PATTERN_STATES = 3_000  # in all patterns
MOST_WRITTEN = 1_000_000  # characters of the grammar: the runtime reads them in a third of a second
LONGEST_ADDRESS = 500  # of a $ref
MOST_OPTIONS = 64  # of one anyOf or oneOf
LARGEST_NUMBER = 10**15
# Rounds of counting open ways: by then the number is stable, or it never will be.
ROUNDS = 2 * DEEPEST

ANNOTATIONS = frozenset(
    {"$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default"}
    | {"example", "examples", "deprecated", "readOnly", "writeOnly", "discriminator", "strict"}
)
_KEYWORDS: Mapping[str, frozenset[str]] = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems"}),
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
}
_JOINED = frozenset({"$ref", "allOf", "anyOf", "oneOf", "type", "enum", "const", "nullable"})
KNOWN = ANNOTATIONS | _JOINED.union(*_KEYWORDS.values())
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")

_LEAP = "([0-9][0-9](0[48]|[2468][048]|[13579][26])|([02468][48]|[13579][26]|[2468]0)00)"
_DAY = (
    r"(\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)"
    rf"|02-(0[1-9]|1\d|2[0-8]))|{_LEAP}-02-29)"
)
_CLOCK = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?"
_ZONE = r"(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
_TIME = f"{_CLOCK}{_ZONE}"
_HEX = "[0-9a-f]"
_FORMATS = {  # other formats are only notes, says the standard
    "date": f"^{_DAY}$",
    "time": f"^{_TIME}$",
    "date-time": f"^{_DAY}T{_TIME}$",
    "time-local": f"^{_CLOCK}{_ZONE}?$",  # names of OpenAPI's list of formats
    "date-time-local": f"^{_DAY}T{_CLOCK}{_ZONE}?$",
    "clock-duration": r"^\d{2,4}:[0-5]\d:[0-5]\d$",  # ours, of a timedelta
    "uuid": f"^{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}$",
}

# How numbers and booleans begin: no other value begins like this.
_A_NUMBER, _A_BOOLEAN = "#", "?"

_SPACE = r'(" " | "\n" [ \t]{0,20})?'
_CHARACTER = r'[^"\\\x00-\x1f\x7f] | "\\" (["\\/bfnrt] | "u00" [01] [0-9a-f])'


def compile_answer(schema: Mapping[str, Any]) -> str:
    """A GBNF grammar for the JSON that a schema allows; for {} any object.

    Raises InvalidRequest for a schema that makes no sense or allows no answer. Raises
    SchemaUnsupported for one that is not understood here, or is too large.
    """
    _measure(schema)
    writer = _Writer(schema)
    top = writer.value(schema or {"type": "object"}, "$", 0, frozenset())
    writer.check_openness()
    return f"root ::= {top.rule}\n{writer.text()}"


def _measure(schema: Mapping[str, Any]) -> None:
    """First of all, because everything that follows takes time or stack."""
    values, text = 0, 0
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    while waiting:
        value, depth = waiting.pop()
        values += 1
        if values > MOST_VALUES:
            _too_much("$", f"more than {MOST_VALUES:,} values")
        if depth > DEEPEST_JSON:
            _too_much("$", f"nested more than {DEEPEST_JSON} deep")
        if isinstance(value, Mapping):
            text += sum(map(len, map(str, value)))
            waiting += [(each, depth + 1) for each in value.values()]
        elif isinstance(value, list | tuple):
            waiting += [(each, depth + 1) for each in value]
        elif isinstance(value, str):
            text += len(value)
    if text > MOST_TEXT:
        _too_much("$", f"more than {MOST_TEXT:,} characters")


@dataclass(eq=False, slots=True)
class _Node:
    """What was written for one schema, as far as the number of open ways depends on it."""

    rule: str
    opening: str = ""  # what every answer begins with
    inner: list[_Node] = field(default_factory=list)
    either: bool = False  # one of `inner`, not all of them in a row
    least: int = 1  # open ways in it, whatever is inside
    open: int = 1


class _Writer:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._names: dict[str, str] = {}  # body: name
        self._rules: dict[str, str] = {}  # name: body, for rules that are named before they exist
        self._nodes: list[_Node] = []
        self._referred: dict[str, _Node] = {}
        self._spent: dict[str, int] = {}
        self._numbers = count()
        self._work = Work()
        self._patterns: dict[tuple[str, int, int | None], str] = {}
        self._space = self._rule(_SPACE)

    def text(self) -> str:
        shared = "".join(f"{name} ::= {body}\n" for body, name in self._names.items())
        return shared + "".join(f"{name} ::= {body}\n" for name, body in self._rules.items())

    def check_openness(self) -> None:
        """Count the ways in which a partial answer can be read, at the worst.

        A choice between objects that begin alike adds up their open ways. If such a choice refers
        to itself, the count grows from round to round.
        """
        together = {
            node: _alike(node.inner) if node.either else [[each] for each in node.inner]
            for node in self._nodes
        }
        for _ in range(ROUNDS):
            settled = True
            for node, groups in together.items():
                now = max([node.least, *(sum(each.open for each in group) for group in groups)])
                if now > MOST_OPEN:
                    _too_much("$", f"more than {MOST_OPEN} ways to read an answer at once")
                settled = settled and now == node.open
                node.open = now
            if settled:
                return
        _too_much("$", f"more than {MOST_OPEN} ways to read an answer at once")

    def value(self, schema: Any, place: str, depth: int, around: frozenset[str]) -> _Node:
        """The rule for a schema. `around`: references followed since the last character."""
        if schema is False:
            _wrong(place, "nothing is allowed")
        if schema is True or schema == {}:
            return self._node(self._anything())
        if not isinstance(schema, Mapping):
            _wrong(place, "is not a JSON object")
        flat = self._known(schema, place, depth)
        if set(flat) == {"$ref"}:
            return self._reference(flat["$ref"], place, depth, around)
        return self._kind(self._flat(flat, place, depth, around), place, depth, around)

    def _known(self, schema: Mapping[str, Any], place: str, depth: int) -> dict[str, Any]:
        """The schema without mere descriptions. Unknown keywords are refused by name."""
        if depth > DEEPEST:
            _too_much(place, f"more than {DEEPEST} values in one another")
        self._spend("schemas", 1, MOST_SCHEMAS, place)
        _check_names(schema, place)
        unknown = next((name for name in schema if name not in KNOWN), None)
        if unknown is not None:
            _too_much(place, f"{str(unknown)[:40]!r} is not understood")
        return {name: value for name, value in schema.items() if name not in ANNOTATIONS}

    def _reference(self, address: Any, place: str, depth: int, around: frozenset[str]) -> _Node:
        target = self._resolve(address, place)
        if address in around:
            _wrong(place, f"{address[:60]} refers to itself")
        if address not in self._referred:
            name = f"d{len(self._referred)}"
            node = self._referred[address] = self._node(name)
            inner = self.value(target, place, depth + 1, around | {address})
            self._rules[name] = inner.rule
            node.inner, node.opening = [inner], inner.opening
        return self._referred[address]

    def _resolve(self, address: Any, place: str) -> Any:
        if not isinstance(address, str) or not address.startswith("#"):
            _too_much(place, "a $ref to another document is not followed")
        if len(address) > LONGEST_ADDRESS:
            _too_much(place, f"a $ref is longer than {LONGEST_ADDRESS} characters")
        found = pointed_at(self._root, address)
        if found is None:
            _wrong(place, f"$ref {address[:60]!r} leads nowhere")
        return found

    def _flat(
        self, schema: dict[str, Any], place: str, depth: int, around: frozenset[str]
    ) -> dict[str, Any]:
        """A schema with its `$ref` and `allOf` merged into one."""
        joined = dict(schema)
        parts = []
        if "$ref" in joined:
            address = joined.pop("$ref")
            target = self._resolve(address, place)
            if address in around:
                _wrong(place, f"{address[:60]} refers to itself")
            parts.append((target, around | {address}))
        for part in _listed(joined.pop("allOf", None), "allOf", place):
            parts.append((part, around))
        for part, within in parts:
            if part is True:
                continue
            if not isinstance(part, Mapping):
                _wrong(place, "a part of allOf is not a JSON object")
            known = self._known(part, place, depth + 1)
            other = self._flat(known, place, depth + 1, within)
            joined = self._joined(joined, other, place)
        return joined

    def _kind(
        self, schema: dict[str, Any], place: str, depth: int, around: frozenset[str]
    ) -> _Node:
        if "enum" in schema or "const" in schema:
            return self._choice(schema, place)
        for name in ("anyOf", "oneOf"):
            if name in schema:
                return self._either(schema, name, place, depth, around)
        types = _types(schema, place)
        if not types:
            return self._node(self._anything())
        nodes = [self._of_type(each, schema, place, depth) for each in types]
        return nodes[0] if len(nodes) == 1 else self._options(nodes)

    def _either(
        self, schema: dict[str, Any], name: str, place: str, depth: int, around: frozenset[str]
    ) -> _Node:
        rest = {key: value for key, value in schema.items() if key != name}
        nullable = rest.pop("nullable", False) is True
        nodes = []
        options = _listed(schema[name], name, place)
        if len(options) > MOST_OPTIONS:
            _too_much(place, f"{name} has more than {MOST_OPTIONS} options")
        for number, option in enumerate(options):
            here = f"{place}.{name}[{number}]"
            if option is False:
                continue
            if rest and option is not True:
                if not isinstance(option, Mapping):
                    _wrong(here, "is not a JSON object")
                known = self._known(option, here, depth + 1)
                joined = self._joined(rest, self._flat(known, here, depth + 1, around), here)
                nodes.append(self._kind(joined, here, depth + 1, around))
            else:
                nodes.append(self.value(option, here, depth + 1, around))
        if nullable:
            nodes.append(self._node('"null"', "null"))
        if not nodes:
            _wrong(place, f"{name} allows nothing")
        return self._options(nodes)

    def _options(self, nodes: Sequence[_Node]) -> _Node:
        alone = list({node.rule: node for node in nodes}.values())
        if len(alone) == 1:
            return alone[0]
        node = self._node(self._rule(" | ".join(each.rule for each in alone)))
        node.inner, node.either, node.least = alone, True, len(alone)
        return node

    def _choice(self, schema: dict[str, Any], place: str) -> _Node:
        beside = set(schema) - {"enum", "const", "type", "nullable"}
        if beside:
            _too_much(place, f"{min(beside)!r} beside an enum is not understood")
        if "enum" in schema and not isinstance(schema["enum"], list | tuple):
            _wrong(place, "enum is not a list")
        values = list(schema["enum"]) if "enum" in schema else [schema["const"]]
        if "const" in schema:
            values = [value for value in values if _same(value, schema["const"])]
        if schema.get("nullable") is True:
            values.append(None)
        self._spend("values of enums", len(values), MOST_CHOICES, place)
        if "type" in schema:
            allowed = _types(schema, place)
            values = [value for value in values if any(is_a(value, each) for each in allowed)]
        if not values:
            _wrong(place, "enum has nothing in it that is allowed")
        try:
            texts = sorted({self._spelled(value, place) for value in values})
        except (TypeError, ValueError):
            _wrong(place, "enum has a value that JSON cannot write")
        rule = self._rule(choose([(text, "") for text in texts]))
        return self._node(rule, _opening(values, texts))

    def _of_type(self, name: str, schema: dict[str, Any], place: str, depth: int) -> _Node:
        if name == "object":
            return self._object(schema, place, depth)
        if name == "array":
            return self._array(schema, place, depth)
        if name == "string":
            return self._node(self._string(schema, place), '"')
        if name in ("integer", "number"):
            return self._node(self._number(name, schema, place), _A_NUMBER)
        if name == "boolean":
            return self._node(self._rule('"true" | "false"'), _A_BOOLEAN)
        return self._node('"null"', "null")

    def _object(self, schema: dict[str, Any], place: str, depth: int) -> _Node:
        fields = self._fields(schema, place)
        extra = schema.get("additionalProperties", True)
        if not fields:
            if extra is False:
                return self._node(self._rule('"{}"'), "{}")
            inner = self.value(extra, f"{place}.*", depth + 1, frozenset())
            node = self._node(self._mapping(inner.rule), "{")
            node.inner = [inner]
            return node
        inside, pairs, keys = [], [], []
        for name, each, _ in fields:
            inner = self.value(each, f"{place}.{name[:40]}", depth + 1, frozenset())
            inside.append(inner)
            key = f"{self._spelled(name, place)}:"
            pairs.append(self._rule(f"{literal(key)} {self._space} {inner.rule}"))
            keys.append(key)
        opening = "{" + (keys[0] + inside[0].opening if fields[0][2] else "")
        node = self._node(self._members(pairs, [must for _, _, must in fields], place), opening)
        node.inner = inside
        node.least = min(len(fields), 1 + _longest_run([must for _, _, must in fields]))
        return node

    def _fields(self, schema: dict[str, Any], place: str) -> list[tuple[str, Any, bool]]:
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        if not isinstance(properties, Mapping):
            _wrong(place, "properties is not a JSON object")
        if not isinstance(required, list | tuple) or not all(
            isinstance(name, str) for name in required
        ):
            _wrong(place, "required is not a list of names")
        extra = schema.get("additionalProperties", True)
        must = dict.fromkeys(required)
        # What is required but not listed is an additional property.
        wanted = dict(properties) | {name: extra for name in must if name not in properties}
        for name, each in wanted.items():
            if each is False and name in must:
                _wrong(place, f"{name[:40]!r} is required and not allowed")
        return [(name, each, name in must) for name, each in wanted.items() if each is not False]

    def _members(self, pairs: Sequence[str], required: Sequence[bool], place: str) -> str:
        """The pairs in this order; optional ones may be left out."""
        if _longest_run(required) > MOST_OPTIONAL:
            _too_much(place, f"more than {MOST_OPTIONAL} properties in a row are optional")
        count = len(pairs)
        after = [""] * (count + 1)  # what may follow once everything before `index` is decided

        def from_here(index: int) -> tuple[str, bool]:
            options = []
            for number in range(index, count):
                options.append(f"{pairs[number]} {after[number + 1]}".strip())
                if required[number]:
                    return " | ".join(options), True
            return " | ".join(options), False

        for index in range(count - 1, 0, -1):
            options, must = from_here(index)
            after[index] = self._rule(f'("," {self._space} ({options})){"" if must else "?"}')
        options, must = from_here(0)
        inside = f"({options}) {self._space}"
        inside = inside if must else f"({inside})?"
        return self._rule(f'"{{" {self._space} {inside} "}}"')

    def _mapping(self, value: str) -> str:
        pair = self._rule(f'{self._characters(0, None)} ":" {self._space} {value}')
        more = f'("," {self._space} {pair})*'
        return self._rule(f'"{{" {self._space} ({pair} {more} {self._space})? "}}"')

    def _array(self, schema: dict[str, Any], place: str, depth: int) -> _Node:
        first = _listed(schema.get("prefixItems"), "prefixItems", place, empty=True)
        items = schema.get("items", True)
        if isinstance(items, list | tuple):  # as written before 2020
            first, items = list(items), True
        low = _count(schema, "minItems", place)
        high = _count(schema, "maxItems", place)
        least = low or 0
        if high is not None and least > high:
            _wrong(place, f"minItems = {least} is more than maxItems = {high}")
        first = first[:high]
        node = self._node("", "[")
        for number, each in enumerate(first):
            node.inner.append(self.value(each, f"{place}[{number}]", depth + 1, frozenset()))
        rules = [each.rule for each in node.inner]
        more = ""
        if first:
            if least > len(first):
                if items is False:
                    _wrong(place, f"minItems = {least} is more than there can be")
                rest = self.value(items, f"{place}[]", depth + 1, frozenset())
                node.inner.append(rest)
                missing = least - len(first)
                self._spend("repetitions", missing, MOST_REPEATED, place)
                more = f'("," {self._space} {rest.rule}){{{missing}}}'
        elif items is False or high == 0:
            if least:
                _wrong(place, f"minItems = {least} is more than there can be")
        else:
            inner = self.value(items, f"{place}[]", depth + 1, frozenset())
            node.inner.append(inner)
            rules = [inner.rule]
            self._spend("repetitions", high or least, MOST_REPEATED, place)
            bounds = "*" if high is None and least <= 1 else _bounds(max(least - 1, 0), high, 1)
            more = f'("," {self._space} {inner.rule}){bounds}'
        if not rules:
            node.rule = self._rule('"[]"')
            return node
        inside = f' "," {self._space} '.join(rules) + f" {more} {self._space}"
        # What may be missing is a rule of its own: in groups the runtime multiplies repetitions.
        inside = inside if first or least else f"{self._rule(inside)}?"
        node.rule = self._rule(f'"[" {self._space} {inside} "]"')
        return node

    def _string(self, schema: dict[str, Any], place: str) -> str:
        low = _count(schema, "minLength", place) or 0
        high = _count(schema, "maxLength", place)
        if high is not None and low > high:
            _wrong(place, f"minLength = {low} is more than maxLength = {high}")
        pattern = schema.get("pattern", "")
        if not isinstance(pattern, str):
            _wrong(place, "pattern is not a text")
        format_ = schema.get("format")
        known = _FORMATS.get(format_, "") if isinstance(format_, str) else ""
        if pattern and known:
            _too_much(place, f"a pattern beside the format {format_!r} is not understood")
        if pattern or known:
            return self._patterned(pattern or known, low, high, place)
        before = len(self._names)
        rule = self._characters(low, high)
        if len(self._names) > before:  # what was written once is used again
            self._spend("repetitions", high or low, MOST_REPEATED, place)
        return rule

    def _patterned(self, pattern: str, low: int, high: int | None, place: str) -> str:
        key = pattern, low, high
        if key not in self._patterns:  # what was written once is used again
            self._patterns[key] = self._pattern(*key, place)
        return self._patterns[key]

    def _pattern(self, pattern: str, low: int, high: int | None, place: str) -> str:
        try:
            found = automaton(pattern, low, high, self._work)
        except InvalidRequest as error:
            _wrong(place, f"pattern {pattern[:40]!r}: {error}")
        except SchemaUnsupported as error:
            _too_much(place, f"pattern {pattern[:40]!r}: {error}")
        self._spend("states of patterns", len(found.moves), MOST_PATTERN_STATES, place)
        rules = string_rules(found, lambda: f"p{next(self._numbers)}")
        self._spend("characters of grammar", sum(map(len, rules.values())), MOST_WRITTEN, place)
        self._rules |= rules
        return self._rule(f'"\\"" {next(iter(rules))}')

    def _characters(self, low: int, high: int | None) -> str:
        character = self._rule(_CHARACTER)
        return self._rule(f'"\\"" {character}{_bounds(low, high)} "\\""')

    def _number(self, name: str, schema: dict[str, Any], place: str) -> str:
        low, low_open = _bound(schema, "minimum", "exclusiveMinimum", max, place)
        high, high_open = _bound(schema, "maximum", "exclusiveMaximum", min, place)
        whole = name == "integer"
        shape = Shape("int" if whole else "float", (), low, high, low_open, high_open)
        if low is not None and high is not None and not has_room(shape, low, high):
            if whole and low < high:
                _wrong(place, f"no whole number is between {low:g} and {high:g}")
            _wrong(place, f"no number is from {low:g} to {high:g}")
        rule = number_rule(shape)
        if rule == ANY_FLOAT and (low is not None or high is not None):
            _too_much(place, "minimum and maximum are too close to each other")
        return self._rule(rule)

    def _anything(self) -> str:
        """Any JSON. The rules refer to each other, so depth needs no limit."""
        if "any" not in self._rules:
            self._rules["any"] = ""
            more = f'("," {self._space} any)*'
            items = self._rule(f'"[" {self._space} (any {more} {self._space})? "]"')
            plain = f"{self._characters(0, None)} | {self._rule(ANY_FLOAT)}"
            words = '"true" | "false" | "null"'
            self._rules["any"] = f"{self._mapping('any')} | {items} | {plain} | {words}"
        return "any"

    def _joined(self, one: dict[str, Any], other: dict[str, Any], place: str) -> dict[str, Any]:
        """A schema that fulfils both."""
        one, other = _closed(one, other), _closed(other, one)
        both = one | other
        for name in one:
            if name in other:
                both[name] = self._both(name, one[name], other[name], place)
        _check_names(both, place)
        return both

    def _both(self, name: str, one: Any, other: Any, place: str) -> Any:
        """The value of a keyword that fulfils both values."""
        if _same(one, other):
            return one
        if name == "properties" and isinstance(one, Mapping) and isinstance(other, Mapping):
            shared = [key for key in one if key in other]
            self._spend("schemas", len(shared), MOST_SCHEMAS, place)
            return {**one, **other} | {key: _all_of(one[key], other[key]) for key in shared}
        if name == "required" and isinstance(one, list) and isinstance(other, list):
            return [*one, *other]
        if name == "enum" and isinstance(one, list) and isinstance(other, list):
            self._spend("pairs of joined enums", len(one) * len(other), MOST_CHOICES, place)
            found = [each for each in one if any(_same(each, item) for item in other)]
            if not found:
                _wrong(place, "allOf has enums with nothing in common")
            return found
        if name in ("minLength", "minItems"):
            counts = [_count({name: each}, name, place) or 0 for each in (one, other)]
            return max(counts)
        _too_much(place, f"allOf with two different {name!r} is not understood")

    def _spelled(self, value: Any, place: str) -> str:
        text = spelled_json(value)
        self._spend("characters of names and enums", len(text), MOST_TEXT, place)
        return text

    def _node(self, rule: str, opening: str = "") -> _Node:
        node = _Node(rule, opening)
        self._nodes.append(node)
        return node

    def _rule(self, body: str) -> str:
        if body not in self._names:
            self._spend("characters of grammar", len(body), MOST_WRITTEN, "$")
            self._names[body] = f"r{len(self._names)}"
        return self._names[body]

    def _spend(self, what: str, number: int, most: int, place: str) -> None:
        self._spent[what] = self._spent.get(what, 0) + number
        if self._spent[what] > most:
            _too_much(place, f"more than {most:,} {what}")


def _opening(values: Sequence[Any], texts: Sequence[str]) -> str:
    """What each of these values begins with; `texts` are the values as JSON, sorted."""
    if any(isinstance(value, bool | int | float) for value in values):
        sorts = {_A_BOOLEAN if isinstance(value, bool) else type(value) for value in values}
        if sorts == {_A_BOOLEAN}:
            return _A_BOOLEAN
        return _A_NUMBER if sorts <= {int, float} else ""
    return common_start(texts)


def _alike(options: Sequence[_Node]) -> list[list[_Node]]:
    """For each option, those that begin like it, itself included."""
    return [
        [
            each
            for each in options
            if each.opening.startswith(option.opening) or option.opening.startswith(each.opening)
        ]
        for option in options
    ]


def _closed(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """If the other schema allows no further properties, forbid those that it does not list."""
    names, listed = one.get("properties"), other.get("properties", {})
    if other.get("additionalProperties") is not False or not isinstance(names, Mapping):
        return one
    if not isinstance(listed, Mapping):
        return one  # refused when it is read
    return one | {"properties": {key: key in listed and names[key] for key in names}}


def _all_of(one: Any, other: Any) -> Any:
    return one is not False and other is not False and {"allOf": [one, other]}


def _check_names(schema: Mapping[str, Any], place: str) -> None:
    """Each name stands for a schema. Lists are merged before those are counted."""
    for name in ("properties", "required"):
        named = schema.get(name)
        if isinstance(named, list | tuple | Mapping) and len(named) > MOST_SCHEMAS:
            _too_much(place, f"more than {MOST_SCHEMAS:,} schemas")


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: 1 and true are two values."""
    return one is other or (type(one) is type(other) and bool(one == other))


def _types(schema: Mapping[str, Any], place: str) -> list[str]:
    """The types a schema allows; none if it allows all."""
    declared: Any = schema.get("type")
    names: list[Any] = list(declared) if isinstance(declared, list | tuple) else [declared]
    if declared is None:
        names = [kind for kind, words in _KEYWORDS.items() if words & schema.keys()]
    for name in names:
        if name not in _TYPES:
            _wrong(place, f"there is no type {str(name)[:40]!r}")
    if "type" in schema and not names:
        _wrong(place, "type has nothing in it")
    if schema.get("nullable") is True and names and "null" not in names:
        names.append("null")
    return list(dict.fromkeys(names))


def _listed(value: Any, name: str, place: str, *, empty: bool = False) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        _wrong(place, f"{name} is not a list")
    if not value and not empty:
        _wrong(place, f"{name} has nothing in it")
    return list(value)


def _count(schema: Mapping[str, Any], name: str, place: str) -> int | None:
    value = schema.get(name)
    if value is None:
        return None
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole or value < 0:
        _wrong(place, f"{name} is not a count")
    if value > MOST_REPETITIONS:
        if name.startswith("max"):
            return MOST_REPETITIONS  # a shorter one fulfils it too
        _too_much(place, f"{name} is more than {MOST_REPETITIONS:,}")
    return int(value)


def _bound(
    schema: Mapping[str, Any], name: str, open_name: str, stricter: Any, place: str
) -> tuple[int | float | None, bool]:
    """The end of a range, and whether it is excluded."""
    ends: list[tuple[int | float, bool]] = []
    for each, is_open in ((name, False), (open_name, True)):
        value = schema.get(each)
        if value is None or value is False:
            continue
        if value is True and each == open_name and ends:  # as written before 2017
            ends = [(ends[0][0], True)]
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            _wrong(place, f"{each} is not a number")
        if not abs(value) < LARGEST_NUMBER:
            _too_much(place, f"{each} has more than 15 digits")
        ends.append((value, is_open))
    if not ends:
        return None, False
    edge = stricter(value for value, _ in ends)
    return edge, any(is_open for value, is_open in ends if value == edge)


def _bounds(low: int, high: int | None, less: int = 0) -> str:
    if high is None:
        return f"{{{low},}}" if low else "*"
    return f"{{{low},{high - less}}}"


def _longest_run(required: Sequence[bool]) -> int:
    longest = run = 0
    for must in required:
        run = 0 if must else run + 1
        longest = max(longest, run)
    return longest


def _wrong(place: str, words: str) -> NoReturn:
    raise InvalidRequest(f"no answer can follow this schema: {short_place(place)}: {words}")


def _too_much(place: str, words: str) -> NoReturn:
    raise SchemaUnsupported(f"the device cannot enforce this schema: {short_place(place)}: {words}")
