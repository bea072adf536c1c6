"""Does an answer follow the JSON Schema that was asked for, or a call its tool's? Within limits.

The device writes under a grammar, and a cloud is given the schema. Both can still break it: an
answer that is cut is no JSON, and a cloud may not hold its promise. So every answer is checked.
A schema comes from a client and an answer from anywhere: time, depth and patterns are bounded. What
cannot be checked within these bounds is named, and does not count as a fault.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NoReturn, TypeGuard
from urllib.parse import unquote

from edgewise.errors import InvalidRequest, SchemaUnsupported
from edgewise.grammar.patterns import Matcher, Work
from edgewise.grammar.tools import Shape, read_parameters
from edgewise.types.messages import Tool
from edgewise.types.replies import Complaint, ComplaintCode

MOST_STEPS = 1_000_000  # of work on one answer: less than a second
DEEPEST = 100  # schemas in one another, references included
LONGEST_ANSWER = 1_000_000  # characters

# Keywords of the standard that are not read here. Others that are not read are only notes.
_UNREAD = frozenset({"unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef"})


@dataclass(frozen=True, slots=True)
class CheckedText:
    """What was found, in words: the first fault, and the first thing that could not be checked.

    `value` is what the answer says, if it has no fault.
    """

    fault: str = ""
    unchecked: str = ""
    value: Any = field(default=None, compare=False)

    def parsed(self, text: str, parse: Callable[[str], Any]) -> CheckedText:
        """The same with the value that `parse` makes of the text; what it refuses is a fault."""
        if self.fault:
            return self
        try:
            return replace(self, value=parse(text))
        except Exception as error:  # noqa: BLE001  # a class's own validators may raise anything
            words = str(error).partition("\n")[0] or type(error).__name__
            return replace(self, fault=words, value=None)


def check_answer(text: str, schema: Mapping[str, Any]) -> CheckedText:
    """Compare an answer with its schema; for {} it must be an object."""
    if len(text) > LONGEST_ANSWER:
        return CheckedText(unchecked=f"the answer has more than {LONGEST_ANSWER:,} characters")
    try:
        value = json.loads(text, parse_constant=_no_json)
    except (ValueError, RecursionError):
        return CheckedText(fault="it is not JSON")
    check = _Check(schema)
    try:
        fault = check.fault(value, schema or {"type": "object"}, "$", 0)
    except SchemaUnsupported:
        return CheckedText(
            unchecked=check.unchecked or "checking it would take too long", value=value
        )
    except RecursionError:
        return CheckedText(unchecked="it is nested too deep", value=value)
    return CheckedText(fault, check.unchecked, None if fault else value)


def _no_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


class _Check:
    """One answer and one schema. Every method returns the first fault in words, or nothing."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._work = Work(MOST_STEPS)
        self._matchers: dict[str, Matcher] = {}
        self.unchecked = ""

    def fault(self, value: Any, schema: Any, place: str, depth: int) -> str:
        self._work.spend(1)
        if schema is True:
            return ""
        if schema is False:
            return f"{place}: nothing is allowed here"
        if not isinstance(schema, Mapping):
            return self._skip(place, "its schema is not a JSON object")
        if depth > DEEPEST:
            return self._skip(place, f"more than {DEEPEST} schemas in one another")
        unread = next((name for name in schema if name in _UNREAD), None)
        if unread is not None:
            self._skip(place, f"{unread!r} is not understood")
        for find in (self._itself, self._of_type, self._joined):
            fault = find(value, schema, place, depth)
            if fault:
                return fault
        return ""

    def _itself(self, value: Any, schema: Mapping[str, Any], place: str, depth: int) -> str:
        """Type, enum and const."""
        if value is None and schema.get("nullable") is True:
            return ""
        declared = schema.get("type")
        if declared is not None:
            names = declared if isinstance(declared, list | tuple) else [declared]
            if not any(is_a(value, name) for name in names):
                return f"{place}: {_short(value)} is not {' or '.join(map(str, names))[:60]}"
        choices = schema.get("enum")
        if isinstance(choices, list | tuple) and not self._among(value, choices):
            return f"{place}: {_short(value)} is not one of the choices"
        if "const" in schema and not self._among(value, [schema["const"]]):
            return f"{place}: {_short(value)} is not {_short(schema['const'])}"
        return ""

    def _of_type(self, value: Any, schema: Mapping[str, Any], place: str, depth: int) -> str:
        if isinstance(value, str):
            return self._text(value, schema, place)
        if is_a(value, "number"):
            return self._number(value, schema, place)
        if isinstance(value, list):
            return self._list(value, schema, place, depth)
        return self._object(value, schema, place, depth) if isinstance(value, dict) else ""

    def _text(self, value: str, schema: Mapping[str, Any], place: str) -> str:
        fault = _outside(len(value), schema, "minLength", "maxLength")
        if fault:
            return f"{place}: its length {fault}"
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and self._matches(value, pattern, place) is False:
            return f"{place}: {_short(value)} does not match {pattern[:60]!r}"
        return ""

    def _matches(self, text: str, pattern: str, place: str) -> bool | None:
        """None if the pattern is beyond what a bounded engine reads."""
        try:
            if pattern not in self._matchers:
                self._matchers[pattern] = Matcher(pattern, self._work)
            return self._matchers[pattern].found_in(text)
        except (InvalidRequest, SchemaUnsupported) as error:
            self._skip(place, f"the pattern {pattern[:60]!r}: {error}")
            self._work.spend(0)  # raises if there is no time left for anything else
            return None

    def _number(self, value: float, schema: Mapping[str, Any], place: str) -> str:
        fault = _outside(value, schema, "minimum", "maximum")
        low: Any = schema.get("exclusiveMinimum")
        high: Any = schema.get("exclusiveMaximum")
        low = schema.get("minimum") if low is True else low  # as written before 2017
        high = schema.get("maximum") if high is True else high
        if is_a(low, "number") and value <= low:
            fault = f"is not more than {low}"
        if is_a(high, "number") and value >= high:
            fault = f"is not less than {high}"
        step: Any = schema.get("multipleOf")
        if not fault and is_a(step, "number") and step > 0 and _exact(value) % _exact(step):
            fault = f"is no multiple of {step}"
        return f"{place}: {_short(value)} {fault}" if fault else ""

    def _list(self, value: list[Any], schema: Mapping[str, Any], place: str, depth: int) -> str:
        fault = _outside(len(value), schema, "minItems", "maxItems")
        if fault:
            return f"{place}: its length {fault}"
        if schema.get("uniqueItems") is True:
            spelled = [self._spelled(item) for item in value]
            if len(set(spelled)) < len(spelled):
                return f"{place}: two of its items are the same"
        first, rest = schema.get("prefixItems"), schema.get("items", True)
        if isinstance(rest, list | tuple):  # as written before 2020
            first, rest = rest, schema.get("additionalItems", True)
        first = list(first) if isinstance(first, list | tuple) else []
        for number, item in enumerate(value):
            inner = first[number] if number < len(first) else rest
            fault = self.fault(item, inner, f"{place}[{number}]", depth + 1)
            if fault:
                return fault
        return self._contained(value, schema, place, depth)

    def _contained(
        self, value: list[Any], schema: Mapping[str, Any], place: str, depth: int
    ) -> str:
        if "contains" not in schema:
            return ""
        wanted = schema["contains"]
        found = sum(not self.fault(item, wanted, place, depth + 1) for item in value)
        fault = _outside(found, {"minContains": 1} | dict(schema), "minContains", "maxContains")
        if not fault or self.unchecked:
            return ""
        return f"{place}: the number of its items that `contains` describes {fault}"

    def _object(
        self, value: dict[str, Any], schema: Mapping[str, Any], place: str, depth: int
    ) -> str:
        fault = _outside(len(value), schema, "minProperties", "maxProperties")
        if fault:
            return f"{place}: its number of properties {fault}"
        required = list(_names(schema.get("required")))
        for name, more in _mapping(schema.get("dependentRequired")).items():
            required += _names(more) if name in value else ()
        for name, more in _mapping(schema.get("dependencies")).items():  # as written before 2019
            required += _names(more) if name in value else ()
        missing = next((name for name in required if name not in value), None)
        if missing is not None:
            return f"{place}: {missing[:60]!r} is missing"
        return self._properties(value, schema, place, depth)

    def _properties(
        self, value: dict[str, Any], schema: Mapping[str, Any], place: str, depth: int
    ) -> str:
        listed = _mapping(schema.get("properties"))
        patterns = _mapping(schema.get("patternProperties"))
        for name, item in value.items():
            inner = [listed[name]] if name in listed else []
            fits = {each: self._matches(name, each, place) for each in patterns}
            inner += [patterns[each] for each, fit in fits.items() if fit]
            if not inner and None not in fits.values():
                inner = [schema.get("additionalProperties", True)]
            here = f"{place}.{name[:40]}"
            for each in inner:
                fault = self.fault(item, each, here, depth + 1)
                if fault:
                    return fault
            fault = self.fault(name, schema.get("propertyNames", True), here, depth + 1)
            if fault:
                return fault
        return ""

    def _joined(self, value: Any, schema: Mapping[str, Any], place: str, depth: int) -> str:
        """Schemas beside this one that count for the same value.

        What could not be checked counts as right. So where being right is a fault, there is none.
        """

        def fails(other: Any) -> bool:
            return bool(self.fault(value, other, place, depth + 1))

        for other in self._all_of(value, schema, place, fails):
            fault = self.fault(value, other, place, depth + 1)
            if fault:
                return fault
        options = schema.get("anyOf")
        if isinstance(options, list | tuple) and options and all(map(fails, options)):
            return f"{place}: {_short(value)} fits no option of anyOf"
        options = schema.get("oneOf")
        if isinstance(options, list | tuple) and options:
            fitting = sum(not fails(option) for option in options)
            if fitting == 0 or (fitting > 1 and not self.unchecked):
                return f"{place}: {_short(value)} fits {fitting} options of oneOf"
        if "not" in schema and not fails(schema["not"]) and not self.unchecked:
            return f"{place}: {_short(value)} is what `not` excludes"
        return ""

    def _all_of(
        self, value: Any, schema: Mapping[str, Any], place: str, fails: Callable[[Any], bool]
    ) -> list[Any]:
        """Those that the value must follow as well."""
        others: list[Any] = []
        if "$ref" in schema:
            others.append(self._resolve(schema["$ref"], place))
        parts = schema.get("allOf")
        others += parts if isinstance(parts, list | tuple) else []
        if "if" in schema:
            branch = "else" if fails(schema["if"]) else "then"
            others += [] if self.unchecked else [schema.get(branch, True)]
        if isinstance(value, dict):
            for keyword in ("dependentSchemas", "dependencies"):
                for name, other in _mapping(schema.get(keyword)).items():
                    if name in value and not isinstance(other, list | tuple):
                        others.append(other)
        return others

    def _resolve(self, address: Any, place: str) -> Any:
        if not isinstance(address, str) or not (address == "#" or address.startswith("#/")):
            self._skip(place, "a $ref to another document is not followed")
            return True
        found = pointed_at(self._root, address)
        if found is None:
            self._skip(place, f"$ref {address[:60]!r} leads nowhere")
            return True
        return found

    def _among(self, value: Any, choices: Sequence[Any]) -> bool:
        spelled = self._spelled(value)
        return any(self._spelled(choice) == spelled for choice in choices)

    def _spelled(self, value: Any) -> str:
        """The same for values that are equal as JSON: 1 is 1.0, but not true."""
        try:
            text = json.dumps(_whole(value), sort_keys=True, default=str)
        except (TypeError, ValueError):
            text = repr(value)
        self._work.spend(1 + len(text) // 10)
        return text

    def _skip(self, place: str, why: str) -> str:
        self.unchecked = self.unchecked or f"{short_place(place)}: {why}"
        return ""


def _whole(value: Any) -> Any:
    """With floats that are whole as integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list | tuple):
        return [_whole(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _whole(item) for key, item in value.items()}
    return value


def short_place(place: str) -> str:
    return place if len(place) <= 80 else f"{place[:40]}…{place[-39:]}"


def pointed_at(root: Any, address: str) -> Any:
    """What a `$ref` into this document means; None if it leads nowhere."""
    found = root
    for step in unquote(address[1:]).split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(key)
        elif isinstance(found, list) and key.isascii() and key.isdigit() and len(key) < 10:
            found = found[int(key)] if int(key) < len(found) else None
        else:
            return None
    return found


def is_a(value: Any, name: Any) -> bool:
    """The types of JSON: true is no number, and 5.0 is an integer."""
    match name:
        case "boolean":
            return isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "integer":
            return is_a(value, "number") and (isinstance(value, int) or value.is_integer())
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list | tuple)
        case "object":
            return isinstance(value, Mapping)
        case "null":
            return value is None
    return False


def _outside(value: float, schema: Mapping[str, Any], least: str, most: str) -> str:
    """Whether a number is out of the range of two keywords, in words."""
    low: Any = schema.get(least)
    high: Any = schema.get(most)
    if is_a(low, "number") and value < low:
        return f"is less than {low}"
    if is_a(high, "number") and value > high:
        return f"is more than {high}"
    return ""


def _exact(number: float) -> Fraction:
    """As it is written: 0.3 is a multiple of 0.1."""
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _names(value: Any) -> list[str]:
    listed = value if isinstance(value, list | tuple) else ()
    return [name for name in listed if isinstance(name, str)]


def _short(value: Any, most: int = 40) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"


# -- the arguments of a call -----------------------------------------------------------------------

_KIND_WORDS = {
    "str": "text", "int": "a whole number", "float": "a number", "bool": "true or false",
    "list": "a list", "obj": "an object", "null": "null",
}  # fmt: skip
_JSON_NAMES = {
    "str": "string", "bool": "boolean", "list": "array", "obj": "object", "null": "null",
}  # fmt: skip
Problem = tuple[ComplaintCode, str]


def validate(name: str, arguments: object, tool: Tool) -> list[Complaint]:
    """Everything about a call that the schema forbids; empty where it is valid."""
    if name != tool.name:
        return [Complaint("unknown_tool", f"there is no tool {name!r}")]
    shape = read_parameters(tool)
    fields = shape.fields or ()
    if not isinstance(arguments, Mapping):
        return [Complaint("not_json", f"the arguments of {name!r} are not an object")]
    known = {each.name for each in fields}
    complaints = [
        Complaint("unknown_argument", f"{name!r} has no argument {one!r}", argument=str(one))
        for one in arguments
        if one not in known and shape.extra is None
    ]
    for each in fields:
        problem = None
        if each.name in arguments:
            value = arguments[each.name]
            problem = problem_with(value, each.shapes)
            only_text = all(one.kind in ("str", "null") for one in each.shapes)
            if each.required and value == "" and only_text:
                problem = ("empty_value", "is empty")
        elif each.required:
            problem = ("missing_argument", "is missing")
        if problem is not None:
            said = f"{each.name!r} {problem[1]}"
            complaints.append(Complaint(problem[0], said, argument=each.name))
    return complaints


def problem_with(value: Any, shapes: tuple[Shape, ...]) -> Problem | None:
    """What is wrong with a value; None if one of the shapes allows it."""
    problems = []
    for shape in shapes:
        problem = problem_in(value, shape)
        if problem is None:
            return None
        problems.append(problem)
    # Of several shapes, the one that has the right type has the most to say.
    return next((one for one in problems if one[0] != "wrong_type"), problems[0])


def problem_in(value: Any, shape: Shape) -> Problem | None:
    """What is wrong with a value if it is to have this shape."""
    if shape.kind == "any":
        return None
    if shape.kind == "choice":
        if any(same_json(value, choice) for choice in shape.choices):
            return None
        return "not_in_enum", f"is {_short(value, 60)}, which is not one of the choices"
    if not has_kind(value, shape):
        return "wrong_type", f"is {_short(value, 60)}, not {_KIND_WORDS[shape.kind]}"
    if shape.kind in ("int", "float"):
        return _range_problem(value, shape)
    if shape.kind in ("str", "list"):
        length = len(value)
        if length < shape.shortest or (shape.longest is not None and length > shape.longest):
            return "out_of_range", f"is {_short(value, 60)}: too short or too long"
    if shape.kind == "list":
        return next(_inside((item, shape.items) for item in value), None)
    return _object_problem(value, shape) if shape.kind == "obj" else None


def has_kind(value: Any, shape: Shape) -> bool:
    """Whether a value is of the shape's type. True is no number; 5 is a float, 5.0 no int."""
    if shape.kind in ("int", "float"):
        whole = isinstance(value, int)
        return is_a(value, "number") and (whole or (shape.kind == "float" and math.isfinite(value)))
    return shape.kind not in _JSON_NAMES or is_a(value, _JSON_NAMES[shape.kind])


def same_json(one: Any, other: Any) -> bool:
    """Equal as JSON: 1 is 1.0, but not true."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _inside(parts: Iterator[tuple[Any, tuple[Shape, ...]]]) -> Iterator[Problem]:
    for value, shapes in parts:
        problem = problem_with(value, shapes) if shapes else None
        if problem is not None:
            yield problem[0], f"holds a value that {problem[1]}"


def _object_problem(value: Mapping[str, Any], shape: Shape) -> Problem | None:
    if shape.fields is None:
        extra = shape.extra or ()
        return next(_inside((part, extra) for part in value.values()), None)
    known = {each.name for each in shape.fields}
    unknown = next((name for name in value if name not in known), None)
    if unknown is not None and shape.extra is None:
        return "unknown_argument", f"has no part {unknown!r}"
    for each in shape.fields:
        if each.name in value:
            problem = problem_with(value[each.name], each.shapes)
            if problem is not None:
                return problem[0], f"has a part {each.name!r} that {problem[1]}"
        elif each.required:
            return "missing_argument", f"has no part {each.name!r}"
    return None


def _range_problem(value: float, shape: Shape) -> Problem | None:
    too_low = shape.low is not None and (
        value < shape.low or (shape.low_open and value == shape.low)
    )
    too_high = shape.high is not None and (
        value > shape.high or (shape.high_open and value == shape.high)
    )
    if too_low or too_high:
        return "out_of_range", f"is {value!r}, out of range"
    return None


# -- the schema in words, for whoever cannot be held to it -----------------------------------------
#
# The grammar holds the answer to the schema, but it cannot say what is wanted: a model that was not
# told writes what it would have written, and is then forced. What leaves for a cloud is not
# changed: a cloud gets the schema in its own form.


MOST_CHARACTERS = 3_000  # of a form: a longer one would fill the context of a small model
DEEPEST_TOLD = 8  # nested values
LEAD = "Answer in JSON of exactly this form, and with nothing else:"

_FORMS = {
    "date": '"YYYY-MM-DD"',
    "time": '"HH:MM:SS+00:00"',
    "date-time": '"YYYY-MM-DDTHH:MM:SS+00:00"',
    "time-local": '"HH:MM:SS"',
    "date-time-local": '"YYYY-MM-DDTHH:MM:SS"',
    "clock-duration": '"HH:MM:SS"',
}
_BOUNDS = (
    ("minimum", "{} or more"),
    ("maximum", "at most {}"),
    ("exclusiveMinimum", "more than {}"),
    ("exclusiveMaximum", "less than {}"),
    ("minLength", "{} characters or more"),
    ("maxLength", "at most {} characters"),
    ("minItems", "{} or more"),
    ("maxItems", "at most {}"),
    ("pattern", "matches {}"),
)


def tell(schema: Mapping[str, Any]) -> str:
    """What is asked for, in a few lines; empty if that would be too long."""
    if not schema:
        return "Answer in JSON: one object, and nothing else."
    form = _Teller(schema).form(schema, 0)
    return f"{LEAD}\n{form}" if len(form) <= MOST_CHARACTERS else ""


class _Teller:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = MOST_CHARACTERS  # a schema may refer to itself in many ways
        self._indent = ""

    def form(self, schema: Any, depth: int) -> str:
        """As TypeScript would have it, which models have read much of."""
        if not isinstance(schema, Mapping) or not schema or depth > DEEPEST_TOLD or self._left < 0:
            return "any"
        if "$ref" in schema:
            address = schema["$ref"]
            local = isinstance(address, str) and address.startswith("#")
            return self.form(pointed_at(self._root, address) if local else None, depth + 1)
        parts = schema.get("allOf")
        if _is_list(parts) and len(parts) == 1:
            return self.form(parts[0], depth + 1)
        found = self._plain(schema, depth)
        self._left -= len(found)
        return found

    def _plain(self, schema: Mapping[str, Any], depth: int) -> str:
        choices = [schema["const"]] if "const" in schema else schema.get("enum")
        if _is_list(choices):
            return " | ".join(json.dumps(each, ensure_ascii=False) for each in choices)
        for name in ("anyOf", "oneOf"):
            if _is_list(options := schema.get(name)):
                return " | ".join(dict.fromkeys(self.form(one, depth + 1) for one in options))
        kinds = schema.get("type")
        if not _is_list(kinds):
            kinds = ["object" if "properties" in schema else kinds]
        return " | ".join(self._of_kind(kind, schema, depth) for kind in kinds)

    def _of_kind(self, kind: Any, schema: Mapping[str, Any], depth: int) -> str:
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return f"[{self.form(schema.get('items'), depth + 1)}, ...]"
        if kind == "string":
            return _FORMS.get(str(schema.get("format")), "string")
        return str(kind) if kind else "any"

    def _object(self, schema: Mapping[str, Any], depth: int) -> str:
        fields = schema.get("properties")
        if not isinstance(fields, Mapping) or not fields:
            return "{...}"
        required = schema.get("required")
        required = required if _is_list(required) else ()
        outside, lines = self._indent, []
        self._indent = inside = f"{outside}  "
        for number, (name, asked) in enumerate(fields.items(), start=1):
            comma = "," if number < len(fields) else ""
            noted = "; ".join(_notes(asked, left_out=name not in required))
            note = f"  // {noted}" if noted else ""
            key = json.dumps(name, ensure_ascii=False)
            lines.append(f"{inside}{key}: {self.form(asked, depth + 1)}{comma}{note}")
        self._indent = outside
        return "\n".join(("{", *lines, f"{outside}}}"))


def _notes(field: Any, *, left_out: bool) -> list[str]:
    if not isinstance(field, Mapping):
        return []
    described = field.get("description")
    notes = [" ".join(described.split())] if isinstance(described, str) else []
    notes += [words.format(field[name]) for name, words in _BOUNDS if name in field]
    return [*notes, "may be left out"] if left_out else notes


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str) and bool(value)
