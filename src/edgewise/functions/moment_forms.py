"""In what form a parameter wants a date, a time, or both, and how a moment is written in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgewise.functions.fold import name_words
from edgewise.functions.parameter import EXAMPLE, wanted, written_date

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
