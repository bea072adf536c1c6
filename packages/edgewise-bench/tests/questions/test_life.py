"""Questions as people ask them: every one can be answered, and is told from a wrong answer."""

from __future__ import annotations

from random import Random

import pytest

from edgewise.calibrate.answers import Question, is_right
from edgewise.calibrate.traces import key_of, request_of
from edgewise_bench.questions.kinds.life import KINDS, mistyped

QUESTIONS = [
    (family, question)
    for family, kinds in KINDS.items()
    for kind in kinds
    for question in kind(Random(0))
]


def test_every_family_asks_much_and_nothing_twice() -> None:
    for family in KINDS:
        keys = [key_of(question) for name, question in QUESTIONS if name == family]
        assert len(keys) >= 20, family
        assert len(set(keys)) == len(keys), family


def test_an_accepted_answer_is_right_and_an_empty_one_is_not() -> None:
    for _, question in QUESTIONS:
        assert not is_right(question, ""), question
        if question.rule != "form":
            assert is_right(question, question.accepted[0]), question


@pytest.mark.parametrize(
    ("form", "fits", "fails"),
    [
        ("sentences=2", "It rains. I stay in.", "It rains."),
        ("most_words=3", "A short text.", "This one is longer."),
        ("has=because", "Because it rains.", "It rains."),
        ("without=,", "It rains and I stay in.", "It rains, so I stay in."),
        ("capitals=1", "IT RAINS.", "It rains."),
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
