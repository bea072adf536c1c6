"""The judge of answers: tolerant of words around an answer, strict about the answer."""

from __future__ import annotations

import pytest

from edgewise.calibrate.rows import AnyOf, Question, Rule, exact, is_right, value_matches
from edgewise.decide.compare_answers import normalise

CAPITAL = Question(
    kind="capitals",
    prompt="What is the capital of France?",
    accepted=("Paris",),
    rivals=("Lyon", "Berlin"),
)
SYMBOL = Question(kind="symbols", prompt="Symbol of helium?", accepted=("He",), case_matters=True)
SUM = Question(kind="arithmetic", prompt="What is 7 + 5?", accepted=("12",), rule="number")
MINUTES = Question(
    kind="units", prompt="How many minutes are in an hour?", accepted=("60",), rule="number"
)
YES = Question(
    kind="truths", prompt="Does the Earth orbit the sun? Yes or no?", accepted=("yes",),
    rule="yes_no",
)  # fmt: skip
NO = Question(
    kind="truths", prompt="Yes or no: Is Africa a country?", accepted=("no",), rule="yes_no"
)
SUMMARY = Question(kind="summaries", prompt="…", accepted=("bakery", "burned|fire"), rule="every")
SORTED = Question(kind="sorting", prompt="Sort: 9, 2, 5", accepted=("2", "5", "9"), rule="in_order")
BIGGER = Question(
    kind="comparisons", prompt="Which is bigger, an ant or a dog?", accepted=("dog",),
    rivals=("ant",), rejected=("smaller",),
)  # fmt: skip


TOTAL = Question(
    kind="shopping", prompt="2 pens at $3 each and a cup at $4?", accepted=("10",), rule="result"
)
LETTER = Question(
    kind="choices", prompt="A) Rome B) Paris", accepted=("B", "Paris"), rule="letter",
    rivals=("Rome",),
)  # fmt: skip
OBJECT = Question(
    kind="as_json", prompt="…", accepted=('{"item": "lamp", "count": 2}',), rule="json"
)
THREE = Question(
    kind="listing", prompt="…", rule="pick",
    accepted=("3", "apple|apples", "pear|pears", "plum|plums", "fig|figs"),
)  # fmt: skip
HEADLINE = Question(
    kind="shortening", prompt="…", accepted=("5", "bridge", "closed|shut"), rule="brief"
)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        (TOTAL, "2 pens cost $6, and with the cup that is 6 + 4 = $10.00 for 2 pens."),
        (LETTER, "B"),
        (LETTER, "**B) Paris**"),
        (LETTER, "The correct answer is B."),
        (LETTER, "The answer is: (B)"),
        (LETTER, "A good question! It is Paris."),
        (OBJECT, 'Here it is:\n```json\n{"count": 2, "item": "Lamp"}\n```'),
        (THREE, "1. Apples\n2. Pears\n3. Figs"),
        (HEADLINE, "Bridge closed for repairs"),
        (CAPITAL, "The capital of France is **Paris**."),
        (CAPITAL, "PARIS, not Lyon"),
        (SYMBOL, "The symbol is He."),
        (SUM, "7 + 5 = 12"),
        (SUM, "That makes twelve."),
        (MINUTES, "In 1 hour there are 60 minutes."),
        (YES, "Yes, it does. There is no doubt."),
        (YES, "The Earth orbits the Sun."),
        (NO, "No. It is a continent."),
        (NO, "Africa is not a country."),
        (NO, "False"),
        (SUMMARY, "A fire destroyed the bakery."),
        (SORTED, "Sorted, 9, 2, 5 are 2, 5 and 9."),
        (BIGGER, "A dog is bigger than an ant."),
    ],
)
def test_accepts(question: Question, text: str) -> None:
    assert is_right(question, text)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        (TOTAL, "2 pens cost $6, and with the cup that is $11."),
        (TOTAL, "That depends."),
        (LETTER, "A"),
        (LETTER, "The correct answer is A) Rome, not B."),
        (LETTER, "It is Rome."),
        (OBJECT, '{"item": "lamp", "count": 3}'),
        (OBJECT, '{"item": "lamp", "count": 2, "colour": "red"}'),
        (OBJECT, "item: lamp, count: 2"),
        (THREE, "apples, pears"),
        (THREE, "apples, pears, plums and figs"),
        (HEADLINE, "The bridge is closed because it must be repaired"),
        (HEADLINE, "Repairs in town"),
        (CAPITAL, ""),
        (CAPITAL, "Lyon, or perhaps Paris"),
        (CAPITAL, "A comparison of cities"),
        (SYMBOL, "he"),
        (SUM, "7 + 5 = 13, no, 12"),
        (SUM, "The answer is 120."),
        (MINUTES, "An hour is 1 hour."),
        (YES, "No, yes would be wrong."),
        (YES, "The Earth is round."),
        (NO, "Yes."),
        (NO, "Africa is a country."),
        (SUMMARY, "A bakery sells bread."),
        (SORTED, "2, 9, 5"),
        (BIGGER, "A dog is smaller than an ant."),
        (BIGGER, "The ant is bigger than the dog."),
    ],
)
def test_rejects(question: Question, text: str) -> None:
    assert not is_right(question, text)


def test_text_becomes_plain_words_with_numbers_in_digits() -> None:
    assert normalise("Twenty-one cafés — *1,024* of one, 2,4") == "21 cafes 1024 of one 2 4"


@pytest.mark.parametrize(
    ("rule", "text", "right"),
    [
        ("exact", "Rome.", True),
        ("exact", "It is Rome.", False),
        ("contains", "He is a Roman.", False),
        ("contains", "Romeo", True),
        ("contains", "Paris", False),
    ],
)
def test_labelled_answers_may_ask_for_nothing_else_or_for_a_part(
    rule: Rule, text: str, right: bool
) -> None:
    question = Question(kind="k", prompt="Where?", accepted=("Rome",), rule=rule)
    assert is_right(question, text) == right


def test_a_value_may_have_several_spellings() -> None:
    either = AnyOf(("pizza", "the pizza"))
    assert value_matches("The Pizza", either)
    assert not value_matches("pasta", either)
    assert exact([("start", {"name": "pizza"})], [("start", {"name": either})])
