"""What a parameter wants: read from its schema, name and description."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from edgewise.calls.schema import (
    definitions_of,
    options_of,
)
from edgewise.calls.schema import resolve as follow
from edgewise.calls.values.times import unit_name
from edgewise.calls.words import (
    name_words,
    spaced,
    stem,
    words,
)
from edgewise.types.messages import Tool, ToolCall

Type = Literal["string", "integer", "number", "boolean", "array", "object", "any"]
Role = Literal[
    "hour", "minute", "second", "half", "time", "datetime", "date", "duration", "percent", "share",
    "money", "number", "year", "person", "place", "message", "email", "url", "code", "text",
    "choice", "switch", "list", "object",
]  # fmt: skip

_TYPES: dict[str, Type] = {
    **dict.fromkeys(("string", "str", "text", "char", "character"), "string"),
    **dict.fromkeys(("integer", "int", "long", "short", "byte", "bigint"), "integer"),
    **dict.fromkeys(("number", "float", "double", "decimal"), "number"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    **dict.fromkeys(("array", "list", "tuple", "set", "arraylist"), "array"),
    **dict.fromkeys(("object", "dict", "map", "hashmap", "hash"), "object"),
}  # fmt: skip
# Words of a name that say what a string is; the name is asked before the description.
_STRING_ROLES: tuple[tuple[Role, frozenset[str]], ...] = (
    ("email", frozenset({"email", "mail"})),
    ("url", frozenset({"url", "link", "website", "uri"})),
    ("datetime", frozenset({"datetime", "timestamp"})),
    ("date", frozenset({"date", "day", "deadline", "birthday"})),
    ("time", frozenset({"time", "clock", "oclock"})),
    ("duration", frozenset({"duration", "length"})),
    ("message", frozenset({"message", "body", "content", "caption", "msg"})),
    ("code", frozenset({"id", "code", "number", "identifier", "sha", "path", "file", "key"})),
    ("person", frozenset({
        "recipient", "person", "contact", "receiver", "who", "whom", "attendee", "guest",
        "assignee", "customer", "user", "sender", "author", "artist", "owner", "friend",
    })),
    ("place", frozenset({
        "location", "city", "place", "where", "destination", "origin", "town", "country", "area",
        "region", "address", "venue", "departure", "arrival",
    })),
)  # fmt: skip
_TIME_UNITS = re.compile(
    r"\b(?:in|of|as|number of|how many|whole)?\s*"
    r"(milliseconds?|ms|seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|nights?|weeks?|months?|years?)\b"
)
# A template of a date or time as descriptions write it.
_TEMPLATE = re.compile(
    r"yyyy([-/. ]?)mm\1dd|dd([-/. ]?)mm\2yyyy|mm([-/. ]?)dd\3yyyy|hh:mm(?::ss)?", re.IGNORECASE
)
_NAMED_FORM = re.compile(r"(?P<iso>\biso\b|iso[ -]?8601)|(?P<day>24[ -]?h)|(?P<half>12[ -]?hour)")
EXAMPLE = re.compile(r"e\.g|for example|for instance|such as|example", re.IGNORECASE)
_FRACTION = re.compile(
    r"fraction|between 0 and 1|0 to 1|0-1|from 0 to 1|0\.\d|decimal share|as a decimal"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One parameter: its type, what it stands for, and the form and unit it asks for."""

    name: str
    type: Type
    role: Role
    unit: str = ""
    form: str = ""
    choices: tuple[Any, ...] = ()
    words: frozenset[str] = frozenset()
    default: Any = None


def parameters(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The schema of each parameter of an object schema, references followed once."""
    found = schema.get("properties")
    if not isinstance(found, Mapping):
        return {}
    return {str(name): resolve(field, schema) for name, field in found.items()}


def required(schema: Mapping[str, Any]) -> list[str]:
    """Names that must be given, in the order of the schema."""
    listed = schema.get("required")
    names = set(map(str, listed)) if isinstance(listed, list | tuple) else set()
    return [
        name
        for name, field in parameters(schema).items()
        if name in names or field.get("required") is True
    ]


def resolve(field: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A field with its `$ref` or its only non-null option put in its place."""
    definitions = definitions_of(root)
    found = follow(field, definitions)
    options = options_of(found, definitions)
    return {**options[0], **found} if len(options) == 1 else found


def wanted(name: str, schema: Mapping[str, Any]) -> Wanted:
    """What this parameter stands for; a judgement by its words, so never more than likely."""
    described = schema.get("description")
    description = described.lower() if isinstance(described, str) else ""
    own = name_words(name)
    kind = _type(schema)
    choices = schema.get("enum")
    if "const" in schema:
        choices = [schema["const"]]
    options = tuple(choices) if isinstance(choices, list | tuple) else ()
    return Wanted(
        name=name,
        type=kind,
        role=_role(kind, own, description, schema, options),
        unit=_unit(own, description),
        form=_form(description, schema),
        choices=options,
        words=frozenset(stem(word) for word in (*own, *words(description))),
        default=schema.get("default"),
    )


def listed_choice(value: str, schema: Mapping[str, Any]) -> bool:
    """Whether the description lists the value as a choice, not merely as an example."""
    described = schema.get("description")
    if not isinstance(described, str) or not value.strip():
        return False
    place = spaced(described).find(spaced(value))
    if place < 0:
        return False
    example = EXAMPLE.search(described)
    return not example or place < example.start()


def written_date(day: str, form: str) -> str:
    """An ISO date by a template such as `dd.mm.yyyy`."""
    year, month, date = day.split("-")
    if "yyyy" not in form:
        return day
    return form.replace("yyyy", year).replace("mm", month).replace("dd", date)


def _type(schema: Mapping[str, Any]) -> Type:
    declared = schema.get("type")
    listed = declared if isinstance(declared, list | tuple) else [declared]
    for one in listed:
        if isinstance(one, str) and one.lower() != "null":
            return _TYPES.get(one.lower().partition("[")[0].strip(), "any")
    if isinstance(schema.get("properties"), Mapping):
        return "object"
    return "array" if "items" in schema else "any"


def _role(
    kind: Type,
    own: list[str],
    description: str,
    schema: Mapping[str, Any],
    choices: tuple[Any, ...],
) -> Role:
    if choices:
        return "choice"
    if kind == "boolean":
        return "switch"
    if kind == "array":
        return "list"
    if kind == "object":
        return "object"
    if kind in ("integer", "number"):
        return _number_role(own, description)
    return _string_role(own, description, schema)


def _number_role(own: list[str], description: str) -> Role:
    units = {word.removesuffix("s") for word in own}
    for role in ("hour", "minute", "second"):
        if own and own[-1] == role and ("clock" in description or _of_day(role, description)):
            return role
    if any(unit_name(word) for word in own) or (
        units & {"duration", "length", "time", "timeout", "delay"}
        and _TIME_UNITS.search(description)
    ):
        return "duration" if units != {"year"} else "year"
    if units & {"percent", "percentage", "rate", "ratio", "share", "probability", "discount"}:
        return "share" if _FRACTION.search(description) else "percent"
    if units & {"price", "amount", "cost", "budget", "salary", "fee", "money"}:
        return "money"
    return "number"


def _of_day(role: str, description: str) -> bool:
    """`hour` alone is an hour of the day; `Number of hours` is a length."""
    length = ("number of", "how many", "how long", "duration", "length")
    return not any(hint in description for hint in length) and f"{role}s" not in description


def _string_role(own: list[str], description: str, schema: Mapping[str, Any]) -> Role:
    written = schema.get("format")
    forms: dict[str, Role] = {
        "date": "date", "time": "time", "date-time": "datetime", "email": "email", "uri": "url",
        "duration": "duration",
    }  # fmt: skip
    if isinstance(written, str) and written in forms:
        return forms[written]
    if own and own[-1] == "text" and "message" in description:
        return "message"
    for role, hints in _STRING_ROLES:
        if hints & set(own[-1:]) or (own[:1] and own[0] in hints and role != "code"):
            return role
    told = description.split(",")[0].split()
    for role, hints in _STRING_ROLES:
        if role in ("person", "place", "email") and hints & {word.strip(".") for word in told[:8]}:
            return role
    return "text"


def _unit(own: list[str], description: str) -> str:
    """`minute` for `timeout_mins` or "Delay in minutes"."""
    for word in own:
        if unit_name(word) and len(word) > 1:
            return unit_name(word)
    said = _TIME_UNITS.search(description)
    return unit_name(said.group(1)) if said else ""


def _form(description: str, schema: Mapping[str, Any]) -> str:
    """How a date or time is to be written: a template such as `dd.mm.yyyy`, or `12` hours."""
    template = _TEMPLATE.search(description)
    if template:
        return template.group().lower()
    named = _NAMED_FORM.search(description)
    if schema.get("format") == "date" or (named and named["iso"]):
        return "yyyy-mm-dd"
    if not named:
        return ""
    return "hh:mm" if named["day"] else "12"


# What a step has for one value: name, schema and value go in, None leaves the value as it is.
Better = Callable[[str, Mapping[str, Any], Any], Any]
_DEEPEST = 4


def revise(
    call: ToolCall, tool: Tool, code: str, better: Better
) -> tuple[ToolCall, tuple[str, ...]]:
    """The call with each value that `better` knows better, named `code:ARGUMENT`.

    Objects are gone through, and named by the argument that holds them. Lists are left alone.
    """
    changed = _revised(call.arguments, tool.parameters, tool.parameters, better, 0)
    names = [name for name, value in call.arguments.items() if changed[name] is not value]
    if not names:
        return call, ()
    return replace(call, arguments=changed), tuple(f"{code}:{name}" for name in names)


def _revised(
    given: Mapping[str, Any],
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    better: Better,
    depth: int,
) -> dict[str, Any]:
    fields = parameters({**root, "properties": schema.get("properties") or {}})
    found = dict(given)
    for name, value in given.items():
        field = fields.get(str(name), {})
        if isinstance(value, Mapping):
            inner = _revised(value, field, root, better, depth + 1) if depth < _DEEPEST else value
            same = all(inner[key] is value[key] for key in value)
            found[name] = value if same else inner
            continue
        instead = better(str(name), field, value)
        if instead is not None and (type(instead) is not type(value) or instead != value):
            found[name] = instead
    return found
