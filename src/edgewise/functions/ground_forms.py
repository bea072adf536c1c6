"""Scores numbers, dates and times against a request that may write them in another form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from edgewise.functions.extract import find_all_numbers, find_values
from edgewise.functions.find_dates import find_dates
from edgewise.functions.find_durations import SECONDS, unit_name
from edgewise.functions.find_numbers import Said
from edgewise.functions.fold import spaced, stem, words
from edgewise.functions.heard import Heard, Support
from edgewise.functions.parameter import Wanted, wanted, written_date
from edgewise.types.calls import Found

_NONE = Support(0.0, "none")
_LONGEST_TYPED = 60
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_COMPACT_DATE = re.compile(r"((?:19|20)\d\d)([01]\d)([0-3]\d)")


def number_support(value: float, parameter: Wanted, heard: Heard) -> Support:
    """By the numbers said; of a time or a length only the part and unit that is asked for."""
    known = heard.numbers.get(float(value), _NONE)
    if parameter.role in ("hour", "minute"):
        part = slice(0, 2) if parameter.role == "hour" else slice(3, 5)
        clocks = _readings(heard.found)
        if clocks:
            said = any(int(clock[part]) == value for clock in clocks)
            twelve = parameter.role == "hour" and any(_twelve(clock) == value for clock in clocks)
            return Support(0.95, "derived") if said or twelve else Support(0.1, "none")
    if parameter.role == "duration" and parameter.unit:
        lengths = [one for one in heard.found if one.kind == "duration"]
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
        if units and len(lengths) == 1:
            return Support(0.2, "none")  # 60 for "sixty minutes" where seconds are wanted.
    if parameter.role == "share" and value > 1:
        return Support(min(known.score, 0.25), "none")
    return known


def form_support(value: str, name: str, schema: Mapping[str, Any], heard: Heard) -> Support | None:
    """Where the description asks for a form of date: is it one said, in that form?"""
    parameter = wanted(name, schema)
    if parameter.role != "date" or "yyyy" not in parameter.form:
        return None
    dates = [one for one in heard.found if one.kind == "date"]
    full = {str(one.value) for one in dates if _ISO_DATE.fullmatch(str(one.value))}
    full |= {str(day) for kind, day in _alternatives(dates) if kind == "date"}
    if value in {written_date(day, parameter.form) for day in full}:
        return Support(0.95, "derived")
    written_out = any(letter.isalpha() for letter in value)
    if full and len(full) == len(dates) and not written_out and value not in heard.text:
        return Support(0.2, "none")
    return None


def typed_support(value: str, heard: Heard) -> Support:
    """A date, time, length or number written in another form than the request's."""
    if len(value) > _LONGEST_TYPED or not any(letter.isdigit() for letter in value):
        return _word_numbers(value, heard)
    compact = _COMPACT_DATE.fullmatch(value.strip())
    inside = find_values("-".join(compact.groups()) if compact else value)
    if not inside:
        return _NONE
    said = {(one.kind, one.value) for one in heard.found} | _alternatives(heard.found)
    scores = []
    for one in inside:
        if (one.kind, one.value) in said or _alternatives([one]) & said:
            scores.append(0.95)
        elif one.kind == "date":
            scores.append(_without_year(str(one.value), heard))
        elif one.kind in ("number", "percent", "money", "duration"):
            known = heard.numbers.get(float(one.value))
            scores.append(0.9 * known.score if known else 0.0)
        elif one.kind == "datetime":
            scores.append(_moment(str(one.value), said))
        else:
            scores.append(0.95 if spaced(str(one.value)) in heard.spaced else 0.0)
    rest = value
    for one in inside:
        rest = rest.replace(one.text, " ", 1)
    left = [word for word in words(rest) if len(word) > 2]
    if left and not all(stem(word) in heard.stems for word in left):
        scores.append(0.4)
    worst = min(scores)
    return Support(worst, "derived" if worst > 0 else "none")


def _without_year(value: str, heard: Heard) -> float:
    """Support for 2026-03-22 by "March 22", or by "tomorrow", whose date the words cannot tell."""
    if not _ISO_DATE.fullmatch(value):
        return 0.0
    best = 0.0
    for one in heard.found:
        if one.kind != "date" or _ISO_DATE.fullmatch(str(one.value)):
            continue
        dated = next(find_dates(f"{one.text} {value[:4]}"), None)
        if dated and dated.value == value:
            return 0.8
        if int(value[8:]) in heard.numbers and dated and str(dated.value)[:7] == value[:7]:
            best = max(best, 0.6)  # The 23 of "March 20 to 23".
        relative = not any(letter.isdigit() for letter in one.text)
        best = max(best, 0.4 if relative else 0.0)
    return best


def _word_numbers(value: str, heard: Heard) -> Support:
    """`fifteen` where the request says 15."""
    inside = find_all_numbers(value) if len(value) <= _LONGEST_TYPED else []
    if len(inside) == 1 and inside[0].text == value.strip():
        return heard.numbers.get(float(inside[0].value), _NONE)
    return _NONE


def _moment(value: str, said: set[tuple[str, Any]]) -> float:
    day, _, clock = value.partition("T")
    if ("time", clock[:5]) not in said and clock[:5] != "00:00":
        return 0.0
    return 0.9 if ("date", day) in said else 0.6


def _twelve(clock: str) -> int:
    return int(clock[:2]) % 12 or 12


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
