"""Questions as people ask them: every one can be answered, and is told from a wrong answer."""

from __future__ import annotations

from random import Random

import pytest

from edgewise.calibrate.rows import Question, is_right
from edgewise.calibrate.traces import key_of, request_of
from edgewise_bench.questions.kinds.builtin import FAMILIES, LIFE
from edgewise_bench.questions.kinds.life import mistyped
from edgewise_bench.questions.kinds.programs import Task, is_done

QUESTIONS = [
    (family, question)
    for family, kinds in LIFE.items()
    for kind in kinds
    for question in kind(Random(0))
]


def test_there_are_more_than_forty_families_and_none_has_the_name_of_another() -> None:
    assert len({*FAMILIES, *LIFE}) == len(FAMILIES) + len(LIFE) >= 50


def test_every_family_asks_much_and_nothing_twice() -> None:
    for family in LIFE:
        keys = [key_of(question) for name, question in QUESTIONS if name == family]
        assert len(keys) >= 20, family
        assert len(set(keys)) == len(keys), family


def test_an_accepted_answer_is_right_and_an_empty_one_is_not() -> None:
    for _, question in QUESTIONS:
        assert not is_done(question, ""), question
        if question.rule != "form" and not isinstance(question, Task):
            assert is_right(question, question.accepted[0]), question


def test_a_refusal_is_right_only_where_nothing_can_be_known() -> None:
    right = {family for family, question in QUESTIONS if is_done(question, "I do not know.")}
    assert right <= {"unknowable", "false premises", "forms", "tones"}


def test_what_a_text_does_not_say_must_be_said_to_be_missing() -> None:
    absent = [question for _, question in QUESTIONS if question.kind == "absent_from_text"]
    assert all(is_right(question, "That is not stated in the text.") for question in absent)
    assert not any(is_right(question, "She is 42 years old.") for question in absent)


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("B", True),
        ("B. nitrogen", True),
        ("The answer is (B).", True),
        ("Nitrogen makes up most of the air.", True),
        ("A", False),
        ("A. oxygen", False),
        ("Oxygen, because we breathe it.", False),
    ],
)
def test_a_choice_may_be_named_by_its_letter_or_in_words(said: str, right: bool) -> None:
    question = Question(
        kind="lettered_knowledge",
        prompt="Which gas?\nA. oxygen\nB. nitrogen",
        accepted=("B", "nitrogen"),
        rivals=("oxygen",),
        rule="letter",
    )
    assert is_right(question, said) is right


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("Yes, it is.", False),
        ("No.", True),
        ('It is not correct: it should be "doesn\'t".', True),
        ("The sentence is grammatically correct.", False),
        ("The sentence is not grammatically correct.", True),
        ("This is incorrect.", True),
    ],
)
def test_what_is_wrong_to_write_is_said_in_many_ways(said: str, right: bool) -> None:
    question = next(
        each
        for _, each in QUESTIONS
        if each.kind == "acceptability" and "She don't like" in each.prompt
    )
    assert is_right(question, said) is right


@pytest.mark.parametrize(
    ("form", "fits", "fails"),
    [
        ("sentences=2", "It rains. I stay in.", "It rains."),
        ("most_words=3", "A short text.", "This one is longer."),
        ("has=because", "Because it rains.", "It rains."),
        ("without=,", "It rains and I stay in.", "It rains, so I stay in."),
        ("capitals=1", "IT RAINS.", "It rains."),
        ("lower_case=1", "it rains.", "It rains."),
        ("begins=dear guest", "Dear guest, it rains.", "It rains, dear guest."),
        ("ends=at your service", "It rains. At your service!", "At your service: it rains."),
        ("bullets=2", "- rain\n- wind", "Here they are:\n- rain\n- wind"),
    ],
)
def test_forms_are_checked_to_the_letter(form: str, fits: str, fails: str) -> None:
    question = Question(kind="forms", prompt="Write.", accepted=(form,), rule="form")
    assert is_right(question, fits)
    assert not is_right(question, fails)


def test_a_second_question_comes_with_what_was_said_before() -> None:
    question = Question(
        kind="same_again",
        system="Be brief.",
        earlier=("What is the capital of France?", "Paris."),
        prompt="And of Italy?",
        accepted=("Rome",),
    )
    request = request_of(question, 64)
    roles = [message.role for message in request.messages]
    assert roles == ["system", "user", "assistant", "user"]
    assert request.messages[-1].content == "And of Italy?"
    alone = Question(kind="same_again", prompt="And of Italy?", accepted=("Rome",))
    assert key_of(question) != key_of(alone)


def test_slips_of_the_keyboard_leave_short_words_alone() -> None:
    slipped = mistyped("what is the capital of portugal", Random(1), 2)
    assert slipped != "what is the capital of portugal"
    assert slipped.split()[1:3] == ["is", "the"]
