"""Brings dates and times to the form that a parameter states, completed from the request."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgewise.calls.parameters import (
    EXAMPLE,
    revise,
    wanted,
    written_date,
)
from edgewise.calls.values.numbers import Said
from edgewise.calls.values.read import Heard, find_values
from edgewise.calls.values.times import (
    find_dates,
    month_number,
)
from edgewise.calls.words import name_words
from edgewise.types.calls import Found
from edgewise.types.messages import Tool, ToolCall

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAYS_AWAY = {
    "the day before yesterday": -2, "yesterday": -1, "today": 0, "tonight": 0,
    "this morning": 0, "this afternoon": 0, "this evening": 0, "tomorrow": 1,
    "tomorrow morning": 1, "tomorrow afternoon": 1, "tomorrow evening": 1,
    "the day after tomorrow": 2,
}  # fmt: skip
_WEEKDAY = re.compile(rf"(?:(this|next|coming)\s+)?({'|'.join(_WEEKDAYS)})", re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,2}")
_MONTH = re.compile(r"[a-z]{3,}", re.IGNORECASE)
# A leap day comes round within this many years, also over 2100.
_YEARS_AHEAD = 9


def month_and_day(words: str) -> tuple[int, int] | None:
    """(3, 16) for `March 16`; None for anything with a year, or without a day."""
    found = next(find_dates(words), None)
    if found is None or found.text.strip() != words.strip() or found.value != found.text:
        return None
    day = _NUMBER.findall(words)
    months = [month_number(word) for word in _MONTH.findall(words) if month_number(word)]
    return (months[0], int(day[0])) if len(day) == 1 and len(months) == 1 else None


def next_such_day(month: int, day: int, today: datetime.date) -> datetime.date | None:
    """The first day with this month and day of month, today or later."""
    for year in range(today.year, min(today.year + _YEARS_AHEAD, datetime.MAXYEAR) + 1):
        try:
            found = datetime.date(year, month, day)
        except ValueError:
            continue  # February 29, or no day at all.
        if found >= today:
            return found
    return None


def day_meant(words: str, today: datetime.date) -> datetime.date | None:
    """The day, where the words leave one. A bare weekday that today is leaves two.

    `next Friday` is the Friday of the next week, which begins on Monday.
    """
    plain = " ".join(words.lower().split())
    try:
        if plain in _DAYS_AWAY:
            return today + datetime.timedelta(days=_DAYS_AWAY[plain])
        weekday = _WEEKDAY.fullmatch(plain)
        if weekday:
            return _weekday(weekday[1] or "", _WEEKDAYS.index(weekday[2]), today)
        named = month_and_day(words)
        return next_such_day(*named, today) if named else None
    except OverflowError:
        return None  # The calendar ends.


def _weekday(which: str, wanted: int, today: datetime.date) -> datetime.date | None:
    ahead = (wanted - today.weekday()) % 7
    if which == "next":
        return today + datetime.timedelta(days=7 - today.weekday() + wanted)
    return today + datetime.timedelta(days=ahead) if ahead else None


_DATE = r"(?:yyyy[-/. ]?mm[-/. ]?dd|dd[-/. ]?mm[-/. ]?yyyy|mm[-/. ]?dd[-/. ]?yyyy)"
_TIME = r"h?h:mm(?::ss)?(?:\s?(?:am/pm|a\.m\./p\.m\.|am or pm|a\b))?"
_TEMPLATE = re.compile(
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


def moment_form(name: str, schema: Mapping[str, Any]) -> Form | None:
    """The form a string parameter asks for by its format, its description or its examples."""
    described = schema.get("description")
    description = described if isinstance(described, str) else ""
    if "enum" in schema or wanted(name, schema).type not in ("string", "any"):
        return None
    if schema.get("format") == "date-time":
        return Form("yyyy-mm-dd", "hh:mm:ss", "T")
    if schema.get("format") == "date":
        return Form("yyyy-mm-dd")
    template = _TEMPLATE.search(description)
    if template:
        cue = EXAMPLE.search(description)
        stated = cue is None or template.start() < cue.start()
        return _from_template(template, bool(_HALF.search(description)), stated)
    return _named(name, description) or _from_samples(description, schema)


def _from_template(match: re.Match[str], half: bool, stated: bool) -> Form:
    date = (match["date"] or "").lower()
    clock = (match["clock"] or match["time"] or "").lower()
    if match["gap"] is None and not match["time"]:
        return Form(date, stated=stated)
    twelve = half or re.search(r"a[m.]|\ba$", clock)
    time = "h:mm pm" if twelve else "hh:mm:ss" if clock.endswith(":ss") else "hh:mm"
    gap = (match["gap"] or " ").strip("'")
    return Form(date, time, gap.upper(), (match["zone"] or "").upper(), stated)


def _named(name: str, description: str) -> Form | None:
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
