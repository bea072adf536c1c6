"""Answers from what was seen, each with its chance."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise.decide.calibration import Calibration, Measured, Score, ScoreMap
from edgewise.types.replies import (
    Line,
    Sight,
    Thing,
)
from edgewise.vision.answers import NO_TEXT, SIGHT, TURNED, answer_from, describe, is_about
from edgewise.vision.question import (
    CLASSES,
    class_named,
    plural,
    read_question,
)

SURE = Calibration(
    name="test",
    scores={
        "whole": Score({"doubt": -10.0}, 3.0),
        "row": Score({"doubt": -10.0}, 3.0),
        "sum": Score({"doubt": -10.0, "agree": 2.0, "against": -2.0, "margin": 1.0}, -0.5),
        "thing": Score({"score": 10.0}, -5.0),
        "present": Score({"score": 10.0}, -5.0),
    },
    numbers={"empty": 0.8},
)


def page(*rows: str, score: float = 0.99) -> Sight:
    boxes = [
        ((0.0, 40.0 * n), (99.0, 40.0 * n), (99.0, 40.0 * n + 24), (0.0, 40.0 * n + 24))
        for n in range(len(rows))
    ]
    lines = tuple(Line(row, score, box) for row, box in zip(rows, boxes, strict=True))
    return Sight(lines=lines, quality={"contrast": 1.0, "sharpness": 1.0})


def things(**scores: float) -> Sight:
    return Sight(things=tuple(Thing(name.replace("_", " "), s) for name, s in scores.items()))


def asked(question: str, *sights: Sight) -> tuple[str, float]:
    wanted = read_question(question)
    assert wanted is not None
    found = answer_from(wanted, sights, SURE)
    return found.text, found.confidence


def test_all_text_is_told_row_by_row() -> None:
    text, sure = asked("What does it say?", page("NO ENTRY", "Staff only"))
    assert text == "NO ENTRY\nStaff only"
    assert sure > 0.9
    assert asked("What does it say?", page("NO ENTRY", score=0.6))[1] < 0.5


def test_text_that_may_be_read_in_reverse_is_never_kept() -> None:
    unclear = replace(page("NO ENTRY", "Staff only"), upright=False)
    assert asked("What does it say?", unclear)[1] <= TURNED < 0.5


def test_no_text_is_an_answer_with_its_own_chance() -> None:
    assert asked("What does it say?", Sight()) == (NO_TEXT, 0.8)


def test_a_value_is_told_alone_and_a_missing_one_is_hardly_believed() -> None:
    assert asked("What is the total?", page("Milk 1.00", "Total 3.50"))[0] == "3.50"
    text, sure = asked("What is the total?", page("hello"))
    assert "no total" in text and sure < 0.2
    assert asked("What is the total?", page("Total 3.50", "Total 9.50"))[1] < 0.5


@pytest.mark.parametrize(
    ("question", "begins"),
    [
        ("Is this a receipt?", "Yes"),
        ("Is this an invoice?", "No"),
        ("Is this a menu?", "No"),
        ("Is this a receipt or a menu?", "By its words: a receipt"),
    ],
)
def test_a_paper_is_known_by_its_words(question: str, begins: str) -> None:
    sight = page("CORNER SHOP RECEIPT", "Milk 1.20", "Bread 2.30", "Total 3.50", "Cash 5.00",
                 "Change 1.50", "Thank you")  # fmt: skip
    text, sure = asked(question, sight)
    assert text.startswith(begins)
    assert sure > 0.7


def test_few_words_say_little_about_what_a_paper_is_not() -> None:
    assert asked("Is this a receipt?", page("hello"))[1] < 0.6
    assert asked("Is this a receipt?", Sight())[1] < 0.2


def test_a_word_is_found_whatever_its_case_and_spaces() -> None:
    assert asked('Does it say "no entry"?', page("No  Entry!"))[0].startswith("Yes")
    assert asked('Does it say "exit"?', page("No Entry"))[0].startswith("No")


def test_an_object_is_there_or_not() -> None:
    assert asked("Is there a dog?", things(dog=0.9))[0].startswith("Yes")
    text, sure = asked("Is there a dog?", things(cat=0.9))
    assert text.startswith("No") and sure > 0.9
    assert asked("Is there a dog?", things(dog=0.5))[1] < 0.6, "half sure is not sure"


def test_objects_are_counted_and_many_are_counted_less_surely() -> None:
    two = Sight(things=(Thing("car", 0.9), Thing("car", 0.9)))
    five = Sight(things=(Thing("car", 0.9),) * 5)
    text, sure = asked("How many cars are there?", two)
    assert text == "2 cars."
    assert sure > asked("How many cars are there?", five)[1]
    assert asked("How many cars are there?", things(dog=0.9))[0] == "0 cars."


def test_the_likeliest_label_is_chosen() -> None:
    text, sure = asked("Which of these: dog, cat, car?", things(cat=0.95, dog=0.1))
    assert text == "cat." and sure > 0.9
    assert asked("Which of these: dog, cat, car?", things(cat=0.9, dog=0.9))[1] < 0.6
    assert asked("Which of these: dog, cat, car?", things(bus=0.9))[1] < 0.2


def test_objects_are_listed() -> None:
    sight = Sight(things=(Thing("person", 0.9), Thing("person", 0.8), Thing("bus", 0.9)))
    assert asked("What objects do you see?", sight)[0] == "2 people, 1 bus."
    assert asked("What objects do you see?", Sight())[1] < 0.2


def test_several_pictures_are_answered_in_order_and_together_less_surely() -> None:
    one, two = page("EXIT"), page("ENTRY")
    text, sure = asked("What does it say?", one, two)
    assert text == "Image 1: EXIT\nImage 2: ENTRY"
    assert sure < asked("What does it say?", one)[1]


def test_a_description_says_that_it_is_no_answer() -> None:
    words = describe([page("EXIT")], SIGHT.uncalibrated)
    beyond = "No skill of the device answers this question."
    assert words == f"{beyond} It reads: EXIT; it recognises no object."
    both = describe([page("EXIT"), things(dog=0.99)], SIGHT.uncalibrated)
    assert "image 1" in both and "image 2" in both and "1 dog" in both


def test_words_for_objects() -> None:
    assert class_named("people") == "person"
    assert class_named("a puppy") == "dog"
    assert class_named("buses") == "bus"
    assert class_named("red car") == class_named("animal") == ""
    assert all(class_named(name) == name for name in CLASSES.values())
    assert plural("bus", 2) == "2 buses"
    assert plural("knife", 2) == "2 knives"
    assert plural("person", 1) == "1 person"


def test_the_map_of_a_calibration_makes_the_chance_of_every_answer() -> None:
    wanted = read_question("What does it say?")
    assert wanted is not None
    half = Measured(maps={"final": ScoreMap(((0.0, 0.0), (1.0, 0.5)))})
    plain = answer_from(wanted, [page("NO ENTRY")], SURE)
    mapped = answer_from(wanted, [page("NO ENTRY")], replace(SURE, measured=half))
    assert mapped.confidence == pytest.approx(plain.confidence / 2)
    assert mapped.text == plain.text


def test_sums_that_agree_make_a_total_surer_and_others_less_sure() -> None:
    question = "What is the total?"
    alone = asked(question, page("Milk 8.00", "Total 10.00"))[1]
    agree = asked(question, page("Total 10.00", "Cash 20.00", "Change 10.00"))[1]
    against = asked(question, page("Total 10.00", "Cash 20.00", "Change 7.00"))[1]
    assert agree > alone > against


def test_which_animal_it_is_stays_in_doubt_because_most_have_no_class() -> None:
    text, sure = asked("What animal is this?", things(dog=0.95, chair=0.9))
    assert text == "dog." and sure <= 0.5
    assert asked("What animal is this?", things(chair=0.9))[0] == "None of these was found."


def test_the_words_that_a_question_shares_with_the_text_say_what_it_is_about() -> None:
    rows = page("Country  Minutes  Price", "Thailand  120  15.00")
    assert is_about("How many minutes for Thailand?", [rows])
    assert not is_about("Why is she laughing?", [rows])
    assert not is_about("How many are there in the picture?", [rows])
