"""Which tokens of a typed answer are evidence, and what its values have to do with the request."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.decide.gate import RequestWords, TypedValue, far_off, find_values, read_typed
from edgewise.testing import word_tokens
from edgewise.types.replies import Token

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "people": {"type": "integer"},
        "area": {"type": "number"},
        "port": {"type": "boolean"},
        "side": {"enum": ["east", "west"]},
        "founded": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        "near": {"type": "array", "items": {"$ref": "#/$defs/near"}},
    },
    "$defs": {"near": {"type": "object", "properties": {"day": {"format": "date"}}}},
}
TEXT = (
    '{"name": "Oslo \\"by the sea\\"", "people": 700000, "area": 4.5, "port": true, '
    '"side": "east", "founded": null, "near": [{"day": "2026-12-05"}, {"day": "2026-12-06"}]}'
)


def test_the_values_of_an_answer_are_found_with_their_kinds() -> None:
    found = [(value.place, value.kind, value.text) for value in find_values(TEXT, SCHEMA)]
    assert found == [
        ("$.name", "string", 'Oslo \\"by the sea\\'),
        ("$.people", "integer", "700000"),
        ("$.area", "number", "4.5"),
        ("$.port", "boolean", "true"),
        ("$.side", "enum", "east"),
        ("$.founded", "boolean", "null"),
        ("$.near.day", "date", "2026-12-05"),
        ("$.near.day", "date", "2026-12-06"),
    ]


def tokens(*pairs: tuple[str, float]) -> list[Token]:
    return [Token(text, logprob, margin=1.0) for text, logprob in pairs]


SURE = (("{", -9.0), ('"name', -8.0), ('":', -7.0), (' "', -6.0), ("Oslo", -0.1), ('"}', -0.2))


def test_only_tokens_of_values_are_evidence() -> None:
    reading = read_typed(tokens(*SURE), SCHEMA, "")
    assert reading.tokens == 2, "the name of the town, and that it ends there"
    assert reading.get("min_logprob") == -0.2
    assert reading.features()["weakest_string"] == -0.2
    assert reading.features()["weakest_integer"] == 0.0


def test_the_weakest_token_is_told_by_the_kind_of_its_field() -> None:
    told = tokens(('{"name": "', -5.0), ("Oslo", -0.5), ('", "people": ', -5.0), ("7", -2.0))
    found = read_typed(told, SCHEMA, "").features()
    assert (found["weakest_string"], found["weakest_integer"]) == (-5.0, -2.0)


def test_what_the_schema_leaves_no_choice_in_says_nothing() -> None:
    day = (('{"near": [{"day": "', -9.0), ("2026", -0.1), ("-", -9.0), ("12", -0.3), ("-", -9.0))
    assert read_typed(tokens(*day), SCHEMA, "").get("min_logprob") == -0.3
    side = (('{"side": "', -9.0), ("e", -0.2), ("ast", -9.0), ('"}', -9.0))
    assert read_typed(tokens(*side), SCHEMA, "").get("min_logprob") == -0.2
    port = (('{"port": ', -9.0), ("t", -0.4), ("rue", -9.0), ("}", -9.0))
    assert read_typed(tokens(*port), SCHEMA, "").get("min_logprob") == -0.4
    alike = {"type": "object", "properties": {"size": {"enum": ["big", "bigger"]}}}
    size = (('{"size": "', -9.0), ("big", -9.0), ('"}', -0.5))
    assert read_typed(tokens(*size), alike, "").tokens == 2, "it might have gone on"
    only = {"type": "object", "properties": {"size": {"const": "big"}}}
    assert read_typed(tokens(*size), only, "").tokens == 0


def test_a_token_without_evidence_says_nothing() -> None:
    forced = [Token('{"people": '), Token("7", has_evidence=False), Token("}")]
    assert read_typed(forced, SCHEMA, "").tokens == 0


@pytest.mark.parametrize(
    ("kind", "text", "words", "there"),
    [
        ("string", "Oslo", "Is OSLO by the sea?", True),
        ("string", "Os", "Is Oslo by the sea?", False),
        ("integer", "1200", "It costs 1,200 euros", True),
        ("number", "4.50", "It costs 4.5", True),
        ("integer", "12", "It costs 1,200 euros", False),
        ("date", "2026-12-05", "on 5 December 2026", True),
        ("date", "2026-12-05", "on Dec 5th, 2026", True),
        ("date", "2026-12-05", "on 5.12.2026", True),
        ("date", "2026-12-05", "on 2026-12-05", True),
        ("date", "2026-12-06", "on 5 December 2026", False),
    ],
)
def test_whether_a_value_stands_in_the_request(
    kind: str, text: str, words: str, there: bool
) -> None:
    assert RequestWords(words).has(TypedValue(("x",), kind, text, 0, len(text), 1)) is there


@pytest.mark.parametrize(
    ("day", "words", "refused"),
    [
        ("5262-12-05", "5 December 2026", True),
        ("5262-12-05", "the fifth of December", True),
        ("0026-12-05", "5.12.26", True),
        ("2026-12-05", "5 December 2026", False),
        ("2055-01-01", "Born in 1990; when will she be 65?", False),
        ("1066-10-14", "How long before 2026 was the battle of Hastings?", False),
        ("3120-01-01", "in the year 3026", False),
    ],
)
def test_a_date_of_a_year_that_nobody_means_is_refused(day: str, words: str, refused: bool) -> None:
    fault = far_off(f'{{"near": [{{"day": "{day}"}}]}}', SCHEMA, words)
    assert bool(fault) is refused
    if refused:
        assert fault == f"$.near.day: the request says nothing of the year {day[:4]}"


@given(st.text('{}[]",:-0123456789.truefalsn\\ a', max_size=60))
def test_whatever_was_written_can_be_read(text: str) -> None:
    for value in find_values(text, SCHEMA):
        assert 0 <= value.start <= value.end <= len(text)
    read_typed(word_tokens(text), SCHEMA, text)
