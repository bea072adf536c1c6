"""The function model asks for what is missing."""

from __future__ import annotations

import pytest

from edgewise.calls.prompt import (
    MalformedAnswer,
    Question,
    question_text,
    read_reply,
    render_answer,
    render_reply,
    split_questions,
)
from edgewise.grammar.tools import compile_grammar
from edgewise.types.messages import Tool, ToolCall
from tests.grammar.gbnf_walker import Grammar

TABLE = Tool(
    "book table",
    "Book a table.",
    {
        "properties": {
            "date": {"type": "string", "description": "Day of the visit (YYYY-MM-DD)."},
            "people": {"type": "integer", "description": "How many people"},
            "note": {"type": "string"},
            "guest": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "phone": {"type": "string"}},
                "required": ["name"],
            },
        },
        "required": ["date", "people", "guest"],
    },
)
LAMP = Tool("lamp", "", {"properties": {"on": {"type": "boolean"}}})
ON = ToolCall("lamp", {"on": True}, source="local")
MISSING = Question("book table", ("date", "people"))


@pytest.mark.parametrize(
    ("calls", "questions", "text"),
    [
        ((), (MISSING,), "ask book table: date, people"),
        ((ON,), (MISSING,), 'lamp {"on":true}\nask book table: date, people'),
        ((ON,), (), 'lamp {"on":true}'),
        ((), (), "none"),
    ],
)
def test_calls_and_questions_are_written_and_read_back(
    calls: tuple[ToolCall, ...], questions: tuple[Question, ...], text: str
) -> None:
    assert render_reply(calls, questions) == text
    read = read_reply(text)
    assert read.calls == calls
    assert read.questions == questions


@pytest.mark.parametrize("text", ["ask", "ask: date", "ask book:", "none\nask book: date", ""])
def test_what_asks_for_nothing_of_no_tool_is_malformed(text: str) -> None:
    with pytest.raises(MalformedAnswer):
        read_reply(text)


def test_a_tool_may_be_called_ask() -> None:
    line = 'ask {"question":"who: me, or you?"}'
    assert split_questions(line) == (line, ())


def test_the_grammar_allows_to_ask_for_what_is_required_and_only_if_told_to() -> None:
    asking = Grammar(compile_grammar([TABLE, LAMP], ask=True))
    plain = Grammar(compile_grammar([TABLE, LAMP]))
    for line in ("ask book table: date", "ask book table: guest.name, date"):
        assert asking.accepts(line)
        assert asking.accepts(f"{render_answer([ON])}\n{line}")
        assert not plain.accepts(line)
    for line in (
        "ask book table: note",
        "ask book table: guest.phone",
        "ask lamp: on",
        "ask book table: ",
        "none\nask lamp: on",
    ):
        assert not asking.accepts(line)
    assert asking.accepts("none")
    assert compile_grammar([LAMP], ask=True) == compile_grammar([LAMP])


def test_a_question_takes_its_words_from_the_schema() -> None:
    assert question_text([Question("book table", ("date",))], [TABLE]) == (
        "What is the day of the visit?"
    )
    assert question_text([MISSING], [TABLE]) == "How many people, and what is the day of the visit?"
    assert question_text([Question("book table", ("guest.name", "date"))], [TABLE]) == (
        "What are the name and the day of the visit?"
    )
    assert question_text([Question("book table", ("people",))], [TABLE]) == "How many people?"
    assert question_text([Question("other", ("settings",))], [TABLE]) == "What are the settings?"
    assert question_text([Question("other", ("startDate",))], [TABLE]) == (
        "What is the start date?"
    )
    assert question_text([], [TABLE]) == ""


def test_what_a_program_calls_an_identifier_is_asked_for_by_its_name() -> None:
    fields = {
        "property_id": {"type": "string", "description": "Unique identifier for the property"}
    }
    rent = Tool("rent", "Rent a property", {"type": "object", "properties": fields})
    asked = question_text([Question("rent", ("property_id",))], [rent])
    assert asked == "What is the property id?"


def test_degrees_are_counted_on_any_scale() -> None:
    fields = {"degrees": {"type": "number", "description": "degrees Celsius"}}
    heat = Tool("heat", "Set the heating", {"type": "object", "properties": fields})
    assert question_text([Question("heat", ("degrees",))], [heat]) == "How many degrees Celsius?"


def test_a_switch_is_asked_for_with_yes_or_no() -> None:
    fields = {
        "is_private": {"type": "boolean", "description": "Whether only you see it"},
        "title": {"type": "string"},
    }
    note = Tool("note", "Write a note", {"type": "object", "properties": fields})
    assert question_text([Question("note", ("is_private",))], [note]) == "Is private, yes or no?"
    asked = question_text([Question("note", ("title", "is_private"))], [note])
    assert asked == "Is private, yes or no, and what is the title?"
