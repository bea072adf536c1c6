"""What a parameter wants: read from its schema, name and description."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from edgewise.calls.schema import TYPE_NAMES, Kind, definitions_of, options_of
from edgewise.calls.schema import resolve as follow
from edgewise.calls.values.times import unit_name
from edgewise.calls.values.words import name_words, spaced, stem, words
from edgewise.types.messages import Tool

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
class Form:
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


def moment_form(name: str, schema: Mapping[str, Any]) -> Form | None:
    """The form a string parameter asks for by its format, its description or its examples."""
    description = description_of(schema)
    if "enum" in schema or wanted(name, schema).type not in ("str", "any"):
        return None
    if schema.get("format") == "date-time":
        return Form("yyyy-mm-dd", "hh:mm:ss", "T")
    if schema.get("format") == "date":
        return Form("yyyy-mm-dd")
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

    Objects are gone through, and named by the argument that holds them. Lists are left alone.
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
        instead = better(str(name), field, value)
        if instead is not None and (type(instead) is not type(value) or instead != value):
            found[name] = instead
    return found


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
    named = _NAMED_FORM.search(description)
    if schema.get("format") == "date" or (named and named["iso"]):
        return "yyyy-mm-dd"
    if not named:
        return ""
    return "hh:mm" if named["day"] else "12"


def _from_template(match: re.Match[str], half: bool, stated: bool) -> Form:
    date = (match["date"] or "").lower()
    clock = (match["clock"] or match["time"] or "").lower()
    if match["gap"] is None and not match["time"]:
        return Form(date, stated=stated)
    twelve = half or re.search(r"a[m.]|\ba$", clock)
    time = "h:mm pm" if twelve else "hh:mm:ss" if clock.endswith(":ss") else "hh:mm"
    gap = (match["gap"] or " ").strip("'")
    return Form(date, time, gap.upper(), (match["zone"] or "").upper(), stated)


def _named_moment(name: str, description: str) -> Form | None:
    """`ISO date`, `ISO 8601 datetime`, `24-hour`."""
    own = " ".join(name_words(name))
    if _ISO.search(description):
        if _DATE_TIME.search(description) or _DATE_TIME.search(own):
            sample = _samples(description)
            return sample if sample and sample.time else Form("yyyy-mm-dd", "hh:mm:ss", "T")
        dated = re.search(r"\b(?:date|day)\b", f"{description} {own}", re.IGNORECASE)
        timed = re.search(r"\btimes?\b", f"{description} {own}", re.IGNORECASE)
        return Form("yyyy-mm-dd") if dated and not timed else None
    if wanted(name, {"type": "string", "description": description}).role != "time":
        return None
    if _DAY.search(description):
        return Form(time="hh:mm")
    return Form(time="h:mm pm") if _HALF.search(description) else None


def _from_samples(description: str, schema: Mapping[str, Any]) -> Form | None:
    """From what stands after `e.g.`, if all samples of a moment are written alike."""
    cue = EXAMPLE.search(description)
    listed = schema.get("examples")
    shown = description[cue.start() :] if cue else ""
    return _samples(" | ".join((shown, *map(str, listed if isinstance(listed, list) else ()))))


def _samples(text: str) -> Form | None:
    forms = {_from_sample(match) for match in _SAMPLE.finditer(text)}
    return forms.pop() if len(forms) == 1 else None


def _from_sample(match: re.Match[str]) -> Form:
    if match["date"]:
        clock = match["clock"] or ""
        time = "hh:mm:ss" if clock.count(":") == 2 else "hh:mm" if clock else ""
        return Form("yyyy-mm-dd", time, match["gap"] or " ", match["zone"] or "", stated=False)
    return Form(time="h:mm pm" if match["half"] else "hh:mm", stated=False)


def _written_clock(clock: str, form: str) -> str:
    hour, minute, second = (*clock.split(":"), "00")[:3]
    if form == "h:mm pm":
        return f"{int(hour) % 12 or 12}:{minute} {'PM' if int(hour) >= 12 else 'AM'}"
    return f"{hour}:{minute}:{second}" if form == "hh:mm:ss" else f"{hour}:{minute}"
