"""Brings a call, whoever wrote it, to its schema and to the request's words.

A step takes the arguments and returns them with the codes of what it changed: `CODE:ARGUMENT`."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from edgewise.calls.schema import (
    MOST_WORDS,
    UNGROUNDED,
    Arguments,
    Template,
    description_of,
    free_candidate,
    ground,
    listed_choice,
    moment_form,
    nested_parameters,
    parameters,
    required,
    resolve,
    revise,
    support,
    wanted,
    written_alike,
)
from edgewise.calls.values.numbers import Said
from edgewise.calls.values.text import RequestText, find_values
from edgewise.calls.values.times import day_meant, has_format, iso_duration, month_and_day
from edgewise.calls.values.words import WORD, name_words, spaced
from edgewise.grammar.check import validate
from edgewise.types.messages import Tool, ToolCall
from edgewise.types.replies import Found

Changed = tuple[Arguments, tuple[str, ...]]
_Step = Callable[[Arguments, Tool, RequestText], Changed]

_DAY_PARTS = ("evening", "afternoon", "night", "tonight", "dinner", "pm")
_DEEPEST = 4
_MOMENTS = ("time", "date", "datetime")
_TYPED = (*_MOMENTS, "duration", "email", "url")
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_FORMATS = ("date", "time", "date-time", "duration")
_LONGEST_MOMENT = 60
# What may stand between the times and dates of a value without meaning anything else.
_BETWEEN = re.compile(r"(?:[\s,.;:()\u2013\u2014-]|\b(?:at|on|from|to|until|till|and|the|for)\b)*")
_FIRST = frozenset({"start", "starts", "begin", "begins", "from", "starting", "beginning"})
_LAST = frozenset({"end", "ends", "finish", "until", "till", "to", "ending", "stop"})
# "the rent since March 3", "born on 4 May": the day is behind us.
_BEHIND = frozenset({"birth", "birthday", "birthdate", "born", "since", "dob", "past", "history"})


def normalize(
    call: ToolCall,
    tool: Tool | None,
    request: RequestText,
    *,
    whole: RequestText | None = None,
    today: datetime.date | None = None,
) -> ToolCall:
    """The call as it will be run, with the codes of what was changed and what is still wrong.

    `whole` is the request that `request` is a part of: what it says elsewhere is not made up.
    Without `today`, days that are named without a year stay as they are. `repair` has brought the
    values to their types before. Calls of the device and of the cloud are brought to the same
    forms, so that they can be compared and merged. Only the device's values are doubted for what
    the request does not say: a large model knows more than the words.
    """
    if tool is None:
        return replace(call, complaints=("unknown_tool",))
    arguments = call.arguments
    repairs = list(call.repairs)
    steps: tuple[_Step, ...] = (write_moments, as_said)
    if call.source != "cloud":
        steps = (  # a value is brought to its form before it is judged, and dropped last
            write_moments,
            lambda arguments, tool, request: date_moments(arguments, tool, request, today),
            lambda arguments, tool, request: prefer_grounded(arguments, tool, request, whole),
            fill_missing,
            as_said,
            plain_hours,
            lambda arguments, tool, request: drop_made_up(arguments, tool, request, whole),
        )
    for step in steps:
        arguments, changes = step(arguments, tool, request)
        repairs += changes
    complaints = [complaint.code for complaint in validate(call.name, arguments, tool)]
    if _misformed(arguments, tool):
        complaints.append("wrong_type")
    if ground(arguments, tool, request).ungrounded:
        complaints.append("ungrounded")
    return replace(
        call,
        arguments=arguments,
        repairs=tuple(dict.fromkeys(repairs)),
        complaints=tuple(dict.fromkeys(complaints)),
    )


def write_moments(arguments: Arguments, tool: Tool, request: RequestText) -> Changed:
    """Dates and times in the form asked for: `2026-03-01 14:00` for `2pm`. `written:ARGUMENT`.

    Only a value that is not in the form yet is touched, and only where it says one moment.
    """

    def better(name: str, schema: Mapping[str, Any], value: Any) -> Any:
        if schema.get("format") == "duration" and isinstance(value, str):
            return _written_length(value)
        form = _form_for(name, schema, value)
        if form is None or form.holds(value) or _in_format(value, schema):
            return None
        return _written(name, value, form, request)

    return revise(arguments, tool, "written", better)


def _in_format(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether it is the date, time or length of time that the schema's `format` names."""
    named = schema.get("format")
    known = isinstance(named, str) and isinstance(value, str)
    return known and named in _FORMATS and has_format(value, named)


def _written_length(value: str) -> str | None:
    """`PT5M` for `five minutes`; None where the words say something else too."""
    lengths = [one for one in find_values(value) if one.kind == "duration"]
    if len(lengths) != 1 or not _nothing_else(value, lengths):
        return None
    return iso_duration(lengths[0].value)


def _misformed(arguments: Arguments, tool: Tool) -> bool:
    """Whether a text is not the date, time or length of time that its `format` names."""

    def wrong(name: str, schema: Mapping[str, Any], value: Any) -> Any:
        named = schema.get("format")
        text = isinstance(value, str) and "enum" not in schema
        return f"{value}?" if text and named in _FORMATS and not has_format(value, named) else None

    return bool(revise(arguments, tool, "", wrong)[1])


def date_moments(
    arguments: Arguments, tool: Tool, request: RequestText, today: datetime.date | None
) -> Changed:
    """Days that need today's date to be known: `March 16`, `tomorrow`. Named `dated:ARGUMENT`.

    No model knows today's date: a year that the request does not say is made up.
    """
    if today is None:
        return arguments, ()
    day = today

    def better(name: str, schema: Mapping[str, Any], value: Any) -> Any:
        form = _form_for(name, schema, value)
        told = {*name_words(name), *name_words(description_of(schema))}
        if form is None or not form.date or _BEHIND & told:
            return None
        return _dated(value, form, request, day)

    return revise(arguments, tool, "dated", better)


def _form_for(name: str, schema: Mapping[str, Any], value: Any) -> Template | None:
    if not isinstance(value, str) or not 0 < len(value.strip()) <= _LONGEST_MOMENT:
        return None
    return moment_form(name, schema)


def _written(name: str, value: str, form: Template, request: RequestText) -> str | None:
    inside = find_values(value)
    parts = [one for one in inside if one.kind in ("time", "date", "datetime")]
    if not parts or not (_nothing_else(value, parts) or value.strip() in request.text):
        return None
    clock = _clock(name, parts, request)
    if form.time and clock is None:
        return None
    if not form.date:
        return form.write("", clock or "") if _wanted_so(form, value, parts) else None
    day = _day(parts) or (_day_before(clock or "", request) if form.time else None)
    if day is None or not (form.stated or form.time):
        return None
    return form.write(day, clock or "")


def _wanted_so(form: Template, value: str, parts: Sequence[Found]) -> bool:
    """A form that only an example shows binds no more than this: `5 PM` has no minutes."""
    return form.stated or (
        form.time == "h:mm pm"
        and len(parts) == 1
        and bool(re.fullmatch(r"\d{1,2}\s?[AP]M", value.strip(), re.IGNORECASE))
    )


def _nothing_else(value: str, parts: Sequence[Found]) -> bool:
    rest = value
    for one in parts:
        rest = rest.replace(one.text, " ", 1)
    return bool(_BETWEEN.fullmatch(rest))


def _clock(name: str, parts: Sequence[Found], request: RequestText) -> str | None:
    """The one time of day, or that end of a range which the parameter's name asks for."""
    sure = [(one, _sure_clock(one, request)) for one in parts if one.kind != "date"]
    if not sure or any(clock is None for _, clock in sure):
        return None
    own = set(name_words(name))
    if len(sure) == 1:
        return sure[0][1]
    if len(sure) == 2 and bool(own & _FIRST) != bool(own & _LAST):
        return sure[0][1] if own & _FIRST else sure[1][1]
    return None


def _sure_clock(one: Found, request: RequestText) -> str | None:
    """`14:00` where no other half of the day can be meant."""
    if one.kind == "datetime":
        return str(one.value)[11:19].rstrip("Z+-") if len(str(one.value)) <= 20 else None
    unit = one.unit if isinstance(one, Said) else ""
    clock = str(one.value)
    if unit or re.match(r"(?:0\d|1[0-2]):\d\d", one.text):
        return clock
    # "7:30" of "tonight at 7:30": the request's words tell the half of the day.
    said = [other for other in request.found if other.kind == "time" and other.text == one.text]
    units = {other.unit for other in said if isinstance(other, Said)}
    values = {str(other.value) for other in said}
    return values.pop() if len(values) == 1 and units and "" not in units else None


def _day(parts: Sequence[Found]) -> str | None:
    days = {_full_day(one) for one in parts if one.kind != "time"}
    return days.pop() if len(days) == 1 else None


def _full_day(one: Found) -> str | None:
    """`2026-03-01` of a date with its year; 3/4/2025 may be two days."""
    text = str(one.value)[:10]
    unsure = isinstance(one, Said) and one.kind == "date" and one.unit == "?"
    return text if _ISO_DATE.fullmatch(text) and not unsure else None


def _day_before(clock: str, request: RequestText) -> str | None:
    """The request's only date, or the last that stands before the only place of this time."""
    dated = [one for one in request.found if one.kind in ("date", "datetime")]
    days = [_full_day(one) for one in dated]
    if len(set(days)) == 1:
        return days[0]
    places = [one.start for one in request.found if _at(one) == clock[:5]]
    if len(places) != 1:
        return None
    before = [day for one, day in zip(dated, days, strict=True) if one.start <= places[0]]
    return before[-1] if before else None


def _at(one: Found) -> str:
    text = str(one.value)
    return text[:5] if one.kind == "time" else text[11:16] if one.kind == "datetime" else ""


def _dated(value: str, form: Template, request: RequestText, today: datetime.date) -> str | None:
    """The value with a day that the request names without its year."""
    parts = find_values(value)
    full = _day(parts)
    said = [one for one in request.found if one.kind in ("date", "datetime")]
    if full and any(_full_day(one) == full for one in said):
        return None
    clock = _clock("", parts, request)
    if (form.time and clock is None) or not (form.stated or form.time or form.holds(value)):
        return None
    if full:
        meant = _instead(full, said, today)
    else:
        days = [one.text for one in parts if one.kind == "date"]
        days = days or [one.text for one in said if form.time]
        rest_said = _nothing_else(value, [one for one in parts if one.kind in ("date", "time")])
        meant = day_meant(days[0], today) if len(days) == 1 and rest_said else None
    return form.write(meant.isoformat(), clock or "") if meant else None


def _instead(full: str, said: Sequence[Found], today: datetime.date) -> datetime.date | None:
    """For a date with a made-up year: the said day that it stands for."""
    month, day = int(full[5:7]), int(full[8:])
    for one in said:
        if month_and_day(one.text) == (month, day):
            return day_meant(one.text, today)
    relative = [one for one in said if _full_day(one) is None]
    if len(said) == 1 and relative and month_and_day(relative[0].text) is None:
        return day_meant(relative[0].text, today)
    return None


def prefer_grounded(
    arguments: Arguments, tool: Tool, request: RequestText, whole: RequestText | None = None
) -> Changed:
    """Made-up values replaced by what the request says, where that is one thing.

    A value that the request supports is never touched. `whole` is all that was asked for, where
    `request` is one part of it: what another part says is not made up. Changes are named
    `grounded:ARGUMENT`.
    """
    fields = parameters(tool.parameters)
    found = dict(arguments)
    changes = []
    for name, value in arguments.items():
        others = {key: other for key, other in found.items() if key != name}
        if whole and _said(value, name, fields.get(name, {}), tool, whole) >= UNGROUNDED:
            continue
        better = _better(
            value, name, fields.get(name, {}), tool.parameters, request, others, fields
        )
        if better is not None and better != value:
            found[name] = better
            changes.append(f"grounded:{name}")
    return (found, tuple(changes)) if changes else (arguments, ())


def _said(
    value: Any, name: str, schema: Mapping[str, Any], tool: Tool, request: RequestText
) -> float:
    return support(value, name, schema, tool.parameters, request).score


def _better(
    value: Any,
    name: str,
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    request: RequestText,
    others: Mapping[str, Any],
    fields: Mapping[str, Any],
    depth: int = 0,
) -> Any:
    """A supported value in place of this one; None to leave it."""
    if isinstance(value, bool) or value is None or depth > _DEEPEST:
        return None
    if isinstance(value, Mapping):
        inner = nested_parameters(schema, root)
        return _better_object(value, inner, root, request, depth)
    known = support(value, name, schema, root, request)
    if isinstance(value, list):
        return (
            None if known.score >= UNGROUNDED else _better_list(value, name, schema, root, request)
        )
    choices = schema.get("enum")
    if known.score >= UNGROUNDED or (isinstance(choices, list | tuple) and value in choices):
        return None  # A choice says more than its own words: "half online, half on site".
    return _replacement(value, name, schema, request, others, fields)


def _better_object(
    value: Mapping[str, Any],
    fields: Mapping[str, Mapping[str, Any]],
    root: Mapping[str, Any],
    request: RequestText,
    depth: int,
) -> Any:
    changed = dict(value)
    for key, inner in value.items():
        others = {one: other for one, other in changed.items() if one != key}
        schema = fields.get(str(key), {})
        better = _better(inner, str(key), schema, root, request, others, fields, depth + 1)
        if better is not None:
            changed[key] = better
    return changed if changed != dict(value) else None


def _better_list(
    value: list[Any],
    name: str,
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    request: RequestText,
) -> Any:
    """Items set right one by one, by what is written nearly like them."""
    items = resolve(schema.get("items"), root)
    changed = []
    for item in value:
        known = support(item, name, items, root, request)
        near = written_alike(item, request) if known.score < UNGROUNDED else None
        changed.append(item if near is None else near)
    return changed if changed != value else None


def _replacement(
    value: Any,
    name: str,
    schema: Mapping[str, Any],
    request: RequestText,
    others: Mapping[str, Any],
    fields: Mapping[str, Any],
) -> Any:
    number = isinstance(value, int | float)
    best = None
    # Of names and sentences the form says too little about what was meant.
    if number or wanted(name, schema).role in _TYPED:
        best = free_candidate(name, schema, request, others, fields)
    if best is not None and not number:
        return best.value
    near = written_alike(value, request)
    return best.value if near is None and best is not None else near


def fill_missing(arguments: Arguments, tool: Tool, request: RequestText) -> Changed:
    """Absent required arguments filled, where the request leaves one choice: `filled:ARGUMENT`."""
    fields = parameters(tool.parameters)
    found = dict(arguments)
    filled = []
    for name in required(tool.parameters):
        if name in found:
            continue
        best = free_candidate(name, fields[name], request, found, fields)
        if best is not None:
            found[name] = best.value
            filled.append(name)
    if not filled:
        return arguments, ()
    order = dict.fromkeys([*(name for name in fields if name in found), *found])
    return {name: found[name] for name in order}, tuple(f"filled:{name}" for name in filled)


def as_said(arguments: Arguments, tool: Tool, request: RequestText) -> Changed:
    """Free text in the case, accents and marks of the request: `oslo` is `Oslo` if it says so.

    Choices and values of a given form keep the schema's spelling, and `carbon_monoxide` is meant to
    be a name. Spaces are not a spelling. Changes: `as_said:ARGUMENT`.
    """
    fields = parameters(tool.parameters)
    found = dict(arguments)
    changes = []
    for name, value in arguments.items():
        schema = fields.get(name, {})
        if not isinstance(value, str) or value.strip() in request.text:
            continue
        if "enum" in schema or wanted(name, schema).form or listed_choice(value, schema):
            continue
        form = moment_form(name, schema)
        if wanted(name, schema).role in _MOMENTS or (form is not None and form.holds(value)):
            continue  # `2:40 AM` as the example has it, though the request has 2.40 am.
        said = _spelled(value, request)
        if said is not None and said != value and not ("_" in value and " " in said):
            found[name] = said
            changes.append(f"as_said:{name}")
    return (found, tuple(changes)) if changes else (arguments, ())


def _spelled(value: str, request: RequestText) -> str | None:
    """The request's own spelling of the same words; None where it has none, or several."""
    if spaced(value) == " " or spaced(value) not in request.spaced:
        return None
    spans = [match.span() for match in WORD.finditer(request.text)][:MOST_WORDS]
    count = len(WORD.findall(value))
    found = set()
    for index in range(len(spans) - count + 1):
        said = request.text[spans[index][0] : spans[index + count - 1][1]]
        if len(said) <= len(value) + 8 and spaced(said) == spaced(value):
            found.add(" ".join(said.split()))
    return found.pop() if len(found) == 1 else None


def plain_hours(arguments: Arguments, tool: Tool, request: RequestText) -> Changed:
    """`6` for `18` where "half past six" is all that was said. Named `as_said:ARGUMENT`.

    Only whole numbers of a parameter that is named after hours; text keeps the model's reading.
    """
    open_hours = {
        int(one.value[:2])
        for one in request.found
        if isinstance(one, Said) and one.kind == "time" and not one.unit
    }
    if not open_hours or any(f" {part} " in f" {request.spaced} " for part in _DAY_PARTS):
        return arguments, ()
    certain = {
        int(one.value[:2])
        for one in request.found
        if isinstance(one, Said) and one.kind == "time" and one.unit
    }

    def better(name: str, schema: Mapping[str, Any], value: Any) -> Any:
        whole_hour = isinstance(value, int) and not isinstance(value, bool) and 12 <= value <= 23
        if not whole_hour or "hour" not in {word.rstrip("s") for word in name_words(name)}:
            return None
        if value in certain or value - 12 not in open_hours:
            return None
        return value - 12

    return revise(arguments, tool, "as_said", better)


def drop_made_up(
    arguments: Arguments, tool: Tool, request: RequestText, whole: RequestText | None = None
) -> Changed:
    """Optional arguments left out that nothing in the request, nor in the whole, supports.

    The function model is trained by the same rule. Named `dropped:ARGUMENT`.
    """
    kept_names = set(required(tool.parameters))
    if whole is not None:
        told = ground(arguments, tool, whole).ungrounded
        kept_names |= {name for name in arguments if name not in told}
    made_up = [
        name for name in ground(arguments, tool, request).ungrounded if name not in kept_names
    ]
    kept = {name: value for name, value in arguments.items() if name not in made_up}
    fields, said = parameters(tool.parameters), whole or request
    inner = {
        name: _without_made_up(value, fields.get(name, {}), tool.parameters, said, 0)
        for name, value in kept.items()
    }
    made_up += [name for name, value in kept.items() if inner[name] is not value]
    if not made_up:
        return arguments, ()
    return inner, tuple(f"dropped:{name}" for name in arguments if name in made_up)


# -- inside objects and lists of them --------------------------------------------------------------


_FOLLOWS = 0.5  # the support of a number that follows from one that was said, at most
_FOR_ALL = re.compile(r"\b(?:all|both|each|every|everything|apiece|same|respectively)\b", re.I)
_APART = re.compile(r"\b(?:another|separate(?:ly)?|apart|again|second|each|every)\b", re.IGNORECASE)
_PARTS = re.compile(r"[,;:\n]|\band\b|\bthen\b|\bplus\b", re.IGNORECASE)


def _without_made_up(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], request: RequestText, depth: int
) -> Any:
    """The same value where nothing in it is optional and made up, else a copy without that."""
    if depth > _DEEPEST or not isinstance(value, Mapping | list) or not value:
        return value
    if isinstance(value, list):
        items = resolve(schema.get("items"), root)
        listed = [_without_made_up(one, items, root, request, depth + 1) for one in value]
        if all(isinstance(one, Mapping) for one in listed):
            optional = nested_parameters(items, root).keys() - _required_in(items, root)
            listed = _once_each(listed, optional, int(schema.get("minItems") or 0), request)
        same = len(listed) == len(value) and all(map(_is, listed, value))
        return value if same else listed
    fields = nested_parameters(schema, root)
    must = _required_in(schema, root)
    kept = {}
    for key, one in value.items():
        field = fields.get(str(key))
        spare = field is not None and key not in must and not isinstance(one, Mapping | list)
        others = [other for name, other in value.items() if name in must or name in kept]
        if spare and (
            _is_copy(one, others, request) or not _is_said(one, key, field or {}, root, request)
        ):
            continue
        kept[key] = _without_made_up(one, field or {}, root, request, depth + 1)
    if not kept or (len(kept) == len(value) and all(kept[key] is value[key] for key in value)):
        return value
    return kept


def _is_copy(value: Any, others: Sequence[Any], request: RequestText) -> bool:
    """Whether a text serves two fields of one object, though it was said once."""
    same = isinstance(value, str) and any(value == other for other in others)
    return same and request.spaced.count(spaced(value)) < 2


def _is(one: Any, other: Any) -> bool:
    return one is other


def _is_said(
    value: Any, key: Any, schema: Mapping[str, Any], root: Mapping[str, Any], request: RequestText
) -> bool:
    return support(value, str(key), schema, root, request).score >= UNGROUNDED


def _required_in(schema: Mapping[str, Any], root: Mapping[str, Any]) -> set[str]:
    named = {"properties": schema.get("properties") or {}, "required": schema.get("required")}
    return set(required({**root, **named}))


def _once_each(
    items: list[Mapping[str, Any]], optional: Set[str], least: int, request: RequestText
) -> list[Mapping[str, Any]]:
    """What the request says of one item is that item's alone, and an item is written once.

    "A grey circle of 20 px and a red star": the star has no size. Only where the words leave no
    doubt which item a value stands beside.
    """
    places = _places(items, request)
    if places is None or len(items) < 2 or _FOR_ALL.search(request.text):
        return items
    found = [dict(one) for one in items]
    for key in sorted(optional):
        for value in {repr(one[key]): one[key] for one in items if key in one}.values():
            holders = [number for number, one in enumerate(items) if one.get(key) == value]
            owner = _owner(value, places, request) if len(holders) > 1 else None
            others = [one[key] for one in items if key in one and one[key] != value]
            guessed = not _spoken(value, request) and any(_spoken(one, request) for one in others)
            for number in holders if guessed or owner in holders else ():
                if guessed or number != owner:
                    del found[number][key]
    return [new if new != old else old for new, old in zip(found, items, strict=True)]


def _spoken(value: Any, request: RequestText) -> bool:
    """Not of numbers that only follow from others: 2 from "200", or from "two hundred per cent"."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    known = request.numbers.get(float(value)) if abs(value) < 1e300 else None
    return known is not None and known.score > _FOLLOWS


def join_lists(one: ToolCall, other: ToolCall, tool: Tool | None, text: str) -> ToolCall | None:
    """One call for two that differ only in a list of objects; None if they are two.

    "Cards for Kitchen: paint, tiles" is one call with two cards, unless the words part them.
    """
    if tool is None or one.name != other.name or _APART.search(text):
        return None
    names = {*one.arguments, *other.arguments}
    differing = [name for name in names if one.arguments.get(name) != other.arguments.get(name)]
    if len(differing) != 1 or len(names) < 2:
        return None
    (name,) = differing
    items = [*_objects(one.arguments.get(name)), *_objects(other.arguments.get(name))]
    if not all((_objects(one.arguments.get(name)), _objects(other.arguments.get(name)))):
        return None
    most = parameters(tool.parameters).get(name, {}).get("maxItems")
    if isinstance(most, int) and len(items) > most:
        return None
    sure = [call.confidence for call in (one, other) if call.confidence is not None]
    listed = [item for place, item in enumerate(items) if item not in items[:place]]
    return replace(
        one,
        arguments={**one.arguments, name: listed},
        confidence=min(sure, default=None),
        repairs=tuple(dict.fromkeys((*one.repairs, *other.repairs, f"joined:{name}"))),
    )


def _objects(value: Any) -> list[Any]:
    whole = isinstance(value, list) and all(isinstance(one, Mapping) for one in value)
    return value if whole else []


def _places(
    items: Sequence[Mapping[str, Any]], request: RequestText
) -> list[tuple[int, int]] | None:
    """Where the request names each item by its texts, one after the other; None if it does not."""
    text, places, end = request.text.casefold(), [], 0
    for item in items:
        named = [one.casefold() for one in item.values() if isinstance(one, str) and one.strip()]
        starts = [(text.find(one, end), len(one)) for one in named]
        spans = [(start, start + size) for start, size in starts if start >= 0]
        if not spans:
            return None
        # A text that stands behind a part of its own belongs to another item.
        spans.sort()
        close = [span for span in spans if not _PARTS.search(text[spans[0][1] : span[0]])]
        places.append((close[0][0], max(stop for _, stop in close)))
        end = places[-1][1]
    return places


def _owner(value: Any, places: Sequence[tuple[int, int]], request: RequestText) -> int | None:
    """The item beside which a value stands that the request says once."""
    if isinstance(value, str):
        said = [m.span() for m in re.finditer(re.escape(value), request.text, re.IGNORECASE)]
    else:
        said = [(one.start, one.end) for one in request.found if one.value == value]
    if isinstance(value, bool) or len(said) != 1:
        return None
    start, stop = said[0]
    inside = [number for number, (a, b) in enumerate(places) if a <= start and stop <= b]
    before = [number for number, (_, b) in enumerate(places) if b <= start]
    after = [number for number, (a, _) in enumerate(places) if stop <= a]
    beside = inside[:1]
    if before and not _PARTS.search(request.text[places[before[-1]][1] : start]):
        beside.append(before[-1])
    if after and not _PARTS.search(request.text[stop : places[after[0]][0]]):
        beside.append(after[0])
    return beside[0] if len(set(beside)) == 1 else None
