"""Which device skill a question is for; most questions are for none."""

from __future__ import annotations

import time

import pytest

from edgewise.vision.question import (
    FIELDS,
    MOST_CHARACTERS,
    SkillQuestion,
    field_named,
    find_field,
    find_values,
    read_question,
)

TEXT, OBJECTS = "reads text", "names objects"
UNDERSTOOD = {
    "What does the sign say?": (TEXT, "all_text", ()),
    "what does this say": (TEXT, "all_text", ()),
    "Read the text in this image.": (TEXT, "all_text", ()),
    "Please read the label": (TEXT, "all_text", ()),
    "Can you read the screen?": (TEXT, "all_text", ()),
    "What is written on the sign?": (TEXT, "all_text", ()),
    "What text is in the picture?": (TEXT, "all_text", ()),
    "transcribe the whiteboard": (TEXT, "all_text", ()),
    "What is the total on the receipt?": (TEXT, "field", ("total",)),
    "What's the date?": (TEXT, "field", ("date",)),
    "how much is it?": (TEXT, "field", ("total",)),
    "Give me the phone number": (TEXT, "field", ("phone number",)),
    "What is the invoice number?": (TEXT, "field", ("invoice number",)),
    "Is this a receipt?": (TEXT, "document", ("receipt",)),
    "Is this a business card?": (TEXT, "document", ("business card",)),
    "Is there a stop sign in the picture?": (OBJECTS, "present", ("stop sign",)),
    "Is it an invoice": (TEXT, "document", ("invoice",)),
    "Is this a receipt or an invoice?": (TEXT, "document", ("receipt", "invoice")),
    "Which of these labels fits: receipt, invoice, menu?": (
        TEXT, "document", ("receipt", "invoice", "menu"),
    ),
    'Does it say "sale"?': (TEXT, "mention", ("sale",)),
    "Does the sign say “no entry”?": (TEXT, "mention", ("no entry",)),
    "Is there a dog?": (OBJECTS, "present", ("dog",)),
    "Are there any people in the picture?": (OBJECTS, "present", ("person",)),
    "Is this a cat?": (OBJECTS, "present", ("cat",)),
    "How many cars are there?": (OBJECTS, "count", ("car",)),
    "how many people are in this photo": (OBJECTS, "count", ("person",)),
    "Which of these: cup, cat, car?": (OBJECTS, "choose", ("cup", "cat", "car")),
    "Is this a cat or a dog?": (OBJECTS, "choose", ("cat", "dog")),
    "What objects do you see?": (OBJECTS, "list", ()),
    "What is in this picture?": (OBJECTS, "describe", ()),
    "What's in the photo": (OBJECTS, "describe", ()),
    "What do you see?": (OBJECTS, "describe", ()),
    "What is this?": (OBJECTS, "describe", ()),
    "Describe this picture": (OBJECTS, "describe", ()),
    "When does the ferry leave?": (TEXT, "value", ("time", "ferry", "leave")),
    "What time is the film?": (TEXT, "value", ("time", "film")),
    "How much is a ticket": (TEXT, "value", ("price", "ticket")),
    "How much does the coffee cost?": (TEXT, "value", ("price", "coffee")),
}  # fmt: skip

BEYOND = (
    "Why is she laughing?",
    "Describe the mood.",
    "What colour is the sign?",
    "What does the sign mean?",
    "What does the man say?",
    "Is there a red car?",
    "Is there a dog wearing a hat?",
    "Is the dog happy?",
    "How many red cars are there?",
    "How many animals are there?",
    "Which of these: cat, unicorn, car?",
    "Is this a joke?",
    "What is the capital of France?",
    "What is the name of the dog?",
    "Is this receipt genuine?",
    "Translate the sign.",
    "Summarise the letter",
    "What is the total of the two receipts minus ten percent?",
    "",
)


@pytest.mark.parametrize(("question", "wanted"), UNDERSTOOD.items(), ids=UNDERSTOOD)
def test_a_question_that_a_skill_answers_is_understood(
    question: str, wanted: tuple[str, str, tuple[str, ...]]
) -> None:
    found = read_question(question)
    assert isinstance(found, SkillQuestion)
    assert (found.skill, found.asked, found.names) == wanted


@pytest.mark.parametrize("question", BEYOND)
def test_a_question_that_no_skill_answers_is_not_taken(question: str) -> None:
    assert read_question(question) is None


def test_a_question_made_to_be_slow_is_not() -> None:
    started = time.process_time()
    for word in ("the picture", "the sign", "in", "it", "of these", "a"):
        assert read_question(f"what does {word} " + f"{word} " * 60 + "!") is None
        assert read_question((f"how many {word} " * 30)[: MOST_CHARACTERS - 1] + "x") is None
    assert time.process_time() - started < 5


def test_a_very_long_question_is_not_a_simple_one() -> None:
    assert read_question("What does it say? " + "x" * MOST_CHARACTERS) is None


RECEIPT = (
    "Corner Shop", "12/11/2026 14:05", "Milk 1.20", "Bread 2.30", "Subtotal 3.50", "VAT 0.25",
    "Total  3.75 EUR", "Cash 5.00", "Change 1.25", "Tel: +49 30 123456", "www.corner.example/shop",
)  # fmt: skip
INVOICE = (
    "Invoice No: R-2041", "Date: 3 March 2026", "Bill to Anna Berg", "Net 100.00", "Grand total",
    "$1,119.00", "Due date 2026-04-02", "mail: billing@hill.example",
)  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "name", "value"),
    [
        (RECEIPT, "total", "3.75 EUR"),
        (RECEIPT, "subtotal", "3.50"),
        (RECEIPT, "tax", "0.25"),
        (RECEIPT, "date", "12/11/2026"),
        (RECEIPT, "time", "14:05"),
        (RECEIPT, "phone number", "+49 30 123456"),
        (RECEIPT, "website", "www.corner.example/shop"),
        (RECEIPT, "invoice number", ""),
        (RECEIPT, "email", ""),
        (INVOICE, "invoice number", "R-2041"),
        (INVOICE, "date", "3 March 2026"),
        (INVOICE, "due date", "2026-04-02"),
        (INVOICE, "total", "$1,119.00"),
        (INVOICE, "email", "billing@hill.example"),
        (("Milk 1.20", "Bread 2.30"), "total", ""),
        ((), "total", ""),
    ],
)
def test_a_field_is_found_by_its_label(rows: tuple[str, ...], name: str, value: str) -> None:
    assert find_field(rows, name)[0] == value


@pytest.mark.parametrize(
    ("rows", "question", "values", "beside"),
    [
        (("FERRY TO OSLO", "departs 14:30"), "When does the ferry leave?", ["14:30"], True),
        (("Ferry 14:30", "Ferry 12.50 a head"), "When does the ferry go?", ["14:30"], True),
        (("Ferry 9.15", "Bus 10.20"), "When does the bus leave?", ["10.20"], True),
        (("FERRY", "9:15", "10:20"), "When does the ferry leave?", ["9:15", "10:20"], True),
        (("Open 9 am", "Price 2.30"), "When is the shop open?", ["9 am"], True),
        (("2026-11-18",), "When is the concert?", ["2026-11-18"], False),
        (("Coffee 2.30", "Cake 4.00"), "How much is the cake?", ["4.00"], True),
        (("NO ENTRY",), "When does the ferry leave?", [], False),
    ],
)
def test_a_time_or_a_sum_is_found_beside_the_words_of_the_question(
    rows: tuple[str, ...], question: str, values: list[str], beside: bool
) -> None:
    wanted = read_question(question)
    assert wanted is not None and wanted.asked == "value"
    assert find_values(rows, wanted.names[0], wanted.names[1:]) == (values, beside)


def test_two_different_totals_are_rivals() -> None:
    assert find_field(("Total 3.50", "Total 4.50"), "total") == ("3.50", 2)
    assert find_field(("Total 3.50", "Total 3.50"), "total") == ("3.50", 1)


def test_fields_have_other_names() -> None:
    assert field_named("Grand Total") == "total"
    assert field_named("e-mail address") == "email"
    assert field_named("meaning of life") == ""
    assert all(field_named(name) == name for name in FIELDS)


@pytest.mark.parametrize(
    ("question", "asked", "names"),
    [
        ("Does it say Louvre?", "mention", ("louvre",)),
        ("Does the sign say gate 4?", "mention", ("gate 4",)),
        ("What animal is this?", "kind", ("bird", "cat", "dog")),
        ("Which kind of fruit do you see?", "kind", ("banana", "apple", "orange")),
    ],
)
def test_words_without_marks_and_kinds_of_things_are_understood(
    question: str, asked: str, names: tuple[str, ...]
) -> None:
    wanted = read_question(question)
    assert wanted is not None
    assert (wanted.asked, wanted.names[:3]) == (asked, names)


@pytest.mark.parametrize(
    "question",
    ["Does it say when it opens?", "Does it say what to do?", "Does it mention anything of dogs?"],
)
def test_a_question_for_what_is_said_is_no_question_for_a_word(question: str) -> None:
    assert read_question(question) is None
