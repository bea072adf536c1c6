"""The last hand on a call: all steps, in their order."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.normalize import normalize
from edgewise.calls.values.read import hear
from edgewise.types.messages import Tool, ToolCall

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
            "currency": {"type": "string", "description": "ISO 4217 code"},
            "sign": {"type": "string", "description": "What the sign says"},
            "lights_on": {"type": "boolean", "description": "Lights of the stall"},
            "tables": {"type": "integer"},
        },
        "required": ["town"],
    },
)


@pytest.mark.parametrize(
    ("arguments", "request_text", "expected", "repairs"),
    [
        (
            {"town": "Visby, Sweden", "from": "8am-2pm", "until": "8am-2pm"},
            "a stall in Visby on 2026-05-01, 8am-2pm",
            {"town": "Visby", "from": "2026-05-01 08:00", "until": "2026-05-01 14:00"},
            ("written:from", "written:until", "shortened:town"),
        ),
        (
            {"town": "Visby", "from": "2023-05-01 08:00", "sign": "'honey"},
            "a stall in Visby from May 1 at 8am, the sign says 'Honey'",
            {"town": "Visby", "from": "2026-05-01 08:00", "sign": "Honey"},
            ("unquoted:sign", "dated:from"),
        ),
        (
            {"town": "Visby", "currency": "ruppees", "lights_on": False, "tables": 7},
            "a stall in Visby, turn on the lights, I pay in Indian rupees",
            {"town": "Visby", "currency": "INR", "lights_on": True},
            ("grounded:currency", "coded:currency", "switched:lights_on", "dropped:tables"),
        ),
        (
            {"town": "visby", "currency": "yenn"},
            "a stall in Visby, paid in yen",
            {"town": "Visby", "currency": "JPY"},
            ("grounded:currency", "as_said:town", "coded:currency"),
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
        ToolCall("rent_stall", arguments, source="local"), STALL, hear(request_text), today=TODAY
    )
    assert dict(call.arguments) == expected
    assert call.repairs == repairs


def test_without_today_a_day_without_its_year_is_left() -> None:
    call = ToolCall("rent_stall", {"town": "Visby", "from": "2023-05-01 08:00"}, source="local")
    heard = hear("a stall in Visby from May 1 at 8am")
    assert normalize(call, STALL, heard).arguments["from"] == "2023-05-01 08:00"


def test_what_the_whole_request_says_is_kept() -> None:
    call = ToolCall("rent_stall", {"town": "Visby", "tables": 12}, source="local")
    heard, whole = hear("a stall in Visby"), hear("everywhere 12 tables: a stall in Visby, ...")
    assert normalize(call, STALL, heard).arguments == {"town": "Visby"}
    assert normalize(call, STALL, heard, whole=whole).arguments == {"town": "Visby", "tables": 12}


VALUES = st.sampled_from(
    ["Visby", "Visby, Sweden", "2pm", "2026-05-01", "2026-05-01 14:00", "May 1", "tomorrow", "yen",
     "JPY", "'ho", "ho'", True, False, 12, "12", "", None]
)  # fmt: skip
WORDS = "Visby Sweden 2pm to 3pm on 2026-05-01 May 1 tomorrow yen 'ho' turn on off lights 12 , not"


@given(
    st.dictionaries(st.sampled_from(list(STALL.parameters["properties"])), VALUES),
    st.lists(st.sampled_from(WORDS.split()), max_size=12).map(" ".join),
    st.sampled_from([None, TODAY]),
)
def test_a_settled_call_stays_settled(
    arguments: dict[str, Any], request: str, today: datetime.date | None
) -> None:
    heard = hear(request)
    once = normalize(ToolCall("rent_stall", arguments, source="local"), STALL, heard, today=today)
    twice = normalize(once, STALL, heard, today=today)
    assert dict(twice.arguments) == dict(once.arguments)
    assert twice.complaints == once.complaints
