"""Brings dates and times to the form that a parameter states, completed from the request."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Any

from edgewise.functions.extract import find_values
from edgewise.functions.find_numbers import Said
from edgewise.functions.fold import name_words
from edgewise.functions.heard import Heard
from edgewise.functions.moment_forms import Form, moment_form
from edgewise.functions.relative_days import day_meant, month_and_day
from edgewise.functions.revise import revise
from edgewise.types.calls import Found
from edgewise.types.messages import Tool, ToolCall

_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_LONGEST_MOMENT = 60
# What may stand between the times and dates of a value without meaning anything else.
_BETWEEN = re.compile(r"(?:[\s,.;:()\u2013\u2014-]|\b(?:at|on|from|to|until|till|and|the|for)\b)*")
_FIRST = frozenset({"start", "starts", "begin", "begins", "from", "starting", "beginning"})
_LAST = frozenset({"end", "ends", "finish", "until", "till", "to", "ending", "stop"})
# "the rent since March 3", "born on 4 May": the day is behind us.
_BEHIND = frozenset({"birth", "birthday", "birthdate", "born", "since", "dob", "past", "history"})


def write_moments(call: ToolCall, tool: Tool, heard: Heard) -> tuple[ToolCall, tuple[str, ...]]:
    """Dates and times in the form asked for: `2026-03-01 14:00` for `2pm`. `written:ARGUMENT`.

    Only a value that is not in the form yet is touched, and only where it says one moment.
    """

    def better(name: str, schema: Mapping[str, Any], value: Any) -> Any:
        form = _form_for(name, schema, value)
        if form is None or form.holds(value):
            return None
        return _written(name, value, form, heard)

    return revise(call, tool, "written", better)


def date_moments(
    call: ToolCall, tool: Tool, heard: Heard, today: datetime.date | None
) -> tuple[ToolCall, tuple[str, ...]]:
    """Days that need today's date to be known: `March 16`, `tomorrow`. Named `dated:ARGUMENT`.

    No model knows today's date: a year that the request does not say is made up.
    """
    if today is None:
        return call, ()
    day = today

    def better(name: str, schema: Mapping[str, Any], value: Any) -> Any:
        form = _form_for(name, schema, value)
        if form is None or not form.date or _BEHIND & {*name_words(name), *_told(schema)}:
            return None
        return _dated(value, form, heard, day)

    return revise(call, tool, "dated", better)


def _told(schema: Mapping[str, Any]) -> list[str]:
    described = schema.get("description")
    return name_words(described) if isinstance(described, str) else []


def _form_for(name: str, schema: Mapping[str, Any], value: Any) -> Form | None:
    if not isinstance(value, str) or not 0 < len(value.strip()) <= _LONGEST_MOMENT:
        return None
    return moment_form(name, schema)


def _written(name: str, value: str, form: Form, heard: Heard) -> str | None:
    inside = find_values(value)
    parts = [one for one in inside if one.kind in ("time", "date", "datetime")]
    if not parts or not (_nothing_else(value, parts) or value.strip() in heard.text):
        return None
    clock = _clock(name, parts, heard)
    if form.time and clock is None:
        return None
    if not form.date:
        return form.write("", clock or "") if _wanted_so(form, value, parts) else None
    day = _day(parts) or (_day_before(clock or "", heard) if form.time else None)
    if day is None or not (form.stated or form.time):
        return None
    return form.write(day, clock or "")


def _wanted_so(form: Form, value: str, parts: Sequence[Found]) -> bool:
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


def _clock(name: str, parts: Sequence[Found], heard: Heard) -> str | None:
    """The one time of day, or that end of a range which the parameter's name asks for."""
    sure = [(one, _sure_clock(one, heard)) for one in parts if one.kind != "date"]
    if not sure or any(clock is None for _, clock in sure):
        return None
    own = set(name_words(name))
    if len(sure) == 1:
        return sure[0][1]
    if len(sure) == 2 and bool(own & _FIRST) != bool(own & _LAST):
        return sure[0][1] if own & _FIRST else sure[1][1]
    return None


def _sure_clock(one: Found, heard: Heard) -> str | None:
    """`14:00` where no other half of the day can be meant."""
    if one.kind == "datetime":
        return str(one.value)[11:19].rstrip("Z+-") if len(str(one.value)) <= 20 else None
    unit = one.unit if isinstance(one, Said) else ""
    clock = str(one.value)
    if unit or re.match(r"(?:0\d|1[0-2]):\d\d", one.text):
        return clock
    # "7:30" of "tonight at 7:30": the request's words tell the half of the day.
    said = [other for other in heard.found if other.kind == "time" and other.text == one.text]
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


def _day_before(clock: str, heard: Heard) -> str | None:
    """The request's only date, or the last that stands before the only place of this time."""
    dated = [one for one in heard.found if one.kind in ("date", "datetime")]
    days = [_full_day(one) for one in dated]
    if len(set(days)) == 1:
        return days[0]
    places = [one.start for one in heard.found if _at(one) == clock[:5]]
    if len(places) != 1:
        return None
    before = [day for one, day in zip(dated, days, strict=True) if one.start <= places[0]]
    return before[-1] if before else None


def _at(one: Found) -> str:
    text = str(one.value)
    return text[:5] if one.kind == "time" else text[11:16] if one.kind == "datetime" else ""


def _dated(value: str, form: Form, heard: Heard, today: datetime.date) -> str | None:
    """The value with a day that the request names without its year."""
    parts = find_values(value)
    full = _day(parts)
    said = [one for one in heard.found if one.kind in ("date", "datetime")]
    if full and any(_full_day(one) == full for one in said):
        return None
    clock = _clock("", parts, heard)
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
