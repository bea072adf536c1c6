"""The forms of dates and times that schemas ask for."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.dates import (
    Form,
    moment_form,
)


@pytest.mark.parametrize(
    ("name", "schema", "written"),
    [
        ("at", {"description": "When, as YYYY-MM-DD HH:MM"}, "2026-03-01 14:05"),
        ("at", {"description": "YYYY-MM-DDTHH:MM:SS"}, "2026-03-01T14:05:00"),
        ("at", {"description": "in YYYY-MM-DD'T'HH:MM:SSZ form"}, "2026-03-01T14:05:00Z"),
        ("at", {"format": "date-time"}, "2026-03-01T14:05:00"),
        ("start", {"description": "ISO 8601 datetime"}, "2026-03-01T14:05:00"),
        ("timestamp", {"description": "ISO 8601"}, "2026-03-01T14:05:00"),
        ("start", {"description": "ISO datetime, e.g. 2025-01-31T09:00"}, "2026-03-01T14:05"),
        ("start", {"description": "Start, e.g. '2025-01-31 09:00'"}, "2026-03-01 14:05"),
        ("start", {"examples": ["2025-01-31 09:00"]}, "2026-03-01 14:05"),
        ("pickup", {"description": "For example 'now' or '2025-01-31 09:00'"}, "2026-03-01 14:05"),
        ("day", {"description": "DD.MM.YYYY"}, "01.03.2026"),
        ("day", {"description": "mm/dd/yyyy please"}, "03/01/2026"),
        ("day", {"format": "date"}, "2026-03-01"),
        ("day", {"description": "ISO date"}, "2026-03-01"),
        ("time", {"description": "HH:MM"}, "14:05"),
        ("time", {"description": "24-hour clock"}, "14:05"),
        ("time", {"description": "HH:MM AM/PM"}, "2:05 PM"),
        ("time", {"description": "in 12-hour format"}, "2:05 PM"),
        ("time", {"description": "Like so, e.g. 3:00 PM"}, "2:05 PM"),
    ],
)
def test_a_moment_is_written_as_the_schema_says(
    name: str, schema: dict[str, Any], written: str
) -> None:
    form = moment_form(name, {"type": "string", **schema})
    assert form is not None
    assert form.write("2026-03-01", "14:05") == written
    assert form.holds(written)


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("time", {"type": "string", "description": "Time of day"}),
        ("at", {"type": "string", "description": "e.g. 2025-01-31 or 3:00 PM"}),
        ("day", {"type": "string", "enum": ["2025-01-31"], "description": "YYYY-MM-DD"}),
        ("hour", {"type": "integer", "description": "24-hour"}),
        ("when", {"type": "string", "description": "ISO 8601"}),
        ("length", {"type": "string", "description": "24-hour pass or not"}),
    ],
)
def test_where_the_form_is_in_doubt_there_is_none(name: str, schema: dict[str, Any]) -> None:
    assert moment_form(name, schema) is None


FORMS = st.builds(
    Form,
    st.sampled_from(["yyyy-mm-dd", "dd/mm/yyyy", "mm.dd.yyyy", "yyyymmdd", ""]),
    st.sampled_from(["hh:mm", "hh:mm:ss", "h:mm pm"]),
    st.sampled_from([" ", "T"]),
)


@given(FORMS, st.datetimes(min_value=datetime.datetime(1000, 1, 1)))
def test_what_a_form_writes_it_holds(form: Form, moment: datetime.datetime) -> None:
    assert form.holds(form.write(f"{moment:%Y-%m-%d}", f"{moment:%H:%M:%S}"))


@given(FORMS, st.text(max_size=12))
def test_a_form_does_not_hold_text_without_digits(form: Form, text: str) -> None:
    assert not form.holds("".join(letter for letter in text if not letter.isdigit()))
