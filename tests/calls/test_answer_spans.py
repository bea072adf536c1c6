"""Which characters of an answer are names and values, and which only punctuation."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.prompt import (
    owners,
    render_answer,
    value_spans,
)

from .schemas import tools, valid_calls


def pieces(answer: str) -> list[tuple[int, str | None, str]]:
    return [
        (span.call, span.argument, answer[span.start : span.end]) for span in value_spans(answer)
    ]


def test_names_and_values_are_found_without_quotes_and_brackets() -> None:
    answer = (
        'weather.forecast {"place":"São \\"P\\"","days":3}\n'
        'lights {"lamp":{"room":"hall","on":true},"levels":[1,-2.5],"note":""}\nping {}'
    )
    assert pieces(answer) == [
        (0, None, "weather.forecast"),
        (0, "place", 'São \\"P\\"'),
        (0, "days", "3"),
        (1, None, "lights"),
        (1, "lamp", "hall"),
        (1, "lamp", "true"),
        (1, "levels", "1"),
        (1, "levels", "-2.5"),
        (1, "note", ""),
        (2, None, "ping"),
    ]


def test_none_counts_as_a_name() -> None:
    assert pieces("none") == pieces(" none\n") == [(0, None, "none")]


def test_however_a_tokenizer_cuts_what_ends_a_call_is_of_none_of_its_values() -> None:
    """SmolLM2 writes the end of a call and the line break apart, Qwen in one token."""
    apart = ["weather", ".", "fore", "cast", ' {"', "place", '":"', "Os", "lo", '"}', "\n", "ping"]
    joined = ["weather", ".fore", "cast", ' {"', "place", '":"', "Os", "lo", '"}\n', "ping"]
    for texts, values in ((apart, "nnnn...vv..n"), (joined, "nnn...vv.n")):
        marks = [
            "." if span is None else "n" if span.argument is None else "v"
            for span in owners([*texts, " {}"])
        ]
        assert "".join(marks) == values + "."


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("", 0),
        ("I cannot", 0),
        ('{"a":1}', 0),
        ("a\nb {}", 0),
        ("weather", 0),
        ('weather {"place":"Os', 1),
        ('weather {"place":"Oslo","days":', 2),
        ('weather {"place" "Oslo"}', 1),
        ('weather {"a":' + "[" * 5000, 1),
    ],
)
def test_what_is_cut_off_is_read_as_far_as_it_goes(answer: str, found: int) -> None:
    assert len(value_spans(answer)) == found


def test_tokens_are_given_to_what_they_spell() -> None:
    texts = ["set", "_timer", ' {"', "min", '":', "1", "5}", "\nsay ", '{"t":"', "Äl", "vsjö", '"}']
    wanted: list[tuple[int, str | None] | None] = [
        (0, None), (0, None), None, None, None, (0, "min"), (0, "min"),
        (1, None), None, (1, "t"), (1, "t"), None,
    ]  # fmt: skip
    assert [span and (span.call, span.argument) for span in owners(texts)] == wanted


@given(st.data())
def test_every_argument_of_every_call_has_its_place(data: st.DataObject) -> None:
    calls = data.draw(valid_calls(data.draw(tools())))
    answer = render_answer(calls)
    spans = value_spans(answer)
    if not calls:
        return
    names = [answer[span.start : span.end] for span in spans if span.argument is None]
    assert names == [call.name for call in calls]
    for span in spans:
        value = calls[span.call].arguments.get(span.argument) if span.argument else None
        if isinstance(value, str):
            assert json.loads(f'"{answer[span.start : span.end]}"') == value


@given(st.text(max_size=60))
def test_any_text_has_spans_inside_it(text: str) -> None:
    for span in value_spans(text):
        assert 0 <= span.start <= span.end <= len(text)
    assert len(owners(list(text))) == len(text)
