"""Values of a request that could be one parameter's argument."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.calls.schema import candidates, clear_candidate
from edgewise.calls.values.text import find_values


@pytest.mark.parametrize(
    ("name", "schema", "request_text", "expected"),
    [
        ("hour", {"type": "integer"}, "wake me at 7:30 pm", 19),
        ("minute", {"type": "integer"}, "wake me at 7:30 pm", 30),
        ("hour", {"type": "integer", "description": "12-hour clock"}, "at 7:30 pm", 7),
        ("minutes", {"type": "integer"}, "an hour and a half for the roast", 90),
        ("seconds", {"type": "integer"}, "wait two minutes", 120),
        ("duration_hours", {"type": "number"}, "90 minutes of practice", 1.5),
        ("time", {"type": "string"}, "remind me at 3:00 PM", "3:00 PM"),
        ("time", {"type": "string", "description": "HH:MM"}, "remind me at 3:00 PM", "15:00"),
        ("date", {"type": "string"}, "on March 3rd 2024", "March 3rd 2024"),
        ("date", {"type": "string", "format": "date"}, "on March 3rd 2024", "2024-03-03"),
        ("day", {"type": "string", "description": "DD/MM/YYYY"}, "on March 3rd 2024", "03/03/2024"),
        ("size", {"type": "string", "enum": ["small", "large"]}, "a large latte", "large"),
        ("heating", {"type": "boolean"}, "turn the heating off", False),
        ("heating", {"type": "boolean"}, "turn the heating on", True),
        ("weight_kg", {"type": "number"}, "3 parcels of 12 kg", 12),
        ("policy_number", {"type": "integer"}, "policy number 52, 3 people", 52),
        ("price", {"type": "number"}, "two shirts under $40", 40),
        ("tip_percent", {"type": "number"}, "a 15% tip for 4 of us", 15),
        ("rate", {"type": "number", "description": "as a fraction"}, "grows 12% for 5 steps", 0.12),
        ("recipient", {"type": "string"}, "text Marta in Oslo", "Marta"),
        ("city", {"type": "string"}, "meet Marta in Oslo", "Oslo"),
        ("message", {"type": "string"}, "text Tom saying I'll be late.", "I'll be late"),
        ("message", {"type": "string"}, 'text Tom "on my way"', "on my way"),
        ("title", {"type": "string"}, "add a task called water the plants", "water the plants"),
        ("email", {"type": "string"}, "send it to ana@mail.example", "ana@mail.example"),
        ("order_id", {"type": "string"}, "where is A7-2231?", "A7-2231"),
    ],
)
def test_the_clear_candidate_is_the_one_meant(
    name: str, schema: dict[str, Any], request_text: str, expected: Any
) -> None:
    listed = candidates(name, schema, request_text, find_values(request_text))
    best = clear_candidate(listed)
    assert best is not None
    assert best.value == expected
    assert type(best.value) is type(expected)


@pytest.mark.parametrize(
    ("name", "schema", "request_text"),
    [
        ("count", {"type": "integer"}, "between 4 and 6"),
        ("count", {"type": "integer"}, "two and a half"),
        ("count", {"type": "integer", "maximum": 3}, "take 5"),
        ("time", {"type": "string"}, "at 5 pm or 6 pm"),
        ("size", {"type": "string", "enum": ["small", "large"]}, "a latte"),
        ("name", {"type": "string"}, "what is it"),
        ("tags", {"type": "array"}, "a, b"),
    ],
)
def test_nothing_is_clear_where_the_words_leave_doubt(
    name: str, schema: dict[str, Any], request_text: str
) -> None:
    assert (
        clear_candidate(candidates(name, schema, request_text, find_values(request_text))) is None
    )


def test_an_hour_beside_an_am_pm_parameter_is_of_twelve() -> None:
    text = "at 7 pm"
    listed = candidates("hour", {"type": "integer"}, text, find_values(text), ["minute", "am_pm"])
    assert [one.value for one in listed] == [7]
