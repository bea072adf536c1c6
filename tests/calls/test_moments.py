"""Dates and times brought to their forms, and days that need to know today."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.dates import (
    date_moments,
    write_moments,
)
from edgewise.calls.values.read import hear
from edgewise.types.messages import Tool, ToolCall


def booking(name: str, description: str) -> Tool:
    return Tool(
        "book", parameters={"properties": {name: {"type": "string", "description": description}}}
    )


BOTH, DAY = "YYYY-MM-DD HH:MM", "YYYY-MM-DD"
TODAY = datetime.date(2026, 3, 18)


@pytest.mark.parametrize(
    ("name", "form", "value", "request_text", "expected"),
    [
        ("start", BOTH, "2pm", "the hall on 2026-05-01 from 2pm to 3pm", "2026-05-01 14:00"),
        ("end", BOTH, "3pm", "the hall on 2026-05-01 from 2pm to 3pm", "2026-05-01 15:00"),
        ("end", BOTH, "15:00", "the hall, 2026-05-01 13:00 to 15:00", "2026-05-01 15:00"),
        ("start", BOTH, "10:30-11:15", "hall on 2026-05-01 10:30-11:15", "2026-05-01 10:30"),
        ("end_time", BOTH, "10:30-11:15", "hall on 2026-05-01 10:30-11:15", "2026-05-01 11:15"),
        ("end", BOTH, "2pm-3pm", "the hall on 2026-05-01, 2pm-3pm", "2026-05-01 15:00"),
        ("at", BOTH, "2026-05-01T11:00:00", "at 2026-05-01 11:00", "2026-05-01 11:00"),
        ("at", BOTH, "May 1st 2026 at 2pm", "May 1st 2026 at 2pm", "2026-05-01 14:00"),
        ("at", BOTH, "4pm", "2026-05-01 at 2pm, and 2026-05-02 at 4pm", "2026-05-02 16:00"),
        ("at", "e.g. '2026-01-01 10:00'", "2pm", "2026-05-01 at 2pm", "2026-05-01 14:00"),
        ("time", "HH:MM", "7:30 pm", "dinner at 7:30 pm", "19:30"),
        ("time", "HH:MM", "7:30", "tonight at 7:30", "19:30"),
        ("time", "12-hour", "19:30", "dinner at 19:30", "7:30 PM"),
        ("time", "e.g. 3:00 PM", "5 PM", "tea at 5 PM", "5:00 PM"),
        ("day", "MM/DD/YYYY", "May 2nd 2026", "on May 2nd 2026", "05/02/2026"),
        ("day", DAY, "2026-05-02T09:00:00", "2026-05-02 at 9am", "2026-05-02"),
    ],
)
def test_a_moment_is_completed_and_written_in_the_form(
    name: str, form: str, value: str, request_text: str, expected: str
) -> None:
    call = ToolCall("book", {name: value})
    changed, changes = write_moments(call, booking(name, form), hear(request_text))
    assert changed.arguments == {name: expected}
    assert changes == (f"written:{name}",)


@pytest.mark.parametrize(
    ("name", "form", "value", "request_text"),
    [
        ("at", BOTH, "2026-05-01 14:00", "on 2026-05-01 at 2pm"),
        ("at", BOTH, "2026-05-01 14:00", "no word of it"),
        ("at", BOTH, "2pm", "tomorrow at 2pm"),
        ("at", BOTH, "2pm", "2026-05-01 or 2026-05-02, at 2pm, or 2pm"),
        ("at", BOTH, "at 5", "2026-05-01 at 5"),
        ("at", BOTH, "10:30-11:15", "2026-05-01 10:30-11:15"),
        ("at", BOTH, "after lunch at 2pm", "2026-05-01"),
        ("time", "HH:MM", "7:30", "dinner at 7:30"),
        ("time", "Time of day", "7:30 pm", "dinner at 7:30 pm"),
        ("time", "e.g. 3:00 PM", "half past five", "tea at half past five"),
        ("day", "MM/DD/YYYY", "3/4/2026", "on 3/4/2026"),
        ("day", "e.g. DD/MM/YYYY", "2 May 2026", "on 2 May 2026"),
    ],
)
def test_a_moment_in_its_form_or_in_doubt_is_left(
    name: str, form: str, value: str, request_text: str
) -> None:
    call = ToolCall("book", {name: value})
    assert write_moments(call, booking(name, form), hear(request_text)) == (call, ())


@pytest.mark.parametrize(
    ("form", "value", "request_text", "expected"),
    [
        (DAY, "2024-04-02", "a table on April 2", "2026-04-02"),
        (DAY, "March 16", "a table on March 16", "2027-03-16"),
        (DAY, "tomorrow", "a table tomorrow", "2026-03-19"),
        (DAY, "2023-10-05", "a table next Friday", "2026-03-27"),
        (BOTH, "2024-04-02 19:00", "April 2 at 7pm", "2026-04-02 19:00"),
        (BOTH, "tomorrow at 7pm", "tomorrow at 7pm", "2026-03-19 19:00"),
        (BOTH, "7pm", "tomorrow at 7pm", "2026-03-19 19:00"),
        ("e.g. 2025-01-01", "2024-04-02", "a table on April 2", "2026-04-02"),
        (DAY, "2024-04-02", "a table on April 2, 2024", None),
        (DAY, "2024-04-03", "a table on April 2", None),
        (DAY, "2024-04-02", "a table", None),
        (DAY, "2024-04-02", "tomorrow or on Friday", None),
        ("e.g. 2025-01-01", "April 2", "a table on April 2", None),
        ("As the user says it", "April 2", "a table on April 2", None),
        ("Date of birth, YYYY-MM-DD", "1990-04-02", "born on April 2", None),
    ],
)
def test_a_day_without_its_year_is_the_next_such_day(
    form: str, value: str, request_text: str, expected: str | None
) -> None:
    call, tool, heard = ToolCall("book", {"on": value}), booking("on", form), hear(request_text)
    assert date_moments(call, tool, heard, None) == (call, ())
    changed, changes = date_moments(call, tool, heard, TODAY)
    assert changed.arguments == {"on": expected or value}
    assert changes == (("dated:on",) if expected else ())


MOMENTS = st.datetimes(datetime.datetime(1600, 1, 1), datetime.datetime(2190, 1, 1))


@given(MOMENTS, st.sampled_from([BOTH, DAY, "HH:MM"]), st.text(max_size=30))
def test_a_value_in_its_form_that_the_request_says_is_never_changed(
    moment: datetime.datetime, form: str, around: str
) -> None:
    value = moment.strftime({BOTH: "%Y-%m-%d %H:%M", DAY: "%Y-%m-%d", "HH:MM": "%H:%M"}[form])
    call, tool = ToolCall("book", {"at": value}), booking("at", form)
    heard = hear(f"at {value} {around}")
    assert write_moments(call, tool, heard) == (call, ())
    assert date_moments(call, tool, heard, TODAY) == (call, ())


@given(MOMENTS, st.sampled_from(["%I:%M %p", "%I:%M%p"]))
def test_a_time_keeps_its_moment_whatever_its_form(moment: datetime.datetime, written: str) -> None:
    said = f"on {moment:%Y-%m-%d} at {moment.strftime(written)}"
    call = ToolCall("book", {"at": moment.strftime(written)})
    changed, _ = write_moments(call, booking("at", BOTH), hear(said))
    assert changed.arguments == {"at": f"{moment:%Y-%m-%d %H:%M}"}


@given(st.text(max_size=40), st.text(max_size=60))
def test_any_words_can_be_given(value: str, request: str) -> None:
    call, tool, heard = ToolCall("book", {"at": value}), booking("at", BOTH), hear(request)
    for changed, changes in (
        write_moments(call, tool, heard),
        date_moments(call, tool, heard, TODAY),
    ):
        assert bool(changes) is (changed.arguments["at"] != value)
