"""A call brought to its schema and to the words: all steps in their order, and each alone."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgewise.calls.check import FATAL
from edgewise.calls.normalize import (
    as_said,
    date_moments,
    drop_made_up,
    fill_missing,
    join_lists,
    normalize,
    plain_hours,
    prefer_grounded,
    write_moments,
)
from edgewise.calls.schema import UNGROUNDED, ground
from edgewise.calls.values.text import read_request
from edgewise.types.messages import Source, Tool, ToolCall
from tests.calls.schemas import SCALARS, WORDS, tools, valid_calls
from tests.campaigns import rounds
from tests.flows.calling import MESSAGE, TIMER, WEATHER, tool

LIGHT = tool(
    "set_light",
    "Set the brightness of a light",
    room={"type": "string", "enum": ["kitchen", "bedroom", "hall"]},
    level={"type": "integer", "minimum": 0, "maximum": 100},
)


def local(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments, source="local")


def test_a_good_call_is_left_as_it_is() -> None:
    call = ToolCall("set_timer", {"minutes": 5}, id="call_1", source="cloud", confidence=0.9)
    assert normalize(call, TIMER, read_request("Set a timer for 5 minutes")) == call


def test_a_tool_nobody_offered_is_flagged_and_nothing_else_is_touched() -> None:
    call = ToolCall("order_pizza", {"size": "5"})
    normalized = normalize(call, None, read_request("Order a pizza"))
    assert (normalized.arguments, normalized.complaints) == (call.arguments, ("unknown_tool",))
    assert "unknown_tool" in FATAL


def test_what_the_words_say_is_filled_in() -> None:
    normalized = normalize(
        local("get_weather"), WEATHER, read_request("What is the weather in London?")
    )
    assert (normalized.arguments, normalized.complaints) == ({"location": "London"}, ())


def test_what_nobody_says_is_missed() -> None:
    normalized = normalize(local("set_timer"), TIMER, read_request("Set a timer"))
    assert "missing_argument" in normalized.complaints


def test_what_is_made_up_is_replaced_or_complained_about() -> None:
    normalized = normalize(
        local("get_weather", location="Paris"), WEATHER, read_request("the weather in London")
    )
    assert normalized.arguments == {"location": "London"} or "ungrounded" in normalized.complaints


def test_what_the_cloud_knows_beyond_the_words_is_left_to_it() -> None:
    call = ToolCall("get_weather", {"location": "Paris"}, source="cloud")
    normalized = normalize(
        call, WEATHER, read_request("the weather where the Eiffel Tower is, not in London")
    )
    assert normalized.arguments == {"location": "Paris"}


def test_what_is_said_in_another_part_of_the_request_is_not_made_up() -> None:
    call = local("send_message", recipient="Tom", message="good luck")
    whole = read_request("Find Tom in my contacts and send him a message saying good luck")
    normalized = normalize(
        call, MESSAGE, read_request("send him a message saying good luck"), whole=whole
    )
    assert normalized.arguments["recipient"] == "Tom"


def test_earlier_repairs_are_kept_and_none_is_told_twice() -> None:
    call = replace(
        local("get_weather", location="london"), repairs=("renamed_tool", "as_said:location")
    )
    normalized = normalize(call, WEATHER, read_request("the weather in London"))
    assert normalized.arguments == {"location": "London"}
    assert normalized.repairs == ("renamed_tool", "as_said:location")


SAID = st.sampled_from(["5", "seven", "London", "kitchen", "tomorrow", "7pm", "Tom"])
REQUESTS = st.lists(WORDS | SAID, max_size=8).map(" ".join)
JSON = st.recursive(
    SCALARS | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)


@st.composite
def any_call(draw: st.DrawFn) -> tuple[ToolCall, Tool, str]:
    """A tool of any spelling, a call that is valid or has anything for some of its arguments."""
    offered = draw(tools())
    chosen = draw(st.sampled_from(offered))
    valid = draw(valid_calls([chosen]))
    arguments = dict(valid[0].arguments) if valid else {}
    names = [*(chosen.parameters.get("properties") or {}), "unheard_of"]
    for name in draw(st.lists(st.sampled_from(names), max_size=3)):
        arguments[name] = draw(JSON)
    source: Source = draw(st.sampled_from(["local", "cloud"]))
    return ToolCall(chosen.name, arguments, source=source), chosen, draw(REQUESTS)


@settings(max_examples=rounds(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(any_call())
def test_normalizing_twice_changes_nothing_more(case: tuple[ToolCall, Tool, str]) -> None:
    call, chosen, request = case
    once = normalize(call, chosen, read_request(request))
    again = normalize(once, chosen, read_request(request))
    assert repr(again.arguments) == repr(once.arguments)
    assert again.complaints == once.complaints


@settings(max_examples=rounds(200), deadline=None)
@given(
    st.sampled_from([TIMER, WEATHER, MESSAGE, LIGHT]).flatmap(
        lambda each: st.tuples(
            st.just(each),
            st.dictionaries(st.sampled_from(list(each.parameters["properties"])), JSON, max_size=2),
        )
    ),
    REQUESTS,
)
def test_normalizing_is_idempotent_for_everyday_tools(
    case: tuple[Tool, dict[str, Any]], request_text: str
) -> None:
    chosen, arguments = case
    once = normalize(local(chosen.name, **arguments), chosen, read_request(request_text))
    again = normalize(once, chosen, read_request(request_text))
    assert repr(again.arguments) == repr(once.arguments)
    assert again.complaints == once.complaints


TODAY = datetime.date(2026, 3, 18)
STALL = Tool(
    "rent_stall",
    "Rents a stall at the market",
    {
        "type": "object",
        "properties": {
            "town": {"type": "string", "description": "Name of the town, a city or a village"},
            "from": {"type": "string", "description": "YYYY-MM-DD HH:MM"},
            "until": {"type": "string", "description": "YYYY-MM-DD HH:MM"},
            "sign": {"type": "string", "description": "What the sign says"},
            "tables": {"type": "integer"},
        },
        "required": ["town"],
    },
)


@pytest.mark.parametrize(
    ("arguments", "request_text", "expected", "repairs"),
    [
        (
            {"town": "Visby", "from": "8am-2pm", "until": "8am-2pm"},
            "a stall in Visby on 2026-05-01, 8am-2pm",
            {"town": "Visby", "from": "2026-05-01 08:00", "until": "2026-05-01 14:00"},
            ("written:from", "written:until"),
        ),
        (
            {"town": "Visby", "from": "2023-05-01 08:00"},
            "a stall in Visby from May 1 at 8am",
            {"town": "Visby", "from": "2026-05-01 08:00"},
            ("dated:from",),
        ),
        (
            {"town": "Visbby", "sign": "fresh honey", "tables": 7},
            "a stall in Visby, the sign says Fresh Honey",
            {"town": "Visby", "sign": "Fresh Honey"},
            ("grounded:town", "as_said:sign", "dropped:tables"),
        ),
    ],
)
def test_a_call_is_brought_to_its_schema_and_to_the_words(
    arguments: dict[str, Any],
    request_text: str,
    expected: dict[str, Any],
    repairs: tuple[str, ...],
) -> None:
    call = normalize(
        ToolCall("rent_stall", arguments, source="local"),
        STALL,
        read_request(request_text),
        today=TODAY,
    )
    assert dict(call.arguments) == expected
    assert call.repairs == repairs


def test_without_today_a_day_without_its_year_is_left() -> None:
    call = ToolCall("rent_stall", {"town": "Visby", "from": "2023-05-01 08:00"}, source="local")
    words = read_request("a stall in Visby from May 1 at 8am")
    assert normalize(call, STALL, words).arguments["from"] == "2023-05-01 08:00"


def test_what_the_whole_request_says_is_kept() -> None:
    call = ToolCall("rent_stall", {"town": "Visby", "tables": 12}, source="local")
    words, whole = (
        read_request("a stall in Visby"),
        read_request("everywhere 12 tables: a stall in Visby, ..."),
    )
    assert normalize(call, STALL, words).arguments == {"town": "Visby"}
    assert normalize(call, STALL, words, whole=whole).arguments == {"town": "Visby", "tables": 12}


VALUES = st.sampled_from(
    ["Visby", "Visby, Sweden", "2pm", "2026-05-01", "2026-05-01 14:00", "May 1", "tomorrow", "'ho",
     "ho'", True, False, 12, "12", "", None]
)  # fmt: skip
STALL_WORDS = (
    "Visby Sweden 2pm to 3pm on 2026-05-01 May 1 tomorrow 'ho' turn on off lights 12 , not"
)


@given(
    st.dictionaries(st.sampled_from(list(STALL.parameters["properties"])), VALUES),
    st.lists(st.sampled_from(STALL_WORDS.split()), max_size=12).map(" ".join),
    st.sampled_from([None, TODAY]),
)
def test_a_normalized_call_stays_as_it_is(
    arguments: dict[str, Any], request: str, today: datetime.date | None
) -> None:
    words = read_request(request)
    once = normalize(ToolCall("rent_stall", arguments, source="local"), STALL, words, today=today)
    twice = normalize(once, STALL, words, today=today)
    assert dict(twice.arguments) == dict(once.arguments)
    assert twice.complaints == once.complaints


ALARM = Tool(
    "ring",
    parameters={
        "properties": {"hour": {"type": "integer"}, "minute": {"type": "integer"}},
        "required": ["hour", "minute"],
    },
)
TRIP = Tool(
    "trip",
    parameters={
        "properties": {
            "city": {"type": "string", "description": "City to visit"},
            "people": {"type": "integer"},
            "day": {"type": "string", "description": "YYYY-MM-DD"},
            "seat": {"type": "string", "enum": ["window", "aisle"]},
            "note": {"type": "string"},
            "stops": {"type": "array", "items": {"type": "string"}},
            "extra": {"type": "object", "properties": {"budget": {"type": "number"}}},
        },
        "required": ["city", "people"],
    },
)


@pytest.mark.parametrize(
    ("tool", "given_arguments", "request_text", "filled"),
    [
        (ALARM, {}, "wake me at 6:45 in the evening", {"hour": 18, "minute": 45}),
        (ALARM, {"hour": 6}, "wake me at 6:45", {"minute": 45}),
        (TRIP, {"people": 4}, "a trip to see Ana in Porto for 4", {"city": "Porto"}),
        (TRIP, {"city": "Porto"}, "take 3 people to Porto on 2026-05-01", {"people": 3}),
        (TRIP, {"city": "Porto"}, "a trip to Porto", {}),
        (TRIP, {"city": "Porto"}, "5 or 6 of us to Porto", {}),
        (TRIP, {}, "off we go", {}),
    ],
)
def test_what_is_required_and_absent_is_filled_where_the_words_say_one_thing(
    tool: Tool, given_arguments: dict[str, Any], request_text: str, filled: dict[str, Any]
) -> None:
    found, names = fill_missing(given_arguments, tool, read_request(request_text))
    assert dict(found) == {**given_arguments, **filled}
    assert names == tuple(f"filled:{name}" for name in filled)


def test_filled_arguments_stand_in_the_order_of_the_schema() -> None:
    found, _ = fill_missing({"minute": 45}, ALARM, read_request("at 6:45"))
    assert list(found) == ["hour", "minute"]


@pytest.mark.parametrize(
    ("tool", "arguments", "request_text", "better"),
    [
        (TRIP, {"people": 500_000}, "move 5,000,000 people to Porto", {"people": 5_000_000}),
        (TRIP, {"city": "Tahit Lot"}, "how far is Tanah Lot from here", {"city": "Tanah Lot"}),
        (TRIP, {"day": "2026-03-02"}, "on the 3rd of February 2026", {"day": "2026-02-03"}),
        (
            TRIP,
            {"stops": ["Brno", "Olomuc"]},
            "via Brno and Olomouc",
            {"stops": ["Brno", "Olomouc"]},
        ),
        (TRIP, {"extra": {"budget": 1500}}, "up to 15,000 euros", {"extra": {"budget": 15_000}}),
        (ALARM, {"hour": 0, "minute": 30}, "at 7:30 AM", {"hour": 7, "minute": 30}),
        (ALARM, {"hour": 7, "minute": 30}, "at 7:30 pm", {"hour": 7, "minute": 30}),
    ],
)
def test_a_made_up_value_gives_way_to_the_one_said(
    tool: Tool, arguments: dict[str, Any], request_text: str, better: dict[str, Any]
) -> None:
    found, changes = prefer_grounded(arguments, tool, read_request(request_text))
    assert dict(found) == better
    changed = [name for name in arguments if arguments[name] != better[name]]
    assert changes == tuple(f"grounded:{name}" for name in changed)


@pytest.mark.parametrize(
    ("arguments", "request_text"),
    [
        ({"city": "Rome"}, "how far is Tanah Lot"),
        ({"people": 9}, "4 adults or 6 children"),
        ({"seat": "aisle"}, "by the window please"),
        ({"city": "Lima"}, "is Lime or Limo nearer"),
        ({"note": "call ahead"}, "a trip to Porto with Ana"),
    ],
)
def test_a_made_up_value_stays_where_the_words_leave_doubt(
    arguments: dict[str, Any], request_text: str
) -> None:
    assert prefer_grounded(arguments, TRIP, read_request(request_text)) == (arguments, ())


def test_free_text_takes_the_spelling_of_the_request_but_choices_do_not() -> None:
    request = read_request("Window seat to São Tomé, note it as URGENT stuff")
    arguments = {"city": "sao tome", "seat": "window", "note": "Urgent Stuff"}
    said, changes = as_said(arguments, TRIP, request)
    assert said == {"city": "São Tomé", "seat": "window", "note": "URGENT stuff"}
    assert changes == ("as_said:city", "as_said:note")


@pytest.mark.parametrize(
    ("value", "request_text"),
    [
        ("mac n cheese", "add it to the mac  n cheese playlist"),
        ("carbon_monoxide", "is there any carbon monoxide?"),
    ],
)
def test_spaces_and_names_are_left_as_they_are(value: str, request_text: str) -> None:
    tool = Tool("look", "", {"type": "object", "properties": {"what": {"type": "string"}}})
    arguments = {"what": value}
    assert as_said(arguments, tool, read_request(request_text)) == (arguments, ())


@pytest.mark.parametrize(("name", "description"), [("at", "e.g. 7:30 PM"), ("time", "")])
def test_a_moment_is_not_spelled_as_said(name: str, description: str) -> None:
    field = {"type": "string", "description": description}
    arguments = {name: "2:40 AM"}
    tool = Tool("ring", parameters={"properties": {name: field}})
    assert as_said(arguments, tool, read_request("ring at 2.40 am")) == (arguments, ())


def test_optional_inventions_are_dropped_and_required_ones_kept() -> None:
    arguments = {"city": "Rome", "people": 2, "note": "gluten free"}
    kept, changes = drop_made_up(arguments, TRIP, read_request("to Lima for 2"))
    assert kept == {"city": "Rome", "people": 2}
    assert changes == ("dropped:note",)


def test_what_another_part_of_the_request_says_is_not_made_up() -> None:
    part = read_request("4 of us to Porto")
    whole = read_request("4 of us to Porto, then 900 of us to Lima, note: vegan")
    arguments = {"city": "Porto", "people": 900, "note": "vegan"}
    assert prefer_grounded(arguments, TRIP, part, whole) == (arguments, ())
    assert drop_made_up(arguments, TRIP, part, whole) == (arguments, ())
    assert prefer_grounded(arguments, TRIP, part)[1] == ("grounded:people",)
    assert drop_made_up(arguments, TRIP, part)[1] == ("dropped:note",)


PIECES = "Porto Prto Rome window aisle 4 7 500 5,000 at 7:30 pm March 3rd 2026 and the for"
TRIP_WORDS = st.lists(st.sampled_from(PIECES.split()), max_size=14).map(" ".join)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "city": st.sampled_from(["Porto", "Prto", "rome", "Oslo"]) | st.text(max_size=8),
        "people": st.sampled_from([4, 7, 50, 500, 5000]) | st.integers(),
        "day": st.sampled_from(["2026-03-03", "2026-03-04"]),
        "seat": st.sampled_from(["window", "aisle"]),
        "stops": st.lists(st.sampled_from(["Porto", "Romme"]), max_size=2),
        "extra": st.fixed_dictionaries({"budget": st.integers() | st.floats()}),
    },
)


@given(ARGUMENTS, TRIP_WORDS | st.text(max_size=80))
def test_filling_only_adds_what_is_absent_and_required(
    arguments: dict[str, Any], request: str
) -> None:
    words = read_request(request)
    found, changes = fill_missing(arguments, TRIP, words)
    names = [change.removeprefix("filled:") for change in changes]
    assert set(found) == set(arguments) | set(names)
    assert set(names) <= {"city", "people"} - set(arguments)
    assert all(found[name] is value for name, value in arguments.items())
    assert fill_missing(found, TRIP, words) == (found, ())


@given(ARGUMENTS, TRIP_WORDS | st.text(max_size=80))
def test_a_grounded_value_is_never_changed_and_a_change_is_always_for_the_better(
    arguments: dict[str, Any], request: str
) -> None:
    before = ground(arguments, TRIP, request).arguments
    better, changes = prefer_grounded(arguments, TRIP, read_request(request))
    after = ground(better, TRIP, request).arguments
    for name in arguments:
        if f"grounded:{name}" in changes:
            assert before[name].score < UNGROUNDED
            assert after[name].score >= before[name].score
        else:
            assert better[name] is arguments[name]


@given(ARGUMENTS, TRIP_WORDS)
def test_doing_it_twice_changes_nothing_more(arguments: dict[str, Any], request: str) -> None:
    for step in (prefer_grounded, as_said, drop_made_up):
        once, _ = step(arguments, TRIP, read_request(request))
        assert step(once, TRIP, read_request(request)) == (once, ())


def booking(name: str, description: str) -> Tool:
    return Tool(
        "book", parameters={"properties": {name: {"type": "string", "description": description}}}
    )


BOTH, DAY = "YYYY-MM-DD HH:MM", "YYYY-MM-DD"


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
    arguments = {name: value}
    changed, changes = write_moments(arguments, booking(name, form), read_request(request_text))
    assert changed == {name: expected}
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
    arguments = {name: value}
    assert write_moments(arguments, booking(name, form), read_request(request_text)) == (
        arguments,
        (),
    )


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
    arguments, tool, words = {"on": value}, booking("on", form), read_request(request_text)
    assert date_moments(arguments, tool, words, None) == (arguments, ())
    changed, changes = date_moments(arguments, tool, words, TODAY)
    assert changed == {"on": expected or value}
    assert changes == (("dated:on",) if expected else ())


MOMENTS = st.datetimes(datetime.datetime(1600, 1, 1), datetime.datetime(2190, 1, 1))


@given(MOMENTS, st.sampled_from([BOTH, DAY, "HH:MM"]), st.text(max_size=30))
def test_a_value_in_its_form_that_the_request_says_is_never_changed(
    moment: datetime.datetime, form: str, around: str
) -> None:
    value = moment.strftime({BOTH: "%Y-%m-%d %H:%M", DAY: "%Y-%m-%d", "HH:MM": "%H:%M"}[form])
    arguments, tool = {"at": value}, booking("at", form)
    words = read_request(f"at {value} {around}")
    assert write_moments(arguments, tool, words) == (arguments, ())
    assert date_moments(arguments, tool, words, TODAY) == (arguments, ())


@given(MOMENTS, st.sampled_from(["%I:%M %p", "%I:%M%p"]))
def test_a_time_keeps_its_moment_whatever_its_form(moment: datetime.datetime, written: str) -> None:
    said = f"on {moment:%Y-%m-%d} at {moment.strftime(written)}"
    arguments = {"at": moment.strftime(written)}
    changed, _ = write_moments(arguments, booking("at", BOTH), read_request(said))
    assert changed == {"at": f"{moment:%Y-%m-%d %H:%M}"}


@given(st.text(max_size=40), st.text(max_size=60))
def test_any_words_can_be_given(value: str, request: str) -> None:
    arguments, tool, words = {"at": value}, booking("at", BOTH), read_request(request)
    for changed, changes in (
        write_moments(arguments, tool, words),
        date_moments(arguments, tool, words, TODAY),
    ):
        assert bool(changes) is (changed["at"] != value)


WAKE = Tool(
    "set_alarm",
    parameters={
        "type": "object",
        "properties": {"hour": {"type": "integer"}, "count": {"type": "integer"}},
    },
)


def hour_of(request: str, hour: int) -> int:
    arguments, _ = plain_hours({"hour": hour}, WAKE, read_request(request))
    return int(arguments["hour"])


@pytest.mark.parametrize(
    ("request_text", "written", "meant"),
    [
        ("Wake me at half past six", 18, 6),
        ("Set an alarm for 6:30", 18, 6),
        ("Set an alarm for 6:30 pm", 18, 18),
        ("Wake me at half past six in the evening", 18, 18),
        ("An alarm for dinner at half past six", 18, 18),
        ("Set an alarm for 18:30", 18, 18),
        ("Set an alarm for quarter past seven", 18, 18),
        ("Wake me at half past six", 6, 6),
    ],
)
def test_an_hour_is_taken_as_it_was_said(request_text: str, written: int, meant: int) -> None:
    assert hour_of(request_text, written) == meant


def test_the_change_is_named_and_other_numbers_are_left_alone() -> None:
    arguments = {"hour": 19, "count": 19}
    normalized, made = plain_hours(arguments, WAKE, read_request("Wake me at seven o'clock"))
    assert normalized == {"hour": 7, "count": 19}
    assert made == ("as_said:hour",)


@given(st.text(max_size=60), st.integers(min_value=0, max_value=30))
def test_a_plain_hour_stays_plain(text: str, hour: int) -> None:
    once = hour_of(text, hour)
    assert hour_of(text, once) == once


FORMATS: dict[str, Any] = {
    "at": {"type": "string", "format": "time"},
    "day": {"type": "string", "format": "date"},
    "when": {"type": "string", "format": "date-time"},
    "within": {"type": "string", "format": "duration"},
    "inner": {
        "type": "object",
        "properties": {"days": {"type": "array", "items": {"type": "string", "format": "date"}}},
    },
}


def asked(said: str, argument: str, written: Any) -> ToolCall:
    asking = tool("ask", "Ask", **{argument: FORMATS[argument]})
    call = local("ask", **{argument: written})
    return normalize(call, asking, read_request(said), today=datetime.date(2026, 11, 19))


@pytest.mark.parametrize(
    ("said", "argument", "written", "meant"),
    [
        ("Wake me at 9 am", "at", "9 am", "09:00:00"),
        ("Wake me at 7:30 in the evening", "at", "7:30 in the evening", "19:30:00"),
        ("Wake me at 14:05", "at", "14:05", "14:05"),
        ("It is on 5 December 2026", "day", "5 December 2026", "2026-12-05"),
        ("It is tomorrow", "day", "tomorrow", "2026-11-20"),
        ("On 5 December 2026 at 9 am", "when", "5 December 2026 at 9 am", "2026-12-05T09:00:00"),
        ("Wait for five minutes", "within", "five minutes", "PT5M"),
        ("Wait for an hour and a half", "within", "an hour and a half", "PT1H30M"),
        ("Wait for two days", "within", "two days", "P2D"),
        ("On 5 December 2026", "inner", {"days": ["5 December 2026"]}, {"days": ["2026-12-05"]}),
    ],
)
def test_a_value_of_a_format_is_written_as_pythons_types_read_it(
    said: str, argument: str, written: Any, meant: Any
) -> None:
    made = asked(said, argument, written)
    assert (made.arguments, made.complaints) == ({argument: meant}, ())


@pytest.mark.parametrize(
    ("said", "argument", "written"),
    [
        ("Wake me at 7", "at", "7"),  # in the morning or in the evening
        ("Wake me when the sun rises", "at", "when the sun rises"),
        ("It is on the day of the feast", "day", "the day of the feast"),
        ("Wait a while", "within", "a while"),
        ("It is on 2026-02-30", "day", "2026-02-30"),
    ],
)
def test_a_value_that_no_type_could_read_is_complained_about(
    said: str, argument: str, written: str
) -> None:
    made = asked(said, argument, written)
    assert (made.arguments, made.complaints) == ({argument: written}, ("wrong_type",))


def test_dates_in_lists_and_as_programs_write_their_form_are_written_so() -> None:
    days = {"type": "array", "items": {"type": "string"}, "description": "Days, %Y-%m-%d"}
    log = tool(
        "log_holiday", "Enter holiday", days=days, at={"type": "string", "description": "%H:%M"}
    )
    said = read_request("holiday on December 23, 2026 and tomorrow at 3 pm")
    call = ToolCall(
        "log_holiday", {"days": ["December 23, 2026", "tomorrow"], "at": "3 pm"}, source="local"
    )
    made = normalize(call, log, said, today=datetime.date(2026, 11, 18))
    assert made.arguments == {"days": ["2026-12-23", "2026-11-19"], "at": "15:00"}
    assert set(made.repairs) >= {"written:at", "dated:days"}


def test_a_long_copy_that_went_wrong_in_one_word_is_copied_again() -> None:
    said = read_request(
        "send a message to Ana: let us meet on the stairs after lunch to discuss the new plan"
    )
    wrong = {
        "recipient": "Ana",
        "message": "let us meet on the stairs after lunch to discass the new plan",
    }
    made = normalize(ToolCall("send_message", wrong, source="local"), MESSAGE, said)
    assert made.arguments["message"].endswith("to discuss the new plan")


SHAPES = Tool(
    "add_shapes",
    "Draw shapes on a layer",
    {
        "type": "object",
        "properties": {
            "layer": {"type": "string"},
            "shapes": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "form": {"type": "string"},
                        "colour": {"type": "string"},
                        "size": {"type": "integer", "description": "Pixels"},
                        "owner": {"type": "string", "description": "Who drew it"},
                    },
                    "required": ["form", "colour"],
                },
            },
        },
        "required": ["layer", "shapes"],
    },
)


def shape(colour: str, form: str, **more: Any) -> dict[str, Any]:
    return {"form": form, "colour": colour, **more}


@pytest.mark.parametrize(
    ("request_text", "written", "meant"),
    [
        (  # a size nobody said
            "add a red circle of 200 px and a blue star to base",
            [shape("red", "circle", size=200), shape("blue", "star", size=2)],
            [shape("red", "circle", size=200), shape("blue", "star")],
        ),
        (  # the size of another one
            "add a red circle of 200 px and a blue star to base",
            [shape("red", "circle", size=200), shape("blue", "star", size=200)],
            [shape("red", "circle", size=200), shape("blue", "star")],
        ),
        (  # said before its shape
            "on base I want a red circle and a 200 px blue star",
            [shape("red", "circle", size=200), shape("blue", "star", size=200)],
            [shape("red", "circle"), shape("blue", "star", size=200)],
        ),
        (
            'on base draw "red circle" (Alice), "blue star"',
            [shape("red", "circle", owner="Alice"), shape("blue", "star", owner="Alice")],
            [shape("red", "circle", owner="Alice"), shape("blue", "star")],
        ),
    ],
)
def test_what_is_said_of_one_item_of_a_list_is_not_said_of_another(
    request_text: str, written: list[Any], meant: list[Any]
) -> None:
    call = local("add_shapes", layer="base", shapes=written)
    normalized = normalize(call, SHAPES, read_request(request_text))
    assert normalized.arguments["shapes"] == meant
    assert "dropped:shapes" in normalized.repairs
    assert normalize(normalized, SHAPES, read_request(request_text)) == normalized


@pytest.mark.parametrize(
    "request_text",
    [
        "add a red circle and a blue star of 200 px each to base",
        "add a red circle and a blue star, size 200 px, to base",  # it may be meant of both
        "add a red circle of 200 px and a blue star of 200 px to base",
        "two shapes of 200 px for base: red circle, blue star",
    ],
)
def test_what_may_be_said_of_all_items_stays_with_all(request_text: str) -> None:
    both = [shape("red", "circle", size=200), shape("blue", "star", size=200)]
    normalized = normalize(
        local("add_shapes", layer="base", shapes=both), SHAPES, read_request(request_text)
    )
    assert normalized.arguments["shapes"] == both


def test_an_optional_value_inside_an_object_is_left_out_where_nobody_said_it() -> None:
    tool = Tool(
        "check_load",
        "Whether a car may tow a trailer",
        {
            "type": "object",
            "properties": {
                "trailer": {
                    "type": "object",
                    "properties": {"load": {"type": "integer"}, "axles": {"type": "integer"}},
                    "required": ["load"],
                }
            },
            "required": ["trailer"],
        },
    )
    call = local("check_load", trailer={"load": 900, "axles": 4})
    normalized = normalize(call, tool, read_request("may I load 900 kilos?"))
    assert (normalized.arguments, normalized.complaints) == ({"trailer": {"load": 900}}, ())


def test_a_text_that_was_said_once_serves_one_field_of_an_item() -> None:
    call = local("add_shapes", layer="base", shapes=[shape("red", "circle", owner="circle")])
    normalized = normalize(call, SHAPES, read_request("a red circle on base"))
    assert normalized.arguments["shapes"] == [shape("red", "circle")]


def test_a_list_that_was_split_into_calls_is_joined_unless_the_words_part_it() -> None:
    one = local("add_shapes", layer="base", shapes=[shape("red", "circle")])
    other = local("add_shapes", layer="base", shapes=[shape("blue", "star")])
    joined = join_lists(one, other, SHAPES, "a red circle and a blue star on base")
    assert joined is not None
    assert joined.arguments == {
        "layer": "base",
        "shapes": [shape("red", "circle"), shape("blue", "star")],
    }
    assert joined.repairs == ("joined:shapes",)
    assert join_lists(one, other, SHAPES, "a red circle, and separately a blue star") is None
    elsewhere = local("add_shapes", layer="top", shapes=[shape("blue", "star")])
    assert join_lists(one, elsewhere, SHAPES, "a red circle, a blue star on top") is None
