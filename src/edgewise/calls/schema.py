"""What a parameter wants, by its schema, name and description; and what the words say for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from edgewise.calls.values.numbers import CURRENCY_WORDS, ONES, Said, says_currency, whole
from edgewise.calls.values.text import (
    RequestText,
    Support,
    find_all_numbers,
    find_values,
    read_request,
)
from edgewise.calls.values.times import (
    SECONDS,
    find_dates,
    iso_duration,
    unit_name,
)
from edgewise.calls.values.words import (
    WORD,
    edits,
    fold,
    locate,
    name_words,
    spaced,
    stem,
    switch_said,
    tokens,
    words,
)
from edgewise.grammar.tools import TYPE_NAMES, Kind, definitions_of, options_of, per_field
from edgewise.grammar.tools import resolve as follow
from edgewise.types.messages import Tool
from edgewise.types.replies import Found

Role = Literal[
    "hour", "minute", "second", "half", "time", "datetime", "date", "duration", "percent", "share",
    "money", "number", "year", "person", "place", "message", "email", "url", "code", "text",
    "choice", "switch", "list", "object",
]  # fmt: skip
Arguments = Mapping[str, Any]
# What a step has for one value: name, schema and value go in, None leaves the value as it is.
Better = Callable[[str, Mapping[str, Any], Any], Any]
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
_DEEPEST = 4
# Of dates and times: how descriptions and examples write them.
_DATE = r"(?:yyyy[-/. ]?mm[-/. ]?dd|dd[-/. ]?mm[-/. ]?yyyy|mm[-/. ]?dd[-/. ]?yyyy)"
_TIME = r"h?h:mm(?::ss)?(?:\s?(?:am/pm|a\.m\./p\.m\.|am or pm|a\b))?"
_MOMENT_TEMPLATE = re.compile(
    rf"(?P<date>{_DATE})(?:(?P<gap>[ t]|'t')(?P<clock>{_TIME})(?P<zone>z?))?|(?P<time>{_TIME})",
    re.IGNORECASE,
)
_SAMPLE = re.compile(
    r"(?<![\w:-])(?:(?P<date>\d{4}-\d\d-\d\d)(?:(?P<gap>[ T])(?P<clock>\d\d:\d\d(?::\d\d)?)"
    r"(?P<zone>Z?)(?!\d))?|(?P<time>\d{1,2}:\d\d)(?P<half>\s?[AaPp]\.?[Mm]\b\.?)?)"
)
# `%Y-%m-%d`, as programs write it.
_CODED = {"%Y": "YYYY", "%m": "MM", "%d": "DD", "%H": "HH", "%I": "hh", "%M": "mm", "%S": "ss"}
_CODES = re.compile("|".join(_CODED))
_ISO = re.compile(r"\biso\b|iso[ -]?8601|rfc ?3339", re.IGNORECASE)
_DATE_TIME = re.compile(
    r"date[ -]?time|timestamp|date and (?:the )?time|time and date", re.IGNORECASE
)
_DAY = re.compile(r"24[ -]?h", re.IGNORECASE)
_HALF = re.compile(r"12[ -]?h", re.IGNORECASE)
# Of switches: names and descriptions of a boolean that means on or off.
_STATE_NAMES = frozenset({
    "on", "enable", "enabled", "status", "state", "active", "activate", "activated", "power",
    "powered", "switched",
})  # fmt: skip
_STATE_TOLD = re.compile(
    r"\btrue (?:to|for|=|means)?\s*(?:enable|turns? on|switch(?:es)? on|activate|on\b)|"
    r"\bon or off\b|\bon/off\b|\benabled? or disabled?\b|\bon \(true\)",
    re.IGNORECASE,
)
_UPSIDE_DOWN = re.compile(
    r"\b(?:true|whether)\b[^.,;]{0,20}?\b(?:disable|off|deactivate|stop|mute)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One parameter: its type, what it stands for, and the form and unit it asks for."""

    name: str
    type: Kind
    role: Role
    unit: str = ""
    form: str = ""
    choices: tuple[Any, ...] = ()
    words: frozenset[str] = frozenset()
    default: Any = None


@dataclass(frozen=True, slots=True)
class Template:
    """Templates in small letters: `yyyy-mm-dd`, and `hh:mm`, `hh:mm:ss` or `h:mm pm`.

    An empty one is not wanted. `stated` is false where only an example shows the form.
    """

    date: str = ""
    time: str = ""
    gap: str = " "
    zone: str = ""
    stated: bool = True

    def write(self, date: str, clock: str) -> str:
        """From `2026-03-01` and `14:00` or `14:00:30`."""
        parts = []
        if self.date:
            parts.append(written_date(date, self.date))
        if self.time:
            parts.append(_written_clock(clock, self.time))
        return self.gap.join(parts) + (self.zone if self.time else "")

    def holds(self, text: str) -> bool:
        """Whether a text is written in this form, whatever moment it means."""
        pattern = ""
        if self.date:
            pattern += re.sub("[ymd]", r"\\d", re.escape(self.date))
        if self.date and self.time:
            pattern += re.escape(self.gap)
        if self.time == "h:mm pm":
            pattern += r"\d{1,2}:\d\d\s?[AaPp]\.?[Mm]\.?"
        elif self.time:
            pattern += re.sub("[hms]", r"\\d", self.time)
        zone = r"(?:Z|[+-]\d\d:?\d\d)?" if self.time and self.date else ""
        return bool(re.fullmatch(pattern + zone, text.strip()))


def parameters(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The schema of each parameter of an object schema, references followed once."""
    found = schema.get("properties")
    if not isinstance(found, Mapping):
        return {}
    return {str(name): resolve(field, schema) for name, field in found.items()}


def nested_parameters(
    schema: Mapping[str, Any], root: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """The same of an object inside the arguments; `root` has what it refers to."""
    return parameters({**root, "properties": schema.get("properties") or {}})


def description_of(schema: Mapping[str, Any]) -> str:
    described = schema.get("description")
    return described if isinstance(described, str) else ""


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


@per_field
def wanted(name: str, schema: Mapping[str, Any]) -> Wanted:
    """What this parameter stands for; a judgement by its words, so never more than likely."""
    description = description_of(schema).lower()
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
    described = description_of(schema)
    if not value.strip():
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


def moment_form(name: str, schema: Mapping[str, Any]) -> Template | None:
    """The form a string parameter asks for by its format, its description or its examples."""
    description = _CODES.sub(lambda found: _CODED[found[0]], description_of(schema))
    if "enum" in schema or wanted(name, schema).type not in ("str", "any"):
        return None
    if schema.get("format") == "date-time":
        return Template("yyyy-mm-dd", "hh:mm:ss", "T")
    if schema.get("format") == "date":
        return Template("yyyy-mm-dd")
    if schema.get("format") == "time":
        return Template(time="hh:mm:ss")
    template = _MOMENT_TEMPLATE.search(description)
    if template:
        cue = EXAMPLE.search(description)
        stated = cue is None or template.start() < cue.start()
        return _from_template(template, bool(_HALF.search(description)), stated)
    return _named_moment(name, description) or _from_samples(description, schema)


def means_on(name: str, schema: Mapping[str, Any]) -> bool:
    """Whether a boolean is a switch: true is on, false is off."""
    if wanted(name, schema).role != "switch":
        return False
    description = description_of(schema)
    before, _, _ = description.partition(", false")
    if _UPSIDE_DOWN.search(before) and not _STATE_TOLD.search(before):
        return False
    own = name_words(name)
    return bool(own and {own[-1], own[0]} & _STATE_NAMES) or bool(_STATE_TOLD.search(description))


def revise(
    arguments: Arguments, tool: Tool, code: str, better: Better
) -> tuple[Arguments, tuple[str, ...]]:
    """The arguments with each value that `better` knows better, named `code:ARGUMENT`.

    Objects are gone through, and named by the argument that holds them. So are the texts in lists.
    """
    changed = _revised(arguments, tool.parameters, tool.parameters, better, 0)
    names = [name for name, value in arguments.items() if changed[name] is not value]
    if not names:
        return arguments, ()
    return changed, tuple(f"{code}:{name}" for name in names)


def _revised(
    given: Mapping[str, Any],
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    better: Better,
    depth: int,
) -> dict[str, Any]:
    fields = nested_parameters(schema, root)
    found = dict(given)
    for name, value in given.items():
        field = fields.get(str(name), {})
        if isinstance(value, Mapping):
            inner = _revised(value, field, root, better, depth + 1) if depth < _DEEPEST else value
            same = all(inner[key] is value[key] for key in value)
            found[name] = value if same else inner
            continue
        if isinstance(value, list):
            items = resolve(field.get("items"), root)
            told = {"description": description_of(field), **items}
            listed = [_listed_better(better, str(name), told, one) for one in value]
            same = all(one is other for one, other in zip(listed, value, strict=True))
            found[name] = value if same else listed
            continue
        instead = better(str(name), field, value)
        if instead is not None and (type(instead) is not type(value) or instead != value):
            found[name] = instead
    return found


def _listed_better(better: Better, name: str, schema: Mapping[str, Any], value: Any) -> Any:
    instead = better(name, schema, value) if isinstance(value, str) else None
    return value if instead is None or instead == value else instead


def _type(schema: Mapping[str, Any]) -> Kind:
    declared = schema.get("type")
    listed = declared if isinstance(declared, list | tuple) else [declared]
    for one in listed:
        if isinstance(one, str) and one.lower() != "null":
            return TYPE_NAMES.get(one.lower().partition("[")[0].strip(), "any")
    if isinstance(schema.get("properties"), Mapping):
        return "obj"
    return "list" if "items" in schema else "any"


def _role(
    kind: Kind,
    own: list[str],
    description: str,
    schema: Mapping[str, Any],
    choices: tuple[Any, ...],
) -> Role:
    if choices:
        return "choice"
    if kind == "bool":
        return "switch"
    if kind == "list":
        return "list"
    if kind == "obj":
        return "object"
    if kind in ("int", "float"):
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
    if schema.get("format") in ("time", "duration"):
        return {"time": "hh:mm", "duration": "iso"}[schema["format"]]
    named = _NAMED_FORM.search(description)
    if schema.get("format") == "date" or (named and named["iso"]):
        return "yyyy-mm-dd"
    if not named:
        return ""
    return "hh:mm" if named["day"] else "12"


def _from_template(match: re.Match[str], half: bool, stated: bool) -> Template:
    date = (match["date"] or "").lower()
    clock = (match["clock"] or match["time"] or "").lower()
    if match["gap"] is None and not match["time"]:
        return Template(date, stated=stated)
    twelve = half or re.search(r"a[m.]|\ba$", clock)
    time = "h:mm pm" if twelve else "hh:mm:ss" if clock.endswith(":ss") else "hh:mm"
    gap = (match["gap"] or " ").strip("'")
    return Template(date, time, gap.upper(), (match["zone"] or "").upper(), stated)


def _named_moment(name: str, description: str) -> Template | None:
    """`ISO date`, `ISO 8601 datetime`, `24-hour`."""
    own = " ".join(name_words(name))
    if _ISO.search(description):
        if _DATE_TIME.search(description) or _DATE_TIME.search(own):
            sample = _samples(description)
            return sample if sample and sample.time else Template("yyyy-mm-dd", "hh:mm:ss", "T")
        dated = re.search(r"\b(?:date|day)\b", f"{description} {own}", re.IGNORECASE)
        timed = re.search(r"\btimes?\b", f"{description} {own}", re.IGNORECASE)
        return Template("yyyy-mm-dd") if dated and not timed else None
    if wanted(name, {"type": "string", "description": description}).role != "time":
        return None
    if _DAY.search(description):
        return Template(time="hh:mm")
    return Template(time="h:mm pm") if _HALF.search(description) else None


def _from_samples(description: str, schema: Mapping[str, Any]) -> Template | None:
    """From what stands after `e.g.`, if all samples of a moment are written alike."""
    cue = EXAMPLE.search(description)
    listed = schema.get("examples")
    shown = description[cue.start() :] if cue else ""
    return _samples(" | ".join((shown, *map(str, listed if isinstance(listed, list) else ()))))


def _samples(text: str) -> Template | None:
    forms = {_from_sample(match) for match in _SAMPLE.finditer(text)}
    return forms.pop() if len(forms) == 1 else None


def _from_sample(match: re.Match[str]) -> Template:
    if match["date"]:
        clock = match["clock"] or ""
        time = "hh:mm:ss" if clock.count(":") == 2 else "hh:mm" if clock else ""
        return Template("yyyy-mm-dd", time, match["gap"] or " ", match["zone"] or "", stated=False)
    return Template(time="h:mm pm" if match["half"] else "hh:mm", stated=False)


def _written_clock(clock: str, form: str) -> str:
    hour, minute, second = (*clock.split(":"), "00")[:3]
    if form == "h:mm pm":
        return f"{int(hour) % 12 or 12}:{minute} {'PM' if int(hour) >= 12 else 'AM'}"
    return f"{hour}:{minute}:{second}" if form == "hh:mm:ss" else f"{hour}:{minute}"


# -- what the words say for a parameter ------------------------------------------------------------
#
# `ground` asks whether a value that was written is said; `candidates` reads the values that are.

# Below this an argument counts as made up.
UNGROUNDED = 0.3
_ARTICLE = 0.5  # the support of a 1 by "a" or "an" alone
# The most that facts and earlier turns support a value: what is said now counts for more.
TOLD = 0.8
_NONE = Support(0.0, "none")
_LONGEST_TYPED = 60
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_COMPACT_DATE = re.compile(r"((?:19|20)\d\d)([01]\d)([0-3]\d)")
_NEGATIONS = frozenset(
    {"no", "not", "off", "without", "dont", "never", "disable", "isnt", "exclude", "except", "stop"}
)
_LITTLE = frozenset(
    {"the", "a", "an", "of", "for", "to", "in", "on", "at", "and", "or", "my", "is", "by", "with"}
)
_UNITS = {
    "kg": ("kilo", "kilos", "kilogram", "kilograms"), "g": ("gram", "grams"),
    "mg": ("milligram", "milligrams"), "t": ("tonne", "tonnes", "tons"),
    "lb": ("pound", "pounds"), "lbs": ("pound", "pounds"), "oz": ("ounce", "ounces"),
    "l": ("litre", "litres", "liter", "liters"), "dl": ("decilitre", "decilitres"),
    "ml": ("millilitre", "millilitres", "milliliter", "milliliters"),
    "tsp": ("teaspoon", "teaspoons"), "tbsp": ("tablespoon", "tablespoons"),
    "m": ("metre", "metres", "meter", "meters"), "mi": ("mile", "miles"),
    "km": ("kilometre", "kilometres", "kilometer", "kilometers"),
    "cm": ("centimetre", "centimetres", "centimeter", "centimeters"),
    "mm": ("millimetre", "millimetres", "millimeter", "millimeters"),
    "ft": ("foot", "feet"), "in": ("inch", "inches"), "yd": ("yard", "yards"),
    "c": ("celsius", "centigrade"), "f": ("fahrenheit",), "k": ("kelvin",),
    "h": ("hour", "hours"), "min": ("minute", "minutes"), "s": ("second", "seconds"),
}  # fmt: skip
# Of a switch that the verb says the other way: the least that does not count as made up.
_CONTRADICTED = 0.3
_DEEPEST_VALUE = 6
_MOMENT_KINDS = frozenset({"time", "date", "datetime"})
_MOMENT_ROLES = _MOMENT_KINDS | {"hour", "minute", "second", "half", "year"}
_LONGEST_LIST = 200
_ADDRESS_SIGNS = {"email": re.compile("@"), "url": re.compile(r"[./]")}
_THAT_ADDRESS = re.compile(
    r"\b(?:that|this|the|their|his|her|its|whatever|whichever)\s+"
    r"(?:(?:e-?)?mail(?:\s+address)?|address|link|url)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Grounding:
    """How well the request supports each argument, by name; nested ones count with their parent."""

    arguments: Mapping[str, Support]

    @property
    def score(self) -> float:
        """The worst argument's score: a call is as good as its worst argument."""
        return min((one.score for one in self.arguments.values()), default=1.0)

    @property
    def ungrounded(self) -> tuple[str, ...]:
        return tuple(name for name, one in self.arguments.items() if one.score < UNGROUNDED)


def ground(arguments: Arguments, tool: Tool, request: str | RequestText) -> Grounding:
    """Support for every argument."""
    request = read_request(request)
    fields = parameters(tool.parameters)
    return Grounding(
        {
            name: support(value, name, fields.get(name, {}), tool.parameters, request)
            for name, value in arguments.items()
        }
    )


def support(
    value: Any,
    name: str,
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    request: RequestText,
    depth: int = 0,
) -> Support:
    """How far the words support a value. Of a list or object the worst part counts."""
    found = _of_type(value, name, schema, root, request, depth)
    for known in _known_for(name, schema, request) if found.score < TOLD else ():
        earlier = _of_type(value, name, schema, root, known, depth)
        if min(earlier.score, TOLD) > found.score:
            found = Support(min(earlier.score, TOLD), "told")
    if found.score < 0.35 and value is not None and schema.get("default") == value:
        return Support(0.35, "default")
    return found


def _known_for(name: str, schema: Mapping[str, Any], request: RequestText) -> Iterator[RequestText]:
    """What was known before the request and may be meant by this parameter.

    The time and the date are for times and dates. An amount is for a parameter that is named or
    described by all the words of the fact's own name: `battery_percent` is no volume.
    """
    if request.told is not None:
        yield request.told
    for fact, text in request.facts:
        if any(one.kind in _MOMENT_KINDS for one in text.found):
            role = wanted(name, schema).role
            if role in _MOMENT_ROLES or (role != "list" and moment_form(name, schema)):
                yield text
        elif {stem(word) for word in name_words(fact)} <= {
            stem(word) for word in (*name_words(name), *words(description_of(schema)))
        }:
            yield text


def _of_type(
    value: Any,
    name: str,
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    request: RequestText,
    depth: int,
) -> Support:
    if value is None or depth > _DEEPEST_VALUE:
        return Support(0.5, "default")
    if isinstance(value, bool):
        return _boolean(value, name, schema, request)
    if isinstance(value, Mapping):
        fields = nested_parameters(schema, root)
        return _worst(
            support(inner, str(key), fields.get(str(key), {}), root, request, depth + 1)
            for key, inner in value.items()
        )
    if isinstance(value, list | tuple):
        items = resolve(schema.get("items"), root)
        return _worst(
            support(inner, name, items, root, request, depth + 1) for inner in value[:_LONGEST_LIST]
        )
    if isinstance(value, int | float):
        return (
            _number_support(value, wanted(name, schema), request) if abs(value) < 1e300 else _NONE
        )
    choices = schema.get("enum")
    if isinstance(choices, list | tuple) and value in choices:
        return _choice(str(value), schema, request)
    found = _form_support(str(value), name, schema, request) or _string(str(value), request)
    if found.score < 0.6 and listed_choice(str(value), schema):
        return _choice(str(value), schema, request)
    return found


def awaited(value: Any, name: str, schema: Mapping[str, Any], request: RequestText) -> bool:
    """Whether the words leave this value to a result: "find Ada's email, and share it with that
    address". What was written for it is no address."""
    sign = _ADDRESS_SIGNS.get(wanted(name, schema).role) if isinstance(value, str) else None
    return sign is not None and not sign.search(value) and bool(_THAT_ADDRESS.search(request.text))


def _worst(parts: Iterable[Support]) -> Support:
    return min(parts, key=lambda one: one.score, default=Support(1.0, "derived"))


def _string(value: str, request: RequestText) -> Support:
    folded = spaced(value)
    if folded == " ":
        return Support(1.0, "verbatim") if value.strip() in request.text else _NONE
    head = spaced(value.partition(",")[0])
    if folded in request.spaced:
        exact = value.strip() in request.text
        return Support(1.0, "verbatim") if exact else Support(0.97, "folded")
    typed = _typed_support(value, request)
    if typed.score > 0.5:
        return typed
    joined = folded.replace(" ", "")
    if len(joined) >= 4 and joined in request.joined:
        return Support(0.85, "folded")
    if len(head) > 5 and head in request.spaced and "," in value:
        return Support(0.6, "derived")  # "Marseille, France" where the request names the city.
    others = (
        _stemmed(folded, request),
        _initials(value, request),
        _short_form(value, request),
        typed,
    )
    return max(others, key=lambda one: one.score)


def _stemmed(folded: str, request: RequestText) -> Support:
    """All words there in some inflection, side by side or apart; or some of them."""
    wanted = [word for word in folded.split() if word not in _LITTLE] or folded.split()
    present = sum(stem(word) in request.stems for word in wanted) / len(wanted)
    if present < 1.0:
        return Support(0.29 * present, "none")
    together = f" {' '.join(stem(word) for word in folded.split())} " in request.stemmed
    return Support(0.8 if together else 0.4, "folded")


def _initials(value: str, request: RequestText) -> Support:
    """`F1` for Formula 1, `NYC`, or a short form such as `lib` for library."""
    short = "".join(words(value))
    if not 1 < len(short) <= 5:
        return _NONE
    letters = "".join(word if word.isdigit() else word[0] for word in request.spaced.split())
    if short in letters:
        return Support(0.6, "derived")
    begun = len(short) > 2 and f" {short}" in request.spaced
    return Support(0.6, "derived") if begun else _NONE


def _short_form(value: str, request: RequestText) -> Support:
    """`USD` for bucks, `kg` for kilos."""
    short = fold(value.strip())
    if len(short) > 5:
        return _NONE
    said = request.spaced.split()
    money = any(CURRENCY_WORDS.get(word, "").lower() == short for word in said)
    sign = any(isinstance(one, Said) and one.unit.lower() == short for one in request.found)
    unit = any(word in said for word in _UNITS.get(short, ()))
    named = money or sign or unit or says_currency(value.strip(), request.spaced)
    return Support(0.8, "derived") if named else _NONE


def _choice(value: str, schema: Mapping[str, Any], request: RequestText) -> Support:
    """A choice by its own words, its short form, or the words beside it in the description."""
    own = " ".join(name_words(value))
    direct = _string(own, request) if own else _NONE
    if direct.score >= 0.6:
        return Support(direct.score, "enum")
    root = stem(own)[:5]
    if len(root) >= 4 and any(word.startswith(root) for word in request.stems):
        return Support(0.75, "enum")
    if len(own) <= 2 and any(word.startswith(own) for word in request.spaced.split()):
        return Support(0.55, "enum")
    plain = words(description_of(schema))
    for place in (index for index, word in enumerate(plain) if word == own):
        near = {stem(word) for word in plain[place + 1 : place + 4] if word not in _LITTLE}
        if near & request.stems:
            return Support(0.6, "enum")
    return Support(0.35, "enum")


def _boolean(value: bool, name: str, schema: Mapping[str, Any], request: RequestText) -> Support:
    """Weak evidence only: the parameter's words are said, or for `false` a negation is."""
    switched = switch_said(request.text) if means_on(name, schema) else None
    if switched is not None:
        return Support(0.9 if switched is value else _CONTRADICTED, "boolean")
    own = {stem(word) for word in name_words(name) if len(word) > 2 and word not in _LITTLE}
    more = {stem(word) for word in words(description_of(schema))[:12] if len(word) > 3}
    negated = not value and bool(_NEGATIONS & set(request.spaced.split()))
    if own & request.stems:
        return Support(0.8 if value or negated else 0.5, "boolean")
    if negated or more & request.stems:
        return Support(0.6, "boolean")
    return Support(0.4, "boolean")


def _number_support(value: float, parameter: Wanted, request: RequestText) -> Support:
    """By the numbers said; of a time or a length only the part and unit that is asked for."""
    known = request.numbers.get(float(value), _NONE)
    if parameter.role in ("hour", "minute"):
        part = slice(0, 2) if parameter.role == "hour" else slice(3, 5)
        clocks = _readings(request.found)
        if clocks:
            said = any(int(clock[part]) == value for clock in clocks)
            halves = {int(clock[:2]) % 12 or 12 for clock in clocks}
            twelve = parameter.role == "hour" and value in halves
            return Support(0.95, "derived") if said or twelve else Support(0.1, "none")
    if parameter.role == "duration" and parameter.unit:
        lengths = [one for one in request.found if one.kind == "duration"]
        if any(one.value / SECONDS[parameter.unit] == value for one in lengths):
            return Support(0.95, "derived")
        units = {
            unit_name(number.unit)
            for one in lengths
            for number in find_all_numbers(one.text)
            if number.value == value
        }
        if parameter.unit in units:
            return Support(0.6, "derived")  # 10 for "20 minutes and 10 seconds": perhaps two.
        if not lengths and value == 1 and known.score <= _ARTICLE:
            return Support(0.2, "none")  # 1 for "a timer": that is one timer, of any length.
        if units and len(lengths) == 1:
            return Support(0.2, "none")  # 60 for "sixty minutes" where seconds are wanted.
    if parameter.role == "share" and value > 1:
        return Support(min(known.score, 0.25), "none")
    return known


def _form_support(
    value: str, name: str, schema: Mapping[str, Any], request: RequestText
) -> Support | None:
    """Where the description asks for a form of date: is it one said, in that form?"""
    parameter = wanted(name, schema)
    if parameter.role != "date" or "yyyy" not in parameter.form:
        return None
    dates = [one for one in request.found if one.kind == "date"]
    full = {str(one.value) for one in dates if _ISO_DATE.fullmatch(str(one.value))}
    full |= {str(day) for kind, day in _alternatives(dates) if kind == "date"}
    if value in {written_date(day, parameter.form) for day in full}:
        return Support(0.95, "derived")
    written_out = any(letter.isalpha() for letter in value)
    if full and len(full) == len(dates) and not written_out and value not in request.text:
        return Support(0.2, "none")
    return None


def _typed_support(value: str, request: RequestText) -> Support:
    """A date, time, length or number written in another form than the request's."""
    if len(value) > _LONGEST_TYPED or not any(letter.isdigit() for letter in value):
        return _word_numbers(value, request)
    compact = _COMPACT_DATE.fullmatch(value.strip())
    inside = find_values("-".join(compact.groups()) if compact else value)
    if not inside or value in _lengths(request):
        return Support(0.95, "derived") if inside else _NONE
    said = {(one.kind, one.value) for one in request.found} | _alternatives(request.found)
    scores = []
    for one in inside:
        if (one.kind, one.value) in said or _alternatives([one]) & said:
            scores.append(0.95)
        elif one.kind == "date":
            scores.append(_without_year(str(one.value), request))
        elif one.kind in ("number", "percent", "money", "duration"):
            known = request.numbers.get(float(one.value))
            scores.append(0.9 * known.score if known else 0.0)
        elif one.kind == "datetime":
            scores.append(_moment(str(one.value), said))
        else:
            scores.append(0.95 if spaced(str(one.value)) in request.spaced else 0.0)
    rest = value
    for one in inside:
        rest = rest.replace(one.text, " ", 1)
    left = [word for word in words(rest) if len(word) > 2]
    if left and not all(stem(word) in request.stems for word in left):
        scores.append(0.4)
    worst = min(scores)
    return Support(worst, "derived" if worst > 0 else "none")


def _lengths(request: RequestText) -> set[str]:
    """The lengths of time that are said, as `PT5M`."""
    return {iso_duration(one.value) for one in request.found if one.kind == "duration"}


def _without_year(value: str, request: RequestText) -> float:
    """Support for 2026-03-22 by "March 22", or by "tomorrow", whose date the words cannot tell."""
    if not _ISO_DATE.fullmatch(value):
        return 0.0
    best = 0.0
    for one in request.found:
        if one.kind != "date" or _ISO_DATE.fullmatch(str(one.value)):
            continue
        dated = next(find_dates(f"{one.text} {value[:4]}"), None)
        if dated and dated.value == value:
            return 0.8
        if int(value[8:]) in request.numbers and dated and str(dated.value)[:7] == value[:7]:
            best = max(best, 0.6)  # The 23 of "March 20 to 23".
        relative = not any(letter.isdigit() for letter in one.text)
        best = max(best, 0.4 if relative else 0.0)
    return best


def _word_numbers(value: str, request: RequestText) -> Support:
    """`fifteen` where the request says 15."""
    inside = find_all_numbers(value) if len(value) <= _LONGEST_TYPED else []
    if len(inside) == 1 and inside[0].text == value.strip():
        return request.numbers.get(float(inside[0].value), _NONE)
    return _NONE


def _moment(value: str, said: set[tuple[str, Any]]) -> float:
    day, _, clock = value.partition("T")
    if ("time", clock[:5]) not in said and clock[:5] != "00:00":
        return 0.0
    return 0.9 if ("date", day) in said else 0.6


def _readings(found: Iterable[Found]) -> set[str]:
    """Each time said, and the other half of the day where the words leave it open."""
    times = [one for one in found if one.kind == "time"]
    also = {str(value) for kind, value in _alternatives(times) if kind == "time"}
    return {str(one.value) for one in times} | also


def _alternatives(found: Iterable[Found]) -> set[tuple[str, Any]]:
    """Other readings: 3/4/2025 day first, "at 7" in the evening, 07:30 with its seconds."""
    also: set[tuple[str, Any]] = set()
    for one in found:
        unit = one.unit if isinstance(one, Said) else ""
        if one.kind == "date" and unit == "?":
            year, month, day = one.value.split("-")
            also.add(("date", f"{year}-{day}-{month}"))
        if one.kind == "time":
            hour = int(one.value[:2])
            also.add(("time", f"{one.value}:00"))
            if not unit and hour <= 12:
                also.add(("time", f"{(hour + 12) % 24:02}{one.value[2:]}"))
        if one.kind == "datetime":
            also |= {("date", one.value[:10]), ("time", one.value[11:16])}
    return also


# At least this sure, and this far before the next best, is a clear candidate.
CLEAR = 0.6
MARGIN = 0.2
_NEAR = 24
# Words of a request that are compared with a misspelt value.
MOST_WORDS = 2000
_LONGEST_COPY = 200
_CONTENT = re.compile(
    r"(?:\b(?:saying|says|say|stating|reading|telling (?:him|her|them))\b(?:\s+that\b)?|"
    r"\bthat\b(?=\s+(?:i|i'm|i'll|we|he|she|they|it|the|my|our|you)\b)|:)\s*(?P<content>\S[^\n]*)",
    re.IGNORECASE,
)
_TITLED = re.compile(
    r"\b(?:called|named|titled|entitled|labelled|labeled)\s+(?P<content>[^,.;!?\n]+)"
)
_ON = re.compile(r"\b(?:on|yes|enable|enabled|true|activate)\b", re.IGNORECASE)
_OFF = re.compile(
    r"\b(?:off|no|not|without|disable|disabled|false|deactivate|don't)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A value of the right type, where the request says it, and how likely it is meant."""

    value: Any
    start: int
    end: int
    score: float


def candidates(
    name: str,
    schema: Mapping[str, Any],
    request: str,
    found: Iterable[Found],
    siblings: Iterable[str] = (),
) -> list[Candidate]:
    """Values for one parameter, best first. `siblings` are the tool's other parameters."""
    parameter = wanted(name, schema)
    read = _BY_ROLE.get(parameter.role)
    if read is None:
        return []
    listed = list(read(parameter, request, tuple(found), frozenset(siblings)))
    named = [_named(one, parameter, request) for one in listed]
    fitting = [one for one in named if _fits(one.value, parameter, schema)]
    return sorted(fitting, key=lambda one: (-one.score, one.start))


def clear_candidate(listed: Sequence[Candidate]) -> Candidate | None:
    """The one that stands out: sure enough, and no other value comes near."""
    if not listed or listed[0].score < CLEAR:
        return None
    best = listed[0]
    others = [one.score for one in listed if one.value != best.value]
    return best if not others or max(others) <= best.score - MARGIN else None


def free_candidate(
    name: str,
    schema: Mapping[str, Any],
    request: RequestText,
    taken: Mapping[str, Any],
    fields: Mapping[str, Any],
) -> Candidate | None:
    """The clear candidate whose words no other argument of the call uses."""
    listed = candidates(
        name, schema, request.text, request.found, [one for one in fields if one != name]
    )
    used = (
        _used(taken.values(), request)
        if wanted(name, schema).role not in ("hour", "minute")
        else []
    )
    free = [one for one in listed if not any(a < one.end and one.start < b for a, b in used)]
    return clear_candidate(free)


def _used(values: Iterable[Any], request: RequestText) -> list[tuple[int, int]]:
    """Where the request says what other arguments hold already."""
    spans = []
    for value in values:
        if isinstance(value, str) and value:
            place = request.text.find(value)
            if place >= 0:
                spans.append((place, place + len(value)))
        elif isinstance(value, list):
            spans += _used(value, request)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            spans += [(one.start, one.end) for one in request.found if one.value == value]
    return spans


def written_alike(value: Any, request: RequestText) -> Any:
    """The one thing in the request that is written nearly like the value, or None."""
    if isinstance(value, int | float):
        return _number_alike(value, request)
    if not isinstance(value, str) or not 4 <= len(value) <= _LONGEST_COPY:
        return None
    wanted_text = fold(value)
    limit = 1 if len(value) < 6 else 2 if len(value) < 9 else 3
    spans = [match.span() for match in WORD.finditer(request.text)][:MOST_WORDS]
    length = len(WORD.findall(value)) or 1
    best: dict[str, int] = {}
    for count in {max(1, length - 1), length, length + 1}:
        for index in range(len(spans) - count + 1):
            said = request.text[spans[index][0] : spans[index + count - 1][1]]
            if abs(len(said) - len(value)) <= limit:
                cost = edits(wanted_text, fold(said), limit)
                if cost <= limit:
                    best[said] = cost
    nearest = [said for said, cost in best.items() if cost == min(best.values())]
    return nearest[0] if len(nearest) == 1 else None


def _number_alike(value: float, request: RequestText) -> Any:
    """A number said whose digits differ by dropped or doubled zeros, or by one digit."""
    digits = _digits(value)
    said = {one.value for one in request.found if one.kind in ("number", "money", "percent")}
    alike = []
    for one in said:
        other = _digits(one)
        zeros = len(other) > 2 and other.rstrip("0") == digits.rstrip("0")
        if zeros or (len(digits) > 3 and edits(digits, other, 1) == 1):
            alike.append(one)
    if len(alike) != 1 or (isinstance(value, int) and isinstance(alike[0], float)):
        return None
    return alike[0]


def _digits(value: float) -> str:
    return f"{value:.12g}".replace(".", "").lstrip("-0")


def _named(one: Candidate, parameter: Wanted, request: str) -> Candidate:
    """More likely where the parameter's own name stands right beside it: "policy number 52"."""
    own = {stem(word) for word in name_words(parameter.name) if len(word) > 2}
    before = [root for root, _, _ in tokens(request[max(0, one.start - _NEAR) : one.start])]
    for place in reversed(range(max(0, len(before) - 3), len(before))):
        if _is_number(before[place]):
            break  # The name belongs to the number before: "policy number 52, 3 people".
        if before[place] in own:
            # "167 dismissals off 432 balls": here too.
            counted = place > 0 and _is_number(before[place - 1])
            return one if counted else replace(one, score=min(1.0, one.score + 0.3))
    return one


def _is_number(word: str) -> bool:
    return word[:1].isdigit() or word in ONES


def _fits(value: Any, parameter: Wanted, schema: Mapping[str, Any]) -> bool:
    if parameter.type == "int" and isinstance(value, float):
        return False
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema.get("minimum"), schema.get("maximum")
        if isinstance(low, int | float) and value < low:
            return False
        return not (isinstance(high, int | float) and value > high)
    return True


_Reader = Callable[[Wanted, str, tuple[Found, ...], frozenset[str]], Iterator[Candidate]]


def _from(one: Found, value: Any, score: float) -> Candidate:
    return Candidate(value, one.start, one.end, score)


def _unit_said(one: Found) -> str:
    return one.unit if isinstance(one, Said) else ""


def _clock(
    parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
) -> Iterator[Candidate]:
    halves = {"am", "pm", "ampm", "meridiem", "period"}
    twelve = parameter.form == "12" or any(halves & set(name_words(one)) for one in siblings)
    for one in found:
        if one.kind == "time":
            hour, minute = int(one.value[:2]), int(one.value[3:5])
            hour = (hour % 12 or 12) if twelve else hour
            yield _from(one, hour if parameter.role == "hour" else minute, 0.9)


def _time(
    parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
) -> Iterator[Candidate]:
    for one in found:
        if one.kind == "time":
            yield _from(
                one, one.value if parameter.form and parameter.form != "12" else one.text, 0.9
            )


def _date(
    parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
) -> Iterator[Candidate]:
    for one in found:
        if one.kind != "date":
            continue
        full = bool(_ISO_DATE.fullmatch(str(one.value)))
        if parameter.form and full:
            yield _from(one, written_date(one.value, parameter.form), 0.9)
        elif not parameter.form:
            yield _from(one, one.text, 0.9)


def _duration(
    parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
) -> Iterator[Candidate]:
    for one in found:
        if one.kind == "duration":
            unit = parameter.unit or _unit_said(one)
            amount = whole(one.value / SECONDS[unit])
            said = iso_duration(one.value) if parameter.form == "iso" else one.text
            yield _from(one, said if parameter.type == "str" else amount, 0.9)
        elif one.kind == "number" and parameter.type != "str":
            yield _from(one, one.value, 0.4)


def _number(
    parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
) -> Iterator[Candidate]:
    """Numbers, the likelier the closer their unit is to the parameter's words."""
    best = {"percent": "percent", "share": "percent", "money": "money"}.get(
        parameter.role, "number"
    )
    numbers = [one for one in found if one.kind in ("number", "money", "percent")]
    alone = len(numbers) == 1
    for one in numbers:
        value = one.value
        if parameter.role == "share" and one.kind == "percent":
            value = whole(value / 100)
        score = 0.3 if one.kind != best else 0.5 if best == "number" else 0.7
        score += 0.2 if alone else 0.0
        if stem(_unit_said(one)) in parameter.words:
            score += 0.3
        yield _from(one, value, score)


def _text(
    parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
) -> Iterator[Candidate]:
    """Quoted text first; then what follows `called`, and names at a lower score."""
    for one in found:
        if one.kind == "quoted":
            yield _from(one, one.value, 0.8)
        elif one.kind in ("name", "place", "code"):
            yield _from(one, one.value, 0.25)
    for match in _TITLED.finditer(request):
        content = match["content"].strip(" \"'")
        yield Candidate(content, match.start("content"), match.end("content"), 0.6)


def _message(
    parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
) -> Iterator[Candidate]:
    quoted = [one for one in found if one.kind == "quoted"]
    for one in quoted:
        yield _from(one, one.value, 0.95)
    match = None if quoted else _CONTENT.search(request)
    if match:
        content = match["content"].rstrip(" .")
        start = match.start("content")
        yield Candidate(content, start, start + len(content), 0.7)


def _kinds(**scores: float) -> _Reader:
    def read(
        parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
    ) -> Iterator[Candidate]:
        for one in found:
            if one.kind in scores:
                yield _from(one, one.value, scores[one.kind])

    return read


def _choices(
    parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
) -> Iterator[Candidate]:
    among = tokens(request)
    for choice in parameter.choices:
        own = " ".join(name_words(str(choice)))
        place = locate(own, among) if len(own) > 1 else None
        if place:
            yield Candidate(choice, *place, 0.9)


def _switch(
    parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
) -> Iterator[Candidate]:
    among = tokens(request)
    for word in name_words(parameter.name):
        place = locate(word, among) if len(word) > 2 else None
        if place:
            near = request[max(0, place[0] - _NEAR) : place[1] + _NEAR]
            off, on = bool(_OFF.search(near)), bool(_ON.search(near))
            if off != on:
                yield Candidate(on, *place, 0.7)
            return


_BY_ROLE: dict[str, _Reader] = {
    "hour": _clock, "minute": _clock, "time": _time, "date": _date, "duration": _duration,
    "percent": _number, "share": _number, "money": _number, "number": _number, "year": _number,
    "text": _text, "message": _message, "choice": _choices, "switch": _switch,
    "person": _kinds(name=0.7, email=0.4, place=0.4), "place": _kinds(place=0.8, name=0.5),
    "email": _kinds(email=0.9), "url": _kinds(url=0.9), "code": _kinds(code=0.8, quoted=0.6),
    "datetime": _kinds(datetime=0.9),
}  # fmt: skip
